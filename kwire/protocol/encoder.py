"""Writes the Python function that encodes one version of one message.

Straight-line as the decoder: neighbouring numbers become one `struct.pack`, and the parts are joined once at the end.
Nothing is checked twice: `struct` refuses numbers out of range, `str.encode` refuses what is not a string, and the line
at which they did tells which field it was. A value that the version has no field for is refused unless Kafka calls
the field ignorable. The compiler calls `write_encoder`.

    b1 = encode_text(o1.group_id)
    n2 = len(b1)
    put(pack_h(n2))
    put(b1)
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, cast
from uuid import UUID

from kwire.errors import InternalError, ProtocolError, UnsupportedVersionError
from kwire.protocol.decoder import prefix_format
from kwire.protocol.decoder_runtime import MalformedError
from kwire.protocol.primitives import (
    MAX_LENGTH,
    Blob,
    Construct,
    FieldInPlace,
    Fields,
    FormatField,
    Length,
    Maybe,
    Sequence,
    Text,
    Unique,
)
from kwire.protocol.schema import Field, Message, Structure
from kwire.protocol.source import FunctionBody, Place, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.protocol.schema import Tag

    Encoder = Callable[[Message], bytes]

ENCODING_ERRORS = (MalformedError, struct.error, AttributeError, TypeError, KeyError, ValueError, OverflowError)

KINDS = {
    "?": "a bool",
    "b": "an int8",
    "h": "an int16",
    "H": "a uint16",
    "l": "an int32",
    "q": "an int64",
    "d": "a float",
}


# --- what the generated code calls ------------------------------------------------------------------------------------


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that there is more."""
    found = bytearray()
    while value > 127:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def as_list(value: object) -> list[object] | tuple[object, ...]:
    """Accept what is as good as a list; a string would otherwise be sent letter by letter."""
    if isinstance(value, list | tuple):
        return value
    raise TypeError


def as_bytes(value: object) -> bytes | bytearray | memoryview:
    """Accept what is as good as bytes, and can be joined."""
    if isinstance(value, memoryview):
        return value.cast("B")
    if isinstance(value, bytes | bytearray):
        return value
    raise TypeError


def tagged_section(known: list[Tag], unknown: tuple[Tag, ...]) -> bytes:
    """KIP-482: the count, then each field as tag, size and data, in ascending order of the tags."""
    tags = sorted([*known, *unknown])
    numbers = [tag for tag, _ in tags]
    if len(set(numbers)) < len(numbers):
        raise MalformedError(f"the tags {numbers} are not unique")
    heads = (unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in tags)
    return unsigned_varint(len(tags)) + b"".join(heads)


def pack_many(fmt: str, values: list[object]) -> bytes:
    """An array of numbers."""
    return struct.pack(f">{len(values)}{fmt}", *values)


RUNTIME: dict[str, object] = {
    "unsigned_varint": unsigned_varint,
    "as_list": as_list,
    "as_bytes": as_bytes,
    "tagged_section": tagged_section,
    "pack_many": pack_many,
    "encode_text": str.encode,
    "uuid_bytes": cast("property", UUID.bytes).fget,
    "BIT": {False: 0, True: 1},
    "ONE_BYTE": tuple(bytes([value]) for value in range(128)),
    "MalformedError": MalformedError,
    "ENCODING_ERRORS": ENCODING_ERRORS,
}


# --- writing the code -------------------------------------------------------------------------------------------------


