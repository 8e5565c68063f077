"""What decoding functions call for the rare cases: long varints, tagged fields, bad lengths, uuids.

The common cases are written out by `decoder`, which makes these names known to the functions it writes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from kwire.protocol.decoded_size import MAX_DECODED_BYTES, TAG_BYTES
from kwire.protocol.primitives import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS, MAX_VARINT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.schema import Tag

    Buffer = bytes | memoryview


class MalformedError(Exception):
    """A problem in the bytes, not yet located; never leaves the generated functions."""


TOO_MUCH = f"the message takes more than the {MAX_DECODED_BYTES >> 20} MiB of memory that one may take"

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


def bad_count(count: int, left: int, room: int) -> MalformedError:
    """Why an array cannot have this many elements, or must not."""
    if count > MAX_ARRAY_ELEMENTS:
        return MalformedError(f"an array of {count} elements, of which {MAX_ARRAY_ELEMENTS} are allowed")
    if 0 <= count <= left and room < 0:
        return MalformedError(f"with this array of {count} elements {TOO_MUCH}")
    return bad_length(count, left)


def room_behind_tags(count: int, room: int) -> int:
    """What a tagged section of this many fields leaves of the memory that the message may take."""
    if count > MAX_TAGGED_FIELDS:
        raise MalformedError(f"{count} tagged fields, of which {MAX_TAGGED_FIELDS} are allowed")
    room -= count * TAG_BYTES
    if room < 0:
        raise MalformedError(f"with these {count} tagged fields {TOO_MUCH}")
    return room


def next_tag(data: Buffer, pos: int, end: int, previous: int) -> tuple[int, int, int]:
    """The head of a tagged field: its tag, where its data starts, and where it ends (KIP-482: tags ascend)."""
    tag, pos = varint(data, pos)
    size, pos = varint(data, pos)
    if tag <= previous:
        raise MalformedError(f"tag {tag} after tag {previous}")
    if size > end - pos:
        raise bad_length(size, end - pos)
    return tag, pos, pos + size


def unknown_tags(data: Buffer, pos: int, end: int, first: int, room: int) -> tuple[tuple[Tag, ...], int, int]:
    """A tagged section in which no tag is known; `first` is the first byte of its count. Returns its fields, the
    position behind it, and what is left of the memory that the message may take."""
    count, pos = (first, pos) if first < 0x80 else long_varint(data, pos, first)
    room = room_behind_tags(count, room)
    found: list[Tag] = []
    tag = -1
    for _ in range(count):
        tag, pos, stop = next_tag(data, pos, end, tag)
        found.append((tag, bytes(data[pos:stop])))
        pos = stop
    return tuple(found), pos, room


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
    "bad_count": bad_count,
    "room_behind_tags": room_behind_tags,
    "next_tag": next_tag,
    "unknown_tags": unknown_tags,
    "uuid_of": uuid_of,
    "unpacker": unpacker,
    "MalformedError": MalformedError,
    "DECODING_ERRORS": DECODING_ERRORS,
}

UNPACK_FEW = {fmt: tuple(struct.Struct(f">{count}{fmt}").unpack_from for count in range(9)) for fmt in "?bhHlqd"}
"""Unpackers of short arrays of numbers: replica lists have three, and a table is faster than a cache."""
