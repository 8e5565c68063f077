"""The matrix of `scripts/prove losses` as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proofs.losses.judge import Outcome


def table(outcomes: Sequence[Outcome]) -> str:
    """One row for each cell that makes sense, then the reasons of the others."""
    lines = [
        "| way | fault | delivered | handled | committed | lost | twice | processes | what the user is told |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
        *(row(outcome) for outcome in outcomes if outcome.reason is None),
    ]
    reasons = sorted({f"* {o.fault.value}: {o.reason} ({ways_without(o, outcomes)})." for o in outcomes if o.reason})
    return "\n".join([*lines, "", "Cells that make no sense:", "", *reasons, ""] if reasons else [*lines, ""])


def row(outcome: Outcome) -> str:
    told = unique_to_topic(outcome.told[0]) if outcome.told else ""
    committed = f"{outcome.committed}{', stuck' if outcome.is_stuck else ''}"
    figures = (outcome.delivered, outcome.handled, committed, len(outcome.lost), outcome.twice, outcome.lives)
    return f"| {outcome.way.value} | {outcome.fault.value} | {' | '.join(map(str, figures))} | {told} |"


def unique_to_topic(line: str) -> str:
    """Without the topic's name, which is another in each run; of a size that fits a table."""
    words = ("topic" + word[len("losses-") + 8 :] if word.startswith("losses-") else word for word in line.split(" "))
    text = " ".join(words).replace("|", "/")
    return text if len(text) <= 160 else f"{text[:157]}..."


def ways_without(outcome: Outcome, outcomes: Sequence[Outcome]) -> str:
    """All ways for which the same fault makes no sense for the same reason."""
    same = [o.way.value for o in outcomes if (o.fault, o.reason) == (outcome.fault, outcome.reason)]
    return ", ".join(same)
