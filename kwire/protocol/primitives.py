"""Kafka's wire types as construct types: the declared truth about bytes, slow and obvious.

Each class parses and builds one type the way the protocol guide tells it, and carries the attributes that
`kwire.protocol.compiler` reads to write the fast code. That code has to agree with these classes on every input; the
tests hold the two against each other. Users: `layout` (puts them together) and the compiler (walks over them).

Strictness is the same in both: lengths below -1, lengths beyond the data, presence bytes other than -1 and 1,
tags out of order and strings that are not UTF-8 are errors, not guesses.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as Items
    from typing import BinaryIO

    from kwire.protocol.schema import Field, Structure, Tag

    # construct ships no types; this is the part of it that kwire uses.
    class Construct:
        def parse(self, data: bytes) -> object: ...
        def build(self, obj: object) -> bytes: ...
        def _parsereport(self, stream: BinaryIO, context: object, path: str) -> object: ...
        def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object: ...
        def __rtruediv__(self, name: str) -> Construct: ...

    class FormatField(Construct):
        fmtstr: str

        def __init__(self, endianity: str, fmt: str) -> None: ...

    class Struct(Construct):
        def __init__(self, *subcons: Construct) -> None: ...

    class ConstructError(Exception):
        def __init__(self, message: str, path: str) -> None: ...

    class ValidationError(ConstructError): ...

    def stream_read(stream: BinaryIO, length: int, path: str) -> bytes: ...
    def stream_write(stream: BinaryIO, data: bytes, length: int, path: str) -> None: ...
else:
    from construct import Construct, FormatField, Struct, ValidationError
    from construct.core import stream_read, stream_write

MAX_STRING_BYTES = 0x7FFF
"""Kafka's own limit, also where a compact length could say more."""

MAX_LENGTH = 0x7FFFFFFF
"""Lengths are Java ints."""

MAX_ARRAY_ELEMENTS = 1_000_000
MAX_TAGGED_FIELDS = 10_000
"""The most that Kafka's own readers take, from 4.4 on."""

MAX_VARINT_BYTES = 5
"""An unsigned varint holds 32 bits, seven in each byte."""

# Kafka's bool is a byte; anything but 0 is true, which is how struct reads "?", too.
FIXED = {
    "bool": FormatField(">", "?"),
    "int8": FormatField(">", "b"),
    "int16": FormatField(">", "h"),
    "uint16": FormatField(">", "H"),
    "int32": FormatField(">", "l"),
    "int64": FormatField(">", "q"),
    "float64": FormatField(">", "d"),
}


class UnsignedVarint(Construct):
    """Seven bits a byte, lowest first, the top bit meaning that more follow."""

    def _parse(self, stream: BinaryIO, context: object, path: str) -> int:
        del context
        value = 0
        for index in range(MAX_VARINT_BYTES):
            byte = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value & 0xFFFFFFFF  # Java shifts the fifth byte's upper bits out of its int, silently
        raise ValidationError("a varint of more than five bytes", path)

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        del context
        if not isinstance(obj, int) or not 0 <= obj <= 0xFFFFFFFF:
            raise ValidationError(f"{obj!r} does not fit an unsigned varint", path)
        rest = obj
        while rest >= 0x80:
            stream_write(stream, bytes([rest & 0x7F | 0x80]), 1, path)
            rest >>= 7
        stream_write(stream, bytes([rest]), 1, path)
        return obj


VARINT = UnsignedVarint()


