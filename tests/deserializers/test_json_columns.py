"""JSON as Arrow columns: what Arrow reads in one go is what Python's parser reads one by one."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal

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


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        (pa.timestamp("s", tz="UTC"), (b'"2026-01-02T03:04:05Z"',), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (pa.decimal128(10, 2), (b'"1.50"', b"1.50"), Decimal("1.50")),
    ],
)
def test_the_types_of_fields_that_are_left_out_do_not_matter(
    kind: pa.DataType, values: tuple[bytes, ...], found: object
) -> None:
    """They made Python read the records, which leaves times and decimals as the text they are."""
    for value in values:
        documents = column(b'{"it": %s, "more": 1}' % value, b'{"it": %s, "more": "x"}' % value)
        assert JsonDeserializer(pa.struct({"it": kind})).to_arrow(documents).to_pylist() == [{"it": found}] * 2


def test_a_type_may_have_maps() -> None:
    kind = pa.struct({"sums": pa.map_(pa.string(), pa.int64())})
    assert JsonDeserializer(kind).to_arrow(column(b'{"sums": {"a": 1}}')).to_pylist() == [{"sums": [("a", 1)]}]


def test_text_that_looks_like_a_time_is_text() -> None:
    """It lost its zone, and the type changed with the look of the records at hand."""
    documents = [
        b'{"at": "2026-01-02T03:04:05+02:00", "days": ["2026-01-02"], "in": [{"at": "2026-01-02", "n": 1}]}',
        b'{"at": "2026-01-02", "n": 1.5}',
    ]
    found = JsonDeserializer().to_arrow(column(*documents)).to_pylist()
    assert [{name: part for name, part in each.items() if part is not None} for each in found] == [
        json.loads(each) for each in documents
    ]
    assert JsonDeserializer().to_arrow(column(b'"2026-01-02"')).to_pylist() == ["2026-01-02"]


def test_text_that_looks_like_a_time_late_is_text() -> None:
    documents = [b'{"x": "a"}'] * 100 + [b'{"x": "b", "at": {"day": "2026-01-02"}}', b"null", b'{"x": "2026-01-02"}']
    found = JsonDeserializer().to_arrow(column(*documents))
    assert found[100].as_py() == {"x": "b", "at": {"day": "2026-01-02"}}
    assert found[102].as_py() == {"x": "2026-01-02", "at": None}
    assert found.type.field("at").type == pa.struct({"day": pa.string()})


@pytest.mark.parametrize(
    "values",
    [
        (b'{"id": 18446744073709551615}', b'{"id": 18446744073709551614}'),
        (b"-9223372036854775809",),
        (b'{"id": [9007199254740993, 0.5]}',),
    ],
    ids=["more than 64 bits with a sign", "less than them", "beside floats"],
)
def test_whole_numbers_are_not_rounded(values: tuple[bytes, ...]) -> None:
    """They became floats, and ids that differ became equal."""
    with pytest.raises((OverflowError, pa.ArrowInvalid)):
        JsonDeserializer().to_arrow(column(*values))


def test_whole_numbers_have_the_type_that_is_given() -> None:
    ids = column(b'{"id": 18446744073709551615}', b'{"id": 1}')
    found = JsonDeserializer(pa.struct({"id": pa.uint64()})).to_arrow(ids)
    assert found.to_pylist() == [{"id": 18446744073709551615}, {"id": 1}]
    floats = JsonDeserializer(pa.struct({"id": pa.float64()})).to_arrow(ids)
    assert floats.to_pylist() == [{"id": 18446744073709551615.0}, {"id": 1.0}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), b"1.5"),
        (pa.int64(), b"9007199254740993.0"),
        (pa.uint8(), b"0.5"),
        (pa.timestamp("s"), b"1700000000.25"),
        (pa.struct({"cents": pa.int64()}), b'{"cents": 1.5}'),
        (pa.struct({"cents": pa.list_(pa.int32())}), b'{"cents": [1, 1.5]}'),
        (pa.struct({"cents": pa.map_(pa.string(), pa.int64())}), b'{"cents": {"a": 1.5}}'),
    ],
)
def test_fractions_are_not_cut_off_to_fit_a_type(kind: pa.DataType, value: bytes) -> None:
    """1.5 became 1, and sums were wrong without a word."""
    with pytest.raises(ValueError, match=r"is no whole number that .* holds as it was written"):
        JsonDeserializer(kind).to_arrow(column(value))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.timestamp("us", tz="UTC"), "2026-01-02T03:04:05.000006Z", datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
        (pa.timestamp("us", tz="UTC"), "2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        (pa.timestamp("us", tz="UTC"), "2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (pa.timestamp("ms"), "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).replace(tzinfo=None)),
        (pa.date32(), "2026-01-02", date(2026, 1, 2)),
        (
            pa.decimal128(38, 18),
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
    ],
    ids=str,
)
def test_times_and_decimals_are_read_beside_a_map_too(kind: pa.DataType, text: str, value: object) -> None:
    """Arrow's reader knows no maps, and beside one each time and each decimal was refused."""
    plain = pa.struct({"at": kind})
    found = JsonDeserializer(plain).to_arrow(column(json.dumps({"at": text}).encode(), b"{}"))
    beside = pa.struct({"at": kind, "tags": pa.map_(pa.string(), kind)})
    document = json.dumps({"at": text, "tags": {"a": text}}).encode()
    assert JsonDeserializer(beside).to_arrow(column(document, b"{}")).field("at") == found.field("at")
    assert found.to_pylist() == [{"at": value}, {"at": None}]


