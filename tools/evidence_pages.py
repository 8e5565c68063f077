"""What the pages that have a file of their own come to, as results of docs/evidence.md: Kafka's system tests, the
brokers, the Pythons. Their commands write those files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tools.evidence import DOCS, Figure, NotMet, Result

if TYPE_CHECKING:
    from proofs.brokers.outcome import Facts as OfBroker
    from proofs.kafkatest.results import Facts as OfKafkatest
    from proofs.kafkatest.results import Row
    from tools.pythons.page import Facts as OfPython

CLIENTS = {"kwire": "kwire", "java": "Java's consumer, in the same environment", "mixed": "groups of kwire and Java"}


def kafkatest(facts: OfKafkatest) -> Result:
    """Kafka's own system tests: what kwire passes, and Java's consumer at the same place."""
    rows = list(facts["rows"].values())
    failed = [
        NotMet(what=f"{row['test']}, for {CLIENTS[client]}", why=str(outcome["reason"]))
        for row in rows
        for client, outcome in row["outcomes"].items()
        if not outcome["passed"]
    ]
    not_run = sum("kwire" not in row["outcomes"] for row in rows)
    hours = "the whole takes many hours; `--left` goes on"
    return Result(
        title="Kafka's own system tests",
        claim=f"kwire passes {_some(rows)} by which Apache Kafka's developers judge consumers, on clusters of several "
        "machines whose brokers and consumers are stopped and killed.",
        command="scripts/prove kafkatest --checkout PATH",
        date=facts["date"],
        versions={
            "Apache Kafka": facts["kafka"],
            "kafkatest": f"{facts['tests_version']} of commit {facts['tests']}",
            "ducktape": facts["ducktape"],
        },
        figures=[Figure(what=what, value=_passed(rows, client)) for client, what in CLIENTS.items()],
        not_met=[
            *failed,
            *(
                [NotMet(what=f"{not_run} of {len(rows)} tests were not run yet for kwire", why=hours)]
                if not_run
                else []
            ),
            *(
                NotMet(what=_tests(count), why=f"not applicable: {why}")
                for why, count in facts["not_applicable"].items()
            ),
        ],
        page="kafkatest.md",
    )


def _some(rows: list[Row]) -> str:
    """Of the tests that were run with kwire, those that passed."""
    outcomes = [row["outcomes"]["kwire"] for row in rows if "kwire" in row["outcomes"]]
    passed = sum(bool(outcome["passed"]) for outcome in outcomes)
    if passed == len(rows):
        return f"all {_tests(passed)}"
    return f"{passed} of the {_tests(len(outcomes))} that were run so far, of {len(rows)},"


def _passed(rows: list[Row], client: str) -> str:
    outcomes = [row["outcomes"][client] for row in rows if client in row["outcomes"]]
    passed = sum(bool(outcome["passed"]) for outcome in outcomes)
    return f"{passed} passed, {len(outcomes) - passed} failed, of {_tests(len(rows))}"


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"


def brokers(facts: Mapping[str, OfBroker]) -> Result:
    """What each broker answers to the conformance suite, and to kwire's tests."""
    figures, not_met = [_of_kafka(facts)], []
    for name, broker in facts.items():
        passed, otherwise, absent, core, kip_848, others = broker["row"]
        suite = f"conformance {passed} passed, {otherwise} different, {absent} not offered"
        tests = [f"tests {core}", "KIP-848 not offered" if kip_848 == "not offered" else f"{kip_848} of KIP-848"]
        tests += [] if others == "not run" else [f"{others} others"]
        value = f"{suite}; {', '.join(tests)}"
        figures.append(Figure(what=name, value=value))
        if broker["tests"]:
            why = "the page says for each who is right, and what kwire does"
            what = f"{_tests(len(broker['tests']))}, and {otherwise} answers of the suite, on {name}"
            not_met.append(NotMet(what=what, why=why))
    return Result(
        title="Brokers of several origins",
        claim="The same suite of requests, and the same tests of kwire, pass on each release of Apache Kafka that was "
        "tried; the page lists each different answer of another broker, and what kwire does about it.",
        command="scripts/prove brokers",
        date=max(broker["date"] for broker in facts.values()),
        versions={"kwire": ", ".join(dict.fromkeys(broker["kwire"] for broker in facts.values()))},
        figures=figures,
        not_met=not_met,
        page="brokers.md",
    )


def _of_kafka(facts: Mapping[str, OfBroker]) -> Figure:
    rows = [broker["row"] for name, broker in facts.items() if name.startswith("Apache Kafka")]
    tests = [cell.split(" of ") for row in rows for cell in row[3:5] if " of " in cell]
    passed, total = (sum(int(pair[place]) for pair in tests) for place in (0, 1))
    otherwise = sum(int(row[1]) for row in rows)
    value = f"{passed} of {_tests(total)} of kwire pass, {otherwise} answers differ from what the suite expects"
    return Figure(what=f"{len(rows)} releases of Apache Kafka", value=value)


def pythons(facts: Mapping[str, OfPython]) -> Result:
    """The tests, on each Python that is supported."""
    suites = [(python["version"], name, suite) for python in facts.values() for name, suite in python["suites"].items()]
    return Result(
        title="Every supported Python",
        claim="The fast tests, and a core of those against a real Kafka, pass with each CPython that kwire supports.",
        command="scripts/pythons",
        date=max(suite["day"] for _, _, suite in suites),
        versions={"CPython": ", ".join(dict.fromkeys(version for version, _, _ in suites))},
        figures=[
            Figure(
                what="All of them",
                value=f"{sum(suite['passed'] for _, _, suite in suites)} passed, "
                f"{sum(len(suite['failed']) for _, _, suite in suites)} failed",
            ),
            *(
                Figure(
                    what=f"CPython {version}, {name} tests",
                    value=f"{suite['passed']} passed, {len(suite['failed'])} failed, {suite['skipped']} skipped",
                )
                for version, name, suite in suites
            ),
        ],
        not_met=[
            NotMet(what=test, why=f"failed with CPython {version}")
            for version, _, suite in suites
            for test in suite["failed"]
        ],
        page="compatibility.md#python",
    )


PAGES: Mapping[str, Callable[..., Result]] = {"kafkatest": kafkatest, "brokers": brokers, "pythons": pythons}


def results_of_pages(folder: Path = DOCS) -> dict[str, Result]:
    """Of those files that are there and say something, by name."""
    files = {name: folder / f"{name}.json" for name in PAGES}
    found = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}
    return {name: PAGES[name](facts) for name, facts in found.items() if facts}