class Length(Construct):
    """The length before a string, a blob or an array; None where the value is null.

    Old style: an int16 or int32, -1 for null. Compact (KIP-482): a varint of length + 1, 0 for null.
    """

    def __init__(self, *, compact: bool, nullable: bool, width_bytes: int) -> None:
        super().__init__()
        self.compact = compact
        self.nullable = nullable
        self.prefix: Construct = VARINT if compact else FIXED["int16" if width_bytes == 2 else "int32"]
        self.max_length = MAX_STRING_BYTES if width_bytes == 2 else MAX_LENGTH

    def _parse(self, stream: BinaryIO, context: object, path: str) -> int | None:
        raw = self.prefix._parsereport(stream, context, path)
        assert isinstance(raw, int)
        length = raw - 1 if self.compact else raw
        if length == -1 and self.nullable:
            return None
        if not 0 <= length <= self.max_length:
            raise ValidationError(f"a length of {length}", path)
        return length

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        if obj is None and self.nullable:
            obj = -1
        elif not isinstance(obj, int) or not 0 <= obj <= self.max_length:
            raise ValidationError(f"a length of {obj}", path)
        self.prefix._build(obj + 1 if self.compact else obj, stream, context, path)
        return obj


class Unique(Construct):
    """A uuid: 16 bytes, big-endian."""

    def _parse(self, stream: BinaryIO, context: object, path: str) -> UUID:
        del context
        return UUID(bytes=stream_read(stream, 16, path))

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        del context
        if not isinstance(obj, UUID):
            raise ValidationError(f"{obj!r} is not a UUID", path)
        stream_write(stream, obj.bytes, 16, path)
        return obj


