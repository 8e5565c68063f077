"""A header that names a schema, and does not: the error names the header, and not a frame that nobody has written."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kwire import Consumer, Header, RecordDeserializationError
from kwire.deserializers import AvroDeserializer, JsonSchemaDeserializer
from kwire.testing import Cluster, NewRecord

pytestmark = pytest.mark.slow

TEXT = json.dumps({"type": "record", "name": "Text", "fields": [{"name": "text", "type": "string"}]})


def read(cluster: Cluster, **deserializers: object) -> list[object]:
    settings: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
    with Consumer({**settings, **deserializers}, "orders") as consumer:
        return list(consumer.poll(10).values())


@pytest.mark.parametrize("number", [b"", b"garbage", b"\0\0\0\1", b"\1short", b"\2" + b"\0" * 20])
def test_a_header_that_names_no_schema_is_named(client: SchemaRegistryClient, cluster: Cluster, number: bytes) -> None:
    """It was "no frame", or an error of Python's struct or uuid."""
    cluster.produce("orders", NewRecord(b"\2x", b"{}", (Header("__value_schema_id", number),)), partition=0)
    expected = "value of orders-0 at offset 0: the header __value_schema_id names no schema: it is b'"
    with pytest.raises(RecordDeserializationError, match=expected):
        read(cluster, value_deserializer=AvroDeserializer(client))
    with pytest.raises(RecordDeserializationError, match="no frame"):
        read(cluster, key_deserializer=JsonSchemaDeserializer(client))


def test_a_null_header_leaves_the_frame_to_name_the_schema(client: SchemaRegistryClient, cluster: Cluster) -> None:
    context = ConfluentContext("orders", MessageField.VALUE, [])
    data = confluent_avro.AvroSerializer(client, TEXT)({"text": "x"}, context) or b""
    cluster.produce("orders", NewRecord(data, None, (Header("__value_schema_id", None),)), partition=0)
    assert read(cluster, value_deserializer=AvroDeserializer(client)) == [{"text": "x"}]
    with Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        table = consumer.poll(10).to_arrow(value=AvroDeserializer(client))
    assert table["value"].to_pylist() == [{"text": "x"}]
