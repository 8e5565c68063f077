"""Writes the Python function that decodes one version of one message.

The function is straight-line: neighbouring fields of fixed size, and the length of whatever follows them, become one
`struct.unpack_from`; strings, arrays and nested structures are handled where they stand; objects are made with
`object.__new__` and filled by assigning slots. A length is checked before it is used, and the number of an array's
elements against the bytes left and against the memory that a message may take (`decoded_size`), so that a hostile
count cannot reserve memory or time. `compiler` calls `write_decoder`.

    o1 = new(MetadataResponsePartition)
    o1.error_code, o1.partition_index, o1.leader_id, n2 = unpack_hlll(data, pos)
    pos += 14
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, cast
from uuid import UUID

from kwire.errors import InternalError, ProtocolError
from kwire.protocol.decoded_size import MAX_DECODED_BYTES, decoded_bytes
from kwire.protocol.decoder_runtime import DECODER_RUNTIME, UNPACK_FEW
from kwire.protocol.primitives import (
    MAX_ARRAY_ELEMENTS,
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
from kwire.protocol.schema import Message, Structure, fresh_default
from kwire.protocol.source import FunctionBody, Place, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.protocol.decoder_runtime import Buffer

    Decoder = Callable[[Buffer], tuple[Message, int]]


def least_bytes(wire: Construct) -> int:
    """The smallest number of bytes that a value of this type can take."""
    match wire:
        case FormatField():
            return struct.calcsize(wire.fmtstr)
        case Unique():
            return 16
        case Fields():
            tag_count = 0 if wire.tagged is None else 1
            return tag_count + sum(least_bytes(member.type) for member in wire.plain)
        case Maybe():
            return 1
        case Text() | Blob() | Sequence():
            return struct.calcsize(">" + prefix_format(wire.length))
        case _:
            raise InternalError(f"no size known for {wire!r}")


def prefix_format(length: Length) -> str:
    """The struct format that reads a length together with its neighbours; of a varint, its first byte."""
    return "B" if length.compact else cast("FormatField", length.prefix).fmtstr[1:]


def holds_records(wire: Construct) -> bool:
    """Whether a message carries record sets, which are handed on as slices of the input."""
    match wire:
        case Fields():
            return any(holds_records(member.type) for member in wire.plain)
        case Sequence():
            return holds_records(wire.element)
        case Blob():
            return wire.zero_copy
        case _:
            return False


def reads_view(layout: Fields) -> bool:
    """Whether to decode from a memoryview: for slices of it, or where there is nothing to slice (headers).

    Everything else is decoded from bytes, whose slices become strings twice as fast.
    """
    return holds_records(layout) or all(isinstance(member.type, FormatField) for member in layout.plain)


class DecoderWriter:
    """Walks over a layout and writes code. `_run` collects what the next `unpack_from` will read."""

    def __init__(self, source: FunctionBody, *, from_view: bool) -> None:
        self._source = source
        self._from_view = from_view
        self._run: list[tuple[str, str, Place]] = []
        self._after_run: list[str] = []

    def structure(self, fields: Fields, path: str) -> str:
        """Read a structure into a new variable; returns the variable's name."""
        variable = self._source.fresh("o")
        self._source.add(f"{variable} = new({self._source.constant('C', fields.owner)})")
        for item in fields.absent:
            self._default(f"{variable}.{item.name}", item.default)
        for member in fields.plain:
            self.value(member.type, f"{variable}.{member.name}", path_of(path, member.name))
        if fields.tagged is None:
            self._source.add(f"{variable}._unknown_tagged_fields = ()")
        else:
            self._tagged_section(fields.tagged, variable, path)
        return variable

    def value(self, wire: Construct, target: str, path: str) -> None:
        """Read a value of any type and assign it to `target`."""
        match wire:
            case FormatField():
                self._fixed(wire.fmtstr[1:], target, path)
            case Unique():
                raw = self._source.fresh("u")
                self._fixed("16s", raw, path)
                self._after_run.append(f"{target} = uuid_of({raw})")
            case Text() | Blob():
                self._slice(wire, target, path)
            case Sequence():
                self._array(wire, target, path)
            case Maybe():
                self._maybe(wire, target, path)
            case Fields():
                variable = self.structure(wire, path)
                self._source.add(f"{target} = {variable}")
            case _:
                raise InternalError(f"no code known for {wire!r}")

    def flush(self) -> None:
        """Write the read that has been collected."""
        run, self._run = self._run, []
        if not run:
            return
        fmt = "".join(item[0] for item in run)
        targets = ", ".join(item[1] for item in run)
        places = [item[2] for item in run]
        if fmt == "B":
            self._source.add(f"{targets} = data[pos]", *places)
        else:
            unpack = self._source.constant(f"unpack_{fmt}_", _unpack_from(fmt))
            self._source.add(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(data, pos)", *places)
        self._source.add(f"pos += {struct.calcsize('>' + fmt)}")
        after, self._after_run = self._after_run, []
        for line in after:
            self._source.add(line)

    def _fixed(self, fmt: str, target: str, path: str) -> None:
        self._run.append((fmt, target, Place(path, fmt)))

    def _length(self, length: Length, path: str) -> str:
        """Read a length; returns the variable that holds it, where -1 means null."""
        variable = self._source.fresh("n")
        self._fixed(prefix_format(length), variable, path)
        self.flush()
        if length.compact:
            with self._source.block(f"if {variable} > 127:"):
                self._source.add(f"{variable}, pos = long_varint(data, pos, {variable})", Place(path))
                if length.max_length < MAX_LENGTH:  # the others cannot be longer than the data
                    with self._source.block(f"if {variable} > {length.max_length + 1}:"):
                        self._source.add(f"raise bad_length({variable} - 1, end - pos)", Place(path))
            self._source.add(f"{variable} -= 1")
        return variable

    def _slice(self, wire: Text | Blob, target: str, path: str) -> None:
        length = self._length(wire.length, path)
        if not wire.length.nullable:
            self._checked_slice(wire, length, target, path)
            return
        with self._source.block(f"if {length} == -1:"):
            self._source.add(f"{target} = None")
        with self._source.block("else:"):
            self._checked_slice(wire, length, target, path)

    def _checked_slice(self, wire: Text | Blob, length: str, target: str, path: str) -> None:
        self._source.add(f"stop = pos + {length}")
        with self._source.block("if not pos <= stop <= end:"):
            self._source.add(f"raise bad_length({length}, end - pos)", Place(path))
        self._source.add(f"{target} = {self._slice_expression(wire)}", Place(path))
        self._source.add("pos = stop")

    def _slice_expression(self, wire: Text | Blob) -> str:
        if isinstance(wire, Text):
            return 'str(data[pos:stop], "utf-8")' if self._from_view else "data[pos:stop].decode()"
        return "bytes(data[pos:stop])" if self._from_view and not wire.zero_copy else "data[pos:stop]"

    def _array(self, wire: Sequence, target: str, path: str) -> None:
        count = self._length(wire.length, path)
        if not wire.length.nullable:
            self._elements(wire.element, count, target, path)
            return
        with self._source.block(f"if {count} == -1:"):
            self._source.add(f"{target} = None")
        with self._source.block("else:"):
            self._elements(wire.element, count, target, path)

    def _elements(self, element: Construct, count: str, target: str, path: str) -> None:
        self._source.add(f"room -= {count} * {decoded_bytes(element)}")
        too_many = f"not 0 <= {count} <= {MAX_ARRAY_ELEMENTS} or {count} * {least_bytes(element)} > end - pos"
        with self._source.block(f"if {too_many} or room < 0:"):
            self._source.add(f"raise bad_count({count}, end - pos, room)", Place(path))
        if isinstance(element, FormatField):
            fmt = element.fmtstr[1:]
            few = self._source.constant(f"unpack_{fmt}_", UNPACK_FEW[fmt])
            unpack = f"({few}[{count}] if {count} < {len(UNPACK_FEW[fmt])} else unpacker({fmt!r}, {count}))"
            self._source.add(f"{target} = [*{unpack}(data, pos)]", Place(path))
            self._source.add(f"pos += {count} * {struct.calcsize(element.fmtstr)}")
            return
        items = self._source.fresh("a")
        self._source.add(f"{target} = {items} = []")
        with self._source.block(f"for _ in range({count}):"):
            item = self._element(element, path)
            self.flush()
            self._source.add(f"{items}.append({item})")

    def _element(self, element: Construct, path: str) -> str:
        if isinstance(element, Fields):
            return self.structure(element, path)
        item = self._source.fresh("v")
        self.value(element, item, path)
        return item

    def _maybe(self, wire: Maybe, target: str, path: str) -> None:
        presence = self._source.fresh("p")
        self._fixed("b", presence, path)
        self.flush()
        with self._source.block(f"if {presence} == 1:"):
            variable = self.structure(wire.inner, path)
            self.flush()
            self._source.add(f"{target} = {variable}")
        with self._source.block(f"elif {presence} == -1:"):
            self._source.add(f"{target} = None")
        with self._source.block("else:"):
            self._source.add(f'raise MalformedError(f"a presence byte of {{{presence}}}")', Place(path))

    def _tagged_section(self, tagged: Mapping[int, FieldInPlace], variable: str, path: str) -> None:
        """KIP-482: a count, then each field as tag, size and data. Almost always the count is 0."""
        count = self._source.fresh("t")
        self._fixed("B", count, path_of(path, "tagged fields"))
        self.flush()
        place = Place(path_of(path, "tagged fields"))
        for member in tagged.values():
            self._default(f"{variable}.{member.name}", member.declared.default)
        if not tagged:
            unknown = f"unknown_tags(data, pos, end, {count}, room)"
            with self._source.block(f"if {count}:"):
                self._source.add(f"{variable}._unknown_tagged_fields, pos, room = {unknown}", place)
            with self._source.block("else:"):
                self._source.add(f"{variable}._unknown_tagged_fields = ()")
            return
        self._source.add(f"{variable}._unknown_tagged_fields = ()")
        with self._source.block(f"if {count}:"):
            with self._source.block(f"if {count} > 127:"):
                self._source.add(f"{count}, pos = long_varint(data, pos, {count})", place)
            self._source.add(f"room = room_behind_tags({count}, room)", place)
            self._known_tags(tagged, count, variable, path)

    def _known_tags(self, tagged: Mapping[int, FieldInPlace], count: str, variable: str, path: str) -> None:
        tag, tail, unknown = (self._source.fresh(stem) for stem in ("tag", "tail", "unknown"))
        place = Place(path_of(path, "tagged fields"))
        self._source.add(f"{tag} = -1")
        self._source.add(f"{unknown} = []")
        with self._source.block(f"for _ in range({count}):"):
            self._source.add(f"{tag}, pos, {tail} = next_tag(data, pos, end, {tag})", place)
            for number, member in tagged.items():
                with self._source.block(f"if {tag} == {number}:"):
                    self.value(member.type, f"{variable}.{member.name}", path_of(path, member.name))
                    self.flush()
            known = ", ".join(map(str, tagged))
            with self._source.block(f"if {tag} not in ({known},):"):
                self._source.add(f"{unknown}.append(({tag}, bytes(data[pos:{tail}])))")
                self._source.add(f"pos = {tail}")
            with self._source.block(f"if pos != {tail}:"):
                self._source.add(f'raise MalformedError(f"tag {{{tag}}} ends at {{pos}} instead of {{{tail}}}")', place)
        self._source.add(f"{variable}._unknown_tagged_fields = tuple({unknown})")

    def _default(self, target: str, default: object) -> None:
        """Assign a default; lists are made anew, and structures when somebody asks for them (`schema.Structure`)."""
        if isinstance(default, Structure):
            return
        if fresh_default(default) is list:
            self._source.add(f"{target} = []")
        elif isinstance(default, UUID):
            self._source.add(f"{target} = {self._source.constant('uuid', default)}")
        else:
            self._source.add(f"{target} = {default!r}")


@cache
def _unpack_from(fmt: str) -> object:
    return struct.Struct(">" + fmt).unpack_from


def write_decoder(layout: Fields, title: str, version: int) -> FunctionBody:
    """The source of `decode(data) -> (message, bytes read)` for one layout."""
    source = FunctionBody(f"decode {title}")
    source.names.update(DECODER_RUNTIME)
    writer = DecoderWriter(source, from_view=reads_view(layout))
    with source.block("def decode(data):"):
        source.add("end = len(data)")
        source.add("pos = 0")
        source.add(f"room = {MAX_DECODED_BYTES}")
        with source.block("try:"):
            message = writer.structure(layout, "")
            writer.flush()
            source.add(f"{message}._version = {version}")
            source.add(f"return {message}, pos")
        with source.block("except DECODING_ERRORS as error:"):
            source.add("raise located(error, pos, end) from error")
    source.names["located"] = _locator(source, title)
    return source


def _locator(source: FunctionBody, title: str) -> Callable[[Exception, int, int], ProtocolError]:
    """Makes the function that turns what went wrong in the code of `source` into a located ProtocolError."""

    def located(error: Exception, pos: int, end: int) -> ProtocolError:
        places = source.place_at(error.__traceback__)
        path = places[0].path if places else "?"
        for place in places:
            path = place.path
            if pos + struct.calcsize(">" + place.fmt) > end:
                break
            pos += struct.calcsize(">" + place.fmt)
        ended = isinstance(error, struct.error | IndexError)
        problem = f"the data ends after {end} bytes" if ended else str(error)
        return ProtocolError(f"cannot decode {title}: {path} at byte {pos}: {problem}")

    return located
