"""A registry that does not answer blames no record: polls raise until it does, a Processor waits, and skips nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kwire import AsyncConsumer, Consumer, Record, RecordDeserializationError, SchemaRegistryUnavailableError
from kwire.deserializers import AvroDeserializer
from kwire.deserializers import registry as registry_module
from kwire.processing import Processor, processor_loop
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.schema_registry import SchemaRegistry

pytestmark = pytest.mark.slow

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def write(client: SchemaRegistryClient, cluster: Cluster, *numbers: int) -> None:
    serialize = AvroSerializer(client, json.dumps(ORDER))
    for number in numbers:
        data = serialize({"id": number}, ConfluentContext("orders", MessageField.VALUE, []))
        cluster.produce("orders", data or b"")


def consumer_of(cluster: Cluster, registry: str, **settings: object) -> Consumer[bytes, dict[str, object]]:
    deserialize = AvroDeserializer({"url": registry, "max.retries": 0, "timeout": 5})
    given = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest", **settings}
    return Consumer(given, "orders", value_deserializer=deserialize)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_registry_that_fails_is_told_and_the_record_comes_when_it_answers(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster, status: int
) -> None:
    write(client, cluster, 1)
    with consumer_of(cluster, registry.url) as consumer:
        registry.status = status
        for _ in range(2):
            with pytest.raises(SchemaRegistryUnavailableError, match="offset 0: the schema registry failed"):
                consumer.poll(10)
        registry.status = 200
        assert consumer.poll(10).values() == [{"id": 1}]


def test_a_registry_that_never_answers_is_an_outage_too(
    client: SchemaRegistryClient, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall. confluent-kafka's client waits for ever, and with it the poll, and `Processor.stop()`."""
    monkeypatch.setattr(registry_module, "ANSWERED_WITHIN_S", 0.2)
    write(client, cluster, 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        deserialize = AvroDeserializer({"url": f"http://127.0.0.1:{silent.getsockname()[1]}", "max.retries": 0})
        given = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
        with (
            Consumer(given, "orders", value_deserializer=deserialize) as consumer,
            pytest.raises(SchemaRegistryUnavailableError, match="cannot be reached: ReadTimeout"),
        ):
            consumer.poll(10)


def test_an_event_loop_is_told_the_same(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    write(client, cluster, 1)

    async def main() -> None:
        deserialize = AvroDeserializer({"url": registry.url, "max.retries": 0})
        given = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
        async with AsyncConsumer(given, "orders", value_deserializer=deserialize) as consumer:
            registry.status = 503
            with pytest.raises(SchemaRegistryUnavailableError):
                await consumer.poll(10)
            registry.status = 200
            assert (await consumer.poll(10)).values() == [{"id": 1}]

    asyncio.run(main())


def test_a_registry_that_is_not_there_is_told(client: SchemaRegistryClient, cluster: Cluster) -> None:
    write(client, cluster, 1)
    with (
        consumer_of(cluster, "http://127.0.0.1:1") as consumer,
        pytest.raises(SchemaRegistryUnavailableError, match=r"cannot be reached: .*; poll again when it answers"),
    ):
        consumer.poll(10)


def test_an_outage_that_is_over_when_the_record_to_blame_is_looked_for_is_an_outage(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    """It was an InvalidArgumentError, which advised to give the deserializer a type."""
    write(client, cluster, 1)
    with Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        records = consumer.poll(10)
    registry.status, registry.fails = 503, 1
    deserialize = AvroDeserializer({"url": registry.url, "max.retries": 0})
    with pytest.raises(
        SchemaRegistryUnavailableError,
        match=r"orders-0 .*offset 0: the schema registry failed.*Records again when it answers$",
    ):
        records.to_arrow(value=deserialize)
    assert records.to_arrow(value=deserialize)["value"].to_pylist() == [{"id": 1}]


def test_a_refusal_is_told_with_where_to_look(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    write(client, cluster, 1)
    registry.status = 401
    with (
        consumer_of(cluster, registry.url) as consumer,
        pytest.raises(
            RecordDeserializationError, match=r"refuses this client: .*; look at its user, password"
        ) as caught,
    ):
        consumer.poll(10)
    assert not caught.value.retriable


@pytest.mark.parametrize("path", ["/elsewhere", "/elsewhere/"])
def test_an_address_without_a_registry_is_no_fault_of_a_record(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster, path: str
) -> None:
    """All records were given up, and committed."""
    write(client, cluster, 1)
    given = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    deserialize = AvroDeserializer({"url": f"{registry.url}{path}", "max.retries": 0})
    with Consumer({**given, "enable.auto.commit": False}, "orders", value_deserializer=deserialize) as consumer:
        processor = Processor(consumer, print, on_failure="skip")
        with pytest.raises(RecordDeserializationError, match=r"no schema registry at its address.*look at its URL"):
            processor.run()
        assert processor.status().skipped == 0


def test_bytes_without_a_frame_are_not_blamed_on_a_registry_that_is_down(
    registry: SchemaRegistry, cluster: Cluster
) -> None:
    cluster.produce("orders", b"{}")
    registry.status = 500
    with (
        consumer_of(cluster, registry.url) as consumer,
        pytest.raises(RecordDeserializationError, match="no frame") as caught,
    ):
        consumer.poll(10)
    assert not caught.value.retriable


class RecoverWhenWaitedFor(logging.Filter):
    """Lets a registry answer as soon as a log says that a Processor waits for it."""

    def __init__(self, registry: SchemaRegistry) -> None:
        super().__init__()
        self._registry = registry

    def filter(self, record: logging.LogRecord) -> bool:
        if "waiting for the schema registry" in record.getMessage():
            self._registry.status = 200
        return True


def test_a_processor_waits_for_the_registry_and_skips_only_what_is_bad(
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    cluster: Cluster,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor_loop, "AFTER_OUTAGE_S", 0.01)
    cluster.produce("orders", b"bad")
    write(client, cluster, 1, 2)
    handled: list[object] = []

    def handle(record: Record[bytes, dict[str, object]]) -> None:
        handled.append(record.value)
        if len(handled) == 2:
            work.stop()

    consumer = consumer_of(cluster, registry.url, **{"group.id": "billing", "enable.auto.commit": False})
    registry.status = 503
    with consumer, caplog.at_level(logging.WARNING, "kwire"), caplog.filtering(RecoverWhenWaitedFor(registry)):
        work = Processor(consumer, handle, on_failure="skip")
        work.run()
    assert handled == [{"id": 1}, {"id": 2}]
    (line,) = [line for line in caplog.messages if "waiting for the schema registry" in line]
    assert "orders-0 at offset 1" in line
    assert done_in(cluster) == {0: 3}


def test_a_processor_stops_at_a_refusal(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    write(client, cluster, 1)
    registry.status = 403
    consumer = consumer_of(cluster, registry.url, **{"group.id": "billing", "enable.auto.commit": False})
    with consumer, pytest.raises(RecordDeserializationError, match="refuses this client"):
        Processor(consumer, print, on_failure="skip").run()
    assert done_in(cluster) == {}


def done_in(cluster: Cluster) -> dict[int, int]:
    """How far each partition is committed as done, beyond where its group began."""
    return {tp.partition: at.offset for tp, at in cluster.committed("billing").items() if at.offset > 0}
