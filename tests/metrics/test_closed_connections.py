"""Connections that end with the consumer are counted as closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire import Consumer

if TYPE_CHECKING:
    from kwire.testing import Cluster


def test_a_closed_consumer_has_no_connections(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", b"an order")
    with Consumer[bytes, bytes](
        "orders", bootstrap_servers=kafka_cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        while not consumer.poll(1.0):
            pass
    found = {metric.name: value for metric, value in consumer.metrics().items() if metric.name.startswith("connection")}
    assert found["connection-count"] == 0
    assert found["connection-close-total"] == found["connection-creation-total"] > 0
