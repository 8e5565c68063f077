"""Values as Java's serializers write them, one by one and as columns; what else was written is refused."""

from __future__ import annotations

import struct
from typing import Protocol
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka import serialization
from hypothesis import given
from hypothesis import strategies as st

from kwire import ConfigError, ConsumerConfig
from kwire.deserializers import (
    BooleanDeserializer,
    BytesDeserializer,
    DoubleDeserializer,
    FloatDeserializer,
    IntegerDeserializer,
    LongDeserializer,
    ShortDeserializer,
    StringDeserializer,
    UUIDDeserializer,
)


class Deserializes(Protocol):
    def __call__(self, data: bytes) -> object: ...

    def to_arrow(self, column: pa.Array) -> pa.Array: ...


# What Java's serializers make of these values (kafka-clients 4.4.0).
WRITTEN: list[tuple[str, Deserializes, str, object, pa.DataType]] = [
    ("Short", ShortDeserializer(), "fffe", -2, pa.int16()),
    ("Integer", IntegerDeserializer(), "499602d2", 1234567890, pa.int32()),
    ("Long", LongDeserializer(), "fffffffffffffffe", -2, pa.int64()),
    ("Float", FloatDeserializer(), "3fc00000", 1.5, pa.float32()),
    ("Double", DoubleDeserializer(), "c002000000000000", -2.25, pa.float64()),
    ("Boolean", BooleanDeserializer(), "01", True, pa.bool_()),
    ("String", StringDeserializer(), "6bc3a4c3b662", "käöb", pa.string()),
    ("ByteArray", BytesDeserializer(), "00ff", b"\0\xff", pa.binary()),
]
NAMES = [name for name, *_ in WRITTEN]


@pytest.mark.parametrize(("name", "deserialize", "written", "value", "kind"), WRITTEN, ids=NAMES)
def test_what_java_writes_is_read(
    name: str, deserialize: Deserializes, written: str, value: object, kind: pa.DataType
) -> None:
    data = bytes.fromhex(written)
    assert deserialize(data) == value
    column = deserialize.to_arrow(pa.array([data, None, data], pa.binary()))
    assert (column.to_pylist(), column.type) == ([value, None, value], kind)


def test_a_uuid_is_text() -> None:
    text = b"6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    assert UUIDDeserializer()(text) == UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    assert UUIDDeserializer().to_arrow(pa.array([text.upper(), None], pa.binary())).to_pylist() == [text.decode(), None]
    with pytest.raises(ValueError, match="badly formed"):
        UUIDDeserializer()(b"no uuid")


@given(st.integers(-(2**31), 2**31 - 1), st.floats(allow_nan=False), st.text(st.characters(codec="utf-8")))
def test_what_confluents_serializers_write_is_read(number: int, real: float, text: str) -> None:
    assert IntegerDeserializer()(serialization.IntegerSerializer()(number) or b"") == number
    assert DoubleDeserializer()(serialization.DoubleSerializer()(real) or b"") == real
    assert StringDeserializer()(serialization.StringSerializer()(text) or b"") == text


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_of_a_column_with_nulls_is_read(values: list[int | None], front: int, behind: int) -> None:
    whole = pa.array([None if value is None else struct.pack(">q", value) for value in values], pa.binary())
    some = whole[front : max(front, len(values) - behind)]
    assert LongDeserializer().to_arrow(some).to_pylist() == values[front : max(front, len(values) - behind)]


@pytest.mark.parametrize(
    ("deserialize", "data", "complaint"),
    [
        (LongDeserializer(), b"\0\0\0\1", "LongDeserializer reads 8 bytes, these are 4"),
        (IntegerDeserializer(), b"", "IntegerDeserializer reads 4 bytes, these are 0"),
        (FloatDeserializer(), b"1.5", r"FloatDeserializer reads 4 bytes, these are 3: b'1\.5'"),
        (BooleanDeserializer(), b"\2", "a boolean is one byte, 0 or 1"),
        (StringDeserializer(), b"\xff", "codec can't decode"),
    ],
)
def test_what_has_another_form_is_refused(deserialize: Deserializes, data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        deserialize(data)
    with pytest.raises(ValueError, match=r"."):
        deserialize.to_arrow(pa.array([None, data], pa.binary()))


def test_a_deserializer_that_has_to_be_awaited_is_refused() -> None:
    async def decode(data: bytes) -> str:
        return data.decode()

    with pytest.raises(ConfigError, match="its answer has to be awaited"):
        ConsumerConfig.of(bootstrap_servers="b:1", value_deserializer=decode)
