"""What the tasks of a fresh-first batch read: fresh ranges first, backfill cut up so that all cores have some. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kwire.model import TopicPartition
from kwire.spark.fresh_first.coverage import Coverages, between

RECORDS_PER_TASK = 250_000
"""Of records of 100 bytes that is about a quarter of a second of work, some ten times what starting a task costs."""


class Task(NamedTuple):
    """One range of one partition, for one task."""

    partition: TopicPartition
    offsets: range


def tasks(
    start: Coverages, end: Coverages, *, records_per_task: int = RECORDS_PER_TASK, min_partitions: int = 1
) -> list[Task]:
    """All that lies between two states, each offset once. Spark starts tasks in the order of this list.

    Args:
        start: where the batch begins.
        end: where it ends.
        records_per_task: the most offsets of one task.
        min_partitions: about how many tasks there should be at least; as many as there are offsets, if these are fewer.
    """
    reads = {tp: between(start.get(tp), end[tp]) for tp in sorted(end)}
    offsets = sum(len(read.fresh) + read.backfill.size for read in reads.values())
    size = max(1, min(records_per_task, -(-offsets // max(1, min_partitions))))
    fresh = [Task(tp, piece) for tp, read in reads.items() for piece in cut(read.fresh, size)]
    behind = [Task(tp, piece) for tp, read in reads.items() for gap in read.backfill for piece in cut(gap, size)]
    return fresh + behind


def cut(offsets: range, size: int) -> list[range]:
    """Pieces of nearly the same length, none longer than `size`."""
    pieces = -(-len(offsets) // size)
    edges = [offsets.start + len(offsets) * number // pieces for number in range(pieces)] if pieces else []
    return [range(a, b) for a, b in zip(edges, [*edges[1:], offsets.stop], strict=False)]
