"""Results of the tests: kept in docs/kafkatest.json, shown in docs/kafkatest.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from proofs.kafkatest.cases import Case, not_applicable
from proofs.kafkatest.running import TOP, Client, Outcome
from proofs.kafkatest.sources import CHANGES

DOCUMENT, KNOWN = TOP / "docs" / "kafkatest.md", TOP / "docs" / "kafkatest.json"
COLUMNS = {Client.KWIRE: "kwire", Client.JAVA: "Java", Client.MIXED: "groups of both"}
BEGIN, END = "<!-- written by scripts/prove kafkatest, do not edit -->\n", "<!-- end of what is written -->\n"


class Row(TypedDict):
    """One test that is run: by its name, what came of it for each client."""

    test: str
    outcomes: dict[str, dict[str, object]]


class Facts(TypedDict):
    """All that is known."""

    date: str
    kafka: str
    tests: str
    tests_version: str
    ducktape: str
    not_applicable: dict[str, int]
    rows: dict[str, Row]


class Results:
    """The results of a file, with those that are added."""

    def __init__(self, known: Path = KNOWN, document: Path = DOCUMENT) -> None:
        self._known, self._document = known, document
        empty: Facts = {
            "date": "", "kafka": "", "tests": "", "tests_version": "", "ducktape": "", "not_applicable": {}, "rows": {},
        }  # fmt: skip
        self.facts: Facts = json.loads(known.read_text()) if known.exists() else empty

    def describe(self, *, date: str, kafka: str, tests: str, tests_version: str, ducktape: str) -> None:
        """What they are of. Results of another Kafka or of other tests are forgotten."""
        if (self.facts["kafka"], self.facts["tests"]) != (kafka, tests):
            self.facts["rows"] = {}
        self.facts |= {
            "date": date, "kafka": kafka, "tests": tests, "tests_version": tests_version, "ducktape": ducktape,
        }  # fmt: skip

    def expect(self, cases: Sequence[Case]) -> None:
        """These are all tests that there are."""
        self.facts["not_applicable"] = dict(Counter(why for case in cases if (why := not_applicable(case))))
        known = self.facts["rows"]
        self.facts["rows"] = {case.symbol: _row(case, known.get(case.symbol)) for case in applicable(cases)}

    def add(self, case: Case, client: Client, outcome: Outcome) -> None:
        self.facts["rows"].setdefault(case.symbol, _row(case))["outcomes"][client.value] = asdict(outcome)

    def has_passed(self, case: Case, client: Client) -> bool:
        return _status(self.facts["rows"].get(case.symbol, _row(case)), client) == "passed"

    def write(self) -> None:
        self._known.write_text(json.dumps(self.facts, indent=1, ensure_ascii=False) + "\n")
        written = self._document.read_text()
        front, back = written.split(BEGIN)[0], written.split(END)[1]
        self._document.write_text(f"{front}{BEGIN}\n{page(self.facts)}\n{END}{back}")


def applicable(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if not_applicable(case) is None]


def page(facts: Facts) -> str:
    """The sums, a line for each test, and what is not run."""
    rows = list(facts["rows"].values())
    by_test = ((row["test"], *(_cell(row, client) for client in COLUMNS)) for row in rows)
    lines = [
        _versions(facts),
        *_table(("", *COLUMNS.values()), _sums(rows)),
        "### Test by test\n",
        *_table(("test", *COLUMNS.values()), by_test),
        "### Not applicable, for either\n",
        *_table(("tests", "why"), ((count, why) for why, count in facts["not_applicable"].items())),
        "### What is changed in the tests when they are run\n",
        *_table(("file", "why"), ((f"`{change.file}`", change.why) for change in CHANGES)),
    ]
    return "\n".join(lines)


def _versions(facts: Facts) -> str:
    return (
        f"Run on {facts['date']}: Apache Kafka {facts['kafka']} (brokers, tools, producer, Java's consumer), kafkatest "
        f"{facts['tests_version']} of commit `{facts['tests']}`, ducktape {facts['ducktape']}.\n"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(map(str, row))} |"
    yield ""


def _sums(rows: Sequence[Row]) -> Iterator[tuple[object, ...]]:
    for what in ("passed", "failed", "not run yet"):
        yield what, *(sum(_status(row, client) == what for row in rows) for client in COLUMNS)


def _status(row: Row, client: Client) -> str:
    outcome = row["outcomes"].get(client.value)
    if outcome is None:
        return "not run yet"
    return "passed" if outcome["passed"] else "failed"


def _cell(row: Row, client: Client) -> str:
    status, outcome = _status(row, client), row["outcomes"].get(client.value)
    if outcome is None:
        return ""
    if status == "failed":
        return f"**failed**: {outcome['reason']}".replace("|", "\\|").replace("\n", " ")
    return status if outcome["tries"] == 1 else f"passed at try {outcome['tries']}"


def _row(case: Case, known: Row | None = None) -> Row:
    """Named anew: names may have become shorter."""
    return {"test": str(case), "outcomes": known["outcomes"] if known else {}}
