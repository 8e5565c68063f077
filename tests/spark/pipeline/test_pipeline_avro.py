"""Values of Avro: schemas as columns, and bytes as values, damaged ones too."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO

import fastavro
import pytest
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_type

from kwire.errors import ConfigError
from kwire.spark.pipeline.avro_types import struct_of
from kwire.spark.pipeline.avro_values import decoder

pa = pytest.importorskip("pyarrow")

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "item", "type": ["null", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "counts", "type": {"type": "map", "values": "int"}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
    {"name": "before", "type": ["State", "null"]},
    {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 2}},
    {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]}},
]
SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})
ORDER = {
    "id": 7,
    "item": None,
    "at": datetime(2026, 11, 22, 10, tzinfo=UTC),
    "day": date(2026, 11, 22),
    "price": Decimal("3.50"),
    "tags": ["a", None],
    "counts": {"k": 5},
    "state": "PAID",
    "before": None,
    "digest": b"\x01\x02",
    "place": {"x": 0.5},
}


def decimal_of(**digits: int) -> str:
    price = {"type": "bytes", "logicalType": "decimal", **digits}
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": price}]})


def written(order: object = ORDER) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(SCHEMA)), order)
    return stream.getvalue()


def decoded(values: list[bytes | None], *, is_framed: bool = False) -> list[object]:
    decode = decoder(SCHEMA, to_arrow_type(struct_of(SCHEMA), timezone="UTC"), is_framed=is_framed)
    found: list[object] = decode(pa.array(values, pa.binary())).to_pylist()
    return found


def test_every_type_of_avro_is_a_column() -> None:
    assert struct_of(SCHEMA).simpleString() == (
        "struct<id:bigint,item:string,at:timestamp,day:date,price:decimal(9,2),tags:array<string>,"
        "counts:map<string,int>,state:string,before:string,digest:binary,place:struct<x:double>>"
    )


def test_a_column_may_be_null_where_the_union_says_so() -> None:
    struct = struct_of(SCHEMA)
    assert [field.name for field in struct if field.nullable] == ["item", "before"]
    assert isinstance(struct["tags"].dataType, types.ArrayType)
    assert struct["tags"].dataType.containsNull


def test_values_are_read_as_they_were_written() -> None:
    (found,) = decoded([written()])
    assert found == {**ORDER, "counts": [("k", 5)]}  # as Arrow gives maps


@pytest.mark.parametrize(
    ("kind", "logical", "value", "column"),
    [
        ("string", "uuid", "d7a1f2f6-6b2c-4d0e-9c55-0f6d8c1f6f10", "string"),
        ("int", "time-millis", 3_723_000, "int"),
        ("long", "time-micros", 3_723_000_000, "bigint"),
        ("long", "timestamp-nanos", 1_700_000_000_000_000_000, "bigint"),
        ("string", "date", "2026-11-22", "string"),
        ("long", "decimal", 5, "bigint"),
    ],
)
def test_a_logical_type_that_no_column_has_is_read_as_the_type_below_it(
    kind: str, logical: str, value: object, column: str
) -> None:
    """Java writes UUIDs and times of day so. No batch with one of them went through."""
    field = {"name": "a", "type": ["null", {"type": kind, "logicalType": logical}]}
    schema = json.dumps({"type": "record", "name": "R", "fields": [field]})
    plain = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", kind]}]}
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain), {"a": value})
    struct = struct_of(schema)
    assert struct.simpleString() == f"struct<a:{column}>"
    decode = decoder(schema, to_arrow_type(struct, timezone="UTC"), is_framed=False)
    assert decode(pa.array([stream.getvalue()], pa.binary())).to_pylist() == [{"a": value}]


def test_values_that_do_not_fit_are_null_and_the_others_are_there() -> None:
    found = decoded([b"", b"\xff", None, written(), written() + b"more", written()[:-1]])
    assert [each is None for each in found] == [True, True, True, False, True, True]


def test_numbers_that_are_too_large_for_their_type_are_null_and_the_others_are_there() -> None:
    """They are no int and no decimal of four digits, though fastavro reads them. All values of the batch failed."""
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    fields = [{"name": "a", "type": "int"}, {"name": "price", "type": price}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    decode = decoder(schema, to_arrow_type(struct_of(schema), timezone="UTC"), is_framed=False)
    values = [b"\x02\x02\x64", b"\xfe\xff\xff\xff\xff\x01\x02\x64", b"\x02\x06\x64\x64\x64", b"\x04\x02\x64"]
    assert decode(pa.array(values, pa.binary())).to_pylist() == [
        {"a": 1, "price": Decimal("1.00")},
        None,
        None,
        {"a": 2, "price": Decimal("1.00")},
    ]


def test_a_schema_registry_s_five_bytes_are_taken_off() -> None:
    framed = b"\x00\x00\x00\x00\x2a" + written()
    found = decoded([framed, written(), b"\x00\x00", b""], is_framed=True)
    assert [each is None for each in found] == [False, True, True, True]


@pytest.mark.parametrize("said_first", [{"name": "A", "namespace": "com.acme"}, {"name": "com.acme.A"}, {"name": "A"}])
@pytest.mark.parametrize("said_again", ["com.acme.A", "A"])
def test_a_type_is_known_by_its_name_with_or_without_the_namespace_it_is_in(
    said_first: dict[str, str], said_again: str
) -> None:
    """Full names were no types, unless the type had been described by one."""
    place = {"type": "record", "fields": [{"name": "x", "type": "int"}], **said_first}
    other = {"type": "record", "name": "org.other.A", "fields": [{"name": "y", "type": "string"}]}
    fields = [{"name": "a", "type": place}, {"name": "b", "type": other}, {"name": "c", "type": ["null", said_again]}]
    schema = {"type": "record", "name": "Order", "namespace": "com.acme", "fields": fields}
    fastavro.parse_schema(schema)
    assert struct_of(json.dumps(schema)).simpleString() == "struct<a:struct<x:int>,b:struct<y:string>,c:struct<x:int>>"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "is no JSON"),
        ('"long"', "is of a record, not of bigint"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "lung"}]}', r"value\.a is 'lung'"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}',
            r"value\.a is one of",
        ),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}', r"value\.a is 'R'"),
        ('{"type": "record", "name": "R"}', "a record without fields"),
        ('{"type": "record", "name": "R", "fields": [{"type": "int"}]}', "which has no name"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": 5}]}', r"value\.a is 5"),
        (decimal_of(precision=39), r"value\.a is a decimal of precision 39 and scale 0; .* up to 38"),
        (decimal_of(precision=4, scale=5), "precision 4 and scale 5"),
        (decimal_of(), "precision None"),
    ],
)
def test_schemas_that_make_no_table_are_told(schema: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        struct_of(schema)


def test_a_schema_that_only_avro_can_refuse_is_told() -> None:
    with pytest.raises(ConfigError, match="no schema of Avro"):
        decoder('{"type": "enum", "name": "E", "symbols": ["a-b"]}', None, is_framed=False)
