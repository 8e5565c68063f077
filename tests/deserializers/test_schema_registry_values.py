"""Values of a schema registry, written by Confluent's serializers and read through a real HTTP registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from kwire import Consumer, Header, InvalidArgumentError, Record, RecordDeserializationError, Records
from kwire.deserializers import (
    AvroDeserializer,
    IntegerDeserializer,
    JsonSchemaDeserializer,
    LongDeserializer,
    ProtobufDeserializer,
    SerializationContext,
)
from kwire.fetching.partition_records import PartitionRecords
from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    from tests.schema_registry import SchemaRegistry, running_registry
else:
    from schema_registry import running_registry

pytestmark = pytest.mark.slow

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
WITH_PRICE = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": ["null", "double"], "default": None}]}
JSON_ORDER = json.dumps(
    {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
)
CTX = ConfluentContext("orders", MessageField.VALUE, [])


def as_avro(client: SchemaRegistryClient, schema: object, value: object) -> bytes:
    (data,) = all_as_avro(client, schema, [value])
    return data


def all_as_avro(client: SchemaRegistryClient, schema: object, values: Sequence[object]) -> list[bytes]:
    serialize = confluent_avro.AvroSerializer(client, json.dumps(schema))
    return [serialize(value, CTX) or b"" for value in values]


def as_json(client: SchemaRegistryClient, value: object) -> bytes:
    return confluent_json.JSONSerializer(JSON_ORDER, client)(value, CTX) or b""


def as_protobuf(client: SchemaRegistryClient, seconds: int) -> bytes:
    return confluent_protobuf.ProtobufSerializer(Timestamp, client)(Timestamp(seconds=seconds), CTX) or b""


def consumer_of(cluster: Cluster, **settings: object) -> Consumer:
    return Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest", **settings}, "orders"
    )


def polled(cluster: Cluster) -> Records:
    with consumer_of(cluster) as consumer:
        return consumer.poll(10)


def read(cluster: Cluster, deserialize: object) -> list[object]:
    with consumer_of(cluster, value_deserializer=deserialize) as consumer:
        return list(consumer.poll(10).values())


# --- one by one ----------------------------------------------------------------------------------------------


def test_avro_is_read_by_the_schemas_that_it_was_written_with(client: SchemaRegistryClient, cluster: Cluster) -> None:
    cluster.produce("orders", as_avro(client, ORDER, {"id": 1, "item": "tea"}))
    cluster.produce("orders", as_avro(client, WITH_PRICE, {"id": 2, "item": "jam", "price": 1.5}))
    cluster.produce("orders", NewRecord(None))
    assert read(cluster, AvroDeserializer(client)) == [
        {"id": 1, "item": "tea"},
        {"id": 2, "item": "jam", "price": 1.5},
        None,
    ]


def test_avro_is_read_as_the_readers_schema_and_made_objects_of(client: SchemaRegistryClient, cluster: Cluster) -> None:
    seen: list[object] = []

    def from_dict(found: dict[str, object], ctx: SerializationContext) -> tuple[object, ...]:
        seen.append((ctx.topic, ctx.field))
        return tuple(found.values())

    cluster.produce("orders", as_avro(client, ORDER, {"id": 1, "item": "tea"}))
    deserialize = AvroDeserializer(client, reader_schema=json.dumps(WITH_PRICE), from_dict=from_dict)
    assert read(cluster, deserialize) == [(1, "tea", None)]
    assert seen == [("orders", "value")]


def test_protobuf_and_json_schema_are_read(client: SchemaRegistryClient, cluster: Cluster) -> None:
    cluster.produce("orders", NewRecord(as_json(client, {"id": 7}), as_protobuf(client, 99)))
    deserializers = {
        "key.deserializer": ProtobufDeserializer(Timestamp),
        "value.deserializer": JsonSchemaDeserializer(client),
    }
    with consumer_of(cluster, **deserializers) as consumer:
        (record,) = consumer.poll(10)
    assert [record.key, record.value] == [Timestamp(seconds=99), {"id": 7}]


def confluents_own(client: SchemaRegistryClient) -> Iterator[tuple[Callable[..., object], bytes, object]]:
    yield confluent_avro.AvroDeserializer(client), as_avro(client, ORDER, {"id": 1, "item": ""}), {"id": 1, "item": ""}
    yield confluent_protobuf.ProtobufDeserializer(Timestamp), as_protobuf(client, 5), Timestamp(seconds=5)
    yield confluent_json.JSONDeserializer(None, schema_registry_client=client), as_json(client, {"id": 1}), {"id": 1}


def test_confluents_deserializers_are_taken_as_they_are(client: SchemaRegistryClient) -> None:
    for deserialize, written, value in confluents_own(client):
        with Cluster() as cluster:
            cluster.create_topic("orders")
            cluster.produce("orders", written)
            assert read(cluster, deserialize) == [value]


def test_a_schema_in_a_header_is_found(client: SchemaRegistryClient, cluster: Cluster) -> None:
    register = confluent_avro.AvroSerializer(client, json.dumps(ORDER))
    register({"id": 1, "item": "green tea"}, CTX)
    bare = (register({"id": 1, "item": "green tea"}, CTX) or b"")[5:]
    number = b"\0" + (1).to_bytes(4, "big")
    cluster.produce("orders", NewRecord(bare, None, (Header("__value_schema_id", number),)))
    assert read(cluster, AvroDeserializer(client)) == [{"id": 1, "item": "green tea"}]


# --- the registry is asked once, and not by the network thread -----------------------------------------------


def test_each_schema_is_asked_for_once_on_the_applications_thread(registry: SchemaRegistry, cluster: Cluster) -> None:
    with SchemaRegistryClient({"url": registry.url}) as other:
        cluster.produce("orders", *all_as_avro(other, ORDER, [{"id": n, "item": "x"} for n in range(200)]))
    threads: set[str] = set()
    client = SchemaRegistryClient({"url": registry.url})
    ask = client.get_schema

    def get_schema(*args: object, **more: object) -> Schema:
        threads.add(threading.current_thread().name)
        return ask(*args, **more)  # type: ignore[arg-type]  # as it was called

    client.get_schema = get_schema  # type: ignore[method-assign]
    registry.asked.clear()
    with consumer_of(cluster, value_deserializer=AvroDeserializer(client)) as consumer:
        assert len(consumer.poll(10)) == 200
    assert registry.asked.count("GET /schemas/ids/1") == 1
    assert len(registry.asked) <= 2  # and once which subject the topic has
    assert threads == {threading.current_thread().name}
    client.close()


# --- what cannot be read -------------------------------------------------------------------------------------


def failure(cluster: Cluster, deserialize: object) -> RecordDeserializationError:
    with consumer_of(cluster, value_deserializer=deserialize) as consumer:
        with pytest.raises(RecordDeserializationError) as caught:
            consumer.poll(10)
        return caught.value


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (
            b'{"id": 1}',
            r"no frame of a schema registry.* begins with 0x7b \(plain JSON, which JsonDeserializer reads\?\)",
        ),
        (b"hello world", r"begins with 0x68 \(plain text, which StringDeserializer reads\?\)"),
        (b"\x17\x8a\x05\xff\xfe\x03\x04", r"begins with 0x17 \(encrypted, or of another serializer\?\)"),
        (b"\0\0\1", "3 bytes are too few for the frame of a schema registry, which has 5"),
        (b"", "it is empty"),
        (b"\0\0\0\x30\x39\2", "the schema registry does not know its schema: Schema 12345 not found"),
    ],
)
def test_frames_that_are_none_are_explained(
    client: SchemaRegistryClient, cluster: Cluster, data: bytes, complaint: str
) -> None:
    cluster.produce("orders", data)
    error = failure(cluster, AvroDeserializer(client))
    assert not error.retriable
    with pytest.raises(RecordDeserializationError, match=rf"value of orders-0 at offset 0: .*{complaint}.* seek\("):
        raise error


def test_a_record_that_does_not_fit_its_schema_is_named(client: SchemaRegistryClient, cluster: Cluster) -> None:
    good = as_avro(client, ORDER, {"id": 1, "item": "tea"})
    cluster.produce("orders", good[:-2])
    error = failure(cluster, AvroDeserializer(client))
    assert (error.offset, error.value_data) == (0, good[:-2])


def test_confluents_own_complaint_about_a_frame_is_explained_as_well(
    client: SchemaRegistryClient, cluster: Cluster
) -> None:
    cluster.produce("orders", b"\x17 what is this")
    own = confluent_avro.AvroDeserializer(client)
    with pytest.raises(RecordDeserializationError, match=r"no frame of a schema registry \(encrypted"):
        raise failure(cluster, own)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry.avro", None)
    monkeypatch.delattr("confluent_kafka.schema_registry.avro")
    with pytest.raises(ImportError, match=r"pip install 'kwire\[avro\]'"):
        AvroDeserializer("http://localhost:1")


# --- columns -------------------------------------------------------------------------------------------------


def test_columns_of_numbers_and_of_records_of_two_schemas(client: SchemaRegistryClient, cluster: Cluster) -> None:
    old, new = {"id": 1, "item": "tea"}, {"id": 2, "item": "jam", "price": 1.5}
    cluster.produce("orders", NewRecord(as_avro(client, ORDER, old), b"\0\0\0\1"), NewRecord(None), partition=0)
    cluster.produce("orders", NewRecord(as_avro(client, WITH_PRICE, new), b"\0\0\0\2"), partition=1)
    with consumer_of(cluster) as consumer:
        found: list[PartitionRecords[bytes, bytes]] = []
        while sum(len(chunk) for chunk in found) < 3:
            found += consumer.poll(10).chunks()
        chunks = Records(found)
    table = chunks.to_arrow(key=IntegerDeserializer(), value=AvroDeserializer(client))
    assert table.schema.field("key").type == pa.int32()
    rows = {tuple(row[name] for name in ("partition", "offset", "key")): row["value"] for row in table.to_pylist()}
    assert rows == {(0, 0, 1): {**old, "price": None}, (0, 1, None): None, (1, 0, 2): new}
    frame = chunks.to_polars(value=AvroDeserializer(client))
    assert frame["value"].struct.field("id").drop_nulls().sort().to_list() == [1, 2]


def test_a_field_that_the_highest_schema_lacks_stays(client: SchemaRegistryClient, cluster: Cluster) -> None:
    """A schema that was taken back has its old number: the highest one was read as, and the field was gone."""
    with_price = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "double"}]}
    dear, plain = {"id": 1, "item": "tea", "price": 2.5}, {"id": 2, "item": "jam"}
    cluster.produce("orders", as_avro(client, with_price, dear), as_avro(client, ORDER, plain), partition=0)
    cluster.produce("orders", as_avro(client, with_price, dear), partition=0)
    column = polled(cluster).to_arrow(value=AvroDeserializer(client)).column("value")
    assert column.to_pylist() == [dear, {**plain, "price": None}, dear]


def test_bytes_alone_are_a_column_of_what_was_sent(client: SchemaRegistryClient, cluster: Cluster) -> None:
    """Serializers write them without a length; the column took the first byte for one, and cut them."""
    sent = [b"\x04abcdef", b"\0hello", b"\x31"]
    cluster.produce("orders", *all_as_avro(client, "bytes", sent))
    records = polled(cluster)
    assert records.to_arrow(value=AvroDeserializer(client)).column("value").to_pylist() == sent
    assert read(cluster, AvroDeserializer(client)) == sent


def test_an_empty_poll_has_the_type_that_was_given(client: SchemaRegistryClient) -> None:
    """Its table could not be put together with those of other polls."""
    wanted = pa.struct([("id", pa.int64()), ("item", pa.string())])
    typed = (
        AvroDeserializer(client, reader_schema=json.dumps(ORDER)),
        JsonSchemaDeserializer(client, arrow_type=wanted),
    )
    for deserialize in typed:
        assert Records[bytes, bytes]().to_arrow(value=deserialize).schema.field("value").type == wanted


def test_a_column_names_the_record_that_it_fails_over(client: SchemaRegistryClient, cluster: Cluster) -> None:
    good = as_avro(client, ORDER, {"id": 1, "item": "tea"})
    cluster.produce("orders", good, good, good[:-1], good)
    records = polled(cluster)
    with pytest.raises(RecordDeserializationError, match="value of orders-0 at offset 2") as caught:
        records.to_arrow(value=AvroDeserializer(client))
    assert caught.value.offset == 2
    with pytest.raises(RecordDeserializationError, match=r"offset 0: .*LongDeserializer reads 8 bytes"):
        records.to_pandas(value=LongDeserializer())


def test_a_function_makes_a_column_too(cluster: Cluster) -> None:
    cluster.produce("orders", b"1", b"22", b"x")
    records = polled(cluster)
    assert records.to_arrow(value=len).column("value").to_pylist() == [1, 2, 1]
    with pytest.raises(RecordDeserializationError, match="offset 2"):
        records.to_arrow(value=int)
    advice = "no column of one type, from orders-0 offset 2 on: .*: give a function that returns such, all alike"
    with pytest.raises(InvalidArgumentError, match=advice):
        records.to_arrow(value=lambda data: object() if data == b"x" else 1)


def test_json_schema_columns_are_checked_and_read_in_one_go(client: SchemaRegistryClient, cluster: Cluster) -> None:
    good = as_json(client, {"id": 1})
    cluster.produce("orders", good, good[:5] + b'{"id": "one"}')
    records = polled(cluster)
    with pytest.raises(RecordDeserializationError, match=r"offset 1: .*'one' is not of type 'integer'"):
        records.to_arrow(value=JsonSchemaDeserializer(client))
    advice = r"from orders-0 offset 1 on: .*; give JsonSchemaDeserializer a type that all fit \(arrow_type=\.\.\.\)"
    with pytest.raises(InvalidArgumentError, match=advice):
        records.to_arrow(value=JsonSchemaDeserializer(client, config={"validate": False}))


@pytest.mark.parametrize("count", range(1, 7))
def test_json_schema_columns_of_any_length(client: SchemaRegistryClient, cluster: Cluster, count: int) -> None:
    """Each even number of values was refused."""
    sent = [{"id": number} for number in range(count)]
    cluster.produce("orders", *(as_json(client, value) for value in sent), partition=0)
    column = polled(cluster).to_arrow(value=JsonSchemaDeserializer(client)).column("value")
    assert column.to_pylist() == sent


def test_a_function_that_makes_objects_is_not_asked_for_a_column(
    client: SchemaRegistryClient, cluster: Cluster
) -> None:
    """It was called for each value, and what it raised was taken for a fault of the record."""
    made = list[object]()
    cluster.produce("orders", as_json(client, {"id": 1}))
    deserialize = JsonSchemaDeserializer(client, from_dict=lambda fields, _ctx: made.append(fields))
    column = polled(cluster).to_arrow(value=deserialize).column("value")
    assert (column.to_pylist(), made) == ([{"id": 1}], [])


def test_an_address_is_enough(registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster) -> None:
    cluster.produce("orders", as_avro(client, ORDER, {"id": 1, "item": "tea"}))
    assert read(cluster, AvroDeserializer(registry.url)) == [{"id": 1, "item": "tea"}]
    with pytest.raises(InvalidArgumentError, match=r"settings of the schema registry: Missing required .* url"):
        AvroDeserializer({"urll": registry.url})


EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "n",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "b", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "again", "type": ["null", "Kind"]},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "map", "type": {"type": "map", "values": "double"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "float"}]}},
    ],
}
VALUES = st.fixed_dictionaries(
    {
        "i": st.integers(-(2**31), 2**31 - 1),
        "b": st.booleans(),
        "raw": st.binary(max_size=9),
        "kind": st.sampled_from("AB"),
        "again": st.none() | st.sampled_from("AB"),
        "list": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
        "map": st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=3), st.floats(allow_nan=False), max_size=2
        ),
        "day": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
        "at": st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001  made aware below
            lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
        ),
        "money": st.integers(-(10**8), 10**8).map(lambda cents: Decimal(cents) / 100),
        "uuid": st.uuids().map(str),
        "inner": st.fixed_dictionaries({"x": st.floats(width=32, allow_nan=False)}),
    }
)


@pytest.fixture(scope="module")
def shared_client() -> Iterator[SchemaRegistryClient]:
    with running_registry() as found, SchemaRegistryClient({"url": found.url}) as client:
        yield client


@given(values=st.lists(VALUES, min_size=1, max_size=4))
def test_columns_are_what_was_written(shared_client: SchemaRegistryClient, values: list[dict[str, object]]) -> None:
    column = pa.array(all_as_avro(shared_client, EVERYTHING, values), pa.binary())
    found = AvroDeserializer(shared_client).to_arrow(column, SerializationContext("orders", "value"))
    assert [{**row, "map": dict(row["map"])} for row in found.to_pylist()] == values


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
PART = {
    "type": "record",
    "name": "Part",
    "fields": [{"name": "raw", "type": "bytes", "default": "\u00fe"}, {"name": "n", "type": "int", "default": 7}],
}


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (["null", "bytes"], None, None),
        ({"type": "fixed", "name": "Two", "size": 2}, "\u00ff\u0000", b"\xff\0"),
        (DECIMAL, "\u0001\u0000", Decimal("2.56")),
        (DECIMAL, "\u00ff", Decimal("-0.01")),
        (DECIMAL, "\u0012" * 15, Decimal(f"{int.from_bytes(bytes([0x12] * 15))}E-2")),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": "bytes"}, {"a": "\u00ff"}, [("a", b"\xff")]),
        (PART, {}, {"raw": b"\xfe", "n": 7}),
        (PART, {"raw": "\u00fd"}, {"raw": b"\xfd", "n": 7}),
        ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
        ("string", "\u00ff", "\u00ff"),
    ],
)
def test_records_of_an_older_schema_have_the_defaults_of_the_newer(
    client: SchemaRegistryClient, cluster: Cluster, kind: object, default: object, value: object
) -> None:
    """A column had the text that stands for bytes in a schema, or could not be made of it."""
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": kind, "default": default}]}
    older = {"id": 1, "item": "tea"}
    cluster.produce("orders", as_avro(client, ORDER, older))
    column = polled(cluster).to_arrow(value=AvroDeserializer(client, reader_schema=json.dumps(newer))).column("value")
    assert column.to_pylist() == [{**older, "more": value}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "string", "logicalType": "date"}, "2026-01-02"),
        ({"type": "string", "logicalType": "timestamp-millis"}, "soon"),
        ({"type": "string", "logicalType": "decimal", "precision": 4}, "1.10"),
        ({"type": "string", "logicalType": "decimal"}, "1.10"),
        ({"type": "int", "logicalType": "timestamp-millis"}, 5),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 5),
    ],
)
def test_a_logical_type_on_a_type_that_it_is_not_for_is_ignored(
    client: SchemaRegistryClient, cluster: Cluster, kind: object, value: object
) -> None:
    """As Avro demands it, and as iteration reads such records. No column could be made of them, or one of times."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "it", "type": kind}]}
    cluster.produce("orders", as_avro(client, schema, {"it": value}))
    assert read(cluster, AvroDeserializer(client)) == [{"it": value}]
    column = polled(cluster).to_arrow(value=AvroDeserializer(client)).column("value")
    assert column.to_pylist() == [{"it": value}]


