"""What decoding functions call for the rare cases: long varints, tagged fields, bad lengths, uuids.

The common cases are written out by `decoder`, which makes these names known to the functions it writes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from kwire.protocol.primitives import MAX_VARINT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.schema import Tag

    Buffer = bytes | memoryview


class MalformedError(Exception):
    """A problem in the bytes, not yet located; never leaves the generated functions."""


DECODING_ERRORS = (MalformedError, struct.error, IndexError, UnicodeDecodeError)


def long_varint(data: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte has its top bit set: the value and the position after it."""
    value = first & 0x7F
    for index in range(1, MAX_VARINT_BYTES):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFFFFFF, pos  # as Java: the fifth byte's upper bits fall off
    raise MalformedError("a varint of more than five bytes")


def varint(data: Buffer, pos: int) -> tuple[int, int]:
    """A whole unsigned varint: the value and the position after it."""
    first = data[pos]
    return (first, pos + 1) if first < 0x80 else long_varint(data, pos + 1, first)


def bad_length(length: int, left: int) -> MalformedError:
    """Why a length cannot be right."""
    if length == -1:
        return MalformedError("null is not allowed here")
    return MalformedError(f"a length of {length} with {left} bytes left")


def next_tag(data: Buffer, pos: int, end: int, previous: int) -> tuple[int, int, int]:
    """The head of a tagged field: its tag, where its data starts, and where it ends (KIP-482: tags ascend)."""
    tag, pos = varint(data, pos)
    size, pos = varint(data, pos)
    if tag <= previous:
        raise MalformedError(f"tag {tag} after tag {previous}")
    if size > end - pos:
        raise bad_length(size, end - pos)
    return tag, pos, pos + size


def unknown_tags(data: Buffer, pos: int, end: int, first: int) -> tuple[tuple[Tag, ...], int]:
    """A tagged section in which no tag is known; `first` is the first byte of its count."""
    count, pos = (first, pos) if first < 0x80 else long_varint(data, pos, first)
    found: list[Tag] = []
    tag = -1
    for _ in range(count):
        tag, pos, stop = next_tag(data, pos, end, tag)
        found.append((tag, bytes(data[pos:stop])))
        pos = stop
    return tuple(found), pos


@lru_cache(maxsize=16384)
def uuid_of(raw: bytes) -> UUID:
    """Topic ids repeat in every answer, and making a UUID costs a microsecond; 16,384 topics are 4 MiB."""
    return UUID(bytes=raw)


@lru_cache(maxsize=256)
def unpacker(fmt: str, count: int) -> Callable[[Buffer, int], tuple[object, ...]]:
    """Unpacks `count` numbers of one format."""
    return struct.Struct(f">{count}{fmt}").unpack_from


DECODER_RUNTIME: dict[str, object] = {
    "new": object.__new__,
    "long_varint": long_varint,
    "bad_length": bad_length,
    "next_tag": next_tag,
    "unknown_tags": unknown_tags,
    "uuid_of": uuid_of,
    "unpacker": unpacker,
    "MalformedError": MalformedError,
    "DECODING_ERRORS": DECODING_ERRORS,
}

UNPACK_FEW = {fmt: tuple(struct.Struct(f">{count}{fmt}").unpack_from for count in range(9)) for fmt in "?bhHlqd"}
"""Unpackers of short arrays of numbers: replica lists have three, and a table is faster than a cache."""