class EncoderWriter:
    """Walks over a layout and writes code. `_run` collects what the next `pack` will write, to the list `_put`."""

    def __init__(self, source: FunctionBody) -> None:
        self._source = source
        self._put = "put"
        self._run: list[tuple[str, str, Place]] = []

    def structure(self, fields: Fields, variable: str, path: str) -> None:
        """Write the structure that `variable` holds."""
        for item in fields.absent:
            self._refuse_value(item, variable, path)
        for member in fields.plain:
            self.value(member.type, f"{variable}.{member.name}", path_of(path, member.name))
        if fields.tagged is not None:
            self._tagged_section(fields.tagged, variable, path)
            return
        with self._source.block(f"if {variable}._unknown_tagged_fields:"):
            self._source.add(f"raise lacking({path_of(path, 'tagged fields')!r})")

    def value(self, wire: Construct, expression: str, path: str) -> None:
        """Write a value of any type."""
        match wire:
            case FormatField():
                self._fixed(wire.fmtstr[1:], expression, path)
            case Unique():
                place = Place(path, "16s", "a UUID", expression)
                self._run.append(("16s", f"uuid_bytes({expression})", place))
            case Text():
                self._text(wire, expression, path)
            case Blob():
                self._blob(wire, expression, path)
            case Sequence():
                self._array(wire, expression, path)
            case Maybe():
                self._maybe(wire, expression, path)
            case Fields():
                variable = self._source.fresh("o")
                self._source.add(f"{variable} = {expression}", Place(path, "", "a structure", expression))
                self.structure(wire, variable, path)
            case _:
                raise InternalError(f"no code known for {wire!r}")

    def flush(self) -> None:
        """Write the pack that has been collected."""
        run, self._run = self._run, []
        if not run:
            return
        fmt = "".join(item[0] for item in run)
        pack = self._source.constant(f"pack_{fmt}_", _pack(fmt))
        values = ", ".join(item[1] for item in run)
        self._source.add(f"{self._put}({pack}({values}))", *(item[2] for item in run))

    def _fixed(self, fmt: str, expression: str, path: str) -> None:
        place = Place(path, fmt, KINDS[fmt], expression)
        if fmt == "?":  # struct would take anything for a bool
            self._run.append(("b", f"BIT[{expression}]", place))
        else:
            self._run.append((fmt, expression, place))

    def _length(self, length: Length, variable: str, path: str) -> None:
        """Write the length in `variable`, where -1 means null."""
        fmt = prefix_format(length)
        place = Place(path, "" if length.compact else fmt, f"no longer than {length.max_length}", variable)
        if not length.compact:
            self._run.append((fmt, variable, place))
            return
        self.flush()
        if length.max_length < MAX_LENGTH:  # nothing longer fits into memory, and the frame's own length stops it
            with self._source.block(f"if {variable} > {length.max_length}:"):
                self._source.add("raise MalformedError", place)
        short = f"ONE_BYTE[{variable} + 1] if {variable} < 127 else unsigned_varint({variable} + 1)"
        self._source.add(f"{self._put}({short})", place)

    def _text(self, wire: Text, expression: str, path: str) -> None:
        data, length = self._source.fresh("b"), self._source.fresh("n")
        place = Place(path, "", "a str of valid Unicode", expression)
        null = f'b"" if {expression} is None else ' if wire.length.nullable else ""
        self._source.add(f"{data} = {null}encode_text({expression})", place)
        self._source.add(f"{length} = {f'-1 if {expression} is None else ' if null else ''}len({data})")
        self._length(wire.length, length, path)
        self._put_data(data)

    def _blob(self, wire: Blob, expression: str, path: str) -> None:
        data, length = self._source.fresh("b"), self._source.fresh("n")
        null = f'b"" if {expression} is None else ' if wire.length.nullable else ""
        self._source.add(f"{data} = {null}as_bytes({expression})", Place(path, "", "bytes", expression))
        self._source.add(f"{length} = {f'-1 if {expression} is None else ' if null else ''}len({data})")
        self._length(wire.length, length, path)
        self._put_data(data)

    def _put_data(self, data: str) -> None:
        self.flush()
        self._source.add(f"{self._put}({data})")

    def _array(self, wire: Sequence, expression: str, path: str) -> None:
        items, length = self._source.fresh("a"), self._source.fresh("n")
        null = f"() if {expression} is None else " if wire.length.nullable else ""
        self._source.add(f"{items} = {null}as_list({expression})", Place(path, "", "a list", expression))
        self._source.add(f"{length} = {f'-1 if {expression} is None else ' if null else ''}len({items})")
        self._length(wire.length, length, path)
        self.flush()
        if isinstance(wire.element, FormatField) and wire.element.fmtstr != ">?":
            fmt = wire.element.fmtstr[1:]
            place = Place(path, "", f"a list in which each is {KINDS[fmt]}", expression)
            self._source.add(f"{self._put}(pack_many({fmt!r}, {items}))", place)
            return
        item = self._source.fresh("o")
        with self._source.block(f"for {item} in {items}:"):
            if isinstance(wire.element, Fields):
                self.structure(wire.element, item, path)
            else:
                self.value(wire.element, item, path)
            self.flush()

    def _maybe(self, wire: Maybe, expression: str, path: str) -> None:
        variable = self._source.fresh("o")
        self._source.add(f"{variable} = {expression}", Place(path, "", "a structure", expression))
        self.flush()
        with self._source.block(f"if {variable} is None:"):
            self._source.add(f'{self._put}(b"\\xff")')
        with self._source.block("else:"):
            self._source.add(f'{self._put}(b"\\x01")')
            self.structure(wire.inner, variable, path)
            self.flush()

    def _tagged_section(self, tagged: Mapping[int, FieldInPlace], variable: str, path: str) -> None:
        self.flush()
        unknown = f"{variable}._unknown_tagged_fields"
        known = "()"
        if tagged:
            known = self._source.fresh("tags")
            self._source.add(f"{known} = []")
        for tag, member in tagged.items():
            self._tagged_field(tag, member, known, variable, path)
        condition = f"{known} or {unknown}" if tagged else unknown
        place = Place(path_of(path, "tagged fields"), "", "tuples of unique tags and bytes", unknown)
        self._source.add(f'{self._put}(tagged_section({known}, {unknown}) if {condition} else b"\\0")', place)

    def _tagged_field(self, tag: int, member: FieldInPlace, known: str, variable: str, path: str) -> None:
        """Defaults are not written (KIP-482); everything else goes through a part list of its own, for its size."""
        expression = f"{variable}.{member.name}"
        parts, outer = self._source.fresh("parts"), self._put
        place = Place(path_of(path, member.name), "", "of its declared type", expression)
        with self._source.block(f"if {self._differs(expression, member.declared.default)}:", place):
            self._source.add(f"{parts} = []")
            self._put = f"{parts}.append"
            self.value(member.type, expression, path_of(path, member.name))
            self.flush()
            self._put = outer
            self._source.add(f'{known}.append(({tag}, b"".join({parts})))')

    def _refuse_value(self, item: Field, variable: str, path: str) -> None:
        """Kafka's rule: a value for a field that the version lacks is an error, unless the field is ignorable."""
        if not item.ignorable:
            expression = f"{variable}.{item.name}"
            place = Place(path_of(path, item.name), "", "left out in this version", expression)
            with self._source.block(f"if {self._differs(expression, item.default)}:", place):
                self._source.add(f"raise lacking({path_of(path, item.name)!r})")

    def _differs(self, expression: str, default: object) -> str:
        if isinstance(default, list):
            return f"{expression} is None or len({expression})"
        if default is None:
            return f"{expression} is not None"
        shared = isinstance(default, Structure | UUID)
        return f"{expression} != {self._source.constant('default', default) if shared else repr(default)}"


