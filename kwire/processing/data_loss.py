"""How to go on behind records that cannot be had, where the user says so: `on_data_loss="skip"`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Protocol

from kwire.errors import CorruptRecordError, KafkaError, LogTruncationError, OffsetOutOfRangeError
from kwire.model import OffsetAndMetadata, TopicPartition

log = logging.getLogger(__name__)

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


def go_on_behind(error: CorruptRecordError | OffsetOutOfRangeError, consumer: SeekingConsumer) -> bool:
    """Seek behind what is lost, and log which offsets that leaves out. Whether that could be done: without an answer of
    the broker it cannot."""
    try:
        return _pass_damage(error, consumer) if isinstance(error, CorruptRecordError) else _pass_gap(error, consumer)
    except KafkaError as failure:
        log.warning("nobody knows where to go on behind %s: %s", error, failure)
        return False


def _pass_damage(error: CorruptRecordError, consumer: SeekingConsumer) -> bool:
    """To the next sound batch, or offset by offset where that is not known: the broker sends the damaged batch again as
    long as the position is inside it."""
    if error.topic is None or error.partition is None or error.offset is None:
        return False
    tp = TopicPartition(error.topic, error.partition)
    _go_on(consumer, tp, error.offset, OffsetAndMetadata(error.next_offset or error.offset + 1), error)
    return True


def _pass_gap(error: OffsetOutOfRangeError, consumer: SeekingConsumer) -> bool:
    """To where the log differs from what was read, to its beginning, or to its end: what is nearest."""
    known = dict(error.divergent_offsets) if isinstance(error, LogTruncationError) else {}
    unknown = [tp for tp in error.offsets if tp not in known]
    first = consumer.beginning_offsets(unknown, timeout=LOOK_UP_S) if unknown else {}
    last = consumer.end_offsets(unknown, timeout=LOOK_UP_S) if unknown else {}
    for tp, position in error.offsets.items():
        found = known.get(tp) or OffsetAndMetadata(min(max(position, first[tp]), last[tp]))
        _go_on(consumer, tp, position, found, error)
    return True


def _go_on(
    consumer: SeekingConsumer, tp: TopicPartition, position: int, behind: OffsetAndMetadata, error: KafkaError
) -> None:
    log.error("%s: going on at offset %d instead of %d: %s", tp, behind.offset, position, error)
    consumer.seek(tp, behind)
