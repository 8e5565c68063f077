"""Codec id -> bounded decompression of one batch's payload, in the framings Kafka uses.

Contract: `decompress` answers all bytes or raises `CorruptRecordError`; it never asks for more than `limit_bytes` of
memory for its output, whatever the payload claims. Bounds come from walking the frames, never from a content-size
field. `decompress_into` does the same for many batches in one buffer. Called by `record_payloads.py` and
`records_legacy.py`.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import cramjam

from kwire.errors import CorruptRecordError
from kwire.protocol.compression_buffer import InflationBuffer
from kwire.protocol.compression_frames import lone_lz4_block, lz4_frame, zstd_output_bound
from kwire.protocol.gzip_library import isal_or_zlib
from kwire.protocol.zstd_library import ZstdError, inflate_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.protocol.compression_buffer import Room
    from kwire.protocol.compression_frames import Lz4Block

Bytes: TypeAlias = bytes | memoryview

# A producer fills a batch with at most max.request.size of uncompressed data (1 MiB by default) and brokers refuse
# batches over message.max.bytes (1 MiB too). 128 times that leaves room for clusters tuned far beyond the defaults.
DEFAULT_LIMIT_BYTES = 128 * 1024 * 1024

# xerial's snappy-java: magic, then version and lowest compatible version as int32; then blocks: int32 size, raw snappy.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
# A snappy copy element is 2 to 5 bytes long and yields at most 64, so no block grows by more than this.
_SNAPPY_MAX_RATIO = 32

# RFC 1952: every member starts with these two bytes. 16 + 15 asks for the gzip wrapper with the full window.
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = 31
_GZIP = isal_or_zlib()


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
    target = InflationBuffer()
    decompress_into(target, codec, data, magic=magic, limit_bytes=limit_bytes)
    return target.finish()


def decompress_into(
    target: InflationBuffer, codec: int, data: Bytes, *, magic: int = 2, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> None:
    """Inflate `data` behind what is in `target` already; arguments and errors as for `decompress`."""
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise CorruptRecordError(f"unknown compression codec id {codec}; known are 0 to 4 (none gzip snappy lz4 zstd)")
    if not magic and codec == Codec.LZ4:
        inflate = partial(_lz4, fix_checksum=True)
    inflate(target, data, limit_bytes)


def _copy(target: InflationBuffer, data: Bytes, _limit_bytes: int = 0) -> None:
    size_bytes = len(data)
    target.room(size_bytes)[:] = memoryview(data)  # of bytes numpy would make one number
    target.took(size_bytes)


def _gzip(target: InflationBuffer, data: Bytes, limit_bytes: int) -> None:
    """Inflate one member after the other (RFC 1952 §2.2). What follows the last is ignored, as by Java's stream."""
    room_bytes = limit_bytes
    rest = data
    inflater = None
    while inflater is None or rest[:2] == _GZIP_MAGIC:
        inflater = _GZIP.inflater(_GZIP_WBITS)
        try:
            # One byte over the limit is asked for, to tell "exactly full" from "more to come".
            member = inflater.decompress(rest, room_bytes + 1)
        except _GZIP.error as error:
            raise CorruptRecordError(f"undecodable gzip payload: {error}") from error
        room_bytes -= len(member)
        if room_bytes < 0:
            raise _too_large("gzip", limit_bytes)
        if not inflater.eof:
            raise CorruptRecordError(f"undecodable gzip payload: it ends too early, after {len(data)} bytes")
        _copy(target, member)
        rest = inflater.unused_data


def _snappy(target: InflationBuffer, data: Bytes, limit_bytes: int) -> None:
    """Java producers write xerial's stream of blocks, some others (and old ones) a single raw block."""
    view = memoryview(data)
    room_bytes = limit_bytes
    for block in _xerial_blocks(view) if view[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC else (view,):
        size = _snappy_size(block)
        room_bytes -= size
        if room_bytes < 0:
            raise _too_large("snappy", limit_bytes)
        try:
            target.took(cramjam.snappy.decompress_raw_into(block, target.room(size)))  # type: ignore[arg-type]  # as below
        except cramjam.DecompressionError as error:
            raise CorruptRecordError(f"undecodable snappy payload: {error}") from error


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """The raw blocks. A header in place of a block starts a further stream, written by appending."""
    position, end = 0, len(data)
    while position < end:
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += _XERIAL_HEADER_BYTES
            continue
        start = position + 4
        size = int.from_bytes(data[position:start], "big", signed=True)
        position = start + size
        if size < 0 or position > end:
            raise CorruptRecordError(
                f"undecodable snappy payload: a block of {size} bytes at {start} in a payload of {end}"
            )
        yield data[start:position]
    if position != end:
        raise CorruptRecordError("undecodable snappy payload: the xerial header is cut short")


def _snappy_size(block: memoryview) -> int:
    """What the block says it inflates to, once that is possible at all."""
    if not len(block):
        raise CorruptRecordError("undecodable snappy payload: an empty block")
    try:
        size = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"undecodable snappy payload: {error}") from error
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptRecordError(f"undecodable snappy payload: {len(block)} bytes cannot become {size}")
    return size


