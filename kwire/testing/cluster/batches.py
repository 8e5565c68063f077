"""Record batches written in format 2 (KIP-98): what `ClusterState.produce` puts in, markers, what compaction leaves.

Contract: pure; the log fills in offsets and the leader epoch. Called by `state`, `compaction` and `log`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from kwire.errors import InvalidArgumentError
from kwire.protocol.deflation import CODECS, deflate
from kwire.protocol.record_batch import LOG_APPEND_TIME_BIT, LOG_OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kwire.model import Header
    from kwire.protocol.record_batch import Batch

# base offset, length, leader epoch, magic, crc
_HEAD = struct.Struct(">qiibI")
# attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, record count
_BODY = struct.Struct(">hiqqqhii")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_MAGIC = 2
_TIMES_AT = 35

CRC_COVERS_FROM = 21
NO_PRODUCER = -1
NO_SEQUENCE = -1
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write. Without a timestamp (in ms since the epoch) it has that of the moment it is written."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


def one_record(given: Sequence[NewRecord | bytes], value: bytes | None, key: bytes | None) -> NewRecord:
    """The one record whose value and key are given as a producer has them.

    Args:
        given: The value, if it has no name.
        value: The value; None beside `given`, or for a record without one.
        key: None for none.

    Raises:
        InvalidArgumentError: There are several.
    """
    (one,) = given if len(given) == 1 else (None,)
    if len(given) > 1 or isinstance(one, NewRecord) or (one is not None and value is not None):
        raise InvalidArgumentError("value= and key= are of one record; give several as NewRecord(value, key)")
    return NewRecord(value if one is None else one, key)


class ChecksummedFields(NamedTuple):
    """The part of a batch's header that its checksum covers, in wire order."""

    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def of(cls, batch: Batch) -> ChecksummedFields:
        """The fields of a batch that was read."""
        return cls(
            batch.attributes,
            batch.last_offset_delta,
            batch.base_timestamp,
            batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.record_count,
        )


def build_batch(
    records: Iterable[NewRecord | bytes],
    *,
    timestamp_ms: int,
    codec: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytes:
    """One batch as producers write it, with offsets from 0. Plain bytes are a value without a key.

    Raises:
        InvalidArgumentError: There are no records, or one is neither bytes nor a NewRecord.
    """
    rows = [_row(record) for record in records]
    if not rows:
        raise InvalidArgumentError("a batch has at least one record")
    times = [timestamp_ms if row.timestamp_ms is None else row.timestamp_ms for row in rows]
    encoded = [
        record_bytes(delta, time_ms - times[0], row.key, row.value, row.headers)
        for delta, (row, time_ms) in enumerate(zip(rows, times, strict=True))
    ]
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0)
    fields = ChecksummedFields(
        attributes, len(rows) - 1, times[0], max(times), producer_id, producer_epoch, base_sequence, len(rows)
    )
    return framed(fields, compress(codec, b"".join(encoded)))


def _row(record: object) -> NewRecord:
    """Raises: InvalidArgumentError; not all tests are type-checked."""
    if isinstance(record, NewRecord):
        _check_fields(record)
        return record
    if isinstance(record, bytes):
        return NewRecord(record)
    raise InvalidArgumentError(
        f"a record is bytes (its value), or a NewRecord, with value=None for a deletion; not {type(record).__name__}"
    )


def _check_fields(record: NewRecord) -> None:
    for name, value in (("key", record.key), ("value", record.value)):
        if not isinstance(value, bytes | None):
            raise InvalidArgumentError(f"the {name} of a NewRecord is bytes or None, not {type(value).__name__}")
    if not all(map(_is_header, record.headers)):
        raise InvalidArgumentError(f'headers are pairs, (("name", b"value"),); not {record.headers!r}')


def _is_header(header: object) -> bool:
    match header:
        case (str(), bytes() | None):
            return True
        case _:
            return False


def transaction_marker(
    producer_id: int, producer_epoch: int, *, committed: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """The control batch that ends a transaction (KIP-98): its key names the version and the kind, 0 abort, 1 commit."""
    record = record_bytes(0, 0, _MARKER_KEY.pack(0, int(committed)), _MARKER_VALUE.pack(0, coordinator_epoch), ())
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    return framed(
        ChecksummedFields(attributes, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, -1, 1), record
    )


def framed(fields: ChecksummedFields, payload: bytes, *, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """A whole batch around its (compressed) records."""
    body = _BODY.pack(*fields) + payload
    length_bytes = _HEAD.size - LOG_OVERHEAD_BYTES + len(body)
    return _HEAD.pack(base_offset, length_bytes, leader_epoch, _MAGIC, crc32c(body)) + body


def placed(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The batch with its base offset and leader epoch. The checksum covers neither, so it stays valid."""
    return b"".join((struct.pack(">q", base_offset), batch[8:12], struct.pack(">i", leader_epoch), batch[16:]))


def with_times(batch: Batch, max_timestamp_ms: int, *, appended: bool) -> bytes:
    """The batch with another largest timestamp, or, `appended`, with this one for all of its records (KIP-32)."""
    data = bytes(batch.data[batch.position : batch.end])
    attributes = batch.attributes | LOG_APPEND_TIME_BIT if appended else batch.attributes & ~LOG_APPEND_TIME_BIT
    body = struct.pack(">h", attributes) + data[23:_TIMES_AT] + struct.pack(">q", max_timestamp_ms) + data[43:]
    return data[:17] + struct.pack(">I", crc32c(body)) + body


def record_bytes(
    offset_delta: int, timestamp_delta_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> bytes:
    """One record, preceded by its length."""
    no_attributes = b"\x00"
    parts = [no_attributes, varint(timestamp_delta_ms), varint(offset_delta), _sized(key), _sized(value)]
    parts.append(varint(len(headers)))
    for name, content in headers:
        parts += (_sized(name.encode()), _sized(content))
    body = b"".join(parts)
    return varint(len(body)) + body


def compress(codec: int, payload: bytes) -> bytes:
    """The records of a batch in the framing that Kafka wants for the codec."""
    if codec not in CODECS:
        raise InvalidArgumentError(
            f"unknown compression codec id {codec}; known are 0 to 4 (none gzip snappy lz4 zstd)"
        )
    return deflate(codec, payload)


def varint(value: int) -> bytes:
    """A zigzag varint, as records use them."""
    raw = value << 1 if value >= 0 else (~value << 1) | 1
    if raw < 0x80:
        return bytes((raw,))
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
