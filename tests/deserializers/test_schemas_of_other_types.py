"""A record whose schema is of another type than its deserializer reads is a bad record; the schema is fine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kwire import Consumer, RecordDeserializationError
from kwire.deserializers import AvroDeserializer, JsonSchemaDeserializer, ProtobufDeserializer
from kwire.processing import Processor
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.registry_consumers import consumer_of
    from tests.schema_registry import SchemaRegistry
else:
    from registry_consumers import consumer_of

pytestmark = pytest.mark.slow

CTX = ConfluentContext("orders", MessageField.VALUE, [])
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
TYPES = ["AVRO", "JSON", "PROTOBUF"]
_FILE = descriptor_pb2.FileDescriptorProto(name="order.proto", package="tests", syntax="proto3")
_FILE.message_type.add(name="Order").field.add(name="id", number=1, label=1, type=3)
Order = message_factory.GetMessageClass(
    descriptor_pool.Default().AddSerializedFile(_FILE.SerializeToString()).message_types_by_name["Order"]
)


def written(client: SchemaRegistryClient, kind: str) -> bytes:
    """A good value of this type."""
    if kind == "AVRO":
        return confluent_avro.AvroSerializer(client, ORDER)({"id": 1}, CTX) or b""
    if kind == "JSON":
        return confluent_json.JSONSerializer('{"title": "Order", "type": "object"}', client)({"id": 1}, CTX) or b""
    serialize = confluent_protobuf.ProtobufSerializer(Order, client, {"use.deprecated.format": False})
    return serialize(Order(id=1), CTX) or b""


def reader(client: SchemaRegistryClient, kind: str, *, is_kwires: bool) -> object:
    if kind == "AVRO":
        return AvroDeserializer(client) if is_kwires else confluent_avro.AvroDeserializer(client)
    if kind == "JSON":
        own = JsonSchemaDeserializer(client)
        return own if is_kwires else confluent_json.JSONDeserializer(None, schema_registry_client=client)
    conf = {"use.deprecated.format": False}
    theirs = confluent_protobuf.ProtobufDeserializer(Order, conf, client)
    return ProtobufDeserializer(Order, client) if is_kwires else theirs


@pytest.mark.parametrize("is_kwires", [True, False])
@pytest.mark.parametrize(("kind", "read"), [(kind, read) for kind in TYPES for read in TYPES if kind != read])
def test_a_record_of_another_type_is_stepped_over(
    client: SchemaRegistryClient, cluster: Cluster, kind: str, read: str, *, is_kwires: bool
) -> None:
    """It stopped the topic, and a schema that is fine was to be corrected."""
    other, good = written(client, kind), written(client, read)
    cluster.produce("orders", other, good, partition=0)
    handled: list[object] = []

    def handle(record: object) -> None:
        handled.append(record)
        processor.stop()

    with consumer_of(cluster, reader(client, read, is_kwires=is_kwires)) as consumer:
        processor = Processor(consumer, handle, on_failure="skip")
        processor.run()
        assert (len(handled), processor.status().skipped) == (1, 1)


@pytest.mark.parametrize(("kind", "read"), [("JSON", "AVRO"), ("PROTOBUF", "AVRO"), ("AVRO", "JSON")])
def test_the_type_is_told(client: SchemaRegistryClient, cluster: Cluster, kind: str, read: str) -> None:
    cluster.produce("orders", written(client, kind), partition=0)
    expected = f"offset 0: its schema 1 is of type {kind}, which this deserializer does not read; to step over it"
    with (
        consumer_of(cluster, reader(client, read, is_kwires=True)) as consumer,
        pytest.raises(RecordDeserializationError, match=expected),
    ):
        consumer.poll(10)


def test_what_is_of_another_type_makes_no_column(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    cluster.produce("orders", written(client, "JSON"), partition=0)
    with Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        records = consumer.poll(10)
    with pytest.raises(RecordDeserializationError, match="its schema 1 is of type JSON"):
        records.to_arrow(value=AvroDeserializer(registry.url))