def _lz4(target: InflationBuffer, data: Bytes, limit_bytes: int, *, fix_checksum: bool = False) -> None:
    lone = None if fix_checksum else lone_lz4_block(data)
    if lone is not None and lone[1] <= limit_bytes:
        (start, end, stored), bound_bytes = lone
        block = memoryview(data)[start:end]
        if stored:
            _copy(target, block)
        else:
            _lone_lz4_block(target, block, bound_bytes)
        return
    frame = lz4_frame(data, fix_checksum=fix_checksum)
    if frame.blocks is None:
        inflate: Callable[[Room], int] = partial(cramjam.lz4.decompress_into, frame.data)
    else:
        # Block by block is four times as fast as a whole frame (measured), which is staged through two more buffers.
        inflate = partial(_inflate_lz4_blocks, frame.data, frame.blocks, frame.block_bytes)
    _inflate_bounded(target, "lz4", inflate, frame.bound_bytes, limit_bytes)


def _lone_lz4_block(target: InflationBuffer, block: memoryview, bound_bytes: int) -> None:
    try:
        target.took(_lz4_block(block, target.room(bound_bytes), bound_bytes))
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"undecodable lz4 payload: {error}") from error


def _lz4_block(block: memoryview, room: Room, most_bytes: int) -> int:
    # Numpy says to type checkers that an array is a buffer only from Python 3.12 on.
    return cramjam.lz4.decompress_block_into(block, room, most_bytes)  # type: ignore[arg-type]


def _inflate_lz4_blocks(data: Bytes, blocks: Sequence[Lz4Block], block_bytes: int, room: Room) -> int:
    view = memoryview(data)
    room_bytes = len(room)
    written = 0
    for start, end, stored in blocks:
        block = view[start:end]
        behind = min(written + block_bytes, room_bytes)
        if not stored:
            written += _lz4_block(block, room[written:behind], behind - written)
        elif len(block) <= room_bytes - written:
            behind = written + len(block)
            room[written:behind] = block
            written = behind
        else:
            problem = f"a stored block of {len(block)} bytes where {room_bytes - written} are left"
            raise cramjam.DecompressionError(problem)
    return written


def _zstd(target: InflationBuffer, data: Bytes, limit_bytes: int) -> None:
    # No payload at all is an empty stream to Java's reader as well.
    if len(data):
        inflate = partial(inflate_zstd, data)
        _inflate_bounded(target, "zstd", inflate, zstd_output_bound(data), limit_bytes)


def _inflate_bounded(
    target: InflationBuffer, name: str, inflate: Callable[[Room], int], bound_bytes: int, limit_bytes: int
) -> None:
    """Inflate into room for `bound_bytes`, the most that the blocks can become, or for the limit, if that is less: then
    a payload that is too large fails."""
    try:
        _inflate(target, name, inflate, min(bound_bytes, limit_bytes))
    except CorruptRecordError as error:
        if bound_bytes <= limit_bytes:
            raise
        raise CorruptRecordError(f"{_too_large(name, limit_bytes).problem}, or damaged: {error.problem}") from error


def _inflate(target: InflationBuffer, name: str, inflate: Callable[[Room], int], bound_bytes: int) -> None:
    try:
        target.take(inflate, bound_bytes)
    except (cramjam.DecompressionError, ZstdError) as error:
        raise CorruptRecordError(f"undecodable {name} payload: {error}") from error


def _too_large(name: str, limit_bytes: int) -> CorruptRecordError:
    return CorruptRecordError(f"{name} payload inflates beyond the limit of {limit_bytes} bytes")


_INFLATE: dict[int, Callable[[InflationBuffer, Bytes, int], None]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
