"""Shapes that the notation allows and no declared message has yet: they must work before the first one needs them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from construct import ConstructError

from kwire.errors import InternalError, ProtocolError
from kwire.protocol import decode_message, encode_message
from kwire.protocol.compiler import encoder_source
from kwire.protocol.decoder import DecoderWriter, least_bytes
from kwire.protocol.encoder import EncoderWriter
from kwire.protocol.layout import layout_of
from kwire.protocol.messages.fetch import FetchRequest, FetchTopic
from kwire.protocol.primitives import FIXED, VARINT, Blob, Construct, Length, Sequence, Text, Unique
from kwire.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int16,
    Message,
    NullableArray,
    NullableBytes,
    NullableRecords,
    String,
    Structure,
    Uuid,
    field,
)
from kwire.protocol.source import FunctionBody


class Inner(Structure):
    """Something to nest."""

    number: Int16 = 0
    names: Array[String] = field(default=[])


class Outer(Structure):
    """An element with a nullable and a plain structure in it."""

    maybe: Inner | None = None
    inner: Inner = field(default=Inner())
    flags: Array[Bool] = field(default=[])


class Unusual(Message, versions="0-1", flexible="1+"):
    """Arrays of everything, structures without arrays, records beside strings."""

    outers: Array[Outer] = field(default=[])
    inner: Inner = field(default=Inner())
    ids: NullableArray[Uuid] = None
    ratios: Array[Float64] = field(default=[])
    blob: Bytes = b""
    maybe_blob: NullableBytes = None
    records: NullableRecords = None
    tagged_names: Array[String] = field("1+", default=[], tag=0)
    tagged_outer: Outer | None = field("1+", default=None, tag=1)
    tagged_flag: Bool = field("1+", default=True, tag=5)


FULL = Unusual(
    outers=[Outer(), Outer(maybe=Inner(number=1, names=["a", "b"]), inner=Inner(number=2), flags=[True, False])],
    inner=Inner(number=-1, names=["", "é" * 100]),
    ids=[UUID(int=1), UUID(int=2**128 - 1)],
    ratios=[0.5] * 200,
    blob=b"b",
    maybe_blob=b"",
    records=b"r" * 300,
    tagged_names=["t"],
    tagged_outer=Outer(maybe=Inner(names=["x"])),
    tagged_flag=False,
    _unknown_tagged_fields=((3, b"between"), (200, b"after")),
)
PLAIN = Unusual(outers=FULL.outers, inner=FULL.inner, ids=FULL.ids, ratios=FULL.ratios, blob=b"b", records=b"r")


@pytest.mark.parametrize(("message", "version"), [(FULL, 1), (PLAIN, 0), (PLAIN, 1), (Unusual(), 0), (Unusual(), 1)])
def test_they_survive_the_round_trip_and_agree_with_the_layout(message: Unusual, version: int) -> None:
    data = encode_message(message, version)
    decoded = decode_message(Unusual, version, data)
    assert decoded == message
    layout = layout_of(Unusual, version)
    assert layout.parse(data) == decoded.to_dict()
    assert layout.build(message.to_dict(version)) == data


def test_every_truncation_of_them_is_refused() -> None:
    data = encode_message(FULL, 1)
    for length in range(len(data)):
        with pytest.raises(ProtocolError, match="cannot decode Unusual v1: "):
            decode_message(Unusual, 1, data[:length])


def test_more_than_127_tagged_fields_beside_known_ones() -> None:
    unknown = tuple((tag, b"x") for tag in range(10, 310))
    message = Unusual(tagged_flag=False, _unknown_tagged_fields=unknown)
    assert decode_message(Unusual, 1, encode_message(message, 1)) == message


def test_the_smallest_size_counts_what_must_be_there() -> None:
    # maybe: presence; inner: number, count of names; flags: their count; in version 1 the tag counts of Inner and Outer
    for version, expected in ((0, 1 + 2 + 4 + 4), (1, 1 + 2 + 1 + 1 + 1 + 1)):
        outers = layout_of(Unusual, version).plain[0].type
        assert isinstance(outers, Sequence)
        assert least_bytes(outers.element) == expected


def test_what_only_looks_like_a_structure_is_refused() -> None:
    lookalike = cast("FetchTopic", SimpleNamespace(topic="t", topic_id=UUID(int=0), partitions=[]))
    with pytest.raises(ProtocolError, match=r"cannot encode FetchRequest v4: .*_unknown_tagged_fields"):
        encode_message(FetchRequest(topics=[lookalike]), 4)


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        (VARINT, -1),
        (VARINT, 2**32),
        (VARINT, "1"),
        (Unique(), "12345678-1234-5678-1234-567812345678"),
        (Text(Length(compact=True, nullable=False, width_bytes=2)), None),
        (Text(Length(compact=True, nullable=False, width_bytes=2)), "x" * 0x8000),
        (Text(Length(compact=False, nullable=True, width_bytes=2)), b"x"),
        (Blob(Length(compact=False, nullable=True, width_bytes=4), zero_copy=False), "x"),
        (Sequence(Length(compact=False, nullable=True, width_bytes=4), FIXED["bool"]), "x"),
        (FIXED["int8"], 128),
        (layout_of(Unusual, 0), []),
    ],
)
def test_the_construct_types_refuse_what_does_not_fit(wire: Construct, value: object) -> None:
    with pytest.raises(ConstructError):
        wire.build(value)


def test_a_type_that_the_compiler_does_not_know_is_a_bug() -> None:
    source = FunctionBody("test")
    for write in (
        lambda: least_bytes(VARINT),
        lambda: DecoderWriter(source, from_view=False).value(VARINT, "target", "path"),
        lambda: EncoderWriter(source).value(VARINT, "expression", "path"),
    ):
        with pytest.raises(InternalError, match=r"no (size|code) known for "):
            write()


def test_a_line_that_failed_outside_the_code_has_no_place() -> None:
    assert encoder_source(Unusual, 0).place_at(None) == ()
