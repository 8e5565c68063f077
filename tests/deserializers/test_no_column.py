"""Why some values make no column, and what the error says of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kwire import Consumer, Header, InvalidArgumentError, RecordDeserializationError, Records
from kwire.deserializers import AvroDeserializer, JsonSchemaDeserializer
from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.schema_registry import SchemaRegistry

pytestmark = pytest.mark.slow

TEXT = {"type": "record", "name": "Text", "fields": [{"name": "text", "type": "string"}]}
NUMBERS = {"type": "record", "name": "Numbers", "fields": [{"name": f"n{i}", "type": "long"} for i in range(7)]}
IN_KEY, IN_VALUE = "__key_schema_id", "__value_schema_id"


def framed(client: SchemaRegistryClient, schema: object, value: object) -> bytes:
    context = ConfluentContext("orders", MessageField.VALUE, [])
    return confluent_avro.AvroSerializer(client, json.dumps(schema))(value, context) or b""


def polled(cluster: Cluster) -> Records:
    with Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        return consumer.poll(10)


def test_a_value_is_not_read_by_a_schema_that_its_first_bytes_seem_to_name(
    client: SchemaRegistryClient, cluster: Cluster
) -> None:
    """Seven numbers of a byte, of which the first five are the frame of schema 1: it was read as text."""
    good = framed(client, TEXT, {"text": "x"})
    numbers = framed(client, NUMBERS, {f"n{i}": n for i, n in enumerate([0, 0, 0, 0, -1, 1, 60])})
    assert numbers[5:] == good
    cluster.produce("orders", good, NewRecord(numbers[5:], None, (Header(IN_VALUE, numbers[:5]),)), partition=0)
    expected = "the values make no column, from orders-0 offset 1 on: the header __value_schema_id names the schema"
    with pytest.raises(InvalidArgumentError, match=rf"^{expected}; let the consumer .*: value_deserializer=\.\.\.$"):
        polled(cluster).to_arrow(value=AvroDeserializer(client))


def test_json_whose_schema_a_header_names_is_not_called_plain_json(
    client: SchemaRegistryClient, cluster: Cluster
) -> None:
    cluster.produce("orders", NewRecord(b"{}", b"{}", (Header(IN_KEY, b"\0\0\0\0\1"),)), partition=0)
    with pytest.raises(InvalidArgumentError, match=r"the keys make no column.*__key_schema_id.*key_deserializer="):
        polled(cluster).to_arrow(key=JsonSchemaDeserializer(client))
    with pytest.raises(RecordDeserializationError, match="plain JSON"):
        polled(cluster).to_arrow(value=JsonSchemaDeserializer(client))


def test_a_header_beside_nothing_names_no_schema(client: SchemaRegistryClient, cluster: Cluster) -> None:
    cluster.produce("orders", framed(client, TEXT, {"text": "x"}), partition=0)
    cluster.produce(
        "orders", NewRecord(None, b"", (Header(IN_VALUE, b"\0\0\0\0\1"), Header("other", b""))), partition=0
    )
    assert polled(cluster).to_arrow(value=AvroDeserializer(client))["value"].to_pylist() == [{"text": "x"}, None]


def test_a_schema_that_a_uuid_names_is_not_taken_for_a_type(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    data = framed(client, TEXT, {"text": "x"})
    cluster.produce("orders", b"\1" + registry.uuid_of(1).bytes + data[5:], partition=0)
    expected = "the values make no column, from orders-0 offset 0 on: a schema that is named by a UUID: .* iteration"
    with pytest.raises(InvalidArgumentError, match=rf"^{expected}, not as columns$"):
        polled(cluster).to_arrow(value=AvroDeserializer(client))


class Broken:
    """Reads bytes one by one, and no column."""

    def __call__(self, data: bytes) -> str:
        return data.decode()

    def to_arrow(self, column: pa.BinaryArray) -> pa.Array:
        raise LookupError("no such table")


def test_a_failure_that_is_of_no_type_advises_no_type(cluster: Cluster) -> None:
    cluster.produce("orders", b"1", partition=0)
    expected = "the values make no column, from orders-0 offset 0 on: LookupError: no such table"
    with pytest.raises(InvalidArgumentError, match=rf"^{expected}$"):
        polled(cluster).to_arrow(value=Broken())


def test_a_refusal_that_is_over_when_the_record_is_looked_for_is_of_the_registry(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    cluster.produce("orders", framed(client, TEXT, {"text": "x"}), partition=0)
    records = polled(cluster)
    registry.status, registry.fails = 401, 1
    expected = "offset 0: the schema registry refuses this client: .*Records again$"
    with pytest.raises(RecordDeserializationError, match=expected):
        records.to_arrow(value=AvroDeserializer({"url": registry.url, "max.retries": 0}))
