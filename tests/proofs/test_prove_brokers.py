"""`scripts/prove brokers`: what is counted and kept, and that nothing stays undecided. The run itself is the proof."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kwire.conformance.registry import all_checks
from kwire.conformance.report import CaseStatus, Result
from proofs.brokers.decisions import Decision, Decisions, Verdict, function_of
from proofs.brokers.kfake import KFAKE
from proofs.brokers.outcome import Counted, Facts, Outcome, facts
from proofs.brokers.page import BEGIN, DOCUMENT, END, KNOWN, page, remember, written
from proofs.brokers.prove import BROKERS, MODULES

REPORT = ET.fromstring(
    """<testsuites><testsuite>
    <testcase name="test_reads[kafka]"/>
    <testcase name="test_joins[kafka-range]"><failure message="no"/></testcase>
    <testcase name="test_joins[kafka-range]"><error message="nor after"/></testcase>
    <testcase name="test_no_topic"><error message="no topic"/></testcase>
    <testcase name="test_kerberos"><skipped message="no Kerberos"/></testcase>
    </testsuite></testsuites>"""
)
NO_GROUP = Decision(
    what="Heartbeat: knows no member", kafka="UNKNOWN", right="Kafka", verdict=Verdict.COPES, why="it joins"
)
JOINS = Decision(
    what="test_joins", kafka="takes it", other="does not", right="Kafka", verdict=Verdict.SHOULD_NOT, why="so"
)


def result(version: int, status: CaseStatus, reason: str = "", check: str = "knows no member") -> Result:
    return Result(
        api="Heartbeat", api_key=12, version=version, area="groups", check=check, status=status, reason=reason
    )


OUTCOME = Outcome(
    results=[
        result(0, CaseStatus.FAILED, "127.0.0.1:4711 answers NOT_FOUND"),
        result(1, CaseStatus.FAILED, "127.0.0.1:4712 answers NOT_FOUND"),
        result(0, CaseStatus.PASSED, check="refuses"),
        result(4, CaseStatus.NOT_OFFERED, "the broker offers versions 0 to 3"),
        result(4, CaseStatus.NOT_OFFERED, "the broker offers versions 0 to 3", check="refuses"),
    ],
    core=Counted.of_report(REPORT),
    consumer_protocol=None,
)


def without_skipped() -> Facts:
    return {**facts(OUTCOME), "tests": ["test_joins[range]"], "skipped": {}, "absent": []}


def test_a_report_is_counted_test_by_test() -> None:
    tests = Counted.of_report(REPORT)
    assert (tests.passed, tests.failed, tests.skipped) == (
        1,
        ["test_joins[range]", "test_no_topic"],
        {"test_kerberos": "no Kerberos"},
    )
    assert str(tests) == "1 of 3"


def test_what_fails_once_has_passed() -> None:
    """A busy machine is no difference."""
    counted = Counted.of_report(REPORT).tried_again(Counted(0, ["test_no_topic"], {}))
    assert (counted.passed, counted.failed) == (2, ["test_no_topic"])


def test_what_is_alike_is_told_once_whatever_the_names_of_the_run() -> None:
    found = facts(OUTCOME)
    assert found["differences"] == [["Heartbeat", "0-1", "knows no member", "the broker answers NOT_FOUND"]]
    assert found["absent"] == [["Heartbeat", "4", "the broker offers versions 0 to 3"]]
    assert found["row"] == ["1", "2", "2", "1 of 3", "not offered", "not run"]


def test_a_difference_without_a_decision_is_a_breach() -> None:
    assert list(Decisions([NO_GROUP], [JOINS]).breaches(without_skipped())) == []
    assert list(Decisions([], [JOINS]).breaches(without_skipped())) == [
        "Heartbeat: knows no member: it is otherwise than Kafka, and nothing is decided about it"
    ]
    assert list(Decisions([NO_GROUP], []).breaches(without_skipped())) == [
        "test_joins: it is otherwise than Kafka, and nothing is decided about it"
    ]


def test_a_decision_about_what_is_no_difference_any_more_is_a_breach() -> None:
    found: Facts = {**without_skipped(), "tests": []}
    said = "test_joins: something is decided about it, and it is as with Kafka"
    assert list(Decisions([NO_GROUP], [JOINS]).breaches(found)) == [said]


def test_what_is_skipped_or_not_offered_has_to_be_decided_as_well() -> None:
    said = list(Decisions([NO_GROUP], [JOINS]).breaches(facts(OUTCOME)))
    assert "test_kerberos is skipped (no Kerberos), and nothing is decided about it" in said
    assert "Heartbeat is not offered in some version, and nothing is decided about it" in said


def test_the_page_has_who_is_right_beside_each_difference() -> None:
    told = page({"other": facts(OUTCOME)}, {"other": Decisions([NO_GROUP], [JOINS], of_absent="None is needed.")})
    assert (
        "| Heartbeat: knows no member | 0-1 | UNKNOWN | the broker answers NOT_FOUND | Kafka | copes: it joins |"
    ) in told
    assert "| `test_joins` | takes it | does not | Kafka | should not cope: so |" in told
    assert "| `test_no_topic` |  |  |  | **not decided** |" in told
    assert (
        "Versions that this broker does not offer: Heartbeat 4 (the broker offers versions 0 to 3). None is needed."
        in told
    )
    assert "Tests that are skipped: `test_kerberos` (no Kerberos)." in told


def test_what_is_known_of_other_brokers_stays(tmp_path: Path) -> None:
    known, document = tmp_path / "brokers.json", tmp_path / "brokers.md"
    document.write_text(f"front\n{BEGIN}old\n{END}back\n")
    told = facts(OUTCOME)
    for name in ("b", "a", "b"):
        remember(name, told, {"a": None, "b": Decisions()}, known=known, document=document)
    assert list(json.loads(known.read_text())) == ["a", "b"]
    assert document.read_text().startswith(f"front\n{BEGIN}")
    assert document.read_text().endswith(f"{END}back\n")


# --- this clone -------------------------------------------------------------------------------------------------------


def test_the_page_is_up_to_date() -> None:
    """`scripts/prove brokers` writes it; after a change of a decision: `python -m proofs.brokers.page`."""
    decisions = {broker.name: broker.decisions for broker in BROKERS.values()}
    assert written(DOCUMENT.read_text(), json.loads(KNOWN.read_text()), decisions) == DOCUMENT.read_text()


def test_what_was_found_of_kfake_is_decided() -> None:
    assert list(KFAKE.breaches(json.loads(KNOWN.read_text())[BROKERS["kfake"].name])) == []


@pytest.mark.parametrize("decision", [*KFAKE.checks, *KFAKE.tests], ids=lambda each: each.what)
def test_each_decision_is_about_a_check_or_a_test_that_there_is(decision: Decision) -> None:
    if decision in KFAKE.checks:
        assert decision.what in {f"{check.api}: {check.name}" for check in all_checks()}
    else:
        assert decision.other
        assert any(f"def {decision.what}(" in path.read_text() for path in MODULES.glob("test_*.py"))


def test_a_test_is_decided_with_all_its_parameters() -> None:
    assert function_of("test_joins[range-static]") == "test_joins"
