"""docs/spark-cases.md: what it says that cases are shown by is there, and its numbers are right."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proofs.spark.topics import CODECS, Written
from proofs.spark_answers import changes, queries
from proofs.spark_answers.cases import Set, batch_cases, wrong_cases, wrong_streams
from proofs.spark_answers.prove import PARTS, streams

if TYPE_CHECKING:
    from tests.spark.test_spark_ranges import CASES
else:
    from test_spark_ranges import CASES

TREE = Path(__file__).parents[2]
DOCS = (TREE / "docs/spark-cases.md").read_text()
ROWS = [
    (case, where)
    for case, where in re.findall(r"^\| (.+?) \| (.+) \|$", DOCS, re.M)
    if where != "where" and "---" not in case
]
REASON = "not: "


def topic(name: str) -> Written:
    return Written(name=name, ends={0: 100, 1: 100, 2: 100})


def names() -> dict[str, list[str]]:
    """Of all cases of the proof, by its parts."""
    alone = {name: topic(name) for name in Set.__dataclass_fields__ if name != "codecs"}
    found = Set(codecs={codec: topic(f"codec-{codec}") for codec in CODECS}, **alone)
    return {
        "reads": [case.name for case in batch_cases(found)],
        "wrong": [case.name for case in wrong_cases(found)],
        "wrong streams": [case.name for case in wrong_streams(found)],
        "streams": [stream.name for stream in streams(found)],
        "changes": list(changes.scenarios()),
        "queries": list(queries.scenarios()),
        "ranges": list(CASES),
    }


NAMES = names()


def is_there(reference: str) -> bool:
    if "::" in reference:
        file, _, test = reference.partition("::")
        return any(f"\ndef {test}(" in path.read_text() for path in (TREE / "tests").rglob(file))
    part, _, name = reference.partition(": ")
    return part in PARTS if not name else any(fnmatchcase(each, name) for each in NAMES.get(part, []))


@pytest.mark.parametrize(("case", "where"), ROWS, ids=[case for case, _ in ROWS])
def test_each_case_is_shown_somewhere_or_has_a_reason_not_to_be(case: str, where: str) -> None:
    if where.startswith(REASON):
        assert len(where) > len(REASON) + 10
        return
    references = re.findall(r"`([^`]+)`", where)
    assert references
    assert [reference for reference in references if not is_there(reference)] == []


def test_what_is_not_there_is_seen() -> None:
    assert is_there("reads: codec lz4")
    assert not is_there("reads: codec lz5")
    assert not is_there("nowhere: codec lz4")
    assert not is_there("test_spark_cases.py::test_that_is_not")


def cases_of(row: str) -> int:
    """The rows of whole suites say how many."""
    number = re.search(r"Suites?: (\d+)$", row)
    return int(number[1]) if number else 1


def test_the_numbers_are_those_of_the_tables() -> None:
    left = sum(cases_of(case) for case, where in ROWS if where.startswith(REASON))
    shown = sum(cases_of(case) for case, where in ROWS if not where.startswith(REASON))
    assert f"{shown + left} cases: {shown} are shown, {left} do not concern" in " ".join(DOCS.split())


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("reads", "{} reads: "),
        ("wrong", "{} wrong reads"),
        ("wrong streams", "{} wrong streams"),
        ("streams", "{} streams, batch by batch"),
        ("changes", "{} cases in which topics change"),
        ("queries", "{} cases of queries"),
    ],
)
def test_what_is_said_of_the_proof_is_how_much_it_has(part: str, words: str) -> None:
    assert words.format(len(NAMES[part])) in " ".join((TREE / "docs/spark.md").read_text().split())
