"""What a streaming query has read of a partition, gaps included, and what lies between two such states. Pure.

An ordinary query has read everything in front of one offset. A fresh-first query that was behind has jumped to the end
of the log, and works off what it jumped over: it has read everything in front of its `head` but for some gaps. Spark
may ask twice what a batch consists of, the second time after a crash; so `between` knows nothing but the two states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.offset_set import NO_OFFSETS, OffsetSet


@dataclass(frozen=True, slots=True)
class Coverage:
    """Everything in `[begin, head)` is read, but for `gaps`.

    Attributes:
        head: the next offset to read at the end of the log.
        gaps: what is left to read in front of it.
        begin: where reading began, said once, by the batch that first met the partition.
    """

    head: int
    gaps: OffsetSet = NO_OFFSETS
    begin: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.head:
            raise InvalidArgumentError(f"a partition is read from {self.begin} to {self.head}, which is no range")
        if self.gaps and not self.begin <= self.gaps[0].start < self.gaps[-1].stop <= self.head:
            raise InvalidArgumentError(f"gaps lie between {self.begin} and {self.head}, which {list(self.gaps)} do not")

    def left(self, log_end: int) -> int:
        """How many offsets are not read yet of a log that ends at `log_end`."""
        return max(0, log_end - self.head) + self.gaps.size


Coverages = Mapping[TopicPartition, Coverage]


class Read(NamedTuple):
    """What one batch reads of one partition."""

    fresh: range
    """Up to the new head; empty if nothing new has come."""
    backfill: OffsetSet
    """Offsets that were jumped over before."""


def between(start: Coverage | None, end: Coverage) -> Read:
    """What a batch from `start` to `end` reads: all that `end` covers and `start` does not.

    Args:
        start: None for a partition that is met for the first time.
        end: its head may lie in front of that of `start`, if the log was cut off; there is nothing to read there.
    """
    unread = start.gaps | (range(start.head, end.head),) if start else OffsetSet((range(end.begin, end.head),))
    pieces = unread.below(end.head) - end.gaps
    is_new = pieces and pieces[-1].stop == end.head and (start is None or end.head > start.head)
    if not is_new:
        return Read(range(end.head, end.head), pieces)
    return Read(pieces[-1], pieces - pieces[-1:])


def left(covered: Coverages, log_ends: Mapping[TopicPartition, int]) -> int:
    """How many offsets are not read yet, over all partitions that are covered and have an end."""
    return sum(covered[tp].left(log_end) for tp, log_end in log_ends.items() if tp in covered)
