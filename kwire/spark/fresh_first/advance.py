"""How far the next batch of a fresh-first query goes: the newest records, and a slice of what lies behind. Pure.

A batch reaches the sink only as a whole, so both parts are bounded: the fresh one lets the newest records through
within one batch however long the outage was, and the slice of backfill keeps that batch short. Backfill goes from the
oldest offset on: that is what retention takes first, and inside a gap the order is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.spark.fresh_first.coverage import Coverage, Coverages

MAX_GAPS = 64
"""How many gaps a partition may have. A query that cannot keep up would get another gap with each batch, and a longer
checkpoint; with this many it goes on where its head is, in order, until a gap is closed."""


class BatchLimits(NamedTuple):
    """How many offsets a batch takes at most, over all partitions."""

    fresh: int
    backfill: int


class LostOffsets(NamedTuple):
    """Offsets that were never read and are no longer in the log."""

    partition: TopicPartition
    offsets: range


def advance(
    start: Coverages, logs: Mapping[TopicPartition, range], limits: BatchLimits
) -> dict[TopicPartition, Coverage]:
    """Where the next batch ends.

    Args:
        start: where it begins. A partition that is not in it is met for the first time, and read from its log's begin.
        logs: of each partition, what the log holds. A partition that is not in it stays as it is.
        limits: how much to take; both at least 1.
    """
    if limits.fresh < 1 or limits.backfill < 1:
        raise InvalidArgumentError(f"a batch takes at least one fresh offset and one of the backfill, not {limits}")
    met = {tp: start.get(tp) or Coverage(log.start, begin=log.start) for tp, log in logs.items()}
    takes = share(limits.fresh, {tp: log.stop - _next(met[tp], log) for tp, log in logs.items()})
    jumped = {tp: _jump(met[tp], logs[tp], takes[tp]) for tp in logs}
    slices = share(limits.backfill, {tp: each.gaps.size for tp, each in jumped.items()})
    moved = {tp: _fill(each, slices[tp], begin=0 if tp in start else each.begin) for tp, each in jumped.items()}
    return {**start, **moved}


def share(limit: int, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Each partition's part of `limit`. Those that want little get it all; the others share alike what is left.

    A partition that wants anything gets at least 1: the newest record of no partition waits, though there be more of
    them than the limit.
    """
    shares: dict[TopicPartition, int] = {}
    left = limit
    for done, tp in enumerate(sorted(wanted, key=lambda tp: (wanted[tp], tp))):
        shares[tp] = min(wanted[tp], max(1, left // (len(wanted) - done))) if wanted[tp] > 0 else 0
        left -= shares[tp]
    return shares


def lost(start: Coverages, logs: Mapping[TopicPartition, range]) -> list[LostOffsets]:
    """What has been lost since `start`: taken by retention before it was read, or with the end of a log.

    The latter is said as the offsets from the log's end up to where reading had already been.
    """
    found: list[LostOffsets] = []
    for tp in sorted(start.keys() & logs.keys()):
        covered, log = start[tp], logs[tp]
        unread = covered.gaps | (range(covered.head, max(covered.head, log.start)),)
        found += [LostOffsets(tp, each) for each in unread - (log,) if each.start < log.start]
        if log.stop < covered.head:
            found.append(LostOffsets(tp, range(log.stop, covered.head)))
    return found


def _next(covered: Coverage, log: range) -> int:
    """The first offset that a head may still read."""
    return max(covered.head, log.start)


def _jump(covered: Coverage, log: range, take: int) -> Coverage:
    """The newest `take` records are read; what lies between them and the head so far becomes a gap."""
    if log.stop < covered.head:  # cut off, or another topic of the same name
        return Coverage(log.stop, covered.gaps.within(log), min(covered.begin, log.stop))
    begin = _next(covered, log)
    gaps = covered.gaps.within(range(log.start, covered.head))
    if len(gaps) >= MAX_GAPS:
        return Coverage(begin + take, gaps, covered.begin)
    return Coverage(log.stop, gaps | (range(begin, log.stop - take),), covered.begin)


def _fill(covered: Coverage, many: int, *, begin: int) -> Coverage:
    return Coverage(covered.head, covered.gaps - covered.gaps.first(many), begin)
