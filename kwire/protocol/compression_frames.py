"""Walks lz4 and zstd frames to learn, before inflating, the most they can become.

Contract: pure functions over bytes; they allocate nothing that grows with what the frame claims, and raise
`CorruptRecordError` on headers that do not parse. The block walk decides how large a buffer the codec gets, so the
optional content-size fields are never believed. Called by `compression.py` alone.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from kwire.errors import CorruptRecordError

# --- lz4 frame format 1.6.x ----------------------------------------------------------------------------------

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_WORD = struct.Struct("<I")
_LZ4_END_MARK = (0,)
_LZ4_LEAST_HEADER_BYTES = 7
# The shortest header, and the size of the first block.
_LZ4_HEADER_AND_WORD = struct.Struct("<7sI")
_LONE_BLOCK_AT = _LZ4_HEADER_AND_WORD.size
_LZ4_UNCOMPRESSED_BIT = 0x80000000
# The format's block ids 4..7: 64 KiB, 256 KiB, 1 MiB, 4 MiB.
_LZ4_BLOCK_BYTES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
# Each further length byte of a match adds at most 255 bytes, so a block cannot grow by more; 64 covers tiny blocks.
_LZ4_MAX_RATIO = 255
_LZ4_SLACK_BYTES = 64


_LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_BLOCK_CHECKSUMS, _LZ4_DICTIONARY_ID = 0x08, 0x04, 0x10, 0x01
_LZ4_CHECKSUM_BYTES = 4
# Version 01 and independent blocks; a content size and checksums are allowed, but no dictionary or reserved bit.
# Checksums are passed over: that of the batch covers the same bytes, and to check twice takes three times as long.
# Java looks at those of blocks, not at that of the content. Producers in Go and Python write them.
_LZ4_SIMPLE = 0x60
_LZ4_CHECKSUMS = _LZ4_CONTENT_CHECKSUM | _LZ4_BLOCK_CHECKSUMS
_LZ4_SIMPLE_MASK = 0xFF & ~(_LZ4_CONTENT_SIZE | _LZ4_CHECKSUMS)


Lz4Block: TypeAlias = tuple[int, int, bool]
"""Where a block of a frame starts and ends, and whether it is stored as it is, not compressed."""


class Lz4Frame(NamedTuple):
    """One frame, and the most it inflates to.

    `blocks` is None when they cannot be inflated one by one: as a rule because each refers to the one before.
    """

    data: bytes | memoryview
    bound_bytes: int
    block_bytes: int
    blocks: list[Lz4Block] | None


class _Lz4Header(NamedTuple):
    """What the header in front of a frame's blocks says: what lies behind each block and behind the end mark, and the
    checksum that the header should have."""

    size_bytes: int
    flags: int
    block_bytes: int
    behind_block_bytes: int
    behind_frame_bytes: int
    checksum: int
    has_its_checksum: bool


def lz4_frame(data: bytes | memoryview, *, fix_checksum: bool) -> Lz4Frame:
    """The one frame at the start of `data`. Java too stops at its end mark.

    `fix_checksum` rewrites the header checksum: with magic 0 Kafka's clients computed it over the wrong bytes,
    which KIP-57 kept for that format and mended from magic 1 on.
    """
    if len(data) < _LZ4_LEAST_HEADER_BYTES:
        raise CorruptRecordError(f"undecodable lz4 payload: {len(data)} bytes are less than a frame header")
    header = _lz4_header(bytes(data[: _LZ4_LEAST_HEADER_BYTES + _lz4_optional_bytes(data[4])]))
    end, bound_bytes, blocks = _lz4_blocks(data, header)
    frame = data[:end]
    is_simple = header.flags & _LZ4_SIMPLE_MASK == _LZ4_SIMPLE and (fix_checksum or header.has_its_checksum)
    if fix_checksum and not is_simple:
        mended = bytearray(frame)
        mended[header.size_bytes - 1] = header.checksum
        frame = bytes(mended)
    return Lz4Frame(frame, bound_bytes, header.block_bytes, blocks if is_simple else None)


def lone_lz4_block(data: bytes | memoryview) -> tuple[Lz4Block, int] | None:
    """The block of a frame that has only one, and no content size, and the most it inflates to: what most producers
    write of a batch of up to 64 KiB. None: the frame is another one, or damaged; `lz4_frame` says so.

    Of such small batches a third of the time goes into the walk through their frames.
    """
    size = len(data)
    if size < _LONE_BLOCK_AT + 4 or data[4] & ~_LZ4_CHECKSUMS != _LZ4_SIMPLE:
        return None
    raw, word = _LZ4_HEADER_AND_WORD.unpack_from(data)
    header = _lz4_header(raw)
    stored = word >= _LZ4_UNCOMPRESSED_BIT
    block_bytes = word & ~_LZ4_UNCOMPRESSED_BIT
    end = _LONE_BLOCK_AT + block_bytes
    mark = end + header.behind_block_bytes
    # Without a block the first word is the end mark itself.
    if not word or mark + 4 + header.behind_frame_bytes > size or not header.has_its_checksum:
        return None
    if _LZ4_WORD.unpack_from(data, mark) != _LZ4_END_MARK:
        return None
    bound_bytes = block_bytes if stored else min(header.block_bytes, block_bytes * _LZ4_MAX_RATIO + _LZ4_SLACK_BYTES)
    return (_LONE_BLOCK_AT, end, stored), bound_bytes


class Lz4Frames(NamedTuple):
    """The header that all frames of a producer begin with, and what it means. Their blocks can be inflated one by one,
    and they have no content size."""

    header: bytes
    block_bytes: int
    behind_block_bytes: int
    behind_frame_bytes: int


NO_LZ4_FRAMES = Lz4Frames(b"\0", 0, 0, 0)
"""Where there are no lz4 payloads: no frame has this header."""


def lz4_frames_like(data: bytes | memoryview) -> Lz4Frames | None:
    """What the frame at the start of `data` has in common with others of its producer. None: it is of another kind, or
    damaged; `lz4_frame` says which."""
    raw = bytes(data[:_LZ4_LEAST_HEADER_BYTES])
    if len(raw) < _LZ4_LEAST_HEADER_BYTES or raw[4] & ~_LZ4_CHECKSUMS != _LZ4_SIMPLE:
        return None
    try:
        header = _lz4_header(raw)
    except CorruptRecordError:
        return None
    if not header.has_its_checksum:
        return None
    return Lz4Frames(raw, header.block_bytes, header.behind_block_bytes, header.behind_frame_bytes)


def _lz4_optional_bytes(flags: int) -> int:
    return (8 if flags & _LZ4_CONTENT_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY_ID else 0)


@lru_cache(maxsize=64)
def _lz4_header(header: bytes) -> _Lz4Header:
    """A producer writes the same one in front of every batch."""
    if header[:4] != _LZ4_MAGIC:
        raise CorruptRecordError(f"undecodable lz4 payload: it starts with {header[:4].hex()}, no lz4 frame")
    flags, block_id = header[4], header[5] >> 4 & 7
    block_bytes = _LZ4_BLOCK_BYTES.get(block_id)
    if block_bytes is None:
        raise CorruptRecordError(f"undecodable lz4 payload: unknown block size id {block_id}")
    checksum = xxh32_small(header[4:-1]) >> 8 & 0xFF
    behind_block_bytes = _LZ4_CHECKSUM_BYTES if flags & _LZ4_BLOCK_CHECKSUMS else 0
    behind_frame_bytes = _LZ4_CHECKSUM_BYTES if flags & _LZ4_CONTENT_CHECKSUM else 0
    return _Lz4Header(
        len(header), flags, block_bytes, behind_block_bytes, behind_frame_bytes, checksum, checksum == header[-1]
    )


def _lz4_blocks(data: bytes | memoryview, header: _Lz4Header) -> tuple[int, int, list[Lz4Block]]:
    """Where the frame ends, the most its blocks inflate to, and those."""
    bound_bytes = 0
    blocks: list[Lz4Block] = []
    position, end = header.size_bytes, len(data)
    while position + 4 <= end:
        (word,) = _LZ4_WORD.unpack_from(data, position)
        start = position + 4
        if word == 0:
            end_of_frame = start + header.behind_frame_bytes
            if end_of_frame > end:
                break
            return end_of_frame, bound_bytes, blocks
        stored = word >= _LZ4_UNCOMPRESSED_BIT
        size = word & ~_LZ4_UNCOMPRESSED_BIT
        blocks.append((start, start + size, stored))
        bound_bytes += size if stored else min(header.block_bytes, size * _LZ4_MAX_RATIO + _LZ4_SLACK_BYTES)
        position = start + size + header.behind_block_bytes
    raise CorruptRecordError("undecodable lz4 payload: it ends before its frame does")


_XXH_PRIME_1, _XXH_PRIME_2, _XXH_PRIME_3 = 2654435761, 2246822519, 3266489917
_XXH_PRIME_4, _XXH_PRIME_5 = 668265263, 374761393
_U32 = 0xFFFFFFFF


def xxh32_small(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes: all an lz4 frame descriptor can have."""
    if len(data) >= 16:
        raise ValueError(f"xxh32_small hashes up to 15 bytes, got {len(data)}")
    acc = _XXH_PRIME_5 + len(data)
    words = len(data) // 4 * 4
    for at in range(0, words, 4):
        acc = acc + int.from_bytes(data[at : at + 4], "little") * _XXH_PRIME_3 & _U32
        acc = _rotated(acc, 17) * _XXH_PRIME_4 & _U32
    for byte in data[words:]:
        acc = acc + byte * _XXH_PRIME_5 & _U32
        acc = _rotated(acc, 11) * _XXH_PRIME_1 & _U32
    acc = (acc ^ acc >> 15) * _XXH_PRIME_2 & _U32
    acc = (acc ^ acc >> 13) * _XXH_PRIME_3 & _U32
    return acc ^ acc >> 16


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _U32