def test_decimals_beside_a_map_are_those_that_were_written() -> None:
    kind = pa.struct({"cents": pa.decimal128(38, 18), "x": pa.float64(), "sums": pa.map_(pa.string(), pa.float32())})
    document = b'{"cents": 12345678901234567890.123456789012345678, "x": 0.1, "sums": {"a": 1e99999999999999999999}}'
    (found,) = JsonDeserializer(kind).to_arrow(column(document)).to_pylist()
    wanted = Decimal("12345678901234567890.123456789012345678")
    assert found == {"cents": wanted, "x": 0.1, "sums": [("a", float("inf"))]}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.timestamp("us", tz="UTC"), "2026-01-02T03:04:05.123456789Z"),
        (pa.timestamp("ns"), "9999-12-31T00:00:00Z"),
        (pa.date32(), "soon"),
        (pa.time64("us"), "03:04:05"),
        (pa.decimal128(5, 2), "much"),
    ],
    ids=str,
)
def test_text_that_is_no_time_of_the_type_is_named(kind: pa.DataType, text: str) -> None:
    """The error was that a str is no int."""
    with pytest.raises(ValueError, match=rf"the text '{re.escape(text)}' cannot be read as {re.escape(str(kind))}"):
        JsonDeserializer(pa.struct({"at": kind})).to_arrow(column(json.dumps({"at": text}).encode()))


@pytest.mark.parametrize(
    "documents",
    [
        ([{"sku": "a", "off": None}, {"sku": "b", "off": None}], [{"sku": "c", "off": None}]),
        ([None, {"sku": "a"}], [{"sku": "b"}]),
        ([None, None, {"a": {}}],),
        ({"items": [{"a": []}, None]}, {"items": [None]}),
    ],
)
def test_nulls_in_lists_of_objects_make_valid_columns(documents: tuple[object, ...]) -> None:
    """Arrow's reader, and its casts, make columns of them that break in another place, later."""
    sent = column(*(json.dumps(each).encode() for each in documents))
    found = JsonDeserializer().to_arrow(sent)
    found.validate(full=True)
    assert found.to_pylist() == list(documents)
    again = JsonDeserializer(found.type).to_arrow(sent)
    again.validate(full=True)
    assert again.equals(found)


def test_whole_numbers_may_be_written_with_a_point() -> None:
    kind = pa.struct({"n": pa.int64(), "sums": pa.map_(pa.string(), pa.float64())})
    found = JsonDeserializer(kind).to_arrow(column(b'{"n": 2.0, "sums": {"a": 1.5}}', b'{"n": 1e3}', b"null"))
    assert found.to_pylist() == [{"n": 2, "sums": [("a", 1.5)]}, {"n": 1000, "sums": None}, None]


def test_large_floats_stay_floats() -> None:
    values = (b'{"x": 1e300, "y": [0.5]}', b'{"x": -2.5, "y": []}', b'{"x": null, "y": [1e20]}')
    assert JsonDeserializer().to_arrow(column(*values)).to_pylist() == [json.loads(value) for value in values]


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
