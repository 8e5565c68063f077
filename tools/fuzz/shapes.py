"""The shortest bytes that are a value of a type: how tests and the hostile peer make much of few bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kwire.protocol.primitives import VARINT, Blob, Fields, Maybe, Sequence, Text, Unique

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.protocol.primitives import Construct

_EMPTY = {Text: "", Blob: b"", Unique: UUID(int=0)}


def shortest(wire: Construct) -> bytes:
    """The fewest bytes that are a value of this type; arrays are empty."""
    if isinstance(wire, Fields):
        return b"".join(shortest(member.type) for member in wire.plain) + (b"" if wire.tagged is None else b"\0")
    if isinstance(wire, Maybe):
        return b"\x01" + shortest(wire.inner)
    if isinstance(wire, Sequence):
        return counted(wire, 0)
    return wire.build(_EMPTY.get(type(wire), 0))


def counted(array: Sequence, count: int) -> bytes:
    """The number of an array's elements, as it stands in front of them."""
    return VARINT.build(count + 1) if array.length.compact else count.to_bytes(4, "big")


def arrays_of(layout: Fields) -> Iterator[tuple[int, Sequence]]:
    """The arrays among a message's own fields, and where among the plain ones they stand."""
    for index, member in enumerate(layout.plain):
        if isinstance(member.type, Sequence):
            yield index, member.type


def with_array(layout: Fields, index: int, count: int) -> bytes:
    """A message whose fields are all as short as they can be, but for one array."""
    array = layout.plain[index].type
    if not isinstance(array, Sequence):
        raise TypeError(f"{layout.plain[index].name} is no array")
    parts = [shortest(member.type) for member in layout.plain]
    parts[index] = counted(array, count) + shortest(array.element) * count
    return b"".join(parts) + (b"" if layout.tagged is None else b"\0")
