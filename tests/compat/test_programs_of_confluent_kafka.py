"""Programs of the kinds that confluent-kafka's documentation and examples show, run with it and with the adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, StringDeserializer

from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    from tests.schema_registry import running_registry
else:
    from schema_registry import running_registry

pytestmark = pytest.mark.slow

USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}


@pytest.fixture(params=["confluent_kafka", "kwire.compat.confluent_kafka"], ids=["confluent-kafka", "kwire"])
def library(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401
    import_module(f"{request.param}.error")
    return import_module(request.param)


@pytest.fixture
def registry() -> Iterator[SchemaRegistryClient]:
    with running_registry() as found, SchemaRegistryClient({"url": found.url}) as client:
        yield client


def settings(cluster: Cluster, **more: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "users",
        "auto.offset.reset": "earliest",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def committed(cluster: Cluster) -> dict[int, int]:
    return {tp.partition: at.offset for tp, at in cluster.committed("users").items()}


def test_a_loop_that_commits_every_few_messages(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    """Errors are looked at, ends of partitions end it, and commits go on in the background."""
    told: list[object] = []
    consumer = library.Consumer(
        settings(cluster, enable_auto_commit=False, enable_partition_eof=True)
        | {"on_commit": lambda error, partitions: told.append(error)}
    )
    ended: set[int] = set()
    found: list[bytes] = []
    try:
        consumer.subscribe(["orders"])
        while len(ended) < 2:
            message = consumer.poll(timeout=1.0)
            if message is None:
                continue
            if message.error():
                if message.error().code() != library.KafkaError._PARTITION_EOF:
                    raise library.KafkaException(message.error())
                ended.add(message.partition())
                continue
            found.append(message.value())
            if len(found) % 2 == 0:
                consumer.commit(asynchronous=True)
    finally:
        consumer.close()
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert set(told) <= {None}
    assert committed(cluster) == {0: 3, 1: 3}


def test_a_topic_that_is_not_there_is_not_created(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    """The default of librdkafka's consumers; kwire's own is Java's, and lets brokers create it."""
    consumer = library.Consumer(settings(cluster))
    consumer.subscribe(["misspelt"])
    consumer.poll(1.0)
    consumer.close()
    looking = import_module("confluent_kafka").Consumer(settings(cluster))
    assert set(looking.list_topics(timeout=10.0).topics) >= {"orders"}
    assert "misspelt" not in looking.list_topics(timeout=10.0).topics
    looking.close()


def test_each_message_is_committed_when_it_is_processed(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    consumer = library.Consumer(settings(cluster, enable_auto_commit=False))
    consumer.subscribe(["orders"])
    processed = 0
    while processed < 4:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            processed += 1
            consumer.commit(message=message, asynchronous=False)
    consumer.close()
    assert sum(committed(cluster).values()) == 4


def test_messages_in_batches(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    consumer = library.Consumer(settings(cluster))
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    while len(found) < 6:
        found += [message.value() for message in consumer.consume(num_messages=4, timeout=1.0)]
    consumer.close()
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_everything_from_the_beginning_whatever_is_committed(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    def rewind(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        for partition in partitions:
            partition.offset = library.OFFSET_BEGINNING
        consumer.assign(partitions)

    for _ in range(2):
        consumer = library.Consumer(settings(cluster))
        consumer.subscribe(["orders"], on_assign=rewind)
        found: list[bytes] = []
        while len(found) < 6:
            message = consumer.poll(1.0)
            if message is not None and not message.error():
                found.append(message.value())
        consumer.close()
        assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_the_lag_of_a_group(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    consumer = library.Consumer(settings(cluster, enable_auto_commit=False))
    metadata = consumer.list_topics("orders", timeout=10)
    partitions = [library.TopicPartition("orders", number) for number in metadata.topics["orders"].partitions]
    consumer.commit(offsets=[library.TopicPartition("orders", 0, 1)], asynchronous=False)
    lags = {}
    for partition in consumer.committed(partitions, timeout=10):
        low, high = consumer.get_watermark_offsets(partition, timeout=10, cached=False)
        lags[partition.partition] = high - (partition.offset if partition.offset >= 0 else low)
    consumer.close()
    assert lags == {0: 2, 1: 3}


def write_users(cluster: Cluster, registry: SchemaRegistryClient, *names: str) -> None:
    cluster.create_topic("users")
    serialize = AvroSerializer(registry, json.dumps(USER))
    for name in names:
        data = serialize({"name": name}, SerializationContext("users", MessageField.VALUE))
        cluster.produce("users", NewRecord(data, name.encode()))


def test_avro_is_deserialized_by_hand(library: Any, cluster: Cluster, registry: SchemaRegistryClient) -> None:  # noqa: ANN401
    write_users(cluster, registry, "Ann", "Bob")
    deserialize = AvroDeserializer(registry, json.dumps(USER), lambda fields, _: fields["name"])
    consumer = library.Consumer(settings(cluster))
    consumer.subscribe(["users"])
    found: list[object] = []
    while len(found) < 2:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            context = SerializationContext(message.topic(), MessageField.VALUE)
            found.append(deserialize(message.value(), context))
    consumer.close()
    assert found == ["Ann", "Bob"]


def test_a_deserializing_consumer(library: Any, cluster: Cluster, registry: SchemaRegistryClient) -> None:  # noqa: ANN401
    write_users(cluster, registry, "Ann", "Bob")
    cluster.produce("users", NewRecord(b"no Avro", b"Cid"))
    consumer = library.DeserializingConsumer(
        {
            **settings(cluster),
            "key.deserializer": StringDeserializer("utf_8"),
            "value.deserializer": AvroDeserializer(registry),
        }
    )
    consumer.subscribe(["users"])
    found: list[object] = []
    while len(found) < 3:
        try:
            message = consumer.poll(1.0)
        except library.error.ValueDeserializationError as error:
            found.append((error.kafka_message.value(), error.code, error.name))
            continue
        if message is not None:
            assert message.deserialized_value() is message.value()
            found.append((message.key(), message.value()))
    consumer.close()
    bad = (b"no Avro", library.KafkaError._VALUE_DESERIALIZATION, "_VALUE_DESERIALIZATION")
    assert found == [("Ann", {"name": "Ann"}), ("Bob", {"name": "Bob"}), bad]
