"""Record batches to produce: the smallest encoder that writes format 2 (KIP-98) with every codec.

kwire itself only reads records, so the suite has its own encoder. The broker checks the batches, and
`kwire.protocol.records` reads them back, so that a mistake of one side shows. Called by the checks that write.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

import cramjam
from fastcrc.crc32 import iscsi as crc32c

from kwire.clock import wall_clock_ms
from kwire.model import Header
from kwire.protocol.records import Codec

# leader epoch, magic, crc: everything between length and attributes
_HEAD = struct.Struct(">qiibI")
# attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, record count
_BODY = struct.Struct(">hiqqqhii")
_AFTER_LENGTH_BYTES = _HEAD.size - 12
_MAGIC = 2
_TRANSACTIONAL_BIT = 0x10
_GZIP_WBITS = 31  # zlib's number for the gzip wrapper with the full window


@dataclass(frozen=True, slots=True)
class RecordToWrite:
    """A record to write. `timestamp_ms` is since the epoch."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    # Not just any time: a broker begins a new segment when times are a week apart, and a fetch ends with a segment.
    timestamp_ms: int = field(default_factory=wall_clock_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The producer of a batch: an id and epoch from InitProducerId, or none."""

    producer_id: int = -1
    epoch: int = -1
    transactional: bool = False


NOBODY = Writer()


def encode_batch(
    *records: RecordToWrite, codec: Codec = Codec.NONE, producer: Writer = NOBODY, base_sequence: int = -1
) -> bytes:
    """One batch of format 2, with offsets from 0 as producers write them.

    Args:
        records: At least one.
        codec: How the records are compressed.
        producer: The producer.
        base_sequence: The sequence number of the first record; -1 for a producer without an id.
    """
    base_ms = records[0].timestamp_ms
    payload = b"".join(_record(index, record, base_ms) for index, record in enumerate(records))
    body = _BODY.pack(
        codec | (_TRANSACTIONAL_BIT if producer.transactional else 0),
        len(records) - 1,
        base_ms,
        max(record.timestamp_ms for record in records),
        producer.producer_id,
        producer.epoch,
        base_sequence,
        len(records),
    ) + compress(codec, payload)
    no_leader_epoch = -1  # the broker fills it in
    return _HEAD.pack(0, _AFTER_LENGTH_BYTES + len(body), no_leader_epoch, _MAGIC, crc32c(body)) + body


def compress(codec: Codec, payload: bytes) -> bytes:
    """The payload of a batch in the framing that Kafka wants for the codec."""
    match codec:
        case Codec.NONE:
            return payload
        case Codec.GZIP:
            deflater = zlib.compressobj(wbits=_GZIP_WBITS)
            return deflater.compress(payload) + deflater.flush()
        case Codec.SNAPPY:
            block = bytes(cramjam.snappy.compress_raw(payload))
            return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block  # xerial's stream of blocks
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(block_linked=False)  # Kafka's reader takes independent blocks only
            compressor.compress(payload)
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(payload))


def _record(index: int, record: RecordToWrite, base_ms: int) -> bytes:
    no_attributes = b"\x00"
    body = b"".join(
        [
            no_attributes,
            varint(record.timestamp_ms - base_ms),
            varint(index),
            _sized(record.key),
            _sized(record.value),
            varint(len(record.headers)),
            *(_sized(header.key.encode()) + _sized(header.value) for header in record.headers),
        ]
    )
    return varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def varint(value: int) -> bytes:
    """A zigzag varint, as records use them."""
    raw = value << 1 if value >= 0 else (~value << 1) | 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
