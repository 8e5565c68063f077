"""Good values of a few bytes: of records without fields, and of schemas that a header names."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kwire import Consumer, Header, RecordDeserializationError
from kwire.deserializers import AvroDeserializer
from kwire.testing import Cluster, NewRecord

pytestmark = pytest.mark.slow

EMPTY = {"type": "record", "name": "Empty", "fields": []}
STATUS = {"type": "record", "name": "Status", "fields": [{"name": "up", "type": "boolean"}]}


def write(client: SchemaRegistryClient, cluster: Cluster, schema: object, value: object, *, in_header: bool) -> bytes:
    """Writes the value, and returns its bytes."""
    context = ConfluentContext("orders", MessageField.VALUE, [])
    framed = confluent_avro.AvroSerializer(client, json.dumps(schema))(value, context) or b""
    headers = (Header("__value_schema_id", framed[:5]),) if in_header else ()
    data = framed[5:] if in_header else framed
    cluster.produce("orders", NewRecord(data, None, headers), partition=0)
    return data


def read(cluster: Cluster, deserialize: object) -> list[object]:
    settings: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers, "value.deserializer": deserialize}
    with Consumer({**settings, "auto.offset.reset": "earliest"}, "orders") as consumer:
        return list(consumer.poll(10).values())


@pytest.mark.parametrize(
    ("schema", "value", "length"),
    [(EMPTY, {}, 0), ("bytes", b"", 0), (STATUS, {"up": True}, 1), ("string", "four", 5), ("string", "fives", 6)],
)
@pytest.mark.parametrize("in_header", [True, False])
def test_a_value_of_few_bytes_is_read(
    client: SchemaRegistryClient, cluster: Cluster, schema: object, value: object, length: int, *, in_header: bool
) -> None:
    """confluent-kafka's deserializer refuses up to five bytes, wherever the schema is named: they had no frame."""
    data = write(client, cluster, schema, value, in_header=in_header)
    assert len(data) == length + (0 if in_header else 5)
    assert read(cluster, AvroDeserializer(client)) == [value]


def test_confluents_own_refusal_is_told_as_what_it_is(client: SchemaRegistryClient, cluster: Cluster) -> None:
    write(client, cluster, STATUS, {"up": True}, in_header=True)
    with pytest.raises(RecordDeserializationError, match=r"refuses it for its length.*AvroDeserializer reads short"):
        read(cluster, confluent_avro.AvroDeserializer(client))
