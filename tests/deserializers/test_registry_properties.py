"""Properties files of Java clients that read values of a schema registry."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kwire import ConfigError, Consumer, ConsumerConfig, load_properties
from kwire.deserializers import AvroDeserializer, JsonDeserializer, JsonSchemaDeserializer, StringDeserializer
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.schema_registry import SchemaRegistry

AVRO = "io.confluent.kafka.serializers.KafkaAvroDeserializer"


@pytest.mark.slow
def test_a_file_names_class_and_registry(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    data = AvroSerializer(client, '"string"')("tea", ConfluentContext("orders", MessageField.VALUE, []))
    cluster.produce("orders", data or b"")
    file = io.StringIO(
        f"bootstrap.servers={cluster.bootstrap_servers}\nauto.offset.reset=earliest\nspecific.avro.reader=false\n"
        "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer\n"
        f"value.deserializer={AVRO}\nschema.registry.url={registry.url}\n"
        "basic.auth.credentials.source=USER_INFO\nbasic.auth.user.info=alice:swordfish\n"
    )
    made: Consumer[str, str] = Consumer(load_properties(file), "orders")
    with made as consumer:
        assert isinstance(consumer.config.key_deserializer, StringDeserializer)
        assert consumer.poll(10).values() == ["tea"]
    assert "alice" in registry.users
    assert "swordfish" not in repr(consumer.config)


def of(**settings: str) -> ConsumerConfig:
    return ConsumerConfig.of({"bootstrap.servers": "b:1"} | {n.replace("_", "."): v for n, v in settings.items()})


def test_each_class_has_its_deserializer() -> None:
    package = "io.confluent.kafka.serializers"
    url = "http://localhost:8081"
    config = of(key_deserializer=AVRO, value_deserializer=f"{package}.KafkaJsonDeserializer", schema_registry_url=url)
    assert isinstance(config.key_deserializer, AvroDeserializer)
    assert isinstance(config.value_deserializer, JsonDeserializer)
    config = of(value_deserializer=f"{package}.json.KafkaJsonSchemaDeserializer", schema_registry_url=url)
    assert isinstance(config.value_deserializer, JsonSchemaDeserializer)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("KafkaAvroDeserializer", r"value\.deserializer=.* needs schema\.registry\.url"),
        ("protobuf.KafkaProtobufDeserializer", r"give kwire\.deserializers\.ProtobufDeserializer\(message_type\)"),
        ("KafkaAvroDeserialiser", "no class that kwire has; there are "),
    ],
)
def test_what_a_file_cannot_say_is_refused(kind: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        of(value_deserializer=f"io.confluent.kafka.serializers.{kind}")


def test_an_address_that_nobody_uses_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    of(schema_registry_url="http://localhost:8081")
    (line,) = caplog.messages
    assert "schema.registry.url (the address of a schema registry goes to a deserializer" in line
