"""docs/evidence.md: the form of what commands leave in docs/evidence, and the page that is made of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.brokers.outcome import Facts
from tools.evidence import (
    RESULTS,
    Figure,
    NoResultError,
    NotMet,
    Result,
    commit,
    read_result,
    read_results,
    write_result,
)
from tools.evidence_docs import PAGE, body, page
from tools.evidence_pages import brokers, kafkatest, results_of_pages

RESULT = Result(
    title="A judge's word",
    claim="The judge finds nothing.",
    command="scripts/prove judge",
    date="2026-11-26",
    versions={"kwire": "f9c0837", "Judge": "1.2"},
    figures=[Figure(what="histories", value="3 of 4 good"), Figure(what="hours", value="2")],
    not_met=[NotMet(what="the fourth|last", why="nobody knows")],
    page="losses.md#who-judges",
)


def as_json(**changed: object) -> dict[str, object]:
    """A file's content, and what of it is otherwise."""
    form: dict[str, object] = {
        "title": "t", "claim": "c", "command": "x", "date": "2026-11-26", "versions": {"kwire": "f9c0837"},
        "figures": [{"what": "w", "value": "v"}], "not_met": [], "page": None,
    }  # fmt: skip
    return form | changed


# --- the page of this clone -------------------------------------------------------------------------------------------


