"""Which consumers exporters show, and for how long: several, closed ones, and copies in other processes."""

from __future__ import annotations

import json
import os
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kwire import Consumer
from kwire.exporters import opentelemetry as exporter
from kwire.exporters.opentelemetry import observe
from kwire.exporters.prometheus import ConsumerCollector

if TYPE_CHECKING:
    from kwire.testing import Cluster

CLIENT, GROUP = "messaging.client.id", "messaging.consumer.group.name"
ASSIGNED, CONSUMED = "kafka.consumer.assigned_partitions", "messaging.client.consumed.messages"


@pytest.fixture
def orders(kafka_cluster: Cluster) -> Cluster:
    """A cluster with a topic of this name, and two records."""
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", b"first", b"second")
    return kafka_cluster


def exported(reader: InMemoryMetricReader) -> Iterator[tuple[str, str, str | None, float]]:
    """Instrument, client, group and number of each point."""
    data = reader.get_metrics_data()
    for metric in () if data is None else data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            assert isinstance(point, NumberDataPoint)
            attributes = dict(point.attributes or {})
            group = attributes.get(GROUP)
            yield metric.name, str(attributes[CLIENT]), None if group is None else str(group), point.value


def clients(reader: InMemoryMetricReader, name: str = ASSIGNED) -> list[str]:
    return [client for each, client, _, _ in exported(reader) if each == name]


def consumer_of(cluster: Cluster, client_id: str) -> Consumer[bytes, bytes]:
    """One that has read a record of two."""
    made = Consumer[bytes, bytes](
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        client_id=client_id,
        auto_offset_reset="earliest",
        max_poll_records=1,
    )
    while not made.poll(1.0):
        pass
    return made


# --- one after the other ------------------------------------------------------------------------------------------


def test_each_call_of_observe_exports_its_consumer(orders: Cluster) -> None:
    """A provider takes the callbacks of an instrument once: the second call exported nothing, and did not say so."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with consumer_of(orders, "first") as first, consumer_of(orders, "second") as second:
        observe(first, meter_provider=provider)
        observe(second, meter_provider=provider)
        assert sorted(clients(reader)) == ["first", "second"]


def test_groups_are_kept_apart_and_a_consumer_is_exported_once(orders: Cluster) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with consumer_of(orders, "first") as first, consumer_of(orders, "second") as second:
        observe(first, second, meter_provider=provider)
        observe(second, group_id="billing", meter_provider=provider)
        found = {(client, group) for name, client, group, _ in exported(reader) if name == ASSIGNED}
        assert found == {("first", None), ("second", "billing")}


def test_the_global_provider_may_be_set_after_the_first_call(orders: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_readings", weakref.WeakKeyDictionary())
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", None)
    monkeypatch.setattr(
        metrics._internal, "_METER_PROVIDER_SET_ONCE", type(metrics._internal._METER_PROVIDER_SET_ONCE)()
    )
    monkeypatch.setattr(metrics._internal, "_PROXY_METER_PROVIDER", type(metrics._internal._PROXY_METER_PROVIDER)())
    reader = InMemoryMetricReader()
    with consumer_of(orders, "early") as early, consumer_of(orders, "late") as late:
        observe(early)
        metrics.set_meter_provider(MeterProvider([reader]))
        observe(late)
        assert sorted(clients(reader)) == ["early", "late"]


def test_two_of_one_client_id_are_told_apart(orders: Cluster) -> None:
    """The number of one of them was lost."""
    reader = InMemoryMetricReader()
    with consumer_of(orders, "me") as first, consumer_of(orders, "me") as second:
        observe(first, second, meter_provider=MeterProvider([reader]))
        assert sorted(clients(reader)) == ["me", "me#2"]


# --- closed -------------------------------------------------------------------------------------------------------


def scraped(registry: CollectorRegistry) -> dict[str, str]:
    """Names, with the client of each."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {sample.name: sample.labels["client_id"] for family in families for sample in family.samples}


