"""Draws the state tables into DESIGN.md, between the markers. `--check` fails when what is there is out of date.

A diagram has one arrow for each row; rows between the same two states share one.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from kwire.states.classic_group import CLASSIC_GROUP
from kwire.states.consumer_group import CONSUMER_GROUP
from kwire.states.machine import E, F, S, Table
from kwire.states.partition import PARTITION
from kwire.states.telemetry import TELEMETRY

DESIGN = Path(__file__).resolve().parent.parent / "DESIGN.md"
BEGIN = "<!-- state diagrams: written by python -m tools.draw_states, do not edit -->"
END = "<!-- end of the state diagrams -->"
MAX_LABELS = 4  # on one arrow; more do not fit, and the table has them all


def diagram(table: Table[S, E, F]) -> str:
    """One table as a Mermaid state diagram."""
    arrows: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in table.rows:
        arrows[row.source.name, row.target.name].append(row.event.name)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {table.initial.name}"]
    for (source, target), events in arrows.items():
        lines.append(f"    {source} --> {target}: {_label(events)}")
    return "\n".join([*lines, "```"])


def _label(events: list[str]) -> str:
    shown = " / ".join(events[:MAX_LABELS])
    return shown if len(events) <= MAX_LABELS else f"{shown} / {len(events) - MAX_LABELS} more"


def section(table: Table[S, E, F]) -> str:
    cells = f"{len(table.rows)} rows, {len(table.dropped)} cells dropped, {len(table.impossible)} impossible"
    return f"### {table.name.capitalize()}\n\n{cells}.\n\n{diagram(table)}\n"


def drawn(text: str, sections: str) -> str:
    """The document with the part between the markers replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{DESIGN.name} lacks the markers {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{sections}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when the diagrams are out of date")
    arguments = parser.parse_args()
    sections = "\n".join(
        (
            section(CLASSIC_GROUP),
            section(CONSUMER_GROUP),
            section(PARTITION),
            section(TELEMETRY),
        )
    )
    text = DESIGN.read_text(encoding="utf-8")
    wanted = drawn(text, sections)
    if text == wanted:
        return 0
    if arguments.check:
        print("the state diagrams in DESIGN.md are out of date; run python -m tools.draw_states", file=sys.stderr)
        return 1
    DESIGN.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