def test_the_page_is_up_to_date() -> None:
    """`python -m tools.evidence_docs` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_each_command_on_it_is_there() -> None:
    results = results_of_pages() | read_results()
    assert {result.command.split()[0] for result in results.values()} <= {
        f"scripts/{file.name}" for file in (RESULTS.parents[1] / "scripts").iterdir()
    }


def test_no_result_has_the_name_of_another_page_that_is_summed_up() -> None:
    assert results_of_pages().keys() & read_results().keys() == set()


# --- the form ---------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read_result(write_result("judge", RESULT, tmp_path)) == RESULT
    assert read_results(tmp_path) == {"judge": RESULT}


def test_a_form_without_what_may_be_empty_is_read(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text(json.dumps(as_json()))
    assert read_result(tmp_path / "it.json").page is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("{", r"it\.json: it is no JSON: "),
        ([], r"it\.json: it should be an object, not \[\]"),
        ({"title": "t"}, r"it\.json: claim, command, date, versions, figures, not_met, page is missing"),
        (as_json(sum=1), r"it\.json: sum is unknown; there are title, "),
        (as_json(claim=" "), r"it\.json: claim should be some text, not ' '"),
        (as_json(date="26.11.2026"), r"it\.json: date: '26\.11\.2026' should be a day such as 2026-11-26"),
        (as_json(versions={"Kafka": "4.4.0"}), r"it\.json: versions: 'kwire' is missing: the commit that was judged"),
        (as_json(versions={"kwire": 4}), r"it\.json: versions: kwire should be some text, not 4"),
        (as_json(figures=[]), r"it\.json: figures: there is none; a claim needs one at least"),
        (as_json(figures={}), r"it\.json: figures should be a list, not {}"),
        (as_json(figures=[{"what": "w", "value": 7}]), r"it\.json: figures\[0\]: value should be some text, not 7"),
        (as_json(not_met=[{"what": "w"}]), r"it\.json: not_met\[0\]: why is missing"),
        (as_json(page="nowhere.md"), r"it\.json: page: 'nowhere\.md' should be null or a page in docs/"),
    ],
)
def test_what_cannot_stand_on_the_page_is_refused_with_its_place(found: object, said: str, tmp_path: Path) -> None:
    file = tmp_path / "it.json"
    file.write_text(found if isinstance(found, str) else json.dumps(found))
    with pytest.raises(NoResultError, match=said):
        read_result(file)


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(NoResultError, match=r"judge\.json: figures: there is none"):
        write_result("judge", replace(RESULT, figures=[]), tmp_path)
    with pytest.raises(NoResultError, match="'The Judge': a result has a name of small letters"):
        write_result("The Judge", RESULT, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_commit_says_when_the_code_is_another(tmp_path: Path) -> None:
    assert commit(tmp_path) == "unknown"
    code = tmp_path / "kwire" / "it.py"
    code.parent.mkdir()
    code.write_text("")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.net")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    clean = commit(tmp_path)
    assert len(clean) == 7
    (tmp_path / "notes.md").write_text("of no matter")
    assert commit(tmp_path) == clean
    code.write_text("1\n")
    assert commit(tmp_path) == f"{clean} and changes"


# --- the page ---------------------------------------------------------------------------------------------------------


def test_a_result_is_a_row_and_a_section() -> None:
    lines = "\n".join(body({"judge": RESULT})).splitlines()
    assert (
        "| The judge finds nothing. | Judge 1.2 | histories: 3 of 4 good; 1 more figure; not met or left out: 1 "
        "| 2026-11-26 | [more](#a-judges-word) |"
    ) in lines
    assert {
        "## A judge's word",
        "scripts/prove judge",
        "Run on 2026-11-26: kwire f9c0837, Judge 1.2.",
        "| hours | 2 |",
        "| the fourth\\|last | nobody knows |",
        "[The page about it](losses.md#who-judges) has more.",
    } <= set(lines)


def test_that_nothing_failed_is_said() -> None:
    assert "Nothing failed, and nothing is left out." in "\n".join(body({"judge": replace(RESULT, not_met=[])}))


def test_what_is_known_of_stands_in_front_of_what_is_not() -> None:
    results = {name: replace(RESULT, title=name) for name in ("another", "pythons", "kafkatest")}
    titles = [line.removeprefix("\n## ").partition("\n")[0] for line in body(results) if line.startswith("\n## ")]
    assert titles == ["kafkatest", "pythons", "another"]


# --- pages that have a file of their own ------------------------------------------------------------------------------


def test_a_missing_file_is_left_out(tmp_path: Path) -> None:
    assert results_of_pages(tmp_path) == {}
    (tmp_path / "pythons.json").write_text("{}")
    assert results_of_pages(tmp_path) == {}


def test_of_kafkas_system_tests_it_says_what_failed_and_what_was_not_run() -> None:
    passed = {"passed": True, "tries": 1, "seconds": 1.0, "reason": ""}
    failed = {"passed": False, "tries": 1, "seconds": 1.0, "reason": "no heartbeat"}
    result = kafkatest(
        {
            "date": "2026-11-25",
            "kafka": "4.4.0",
            "tests": "1eb7644",
            "tests_version": "4.0",
            "ducktape": "0.17.0",
            "not_applicable": {"of ZooKeeper": 48},
            "rows": {
                "a": {"test": "A.test()", "outcomes": {"kwire": passed, "java": passed}},
                "b": {"test": "B.test()", "outcomes": {"kwire": failed}},
                "c": {"test": "C.test()", "outcomes": {}},
            },
        }
    )
    assert result.claim.startswith("kwire passes 1 of the 2 tests that were run so far, of 3, by which")
    assert [figure.value for figure in result.figures] == [
        "1 passed, 1 failed, of 3 tests",
        "1 passed, 0 failed, of 3 tests",
        "0 passed, 0 failed, of 3 tests",
    ]
    assert [(each.what, each.why) for each in result.not_met] == [
        ("B.test(), for kwire", "no heartbeat"),
        ("1 of 3 tests were not run yet for kwire", "the whole takes many hours; `--left` goes on"),
        ("48 tests", "not applicable: of ZooKeeper"),
    ]


def test_of_brokers_it_sums_up_those_of_apache_kafka() -> None:
    def broker(*row: str, tests: tuple[str, ...] = ()) -> Facts:
        return {
            "date": "2026-11-25",
            "kwire": "f9c0837",
            "row": list(row),
            "differences": [],
            "absent": [],
            "tests": list(tests),
            "skipped": {},
        }

    result = brokers(
        {
            "Apache Kafka 3.9.1": broker("923", "0", "133", "72 of 72", "not offered", "not run"),
            "Apache Kafka 4.4.0": broker("1050", "0", "6", "82 of 82", "24 of 24", "not run"),
            "kfake": broker("922", "116", "18", "80 of 82", "18 of 24", "200 of 210", tests=("test_a", "test_b")),
        }
    )
    assert result.figures[0] == Figure(
        what="2 releases of Apache Kafka",
        value="178 of 178 tests of kwire pass, 0 answers differ from what the suite expects",
    )
    assert [each.what for each in result.not_met] == ["2 tests, and 116 answers of the suite, on kfake"]
