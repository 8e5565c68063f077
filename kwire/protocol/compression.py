"""Codec id -> bounded decompression of one batch's payload, in the framings Kafka uses.

Contract: `decompress` answers all bytes or raises `CorruptRecordError`; it never allocates more than `limit_bytes`
for its output, whatever the payload claims. Bounds come from walking the frames, never from a content-size field.
Called by `records.py` and `records_legacy.py`.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import cramjam

from kwire.errors import CorruptRecordError
from kwire.protocol.compression_frames import lz4_frame, zstd_output_bound

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes: TypeAlias = bytes | memoryview

# A producer fills a batch with at most max.request.size of uncompressed data (1 MiB by default) and brokers refuse
# batches over message.max.bytes (1 MiB too). 128 times that leaves room for clusters tuned far beyond the defaults.
DEFAULT_LIMIT_BYTES = 128 * 1024 * 1024

# xerial's snappy-java: magic, then version and lowest compatible version as int32; then blocks: int32 size, raw snappy.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
# A snappy copy element is 2 to 5 bytes long and yields at most 64, so no block grows by more than this.
_SNAPPY_MAX_RATIO = 32

# RFC 1952: every member starts with these two bytes. 16 + 15 asks zlib for the gzip wrapper with the full window.
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = 31


class Codec(IntEnum):
    """The low three bits of a batch's attributes. Names are Kafka's `compression.type` in capitals."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4  # KIP-110, magic 2 only


def decompress(codec: int, data: Bytes, *, magic: int = 2, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Bytes:
    """Inflate `data`.

    Args:
        codec: The codec id of the batch.
        data: The batch's payload.
        magic: The batch's format; magic 0 has lz4 frames with a wrong header checksum (KIP-57).
        limit_bytes: The most the answer may hold.

    Raises:
        CorruptRecordError: Unknown codec, undecodable payload, or one that inflates beyond the limit.
    """
    if codec == Codec.NONE:
        return data
    if codec == Codec.LZ4:
        return _lz4(data, limit_bytes, fix_checksum=magic == 0)
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise CorruptRecordError(f"unknown compression codec id {codec}; known are 0 to 4 (none gzip snappy lz4 zstd)")
    return inflate(data, limit_bytes)


def _gzip(data: Bytes, limit_bytes: int) -> bytes:
    """One member after the other (RFC 1952 §2.2). What follows the last one is ignored, as Java's stream does."""
    members: list[bytes] = []
    room_bytes = limit_bytes
    rest = data
    while not members or rest[:2] == _GZIP_MAGIC:
        inflater = zlib.decompressobj(_GZIP_WBITS)
        try:
            # One byte over the limit is asked for, to tell "exactly full" from "more to come".
            member = inflater.decompress(rest, room_bytes + 1)
        except zlib.error as error:
            raise CorruptRecordError(f"undecodable gzip payload: {error}") from error
        room_bytes -= len(member)
        if room_bytes < 0:
            raise _too_large("gzip", limit_bytes)
        if not inflater.eof:
            raise CorruptRecordError(f"undecodable gzip payload: it ends too early, after {len(data)} bytes")
        members.append(member)
        rest = inflater.unused_data
    return members[0] if len(members) == 1 else b"".join(members)


def _snappy(data: Bytes, limit_bytes: int) -> bytes:
    """Java producers write xerial's stream of blocks, some others (and old ones) a single raw block."""
    if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        blocks = _xerial_blocks(memoryview(data))
    else:
        blocks = [memoryview(data)]
    sizes = [_snappy_size(block) for block in blocks]
    if sum(sizes) > limit_bytes:
        raise _too_large("snappy", limit_bytes)
    if len(blocks) == 1:
        return _snappy_block(blocks[0], sizes[0])
    return b"".join(map(_snappy_block, blocks, sizes))


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """The raw blocks. A header in place of a block starts a further stream, written by appending."""
    blocks: list[memoryview] = []
    position = 0
    while position < len(data):
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += _XERIAL_HEADER_BYTES
            continue
        start = position + 4
        size = int.from_bytes(data[position:start], "big", signed=True)
        position = start + size
        if size < 0 or position > len(data):
            raise CorruptRecordError(
                f"undecodable snappy payload: a block of {size} bytes at {start} in a payload of {len(data)}"
            )
        blocks.append(data[start:position])
    if position != len(data):
        raise CorruptRecordError("undecodable snappy payload: the xerial header is cut short")
    return blocks


def _snappy_size(block: memoryview) -> int:
    """What the block says it inflates to, once that is possible at all."""
    try:
        size = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"undecodable snappy payload: {error}") from error
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptRecordError(f"undecodable snappy payload: {len(block)} bytes cannot become {size}")
    return size


def _snappy_block(block: memoryview, size: int) -> bytes:
    if not len(block):
        raise CorruptRecordError("undecodable snappy payload: an empty block")
    return _inflate_into(cramjam.snappy.decompress_raw_into, "snappy", block, size)


def _lz4(data: Bytes, limit_bytes: int, *, fix_checksum: bool) -> bytes:
    frame, bound_bytes = lz4_frame(data, fix_checksum=fix_checksum)
    return _inflate_bounded(cramjam.lz4.decompress_into, "lz4", frame, bound_bytes, limit_bytes)


def _zstd(data: Bytes, limit_bytes: int) -> bytes:
    # No payload at all is an empty stream to Java's reader as well.
    if not len(data):
        return b""
    return _inflate_bounded(cramjam.zstd.decompress_into, "zstd", data, zstd_output_bound(data), limit_bytes)


def _inflate_bounded(
    inflate: Callable[[Bytes, bytearray], int], name: str, data: Bytes, bound_bytes: int, limit_bytes: int
) -> bytes:
    """Inflate into a buffer of the bound, which no block can exceed; the limit cuts that, and then too much fails."""
    try:
        return _inflate_into(inflate, name, data, min(bound_bytes, limit_bytes))
    except CorruptRecordError as error:
        if bound_bytes <= limit_bytes:
            raise
        raise CorruptRecordError(f"{_too_large(name, limit_bytes).problem}, or damaged: {error.problem}") from error


def _inflate_into(inflate: Callable[[Bytes, bytearray], int], name: str, data: Bytes, size: int) -> bytes:
    target = bytearray(size)
    try:
        written = inflate(data, target)
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"undecodable {name} payload: {error}") from error
    # A copy of what is used, so that thousands of small batches do not each keep a buffer of their bound alive.
    return bytes(memoryview(target)[:written])


def _too_large(name: str, limit_bytes: int) -> CorruptRecordError:
    return CorruptRecordError(f"{name} payload inflates beyond the limit of {limit_bytes} bytes")


_INFLATE: dict[int, Callable[[Bytes, int], bytes]] = {Codec.GZIP: _gzip, Codec.SNAPPY: _snappy, Codec.ZSTD: _zstd}
