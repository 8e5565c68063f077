"""Several clients after the same schedule, side by side: figures, and how long each took over each fault; as rows, as
text for the terminal, as tables for the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwire.testing.faults.report.figures import NONE, count, duration, moment, size
from kwire.testing.faults.report.html import table
from kwire.testing.faults.report.recovery import Judgement, Recovery
from kwire.testing.faults.report.summary import Summary


@dataclass(frozen=True, slots=True)
class ComparisonRow:
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
    ("errors that poll told", lambda each: count(each.errors.get("poll", 0)), None),
    ("commits that failed", lambda each: count(each.errors.get("commit_sync", 0)), None),
    ("programs that ended by an error", lambda each: count(each.errors.get("run", 0)), None),
    ("recoveries in time", _recoveries_in_time, lambda each: bool(each.late)),
    ("recovery, median (faults alone)", lambda each: duration(each.recovery_p50_ms), None),
    ("recovery, slowest (faults alone)", lambda each: duration(each.recovery_max_ms), None),
    ("drained after all was quiet", lambda each: duration(each.drained_ms), None),
    ("longest silence", _silence, None),
    ("peak memory of a member", _memory, None),
)


def rows(summaries: Sequence[Summary]) -> list[ComparisonRow]:
    return [_row(*figure, summaries) for figure in FIGURES]


def _row(
    label: str,
    told: Callable[[Summary], str],
    is_bad: Callable[[Summary], bool] | None,
    summaries: Sequence[Summary],
) -> ComparisonRow:
    marked = tuple(is_bad is not None and is_bad(each) for each in summaries)
    return ComparisonRow(label, tuple(map(told, summaries)), marked)


def recovery_rows(summaries: Sequence[Summary]) -> list[ComparisonRow]:
    """One for each fault of the first, in its order: its bound, and how long each took. What is in brackets is not
    judged: it is past the bound, and other faults were at work."""
    found = [_by_step(each.recoveries) for each in summaries]
    return [_recovery_row(step, [each.get(step) for each in found]) for step in found[0]]


def _by_step(recoveries: Sequence[Recovery]) -> Mapping[tuple[str, int], Recovery]:
    """By what the schedule says, and the how manieth of its kind it is: times and brokers differ from run to run."""
    found: dict[tuple[str, int], Recovery] = {}
    before = Counter[str]()
    for each in recoveries:
        words = f"{each.fault.fault} {each.fault.detail.partition(': ')[0]}"
        found[words, before[words]] = each
        before[words] += 1
    return found


def _recovery_row(step: tuple[str, int], recoveries: Sequence[Recovery | None]) -> ComparisonRow:
    first = recoveries[0]
    assert first is not None
    is_bad = (each is not None and each.judgement in (Judgement.LATE, Judgement.NEVER) for each in recoveries)
    label = f"{moment(first.fault.began_ms)}  {step[0]}"
    return ComparisonRow(label, (duration(first.bound_ms), *map(_took, recoveries)), (False, *is_bad))


def _took(recovery: Recovery | None) -> str:
    if recovery is None:
        return NONE
    told = "never" if recovery.took_ms is None else duration(recovery.took_ms)
    return f"({told})" if recovery.judgement is Judgement.CROWDED else told


def as_text(summaries: Sequence[Summary]) -> str:
    """Columns for a terminal; what should not be has an exclamation mark behind it."""
    names = [each.name for each in summaries]
    return _columns(["", *names], rows(summaries))


def recoveries_as_text(summaries: Sequence[Summary]) -> str:
    return _columns(["", "bound", *(each.name for each in summaries)], recovery_rows(summaries))


def _columns(head: Sequence[str], found: Sequence[ComparisonRow]) -> str:
    cells = [tuple(head)]
    for row in found:
        told = (f"{value} !" if bad else value for value, bad in zip(row.values, row.is_bad, strict=True))
        cells.append((row.label, *told))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "".join(f"{_line(line, widths)}\n" for line in cells)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def as_table(summaries: Sequence[Summary]) -> str:
    """The same for the page."""
    return _table(["", *(each.name for each in summaries)], rows(summaries))


def recoveries_as_table(summaries: Sequence[Summary]) -> str:
    return _table(["", "bound", *(each.name for each in summaries)], recovery_rows(summaries))


def _table(head: Sequence[str], found: Sequence[ComparisonRow]) -> str:
    bad = {(line, column + 1) for line, row in enumerate(found) for column, is_bad in enumerate(row.is_bad) if is_bad}
    return table(head, [[row.label, *row.values] for row in found], bad)
