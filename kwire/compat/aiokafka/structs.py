"""The values of aiokafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from kwire.model import Record, TopicPartition

__all__ = ["ConsumerRecord", "OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition", "record_of"]

KT = TypeVar("KT")
VT = TypeVar("VT")


class OffsetAndMetadata(NamedTuple):
    """What is committed."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """What `offsets_for_times` answers."""

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
    """kwire's record as aiokafka's."""
    topic, partition, offset, timestamp, kind, key, value, headers, _, key_size, value_size = record
    return ConsumerRecord(
        topic, partition, offset, timestamp, kind._value_, key, value, None, key_size, value_size, headers
    )
