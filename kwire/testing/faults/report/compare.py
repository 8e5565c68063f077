"""Several clients after the same schedule, side by side: as rows, as text for the terminal, as a table for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kwire.testing.faults.report.figures import NONE, count, duration, size
from kwire.testing.faults.report.html import table
from kwire.testing.faults.report.recovery import Judgement
from kwire.testing.faults.report.summary import Summary


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, and what it is for each run; `is_bad` marks what should not be."""

    label: str
    values: tuple[str, ...]
    is_bad: tuple[bool, ...]


def _silence(summary: Summary) -> str:
    longest = summary.longest_silence
    return NONE if longest is None else f"{duration(longest.lasted_ms)} ({longest.partition})"


def _recoveries_in_time(summary: Summary) -> str:
    judged = [each for each in summary.recoveries if each.judgement not in (Judgement.UNBOUNDED, Judgement.CROWDED)]
    return f"{len(judged) - len(summary.late)} of {len(judged)}" if judged else NONE


def _memory(summary: Summary) -> str:
    return size(max(peak.resident_bytes for peak in summary.memory)) if summary.memory else NONE


FIGURES: tuple[tuple[str, Callable[[Summary], str], Callable[[Summary], bool] | None], ...] = (
    ("verdict", lambda each: "passed" if each.has_passed else "failed", lambda each: not each.has_passed),
    ("violations", lambda each: count(len(each.violations)), lambda each: bool(each.violations)),
    ("records sent", lambda each: count(each.records.sent), None),
    ("received", lambda each: count(each.records.received), None),
    ("lost", lambda each: count(each.records.lost), lambda each: bool(each.records.lost)),
    ("unread at the end", lambda each: count(each.records.unread), lambda each: bool(each.records.unread)),
    ("gone unread (retention, elections)", lambda each: count(each.records.gone), None),
    ("came again", lambda each: count(each.records.duplicates), None),
    ("unexplained of these", lambda each: count(each.records.unexplained), lambda each: bool(each.records.unexplained)),
    ("stuck partitions", lambda each: count(len(each.stuck)), lambda each: bool(each.stuck)),
    ("rebalances", lambda each: count(each.handovers.rebalances), None),
    ("partitions moved", lambda each: count(each.handovers.moves), None),
    ("partitions lost (callbacks)", lambda each: count(each.handovers.lost), None),
    ("recoveries in time", _recoveries_in_time, lambda each: bool(each.late)),
    ("recovery, median (faults alone)", lambda each: duration(each.recovery_p50_ms), None),
    ("recovery, slowest (faults alone)", lambda each: duration(each.recovery_max_ms), None),
    ("drained after all was quiet", lambda each: duration(each.drained_ms), None),
    ("longest silence", _silence, None),
    ("peak memory of a member", _memory, None),
)


def rows(summaries: Sequence[Summary]) -> list[Row]:
    return [_row(*figure, summaries) for figure in FIGURES]


def _row(
    label: str,
    told: Callable[[Summary], str],
    is_bad: Callable[[Summary], bool] | None,
    summaries: Sequence[Summary],
) -> Row:
    marked = tuple(is_bad is not None and is_bad(each) for each in summaries)
    return Row(label, tuple(map(told, summaries)), marked)


def as_text(summaries: Sequence[Summary]) -> str:
    """Columns for a terminal; what should not be has an exclamation mark behind it."""
    cells = [("", *(each.name for each in summaries))]
    for row in rows(summaries):
        told = (f"{value} !" if bad else value for value, bad in zip(row.values, row.is_bad, strict=True))
        cells.append((row.label, *told))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (_line(line, widths) for line in cells)
    return "".join(f"{line}\n" for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([first, *others]).rstrip()


def as_table(summaries: Sequence[Summary]) -> str:
    """The same for the page."""
    return table(
        ["", *(each.name for each in summaries)],
        [[row.label, *row.values] for row in rows(summaries)],
        bad={
            (line, column + 1)
            for line, row in enumerate(rows(summaries))
            for column, is_bad in enumerate(row.is_bad)
            if is_bad
        },
    )
