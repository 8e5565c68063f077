"""`LossSkipper` goes on behind records that cannot be had, where the user says so: `on_data_loss="skip"`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from kwire.errors import CorruptRecordError, KafkaError, LogTruncationError, OffsetOutOfRangeError
from kwire.logs import part_logger
from kwire.model import OffsetAndMetadata, TopicPartition

log = part_logger("processing")

LOOK_UP_S = 5.0


class SeekingConsumer(Protocol):
    """The part of a consumer that going on elsewhere needs."""

    def seek(self, partition: TopicPartition, offset: OffsetAndMetadata, /) -> None: ...

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], /, *, timeout: float
    ) -> Mapping[TopicPartition, int]: ...

    def end_offsets(
        self, partitions: Collection[TopicPartition], /, *, timeout: float
    ) -> Mapping[TopicPartition, int]: ...


class LossSkipper:
    """Seeks behind what is lost, and logs which offsets that leaves out."""

    def __init__(self, consumer: SeekingConsumer) -> None:
        self._consumer = consumer
        self._damaged: set[tuple[TopicPartition, int]] = set()
        """Where damage was met once. It may have happened on the way: it is read again before it is skipped."""

    def delivered(self, tp: TopicPartition, first: int, behind: int) -> None:
        """These offsets could be read: if damage was met there, it had happened on the way."""
        self._damaged -= {(tp, at) for damaged, at in self._damaged if damaged == tp and first <= at < behind}

    @property
    def remembers(self) -> bool:
        """Whether damage was met that may have happened on the way."""
        return bool(self._damaged)

    def skip(self, error: CorruptRecordError | OffsetOutOfRangeError) -> bool:
        """Whether polls may go on. Without an answer of the broker nobody knows where."""
        try:
            return self._skip_damage(error) if isinstance(error, CorruptRecordError) else self._skip_gap(error)
        except KafkaError as failure:
            log.warning("where to go on cannot be looked up, after %s: %s", error, failure)
            return False

    def _skip_damage(self, error: CorruptRecordError) -> bool:
        """Go to the next sound batch, or one offset on if that is not known: the broker sends the damaged batch
        again as long as the position is inside it."""
        if error.topic is None or error.partition is None or error.offset is None:
            return False
        tp = TopicPartition(error.topic, error.partition)
        if (tp, error.offset) not in self._damaged:
            self._damaged.add((tp, error.offset))  # the next poll fetches it again
            return True
        self._damaged.discard((tp, error.offset))
        self._go_on(tp, error.offset, OffsetAndMetadata(error.next_offset or error.offset + 1), error)
        return True

    def _skip_gap(self, error: OffsetOutOfRangeError) -> bool:
        """Go to where the log differs from what was read; else to its beginning or its end, whichever is nearer. Of a
        topic that was created again nothing has been read: to its beginning."""
        known, recreated = _of_truncation(error)
        unknown = [tp for tp in error.offsets if tp not in known]
        first = self._consumer.beginning_offsets(unknown, timeout=LOOK_UP_S) if unknown else {}
        last = self._consumer.end_offsets(unknown, timeout=LOOK_UP_S) if unknown else {}
        for tp, position in error.offsets.items():
            nearest = 0 if tp in recreated else position
            found = known.get(tp) or OffsetAndMetadata(min(max(nearest, first[tp]), last[tp]))
            self._go_on(tp, position, found, error)
        return True

    def _go_on(self, tp: TopicPartition, position: int, behind: OffsetAndMetadata, error: KafkaError) -> None:
        log.error("%s: going on at offset %d instead of %d: %s", tp, behind.offset, position, error)
        self._consumer.seek(tp, behind)


def _of_truncation(
    error: OffsetOutOfRangeError,
) -> tuple[Mapping[TopicPartition, OffsetAndMetadata], Collection[TopicPartition]]:
    """Where truncated logs part, and the partitions whose topic was created again."""
    if not isinstance(error, LogTruncationError):
        return {}, ()
    return error.divergent_offsets, error.recreated
