"""JSON as Arrow columns: what Arrow reads in one go is what Python's parser reads one by one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.deserializers import JsonDeserializer, JsonValue


def column(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def test_documents_become_structs() -> None:
    found = JsonDeserializer().to_arrow(column(b'{"id": 1, "tags": ["a"]}', None, b'{\n "id": 2,\n "tags": []\n}'))
    assert found.to_pylist() == [{"id": 1, "tags": ["a"]}, None, {"id": 2, "tags": []}]
    assert found.type.field("id").type == pa.int64()


def test_a_type_makes_columns_the_same_each_time() -> None:
    wanted = pa.struct({"id": pa.int32(), "at": pa.timestamp("ms", tz="UTC"), "note": pa.string()})
    deserialize = JsonDeserializer(wanted)
    found = deserialize.to_arrow(column(b'{"id": 7, "at": "2026-01-02T03:04:05Z", "more": {"x": 1}}'))
    assert found.type == wanted
    assert found.field("id").to_pylist() == [7]
    assert found.field("note").to_pylist() == [None]
    assert deserialize.to_arrow(column(None, None)).type == wanted
    assert deserialize.to_arrow(column()).type == wanted


@pytest.mark.parametrize("value", [b"1", b"null", b'"text"', b"[1, 2]", b" true ", b"1.5", b"{}"])
def test_not_only_objects_are_documents(value: bytes) -> None:
    assert JsonDeserializer().to_arrow(column(value, value)).to_pylist() == [json.loads(value)] * 2


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"{",
        b'{"a": 1}{"a": 2}',
        b'{"a": 1}\n{"a": 2}',
        b"1,2",
        b'1, "b": 2',
        b'1}\n{"value": 2',
        b"'a'",
        b"\xff",
    ],
)
def test_what_is_no_document_is_refused_and_does_not_shift_the_others(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        JsonDeserializer().to_arrow(column(b"{}", value, b"{}"))


@pytest.mark.parametrize("value", [b'1, "x": 2', b'1, "value": 2', b'1}\n{"value": 2', b"1,2"])
def test_what_is_no_document_is_refused_with_a_type_too(value: bytes) -> None:
    """What stood behind the first value was ignored, as a field that the type does not have."""
    with pytest.raises(ValueError, match=r"."):
        JsonDeserializer(pa.int64()).to_arrow(column(b"3", value, b"4"))
    in_struct = b'{"id": %s' % value.replace(b"1", b'1, "more": "b"}', 1)
    with pytest.raises(ValueError, match=r"."):
        JsonDeserializer(pa.struct({"id": pa.int64()})).to_arrow(column(b'{"id": 3}', in_struct))


def test_fields_that_the_type_leaves_out_may_have_any_types() -> None:
    found = JsonDeserializer(pa.struct({"id": pa.int64()})).to_arrow(
        column(b'{"id": 1, "more": "text"}', b'{"id": 2, "more": [7]}')
    )
    assert found.to_pylist() == [{"id": 1}, {"id": 2}]


FLAT = st.fixed_dictionaries(
    {
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "real": st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: x + 0.5),
        "text": st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])).map(lambda t: f"t{t}"),
        "flags": st.lists(st.booleans()),
    }
)


@given(st.lists(st.none() | FLAT, max_size=5))
def test_columns_are_what_the_parser_makes(values: list[dict[str, JsonValue] | None]) -> None:
    written = [None if value is None else json.dumps(value).encode() for value in values]
    kind = pa.struct(
        {"whole": pa.int64(), "real": pa.float64(), "text": pa.string(), "flags": pa.list_(pa.bool_())},
    )
    assert JsonDeserializer(kind).to_arrow(column(*written)).to_pylist() == values


def test_values_of_several_types_are_refused() -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        JsonDeserializer().to_arrow(column(b'{"a": 1}', b'{"a": "x"}'))
