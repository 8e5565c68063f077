"""One strip of the timeline, and how things are put into rows of it without lying over each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kwire.testing.faults.report.svg import LETTER_WIDTH, WIDTH, Scale, element
from kwire.testing.invariants.violation import Violation

GAP = 5.0
_MAX_TOLD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One row of the timeline.

    Args:
        parts: elements; the lane's top is at 0.
        note: a figure at its right end.
    """

    label: str
    height: float
    parts: tuple[str, ...]
    note: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a bar and its words go. The words are beside the bar unless there is room inside."""

    words: str
    row: int
    x: float
    width: float
    text_x: float
    is_inside: bool


def place(spans: Sequence[tuple[float, float, str]], scale: Scale, reaches_ms: Sequence[float] = ()) -> list[Placed]:
    """A row for each bar: the first in which it and its words are free of others.

    Args:
        spans: from, to, words; by when they begin.
        reaches_ms: of each, until when nothing else may be in its row, if that is later than it ends.
    """
    ends: list[float] = []
    placed: list[Placed] = []
    for (from_ms, to_ms, words), reach_ms in zip(spans, reaches_ms or [0.0] * len(spans), strict=True):
        x, width, needs = scale.x(from_ms), scale.width(from_ms, to_ms), len(words) * LETTER_WIDTH + 2 * GAP
        is_inside = needs <= width
        is_before = not is_inside and x + width + needs > WIDTH
        first = x - needs if is_before else x
        row = next((number for number, end in enumerate(ends) if end <= first), len(ends))
        end = x + width if is_inside or is_before else x + width + needs
        ends[row : row + 1] = [max(end, scale.x(reach_ms))]
        text_x = x + GAP if is_inside else first + GAP if is_before else x + width + GAP
        placed.append(Placed(words=words, row=row, x=x, width=width, text_x=text_x, is_inside=is_inside))
    return placed


def concerning(name: str, violations: Iterable[Violation]) -> list[Violation]:
    """Those whose words have a member's or a partition's name in them: "orders-1" is not in "orders-11"."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return [violation for violation in violations if pattern.search(violation.what)]


def marks(violations: Iterable[Violation], scale: Scale, y: float) -> list[str]:
    """A triangle for each pixel in which something must not have happened."""
    by_pixel: dict[int, list[str]] = {}
    for violation in violations:
        by_pixel.setdefault(round(scale.x(violation.at_ms)), []).append(str(violation))
    return [
        element("path", "bad", title=listed(told), d=f"M{x - 5} {y + 9:g}l5 -9l5 9z") for x, told in by_pixel.items()
    ]


def listed(lines: Sequence[str]) -> str:
    """As many as one can read while pointing at something."""
    more = [f"... and {len(lines) - _MAX_TOLD} more"] if len(lines) > _MAX_TOLD else []
    return "\n".join([*lines[:_MAX_TOLD], *more])
