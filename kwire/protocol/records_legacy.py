"""Messages of magic 0 and 1, as logs written before Kafka 0.11 (and kept since) still hold them.

A compressed set is one wrapper message whose value holds the real ones. Their offsets are absolute in magic 0; in
magic 1 they are relative, and the wrapper carries the offset of the last (KIP-31). Contract: the same `RecordColumns`
as magic 2, one message at a time; nobody writes these any more, so clarity goes before speed. Called by
`record_decoding.py`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kwire.errors import CorruptRecordError
from kwire.lazy_numpy import np
from kwire.model import MAX_OFFSET
from kwire.protocol.compression import Codec, decompress
from kwire.protocol.record_batch import (
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MIN_MESSAGE_BYTES,
    Batch,
    Buffer,
    message_crc,
    read_message,
)
from kwire.protocol.record_columns import RecordColumns

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_SIZE = struct.Struct(">i")
# A set of messages becomes objects; a million are 26 MB of bytes at least, 26 times what brokers of that time take.
_MAX_MESSAGES = 1_000_000
# Behind offset, length, crc, magic and attributes; magic 1 adds the timestamp.
_KEY_AT = (18, 26)


class _LegacyMessage(NamedTuple):
    """One message; key and value as (start, length) in the joined buffer."""

    offset: int
    timestamp: int
    timestamp_type: int
    key_start: int
    key_length: int
    value_start: int
    value_length: int


def decode_message(batch: Batch, *, check_crcs: bool, limit_bytes: int) -> RecordColumns:
    """The records of one message: itself, or what it wraps.

    Raises:
        CorruptRecordError: A field beyond the message, a damaged or nested wrapper, a wrong inner checksum. It has no
            place yet; the caller knows it.
    """
    if batch.codec == Codec.NONE:
        message = bytes(batch.data[batch.position : batch.end])
        return _columns(message, [_read_row(batch._replace(data=message, position=0))])
    inner = bytes(_inflated(batch, limit_bytes))
    messages = _inner_messages(inner)
    base_offset = 0
    if batch.magic == 1:
        # Before KIP-31's conversion, and in some old clients, inner offsets are absolute; then this is simply 0.
        base_offset = max(0, batch.base_offset - messages[-1].base_offset)
    rows = [_inner_row(batch, message, base_offset, check_crcs=check_crcs) for message in messages]
    return _columns(inner, rows)


def _inflated(wrapper: Batch, limit_bytes: int) -> Buffer:
    if wrapper.codec == Codec.ZSTD:
        raise CorruptRecordError(f"zstd in a message of magic {wrapper.magic}, which has no such codec")
    row = _read_row(wrapper)
    if row.value_length < 0:
        raise CorruptRecordError("a compressed message set without a value")
    payload = memoryview(wrapper.data)[row.value_start : row.value_start + row.value_length]
    return decompress(wrapper.codec, payload, magic=wrapper.magic, limit_bytes=limit_bytes)


def _inner_messages(inner: bytes) -> list[Batch]:
    """The messages inside, at least one. One that the end cuts short is left out, as Java does."""
    messages: list[Batch] = []
    position = 0
    while position + LOG_OVERHEAD_BYTES <= len(inner):
        _, length_bytes = _OFFSET_AND_LENGTH.unpack_from(inner, position)
        end = position + LOG_OVERHEAD_BYTES + length_bytes
        if length_bytes < MIN_MESSAGE_BYTES:
            raise CorruptRecordError(f"an inner message of {length_bytes} bytes, the shortest has {MIN_MESSAGE_BYTES}")
        if end > len(inner):
            break
        if inner[position + MAGIC_AT] > 1:
            raise CorruptRecordError(f"an inner message of magic {inner[position + MAGIC_AT]}")
        if len(messages) == _MAX_MESSAGES:
            raise CorruptRecordError(f"a compressed message set of more than {_MAX_MESSAGES} messages")
        messages.append(read_message(inner, position, end))
        position = end
    if not messages:
        raise CorruptRecordError("a compressed message set without messages")
    return messages


def _inner_row(wrapper: Batch, message: Batch, base_offset: int, *, check_crcs: bool) -> _LegacyMessage:
    if message.codec != Codec.NONE:
        raise CorruptRecordError("a compressed message inside a compressed message set")
    if check_crcs and message_crc(message) != message.crc:
        raise CorruptRecordError(f"wrong checksum of the inner message at offset {message.base_offset}")
    row = _read_row(message)
    offset = row.offset + base_offset
    if offset > MAX_OFFSET:
        raise CorruptRecordError(f"an inner message at relative offset {row.offset}, beyond what an int64 holds")
    timestamp = row.timestamp
    if wrapper.is_log_append_time and message.magic == 1:
        timestamp = wrapper.max_timestamp  # the broker stamps the wrapper only (KIP-32)
    return row._replace(offset=offset, timestamp=timestamp, timestamp_type=wrapper.timestamp_type.value)


def _read_row(message: Batch) -> _LegacyMessage:
    key_start, key_length = _read_span(message, message.position + _KEY_AT[message.magic])
    value_start, value_length = _read_span(message, key_start + max(key_length, 0))
    return _LegacyMessage(
        message.base_offset,
        message.max_timestamp,
        message.timestamp_type.value,
        key_start,
        key_length,
        value_start,
        value_length,
    )


def _read_span(message: Batch, at: int) -> tuple[int, int]:
    """Where the bytes behind the int32 size at `at` start, and how many there are; -1 for null."""
    start = at + _SIZE.size
    if start > message.end:
        raise CorruptRecordError("it ends inside a field")
    (size,) = _SIZE.unpack_from(message.data, at)
    if start + size > message.end:
        raise CorruptRecordError(f"a key or value of {size} bytes where {message.end - start} are left")
    return start, max(size, -1)


def _columns(buffer: bytes, rows: list[_LegacyMessage]) -> RecordColumns:
    table = np.array(rows, dtype=np.int64).T
    offsets, timestamps, timestamp_types, key_starts, key_lengths, value_starts, value_lengths = table
    return RecordColumns(
        buffer=buffer,
        offsets=offsets,
        timestamps=timestamps,
        timestamp_types=timestamp_types.astype(np.int8),
        leader_epochs=np.full(len(rows), -1, dtype=np.int32),
        key_starts=key_starts,
        key_lengths=key_lengths,
        value_starts=value_starts,
        value_lengths=value_lengths,
    )
