"""What `read` does when a log has lost the position it reads at: what is left must not look like all there was."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.consumer.sync import Consumer
from kwire.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError
from kwire.model import K, TopicPartition, V

ANOTHER_LOG = "its topic was recreated, or its log truncated, while it was read; read it again"


def begin_anew(
    consumer: Consumer[K, V],
    error: OffsetOutOfRangeError,
    read_to: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Begin anew with partitions of which nothing was read, and raise if there are others. A partition that has been
    read to its end has lost nothing that was wanted.

    Args:
        error: What a poll or a position has raised.
        read_to: The offset behind what was read of each partition.
        ends: The ends of the partitions that are still read.
    """
    lost = {tp: read_to[tp] for tp in error.offsets if tp in read_to and tp in ends}
    if lost:
        raise _error_of(consumer, error, lost, ends) from error
    consumer.seek_to_beginning(error.offsets.keys())


def _error_of(
    consumer: Consumer[K, V],
    error: OffsetOutOfRangeError,
    lost: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> OffsetOutOfRangeError:
    starts = {} if isinstance(error, LogTruncationError) else _log_starts(consumer, lost)
    deleted = {tp: at for tp, at in lost.items() if starts is None or starts.get(tp, 0) > at}
    if not deleted:
        return _truncated(error, lost)
    gaps = ", ".join(f"{tp} from offset {at}{_up_to(starts, ends, tp)}" for tp, at in sorted(deleted.items()))
    found = OffsetOutOfRangeError(deleted)
    advice = 'read it again, or pass auto_offset_reset="earliest" to go on behind such gaps'
    found.args = (f"records were deleted before they were read, of {gaps}: {advice}",)
    return found


def _log_starts(
    consumer: Consumer[K, V], partitions: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int] | None:
    """None: nobody can tell now."""
    try:
        return consumer.beginning_offsets(partitions.keys())
    except KafkaError:
        return None


def _up_to(starts: Mapping[TopicPartition, int] | None, ends: Mapping[TopicPartition, int], tp: TopicPartition) -> str:
    return " on" if starts is None else f" to {min(starts[tp], ends[tp]) - 1}"


def _truncated(error: OffsetOutOfRangeError, lost: Mapping[TopicPartition, int]) -> LogTruncationError:
    known = error if isinstance(error, LogTruncationError) else LogTruncationError(lost, {})
    found = LogTruncationError(lost, known.divergent_offsets, known.recreated)
    where = ", ".join(f"{tp} was read up to offset {at}" for tp, at in sorted(lost.items()))
    found.args = (f"{where}, which means nothing in its log any more: {ANOTHER_LOG}",)
    return found
