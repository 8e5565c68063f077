"""Values as Java's serializers write them: numbers big-endian, text as UTF-8, a UUID as text, a boolean as one byte.

Each is called with bytes, and makes a whole Arrow column with `to_arrow`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    import pyarrow as pa

N = TypeVar("N", int, float)


class BytesDeserializer:
    """The bytes as they are. (Without a deserializer it is the same, and faster.)"""

    def __call__(self, data: bytes) -> bytes:
        return data

    def to_arrow(self, column: pa.BinaryArray) -> pa.BinaryArray:
        """The column."""
        return column


class StringDeserializer:
    """UTF-8."""

    def __call__(self, data: bytes) -> str:
        return data.decode()

    def to_arrow(self, column: pa.BinaryArray) -> pa.StringArray:
        """A column of strings, over the same memory."""
        import pyarrow as pa

        return column.cast(pa.string())


class UUIDDeserializer:
    """A UUID as text."""

    def __call__(self, data: bytes) -> UUID:
        return UUID(data.decode())

    def to_arrow(self, column: pa.BinaryArray) -> pa.StringArray:
        """A column of strings, in the one way that UUIDs are written."""
        import pyarrow as pa

        return pa.array([None if data is None else str(self(data)) for data in column.to_pylist()], pa.string())


class BooleanDeserializer:
    """One byte, 0 or 1."""

    def __call__(self, data: bytes) -> bool:
        if data not in (b"\0", b"\1"):
            raise ValueError(f"a boolean is one byte, 0 or 1, not {data!r}")
        return data == b"\1"

    def to_arrow(self, column: pa.BinaryArray) -> pa.BooleanArray:
        """A column of booleans."""
        import pyarrow as pa

        from kwire.deserializers.arrow_columns import numbers

        found = numbers(column, "b")
        if (found.fill_null(0).to_numpy() & ~1).any():
            raise ValueError("a boolean is one byte, 0 or 1")
        return found.cast(pa.bool_())


class _NumberDeserializer(Generic[N]):
    """A number of a certain length. Subclasses say of which."""

    form: ClassVar[str]

    def __init__(self) -> None:
        layout = struct.Struct(f">{self.form}")
        self._unpack, self._length = layout.unpack, layout.size

    def __call__(self, data: bytes) -> N:
        try:
            number: N = self._unpack(data)[0]
        except struct.error:
            raise ValueError(
                f"{type(self).__name__} reads {self._length} bytes, these are {len(data)}: {data[:16]!r}"
            ) from None
        return number

    def to_arrow(self, column: pa.BinaryArray) -> pa.Array:
        """A column of numbers of the same length: one copy, made by numpy."""
        from kwire.deserializers.arrow_columns import numbers

        return numbers(column, self.form)


class ShortDeserializer(_NumberDeserializer[int]):
    """A whole number of two bytes."""

    form = "h"


class IntegerDeserializer(_NumberDeserializer[int]):
    """A whole number of four bytes."""

    form = "i"


class LongDeserializer(_NumberDeserializer[int]):
    """A whole number of eight bytes."""

    form = "q"


class FloatDeserializer(_NumberDeserializer[float]):
    """A number of four bytes, IEEE 754."""

    form = "f"


class DoubleDeserializer(_NumberDeserializer[float]):
    """A number of eight bytes, IEEE 754."""

    form = "d"
