"""How the offsets to read are cut into tasks: Spark's `KafkaOffsetRangeCalculator`, to the same ranges. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kwire.model import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets from `start` up to, not including, `end`; either may be -1 or -2, see `limits`."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets these are: no fewer than records."""
        return self.end - self.start


def divide(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """One range for each task. Empty ones are dropped.

    Args:
        ranges: With known offsets, one for each topic partition.
        min_partitions: Cut the large ones so that there are about as many.
        max_records_per_partition: Cut all that are larger.
    """
    wanted = [span for span in ranges if span.size > 0]
    if max_records_per_partition is not None:
        wanted = [part for span in wanted for part in _cut(span, math.ceil(span.size / max_records_per_partition))]
    if min_partitions is None or min_partitions <= len(wanted):
        return wanted
    return _divide_large(wanted, min_partitions)


def _divide_large(ranges: Sequence[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Small ranges stay whole, and do not count for how finely the others are cut (SPARK-36576)."""
    total = sum(span.size for span in ranges)
    whole = [span for span in ranges if _count(span.size, total, min_partitions) == 1]
    large_total = total - sum(span.size for span in whole)
    large_count = max(min_partitions - len(whole), 1)
    kept = {span.topic_partition for span in whole}
    return [
        part
        for span in ranges
        for part in _cut(span, 1 if span.topic_partition in kept else _count(span.size, large_total, large_count))
    ]


def _count(size: int, total: int, count: int) -> int:
    """Its share of this many parts. Java rounds halves up."""
    return max(math.floor(size / total * count + 0.5), 1)


def _cut(span: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """The range in parts of about the same size; the last has what rounding leaves."""
    start = span.start
    for part in range(parts):
        end = start + (span.end - start) // (parts - part)
        if end > start:
            yield OffsetRange(span.topic_partition, start, end)
        start = end