class Text(Construct):
    """A string: UTF-8 behind its length in bytes."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def _parse(self, stream: BinaryIO, context: object, path: str) -> str | None:
        length = self.length._parse(stream, context, path)
        if length is None:
            return None
        try:
            return stream_read(stream, length, path).decode()
        except UnicodeDecodeError as error:
            raise ValidationError(f"not UTF-8: {error}", path) from error

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        if obj is not None and not isinstance(obj, str):
            raise ValidationError(f"{obj!r} is not a string", path)
        data = None if obj is None else obj.encode()
        self.length._build(None if data is None else len(data), stream, context, path)
        stream_write(stream, data or b"", len(data or b""), path)
        return obj


class Blob(Construct):
    """Bytes behind their length. `zero_copy` asks the compiled reader for a slice of its input: record sets."""

    def __init__(self, length: Length, *, zero_copy: bool) -> None:
        super().__init__()
        self.length = length
        self.zero_copy = zero_copy

    def _parse(self, stream: BinaryIO, context: object, path: str) -> bytes | None:
        length = self.length._parse(stream, context, path)
        return None if length is None else stream_read(stream, length, path)

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        if obj is not None and not isinstance(obj, bytes | bytearray | memoryview):
            raise ValidationError(f"{obj!r} is not bytes", path)
        data = None if obj is None else bytes(obj)
        self.length._build(None if data is None else len(data), stream, context, path)
        stream_write(stream, data or b"", len(data or b""), path)
        return obj


class Sequence(Construct):
    """An array: its elements behind their number."""

    def __init__(self, length: Length, element: Construct) -> None:
        super().__init__()
        self.length = length
        self.element = element

    def _parse(self, stream: BinaryIO, context: object, path: str) -> list[object] | None:
        count = self.length._parse(stream, context, path)
        if count is not None and count > MAX_ARRAY_ELEMENTS:
            raise ValidationError(f"an array of {count} elements", path)
        return None if count is None else [self.element._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        if obj is not None and not isinstance(obj, list | tuple):
            raise ValidationError(f"{obj!r} is not a list", path)
        items: Items[object] = obj or ()
        self.length._build(None if obj is None else len(items), stream, context, path)
        for item in items:
            self.element._build(item, stream, context, path)
        return obj


class Maybe(Construct):
    """A structure that may be null: an int8 before it, -1 for null and 1 otherwise."""

    def __init__(self, inner: Fields) -> None:
        super().__init__()
        self.inner = inner

    def _parse(self, stream: BinaryIO, context: object, path: str) -> dict[str, object] | None:
        presence = FIXED["int8"]._parsereport(stream, context, path)
        if presence not in (-1, 1):
            raise ValidationError(f"a presence byte of {presence}", path)
        return None if presence == -1 else self.inner._parse(stream, context, path)

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        FIXED["int8"]._build(-1 if obj is None else 1, stream, context, path)
        return obj if obj is None else self.inner._build(obj, stream, context, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldInPlace:
    """A field in its place: what was declared, how this version writes it, and its default in plain values."""

    declared: Field
    type: Construct
    default: object

    @property
    def name(self) -> str:
        return self.declared.name


class Fields(Struct):
    """A structure as one version writes it: its members one after the other, then (KIP-482) the tagged section.

    Args:
        owner: The class that the structure is read into.
        plain: The members without a tag, in wire order.
        tagged: The members with a tag, by tag; None in versions that are not flexible, which have no tagged section.
        absent: The declared fields that this version lacks.
    """

    def __init__(
        self,
        owner: type[Structure],
        *,
        plain: Items[FieldInPlace],
        tagged: Mapping[int, FieldInPlace] | None,
        absent: Items[Field],
    ) -> None:
        super().__init__(*(member.name / member.type for member in plain))
        self.owner = owner
        self.plain = tuple(plain)
        self.tagged = tagged
        self.absent = tuple(absent)

    def _parse(self, stream: BinaryIO, context: object, path: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for member in self.plain:
            found[member.name] = member.type._parsereport(stream, context, f"{path}.{member.name}")
        if self.tagged is not None:
            self._parse_tags(found, stream, path)
        return found

    def _parse_tags(self, found: dict[str, object], stream: BinaryIO, path: str) -> None:
        for member in (self.tagged or {}).values():
            found[member.name] = deepcopy(member.default)
        unknown: list[dict[str, object]] = []
        previous = -1
        count = VARINT._parse(stream, None, path)
        if count > MAX_TAGGED_FIELDS:
            raise ValidationError(f"{count} tagged fields", path)
        for _ in range(count):
            tag = VARINT._parse(stream, None, path)
            data = stream_read(stream, VARINT._parse(stream, None, path), path)
            if tag <= previous:
                raise ValidationError(f"tag {tag} after tag {previous}", path)
            previous = tag
            if tag in (self.tagged or {}):
                self._parse_tag(found, tag, data, path)
            else:
                unknown.append({"tag": tag, "data": data})
        if unknown:
            found["_unknown_tagged_fields"] = unknown

    def _parse_tag(self, found: dict[str, object], tag: int, data: bytes, path: str) -> None:
        member = (self.tagged or {})[tag]
        stream = BytesIO(data)
        found[member.name] = member.type._parsereport(stream, None, f"{path}.{member.name}")
        if stream.tell() != len(data):
            raise ValidationError(f"tag {tag} has {len(data) - stream.tell()} bytes too many", path)

    def _build(self, obj: object, stream: BinaryIO, context: object, path: str) -> object:
        if not isinstance(obj, dict):
            raise ValidationError(f"{obj!r} is not a structure", path)
        for member in self.plain:
            member.type._build(obj.get(member.name), stream, context, f"{path}.{member.name}")
        if self.tagged is not None:
            self._build_tags(obj, stream, path)
        return obj

    def _build_tags(self, obj: dict[str, object], stream: BinaryIO, path: str) -> None:
        tags: list[Tag] = []
        for tag, member in (self.tagged or {}).items():
            value = obj.get(member.name)
            if value != member.default:  # defaults are not written (KIP-482)
                tags.append((tag, member.type.build(value)))
        unknown = obj.get("_unknown_tagged_fields", [])
        assert isinstance(unknown, list)
        tags = sorted([*tags, *((entry["tag"], entry["data"]) for entry in unknown)])
        VARINT._build(len(tags), stream, None, path)
        for tag, data in tags:
            VARINT._build(tag, stream, None, path)
            VARINT._build(len(data), stream, None, path)
            stream_write(stream, data, len(data), path)
