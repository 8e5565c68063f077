"""Writes record batches (magic 2) for tests: a plain encoder that shares no line with kwire's decoder."""

from __future__ import annotations

import struct

import google_crc32c

TIMESTAMP = 1_700_000_000_000
TRANSACTIONAL = 0x10
CONTROL = 0x20
NO_PRODUCER = -1
ABORT, COMMIT = 0, 1


def batch(
    *offsets: int,
    end: int | None = None,
    values: dict[int, bytes] | None = None,
    key: bytes | None = None,
    producer_id: int = NO_PRODUCER,
    attributes: int = 0,
    epoch: int = 5,
) -> bytes:
    """A batch with a record at each offset, whose value is the offset in decimal unless `values` says otherwise. All
    have this key.

    `end` is the last offset the batch covers when compaction has removed its last records; it may have none left.
    """
    if not offsets and end is None:
        raise ValueError("a batch covers at least one offset: name a record, or the end")
    base = offsets[0] if offsets else end or 0
    payloads = values or {}
    records = b"".join(_record(offset - base, payloads.get(offset, b"%d" % offset), key) for offset in offsets)
    last = end if end is not None else offsets[-1]
    return _framed(records, base, last, len(offsets), producer_id, attributes, epoch)


def transactional(*offsets: int, producer_id: int) -> bytes:
    return batch(*offsets, producer_id=producer_id, attributes=TRANSACTIONAL)


def marker(offset: int, kind: int, *, producer_id: int) -> bytes:
    """The control batch that ends a transaction (KIP-98)."""
    record = _record(0, struct.pack(">hi", 0, 0), key=struct.pack(">hh", 0, kind))
    return _framed(record, offset, offset, 1, producer_id, TRANSACTIONAL | CONTROL, 5)


def damaged(data: bytes) -> bytes:
    """The same batch with its last byte changed: framing is good, the checksum is not."""
    return data[:-1] + bytes([data[-1] ^ 0xFF])


def misframed(data: bytes) -> bytes:
    """The same batch with a length that no batch can have."""
    return data[:8] + struct.pack(">i", 3) + data[12:]


def _framed(records: bytes, base: int, last: int, count: int, producer_id: int, attributes: int, epoch: int) -> bytes:
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        last - base,
        TIMESTAMP,
        TIMESTAMP,
        producer_id,
        0 if producer_id >= 0 else -1,
        -1,
        count,
    )
    covered += records
    return struct.pack(">qiibI", base, len(covered) + 9, epoch, 2, google_crc32c.value(covered)) + covered


def _record(offset_delta: int, value: bytes, key: bytes | None = None) -> bytes:
    body = b"\0" + _varint(0) + _varint(offset_delta) + _field(key) + _field(value) + _varint(0)
    return _varint(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])
