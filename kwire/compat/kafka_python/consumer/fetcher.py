"""The records of kafka-python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kwire.model import Header, Record

__all__ = ["ConsumerRecord", "record_of"]

_new = tuple.__new__  # ConsumerRecord() takes twice as long


class ConsumerRecord(NamedTuple):
    """One record."""

    topic: str
    partition: int
    leader_epoch: int | None
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


def record_of(record: Record[object, object]) -> ConsumerRecord:
    """kwire's record as kafka-python's."""
    topic, partition, offset, timestamp, kind, key, value, headers, epoch, key_size, value_size = record
    return _new(
        ConsumerRecord,
        (
            topic,
            partition,
            epoch,
            offset,
            timestamp,
            kind._value_,
            key,
            value,
            list(headers),
            None,
            key_size,
            value_size,
            _size(headers) if headers else -1,
        ),
    )


def _size(headers: Sequence[Header]) -> int:
    size_bytes = 0
    for key, value in headers:
        size_bytes += len(key) if key.isascii() else len(key.encode())
        if value:
            size_bytes += len(value)
    return size_bytes