@cache
def _pack(fmt: str) -> object:
    return struct.Struct(">" + fmt).pack


def write_encoder(layout: Fields, title: str) -> FunctionBody:
    """The source of `encode(message) -> bytes` for one layout."""
    source = FunctionBody(f"encode {title}")
    source.names.update(RUNTIME)
    writer = EncoderWriter(source)
    with source.block("def encode(o):"):
        source.add("parts = []")
        source.add("put = parts.append")
        with source.block("try:"):
            writer.structure(layout, "o", "")
            writer.flush()
            source.add('return b"".join(parts)')
        with source.block("except ENCODING_ERRORS as error:"):
            source.add("raise located(error, locals()) from error")
    source.names |= {"located": _locator(source, title), "lacking": _refusal(title)}
    return source


def _refusal(title: str) -> Callable[[str], UnsupportedVersionError]:
    def lacking(path: str) -> UnsupportedVersionError:
        return UnsupportedVersionError(f"cannot encode {title}: this version has no {path}, but it was given a value")

    return lacking


def _locator(source: FunctionBody, title: str) -> Callable[[Exception, dict[str, object]], ProtocolError]:
    """Makes the function that turns what went wrong in the code of `source` into a located ProtocolError."""

    def located(error: Exception, variables: dict[str, object]) -> ProtocolError:
        for place in source.place_at(error.__traceback__):
            root, _, attribute = place.expression.partition(".")
            owner = variables[root]
            if attribute and not hasattr(owner, attribute):
                where = f"{place.path} belongs to a structure, which {_shown(owner)} is not"
                return ProtocolError(f"cannot encode {title}: {where}")
            value = getattr(owner, attribute) if attribute else owner
            if not _fits(place.fmt, value):
                return ProtocolError(f"cannot encode {title}: {place.path} must be {place.kind}, not {_shown(value)}")
        return ProtocolError(f"cannot encode {title}: {error}")

    return located


def _fits(fmt: str, value: object) -> bool:
    """Whether a value fits a field of fixed size. Without a format none does: the line has no other field to blame."""
    if fmt == "?":
        return isinstance(value, bool)
    if fmt == "16s":
        return isinstance(value, UUID)
    try:
        struct.pack(">" + fmt, value)
    except struct.error:
        return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
