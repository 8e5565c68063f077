"""aiokafka's value types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from kwire.model import Record, TopicPartition

__all__ = ["ConsumerRecord", "OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition", "record_of"]

KT = TypeVar("KT")
VT = TypeVar("VT")
_new = object.__new__


class OffsetAndMetadata(NamedTuple):
    """A committed offset."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """The result of `offsets_for_times` for one partition."""

    offset: int
    timestamp: int | None


@dataclass
class ConsumerRecord(Generic[KT, VT]):
    """One record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: KT | None
    value: VT | None
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[tuple[str, bytes | None]]


def record_of(record: Record[KT, VT]) -> ConsumerRecord[KT, VT]:
    """aiokafka's record for one of kwire's. Not made by `__init__`, which takes half as long again."""
    found: ConsumerRecord[KT, VT] = _new(ConsumerRecord)
    topic, partition, offset, timestamp, kind, key, value, headers, _, key_size, value_size = record
    found.topic, found.partition, found.offset = topic, partition, offset
    found.timestamp, found.timestamp_type = timestamp, kind._value_
    found.key, found.value, found.headers = key, value, headers
    found.checksum, found.serialized_key_size, found.serialized_value_size = None, key_size, value_size
    return found
