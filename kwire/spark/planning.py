"""From offsets to the ranges that tasks read: what is new, gone or moved, and how it is cut. Pure but for the reader
of offsets that is handed in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from kwire.model import TopicPartition
from kwire.spark import errors
from kwire.spark.errors import DataLossError, OffsetsError
from kwire.spark.offsets import Offsets
from kwire.spark.options import SourceOptions
from kwire.spark.ranges import OffsetRange, divide
from kwire.spark.resolve import OffsetReader

log = logging.getLogger(__name__)

OnLoss = Callable[[DataLossError], None]
Task = tuple[OffsetRange, ...]


def batch_ranges(options: SourceOptions, reader: OffsetReader) -> list[OffsetRange]:
    """The ranges of a batch. Ends that are looked up late (-1, -2) stay so, for each action of a query again.

    Raises:
        OffsetsError: The start lies behind the end, or partitions came or went meanwhile.
    """
    starts = reader.unresolved(options.start, is_start=True)
    ends = reader.unresolved(options.end, is_start=False)
    if starts.keys() != ends.keys():
        raise _different(starts, ends)
    for tp in sorted(starts):
        if starts[tp] > ends[tp] >= 0:
            raise errors.resolved_start_behind_end(starts[tp], ends[tp], tp)
    ranges = [OffsetRange(tp, starts[tp], ends[tp]) for tp in sorted(starts)]
    if not _to_be_divided(options, ranges):
        return ranges
    known_starts, known_ends = reader.resolved(starts), reader.resolved(ends)
    known = [OffsetRange(tp, known_starts[tp], known_ends[tp]) for tp in sorted(starts)]
    return _with_late_ends(_divided(options, known), starts, ends)


def stream_ranges(
    options: SourceOptions, reader: OffsetReader, start: Offsets, end: Offsets, on_loss: OnLoss
) -> list[OffsetRange]:
    """The ranges of a micro-batch between two offsets of the query. New partitions are read from their beginning."""
    added = end.keys() - start.keys()
    firsts = reader.earliest(added)
    if gone := added - firsts.keys():
        on_loss(errors.initial_offsets_not_found(gone))
    for tp in sorted(firsts):
        if firsts[tp] != 0:
            on_loss(errors.added_partition_does_not_start_at_zero(tp, firsts[tp]))
    if deleted := start.keys() - end.keys():
        on_loss(errors.partitions_deleted(deleted))
    starts = {**start, **firsts}
    ranges = [OffsetRange(tp, starts[tp], end[tp]) for tp in sorted(end.keys() & starts.keys())]
    for span in ranges:
        if span.end < span.start:
            on_loss(errors.partition_offset_changed(span.topic_partition, span.start, span.end))
    return _divided(options, ranges)


def loss_handler(options: SourceOptions) -> OnLoss:
    """Raises what is lost, or warns of it, as `failOnDataLoss` says."""

    def on_loss(error: DataLossError) -> None:
        if options.fail_on_data_loss:
            raise error
        log.warning("%s", error)

    return on_loss


def tasks(ranges: Iterable[OffsetRange], most_ranges: int) -> list[Task]:
    """Ranges put together for tasks that read several at once; never two of one partition, which has one position."""
    planned: list[list[OffsetRange]] = []
    for span in ranges:
        taken = {other.topic_partition for other in planned[-1]} if planned else set()
        if planned and len(planned[-1]) < most_ranges and span.topic_partition not in taken:
            planned[-1].append(span)
        else:
            planned.append([span])
    return [tuple(task) for task in planned]


def _divided(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    return divide(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )


def _to_be_divided(options: SourceOptions, ranges: list[OffsetRange]) -> bool:
    most = options.max_records_per_partition
    return (options.min_partitions or 0) > len(ranges) or (
        most is not None and any(span.size > most for span in ranges)
    )


def _with_late_ends(
    ranges: list[OffsetRange], starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """The outermost ends of each partition are looked up late again, if they were to be."""
    first = {span.topic_partition: index for index, span in reversed(list(enumerate(ranges)))}
    last = {span.topic_partition: index for index, span in enumerate(ranges)}
    return [
        OffsetRange(
            span.topic_partition,
            starts[span.topic_partition] if first[span.topic_partition] == index else span.start,
            ends[span.topic_partition] if last[span.topic_partition] == index else span.end,
        )
        for index, span in enumerate(ranges)
    ]


def _different(starts: Offsets, ends: Offsets) -> OffsetsError:
    start_topics, end_topics = (",".join(sorted({tp.topic for tp in some})) for some in (starts, ends))
    return OffsetsError(
        f"different topic partitions for starting offsets topics[{start_topics}] "
        f"and ending offsets topics[{end_topics}]"
    )