def test_a_closed_consumer_has_totals_only(orders: Cluster) -> None:
    """Its lag, its partitions and its connections were exported for ever, as long as a name held it."""
    reader, registry = InMemoryMetricReader(), CollectorRegistry()
    with consumer_of(orders, "me") as consumer:
        registry.register(ConsumerCollector(consumer))
        observe(consumer, meter_provider=MeterProvider([reader]))
        assert clients(reader) == ["me"]
    assert {name for name in scraped(registry) if not name.endswith("_total")} == set()
    assert "kafka_consumer_fetch_manager_records_consumed_total" in scraped(registry)
    assert (CONSUMED, "me", None, 1.0) in set(exported(reader))
    assert clients(reader) == []


def test_the_next_one_of_a_client_id_takes_its_name(orders: Cluster) -> None:
    reader, registry, collector = InMemoryMetricReader(), CollectorRegistry(), ConsumerCollector()
    provider = MeterProvider([reader])
    registry.register(collector)
    held = [consumer_of(orders, "me") for _ in range(3)]
    for consumer in held:
        collector.add(consumer)
        observe(consumer, meter_provider=provider)
    for consumer in held[:2]:
        consumer.close()
    with held[2]:
        assert set(scraped(registry).values()) == {"me"}
        assert clients(reader, CONSUMED) == ["me"]
    assert clients(reader, CONSUMED) == ["me"]


def consumed(reader: InMemoryMetricReader) -> set[tuple[str, float]]:
    return {(client, number) for name, client, _, number in exported(reader) if name == CONSUMED}


def test_the_others_keep_their_names_when_one_is_closed(orders: Cluster) -> None:
    """The second one took the name of the first one, whose total jumped."""
    reader = InMemoryMetricReader()
    sources = observe(meter_provider=MeterProvider([reader]))
    first, second = consumer_of(orders, "me"), consumer_of(orders, "me")
    with second:
        second.poll(10.0)
        sources.add(first)
        sources.add(second)
        assert consumed(reader) == {("me", 1.0), ("me#2", 2.0)}
        first.close()
        assert consumed(reader) == {("me", 1.0), ("me#2", 2.0)}
        assert clients(reader) == ["me#2"]
    assert consumed(reader) == {("me", 1.0), ("me#2", 2.0)}


def test_a_name_without_an_open_consumer_is_given_again(orders: Cluster) -> None:
    reader = InMemoryMetricReader()
    sources = observe(meter_provider=MeterProvider([reader]))
    first = consumer_of(orders, "me")
    with consumer_of(orders, "me") as second:
        sources.add(first)
        sources.add(second)
        assert clients(reader) == ["me", "me#2"]
        first.close()
        with consumer_of(orders, "me") as third:
            third.poll(10.0)
            sources.add(third)
            assert consumed(reader) == {("me", 2.0), ("me#2", 1.0)}
            assert sorted(clients(reader)) == ["me", "me#2"]


def test_a_consumer_that_is_observed_again_keeps_its_name(orders: Cluster) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    first = consumer_of(orders, "me")
    with consumer_of(orders, "me") as second:
        observe(first, second, meter_provider=provider)
        assert clients(reader) == ["me", "me#2"]
        first.close()
        observe(second, meter_provider=provider)
        assert clients(reader) == ["me#2"]


# --- forked -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12: forks beside threads
def test_a_forked_process_exports_nothing_of_its_parents(orders: Cluster) -> None:
    """It exported the numbers of the moment of the fork, for ever, beside those of its parent."""
    reader, registry = InMemoryMetricReader(), CollectorRegistry()
    with consumer_of(orders, "me") as consumer:
        registry.register(ConsumerCollector(consumer))
        observe(consumer, meter_provider=MeterProvider([reader]))
        assert told_by_child(registry, reader) == [{}, []]
        assert clients(reader) == ["me"]


def told_by_child(registry: CollectorRegistry, reader: InMemoryMetricReader) -> object:
    """What a forked process exports."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.write(write, json.dumps([scraped(registry), clients(reader)]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(told)
