"""Metrics as Prometheus scrapes them, under the names that dashboards of Java's clients look for."""

from __future__ import annotations

import gc
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kwire import Consumer, TopicPartition
from kwire.exporters.prometheus import ConsumerCollector
from kwire.exporters.prometheus_names import EXPORTED, metric_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.testing import Cluster

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"
P0 = TopicPartition("orders", 0)


def scraped(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What a scrape brings, read as Prometheus reads it: by name and labels."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def consumer(kafka_cluster: Cluster) -> Iterator[Consumer[bytes, bytes]]:
    """One that has read 7 records of 9, in two polls."""
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", *[b"an order"] * 9)
    with Consumer[bytes, bytes](
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        client_id="me",
        auto_offset_reset="earliest",
        max_poll_records=7,
    ) as made:
        made.assign([P0])
        while not made.poll(1.0):
            pass
        yield made


def test_numbers_carry_the_names_of_micrometer_and_labels(consumer: Consumer[bytes, bytes]) -> None:
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(consumer))
    found = scraped(registry)
    client, topic, partition = ("client_id", "me"), ("topic", "orders"), ("partition", "0")
    assert found["kafka_consumer_fetch_manager_records_lag_max", (client, partition, topic)] == 2
    assert found["kafka_consumer_fetch_manager_records_lag", (client, partition, topic)] == 2
    assert found["kafka_consumer_fetch_manager_records_consumed_total", (client, topic)] == 7
    assert found["kafka_consumer_coordinator_assigned_partitions", (client,)] == 1
    assert found["kafka_consumer_connection_count", (client,)] >= 1
    assert found["kafka_consumer_node_request_total", (client, ("node_id", "node-0"))] >= 1


def test_no_number_is_there_twice_so_sums_over_labels_are_right(consumer: Consumer[bytes, bytes]) -> None:
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(consumer))
    names = [(name, labels) for (name, labels) in scraped(registry) if "records_consumed_total" in name]
    assert len(names) == 1


def test_what_is_not_a_number_is_left_out(consumer: Consumer[bytes, bytes]) -> None:
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(consumer))
    assert not [name for name, _ in scraped(registry) if name == "kafka_consumer_coordinator_commit_latency_avg"]


def test_two_of_one_name_are_told_apart(consumer: Consumer[bytes, bytes], kafka_cluster: Cluster) -> None:
    registry = CollectorRegistry()
    collector = ConsumerCollector(consumer)
    registry.register(collector)
    with Consumer[bytes, bytes](bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="me") as other:
        collector.add(other)
        collector.add(other)
        clients = {dict(labels)["client_id"] for _, labels in scraped(registry)}
        assert clients == {"me", "me#2"}
        collector.remove(other)
        assert {dict(labels)["client_id"] for _, labels in scraped(registry)} == {"me"}


def test_a_consumer_that_nobody_holds_is_not_kept(kafka_cluster: Cluster) -> None:
    registry = CollectorRegistry()
    collector = ConsumerCollector()
    registry.register(collector)
    gone = Consumer[bytes, bytes](bootstrap_servers=kafka_cluster.bootstrap_servers)
    collector.add(gone)
    gone.close()
    del gone
    gc.collect()
    assert scraped(registry) == {}


def test_the_dashboard_asks_for_names_that_there_are() -> None:
    exported = {metric_name(row) for row in EXPORTED.values()}
    asked = set(re.findall(r"kafka_[a-z_]+", DASHBOARD.read_text(encoding="utf-8")))
    assert asked <= exported
    assert len(asked) > 15
    assert json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
