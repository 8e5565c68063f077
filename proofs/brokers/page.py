"""docs/brokers.md, and docs/brokers.json, which keeps what is known of each broker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from proofs.brokers.decisions import Decision, Decisions, function_of
from proofs.brokers.outcome import Facts
from tools.evidence import DOCS

DOCUMENT, KNOWN = DOCS / "brokers.md", DOCS / "brokers.json"
BEGIN, END = "<!-- written by scripts/prove brokers, do not edit -->\n", "<!-- end of what is written -->\n"
HEADING = (
    "broker",
    "conformance: passed",
    "different",
    "not offered",
    "core of the integration tests",
    "KIP-848",
    "other integration tests",
    "day",
    "kwire",
)
MAX_CELL_CHARS = 200


def remember(
    name: str, told: Facts, decisions: Mapping[str, Decisions | None], *, known: Path = KNOWN, document: Path = DOCUMENT
) -> None:
    """Put what came of this broker beside what is known of the others, and write the page anew.

    Args:
        decisions: of all brokers that there are, in the order of the page; what is known of others is forgotten.
    """
    found: dict[str, Facts] = json.loads(known.read_text()) if known.exists() else {}
    found[name] = told
    found = {each: found[each] for each in decisions if each in found}
    known.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    document.write_text(written(document.read_text(), found, decisions))


def rewrite(decisions: Mapping[str, Decisions | None]) -> None:
    """Write the page anew of what is known: a decision has changed."""
    DOCUMENT.write_text(written(DOCUMENT.read_text(), json.loads(KNOWN.read_text()), decisions))


def written(before: str, known: Mapping[str, Facts], decisions: Mapping[str, Decisions | None]) -> str:
    """The document with what is known now."""
    front, back = before.split(BEGIN, maxsplit=1)[0], before.split(END)[1]
    return f"{front}{BEGIN}\n{page(known, decisions)}\n{END}{back}"


def page(known: Mapping[str, Facts], decisions: Mapping[str, Decisions | None]) -> str:
    """A row for each broker, then what each answers otherwise, and what is decided about that."""
    rows = ([name, *found["row"], found["date"], f"`{found['kwire']}`"] for name, found in known.items())
    lines = list(_table(HEADING, rows))
    for name, found in known.items():
        if found["differences"] or found["tests"]:
            lines += _of_broker(name, found, decisions.get(name) or Decisions())
    return "\n".join(lines)


def _of_broker(name: str, found: Facts, decisions: Decisions) -> Iterator[str]:
    yield f"### {name}: differences from Kafka\n"
    differences = (
        (f"{api}: {check}", versions, *_decided(decisions.of_check(api, check), reason))
        for api, versions, check, reason in found["differences"]
    )
    heading = ("case", "versions", "what Kafka 4.4 does", "what this broker does", "who is right", "what kwire does")
    yield from _table(heading, differences)
    if absent := found["absent"]:
        yield f"Versions that this broker does not offer: {'; '.join(map(_absence, absent))}. {decisions.of_absent}\n"
    functions = dict.fromkeys(map(function_of, found["tests"]))
    tests = ((f"`{test}`", *_decided(decisions.of_test(test), "")) for test in functions)
    if functions:
        yield f"Of the integration tests, {len(found['tests'])} do not pass:\n"
        of_tests = ("test", "what Kafka 4.4 does", "what this broker does", "who is right", "what kwire does")
        yield from _table(of_tests, tests)
    if skipped := found["skipped"]:
        yield f"Tests that are skipped: {'; '.join(f'`{test}` ({why})' for test, why in skipped.items())}.\n"


def _decided(decision: Decision | None, reason: str) -> Sequence[str]:
    if decision is None:
        return ("", reason, "", "**not decided**")
    return (decision.kafka, reason or decision.other, decision.right, f"{decision.verdict}: {decision.why}")


def _absence(absent: Sequence[str]) -> str:
    api, versions, reason = absent
    return f"{api} {versions} ({reason})"


def _table(heading: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    for row in (heading, ["---"] * len(heading), *rows):
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def _cell(text: str) -> str:
    short = text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]} ..."
    return short.replace("|", "\\|").replace("\n", " ")
