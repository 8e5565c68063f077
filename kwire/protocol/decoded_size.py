"""How much memory a decoded value takes: what the decoder reckons with before it makes the elements of an array.

A few bytes on the wire may become an object with many slots, empty lists and defaults, 48 times as large and more. So
each element is counted in advance, at the most that it can take by itself; the text and the bytes in it are left out,
since those cannot outgrow the frame by more than four times (one character beyond U+FFFF widens a whole string).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.errors import InternalError
from kwire.protocol.primitives import Blob, Construct, Fields, FormatField, Maybe, Sequence, Text, Unique
from kwire.protocol.schema import Structure, fields_of, fresh_default

if TYPE_CHECKING:
    from kwire.protocol.schema import Field

MAX_DECODED_BYTES = 256 * 1024 * 1024
"""The most that one message may take when it is decoded, its text and bytes aside. Metadata of 350,000 partitions does;
a consumer that subscribes to names asks for no more than those."""

# CPython's, 64 bit, rounded up: header and garbage collector's share of an object; a slot or a list's place; a number
# beyond the small ones that are shared; an empty list; a short string; bytes; a slice of a memoryview; a UUID.
OBJECT_BYTES = 32
PLACE_BYTES = 8
NUMBER_BYTES = 32
LIST_BYTES = 64
TEXT_BYTES = 56
BLOB_BYTES = 40
VIEW_BYTES = 200
UUID_BYTES = 112

TAG_BYTES = 176
"""An unknown tagged field: a tuple, its number and its bytes."""


def decoded_bytes(wire: Construct) -> int:
    """The most that an element of this type takes in a list, with its place there."""
    return PLACE_BYTES + _own_bytes(wire)


def _own_bytes(wire: Construct) -> int:
    match wire:
        case FormatField():
            return 0 if wire.fmtstr[1:] in "?b" else NUMBER_BYTES
        case Unique():
            return UUID_BYTES
        case Text():
            return TEXT_BYTES
        case Blob():
            return VIEW_BYTES if wire.zero_copy else BLOB_BYTES
        case Sequence():
            return LIST_BYTES  # its elements are counted when their number is known
        case Maybe():
            return _own_bytes(wire.inner)
        case Fields():
            members = [*wire.plain, *(wire.tagged or {}).values()]
            values = sum(_own_bytes(member.type) for member in members if member.declared.tag is None)
            defaults = [*wire.absent, *(member.declared for member in members if member.declared.tag is not None)]
            return _empty_bytes(wire.owner) + values + sum(map(_default_bytes, defaults))
        case _:
            raise InternalError(f"no size known for {wire!r}")


def _empty_bytes(owner: type[Structure]) -> int:
    """An object whose slots are not filled yet; each has one more, for unknown tags."""
    return OBJECT_BYTES + PLACE_BYTES * (len(fields_of(owner)) + 1)


def _default_bytes(item: Field) -> int:
    """What a field takes that the bytes do not have. A structure is made when somebody asks for it."""
    if isinstance(item.default, Structure):
        owner = type(item.default)
        return _empty_bytes(owner) + sum(map(_default_bytes, fields_of(owner)))
    return LIST_BYTES if fresh_default(item.default) is list else 0
