"""A consumer or a Processor that waits for a schema registry says so, with its address and what is wrong."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, RecordDeserializationError, SchemaRegistryUnavailableError, TopicPartition
from kwire.clock import Deadline
from kwire.description.values import Cause, CauseKind
from kwire.processing import Processor, processor_loop
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.registry_consumers import consumer_asking
    from tests.schema_registry import SchemaRegistry
else:
    from registry_consumers import consumer_asking

pytestmark = pytest.mark.slow

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def waits(consumer: Consumer) -> list[str]:
    return [f"{each.text}: {each.error}" for each in consumer.describe().causes if each.kind is CauseKind.REGISTRY_DOWN]


def test_a_consumer_that_waits_for_a_registry_says_so(registry: SchemaRegistry, written: Cluster) -> None:
    with consumer_asking(written, registry.url) as consumer:
        registry.status = 503
        for _ in range(2):
            with pytest.raises(SchemaRegistryUnavailableError):
                consumer.poll(10)
        (told,) = waits(consumer)
        assert told.startswith("the next record of orders-0 waits for the schema registry: cannot deserialize")
        assert f", at {registry.url};" in told
        registry.status = 200
        assert len(consumer.poll(10)) == 1
        assert waits(consumer) == []


def waiting(cluster: Cluster, registry: SchemaRegistry) -> Consumer:
    """A consumer whose first record waits for the registry."""
    made = consumer_asking(cluster, registry.url)
    registry.status = 503
    with pytest.raises(SchemaRegistryUnavailableError):
        made.poll(10)
    assert len(waits(made)) == 1
    return made


ORDERS_0 = TopicPartition("orders", 0)


def test_nothing_waits_in_a_paused_partition(registry: SchemaRegistry, written: Cluster) -> None:
    with waiting(written, registry) as consumer:
        consumer.pause([ORDERS_0])
        assert waits(consumer) == []
        consumer.resume([ORDERS_0])
        assert len(waits(consumer)) == 1


def test_nothing_waits_behind_a_seek(registry: SchemaRegistry, written: Cluster) -> None:
    with waiting(written, registry) as consumer:
        consumer.seek(ORDERS_0, 1)
        assert consumer.position(ORDERS_0) == 1
        assert waits(consumer) == []


def test_nothing_waits_in_a_closed_consumer(registry: SchemaRegistry, written: Cluster) -> None:
    consumer = waiting(written, registry)
    consumer.close()
    assert waits(consumer) == []


def test_nothing_waits_in_a_partition_that_is_given_up(registry: SchemaRegistry, written: Cluster) -> None:
    with waiting(written, registry) as consumer:
        consumer.unsubscribe()
        assert waits(consumer) == []


def test_a_wait_lasts_from_the_first_error_of_its_record_on(registry: SchemaRegistry, written: Cluster) -> None:
    with waiting(written, registry) as consumer:
        state = consumer._session.state
        since_ms = state.registry_waits[ORDERS_0].since_ms
        with pytest.raises(SchemaRegistryUnavailableError) as caught:
            consumer.poll(10)
        assert state.link.mailbox.polled_at_ms > since_ms
        assert state.registry_waits[ORDERS_0].since_ms == since_ms
        caught.value.offset += 1
        state.note_unread(caught.value, since_ms + 1)
        assert state.registry_waits[ORDERS_0].since_ms == since_ms + 1


def test_a_registry_that_refuses_is_not_waited_for(registry: SchemaRegistry, written: Cluster) -> None:
    with consumer_asking(written, registry.url) as consumer:
        for status in (503, 401):
            registry.status = status
            with pytest.raises(RecordDeserializationError):
                consumer.poll(10)
        assert waits(consumer) == []


def test_a_processor_that_waits_for_a_registry_says_so(
    registry: SchemaRegistry, written: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor_loop, "AFTER_OUTAGE_S", 0.01)
    registry.status = 503
    with consumer_asking(written, registry.url) as consumer:

        def handle(_: object) -> None:
            processor.stop()

        processor = Processor(consumer, handle)
        thread = threading.Thread(target=processor.run)
        thread.start()
        told: list[Cause] = []
        deadline = Deadline.after(10_000)
        while not told and not deadline.expired:
            told = [each for each in processor.describe().all_causes() if each.kind is CauseKind.REGISTRY_DOWN]
        page = str(processor.describe())
        registry.status = 200
        thread.join()
    assert [registry.url in (each.error or "") for each in told] == [True]
    assert "waits for the schema registry" in page