# --- zstd, RFC 8878 ------------------------------------------------------------------------------------------

_ZSTD_WORD = struct.Struct("<I")
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50  # the low four bits are free
_ZSTD_MAX_BLOCK_BYTES = 128 * 1024
_FRAME_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)


def zstd_output_bound(data: bytes | memoryview) -> int:
    """The most that all frames of `data` together inflate to."""
    try:
        end, bound_bytes = _zstd_frames(data)
    except (IndexError, struct.error):
        end, bound_bytes = len(data) + 1, 0
    if end > len(data):
        raise CorruptRecordError(f"undecodable zstd payload: it ends too early, after {len(data)} bytes")
    return bound_bytes


def _zstd_frames(data: bytes | memoryview) -> tuple[int, int]:
    """Where the last frame ends, and what all are bound by."""
    bound_bytes = 0
    position = 0
    while position < len(data):
        (magic,) = _ZSTD_WORD.unpack_from(data, position)
        if magic == _ZSTD_MAGIC:
            position, frame_bytes = _zstd_frame(data, position + 4)
            bound_bytes += frame_bytes
        elif magic & ~0xF == _ZSTD_SKIPPABLE:
            position += 8 + _ZSTD_WORD.unpack_from(data, position + 4)[0]
        else:
            raise CorruptRecordError(f"undecodable zstd payload: 0x{magic:08x} at {position} starts no frame")
    return position, bound_bytes


def _zstd_frame(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Where the frame ends, and its bound."""
    descriptor = data[position]
    single_segment = descriptor & 0x20
    size_bytes = _FRAME_CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if single_segment else 0)
    position += 1 + (0 if single_segment else 1) + _DICTIONARY_ID_BYTES[descriptor & 3] + size_bytes
    bound_bytes = 0
    last = 0
    while not last:
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        # raw: `size` bytes follow and are the output; rle: one byte follows, repeated `size` times
        bound_bytes += min(size, _ZSTD_MAX_BLOCK_BYTES) if kind < 2 else _ZSTD_MAX_BLOCK_BYTES
        position += 3 + (1 if kind == 1 else size)
    return position + (4 if descriptor & 0x04 else 0), bound_bytes
