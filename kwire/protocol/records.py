"""Record sets: the names the rest of kwire uses, and `read_records`, which answers everything a record set holds.

A consumer goes through `iter_batches` (headers), `decode_columns` or `decode_available` (records as columns) and
`read_control`; `read_records` is for tools, the conformance suite and tests.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.model import Header, TimestampType
from kwire.protocol.compression import DEFAULT_LIMIT_BYTES, Codec
from kwire.protocol.record_batch import Batch, Buffer, iter_batches
from kwire.protocol.record_columns import RecordColumns
from kwire.protocol.record_control import ControlRecord, ControlType, read_control
from kwire.protocol.record_decoding import Decoded, decode_available, decode_columns
from kwire.protocol.record_packed import empty_columns

__all__ = [
    "Batch",
    "Buffer",
    "Codec",
    "iter_batches",
    "Decoded",
    "RecordColumns",
    "decode_available",
    "decode_columns",
    "empty_columns",
    "ControlRecord",
    "ControlType",
    "read_control",
    "StoredRecord",
    "read_records",
]


class StoredRecord(NamedTuple):
    """A record with all that its batch says of it, control records included. `timestamp` is in milliseconds."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    control: bool
    transactional: bool
    producer_id: int
    producer_epoch: int
    sequence: int
    partition_leader_epoch: int


def read_records(
    data: Buffer, check_crcs: bool = True, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> list[StoredRecord]:
    """Every record of a record set, for tools and tests; consumers work on columns.

    Raises:
        CorruptRecordError: Some batch is damaged.
    """
    return [
        record
        for batch in iter_batches(data, check_crcs=check_crcs)
        for record in _stored(batch, decode_columns([batch], check_crcs=check_crcs, limit_bytes=limit_bytes))
    ]


def _stored(batch: Batch, columns: RecordColumns) -> list[StoredRecord]:
    return [
        StoredRecord(
            offset,
            timestamp,
            TimestampType(timestamp_type),
            key,
            value,
            headers,
            batch.is_control,
            batch.is_transactional,
            batch.producer_id,
            batch.producer_epoch,
            _sequence(batch, offset - batch.base_offset),
            batch.partition_leader_epoch,
        )
        for offset, timestamp, timestamp_type, key, value, headers in zip(
            columns.offsets.tolist(),
            columns.timestamps.tolist(),
            columns.timestamp_types.tolist(),
            columns.keys(),
            columns.values(),
            columns.headers(),
            strict=True,
        )
    ]


def _sequence(batch: Batch, offset_delta: int) -> int:
    """Sequence numbers wrap from 2**31 - 1 to 0 (KIP-98); -1 means none."""
    if batch.base_sequence < 0:
        return -1
    return (batch.base_sequence + offset_delta) & 0x7FFFFFFF
