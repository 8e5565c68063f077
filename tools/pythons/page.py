"""What came of each Python: kept in docs/pythons.json, and shown in the table of docs/compatibility.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from tools.pythons.suites import Outcome

TOP = Path(__file__).resolve().parents[2]
KNOWN, DOCUMENT = TOP / "docs/pythons.json", TOP / "docs/compatibility.md"
BEGIN, END = "<!-- written by scripts/pythons, do not edit -->\n", "<!-- end of what is written -->\n"
_CLASSIFIER = re.compile(r'"Programming Language :: Python :: (3\.\d+)"')


class Counts(TypedDict):
    """Of one suite."""

    day: str
    passed: int
    failed: list[str]
    skipped: int
    seconds: int


class Facts(TypedDict):
    """Of one Python."""

    version: str
    origin: str
    suites: dict[str, Counts]


def supported() -> Sequence[str]:
    """The versions that pyproject.toml names."""
    return _CLASSIFIER.findall((TOP / "pyproject.toml").read_text())


def counts(outcome: Outcome) -> Counts:
    """As they are kept."""
    return {
        "day": datetime.now(UTC).date().isoformat(),
        "passed": outcome.passed,
        "failed": sorted(outcome.failed),
        "skipped": outcome.skipped,
        "seconds": round(outcome.seconds),
    }


def known() -> dict[str, Facts]:
    """By version, such as 3.13."""
    found: dict[str, Facts] = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    return found


def remember(wanted: str, found: Facts) -> None:
    """Puts it beside what is known of the others, and writes the page anew."""
    all_known = known()
    all_known[wanted] = merged(all_known.get(wanted), found)
    in_order = dict(sorted(all_known.items(), key=lambda item: [int(part) for part in item[0].split(".")]))
    KNOWN.write_text(json.dumps(in_order, indent=1) + "\n")
    DOCUMENT.write_text(page(DOCUMENT.read_text(), in_order))


def merged(before: Facts | None, found: Facts) -> Facts:
    """Suites that were not run again stay, if they were run with the same release."""
    kept = before["suites"] if before is not None and before["version"] == found["version"] else {}
    return {**found, "suites": kept | found["suites"]}


def page(written: str, all_known: Mapping[str, Facts]) -> str:
    """The document with this table in place of the one that it has."""
    front, back = written.partition(BEGIN)[0], written.partition(END)[2]
    return f"{front}{BEGIN}\n{table(all_known)}\n{END}{back}"


def table(all_known: Mapping[str, Facts]) -> str:
    """A row for each Python and suite."""
    heading = ("CPython", "from", "tests", "passed", "failed", "skipped", "seconds", "day")
    lines = [f"| {' | '.join(heading)} |", "|" + "---|" * len(heading)]
    for found in all_known.values():
        for name, of_suite in found["suites"].items():
            cells = [found["version"], found["origin"], name, of_suite["passed"], len(of_suite["failed"])]
            cells += [of_suite["skipped"], of_suite["seconds"], of_suite["day"]]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"