def test_decimals_of_more_digits_than_128_bits_hold_make_columns(
    client: SchemaRegistryClient, cluster: Cluster
) -> None:
    large = {"type": "record", "name": "Large", "fields": [{"name": "sum", "type": {**DECIMAL, "precision": 50}}]}
    cluster.produce("orders", as_avro(client, large, {"sum": Decimal("1.50")}))
    column = polled(cluster).to_arrow(value=AvroDeserializer(client)).column("value")
    assert (column.type.field("sum").type, column.to_pylist()) == (pa.decimal256(50, 2), [{"sum": Decimal("1.50")}])
    huge = {"type": "record", "name": "Huge", "fields": [{"name": "sum", "type": {**DECIMAL, "precision": 77}}]}
    cluster.delete_records("orders", 0, 1)
    cluster.produce("orders", as_avro(client, huge, {"sum": Decimal("1.50")}))
    with pytest.raises(
        InvalidArgumentError, match=r"the record\.sum is a decimal of 77 digits, and a column has up to 76"
    ):
        polled(cluster).to_arrow(value=AvroDeserializer(client))


def test_what_no_column_can_be_is_said_with_its_field(client: SchemaRegistryClient, cluster: Cluster) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    either = {"type": "record", "name": "E", "fields": [{"name": "a", "type": ["int", "string"]}]}
    cluster.produce("orders", as_avro(client, node, {"next": None}))
    with pytest.raises(InvalidArgumentError, match=r"the record\.next is a 'Node' in itself"):
        polled(cluster).to_arrow(value=AvroDeserializer(client))
    cluster.delete_records("orders", 0, 1)
    cluster.produce("orders", as_avro(client, either, {"a": 1}))
    with pytest.raises(InvalidArgumentError, match=r"the record\.a is one of several types"):
        polled(cluster).to_arrow(value=AvroDeserializer(client))


def test_schemas_that_refer_to_others_make_columns(client: SchemaRegistryClient, cluster: Cluster) -> None:
    client.register_schema("inner", Schema(json.dumps(ORDER), "AVRO"))
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "order", "type": "Order"}]}
    schema = Schema(json.dumps(outer), "AVRO", [SchemaReference("Order", "inner", 1)])
    write = confluent_avro.AvroSerializer(client, schema)
    value = {"order": {"id": 1, "item": "tea"}}
    cluster.produce("orders", write(value, CTX) or b"")
    records = polled(cluster)
    assert records.to_arrow(value=AvroDeserializer(client)).column("value").to_pylist() == [value]
    assert isinstance(next(iter(records)), Record)
