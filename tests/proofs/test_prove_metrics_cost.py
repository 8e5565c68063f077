"""`scripts/prove metrics-cost`: what is replaced is there, and counts; what its judge says."""

from __future__ import annotations

import pytest

from kwire import Consumer
from kwire.testing import Cluster
from proofs.metrics_cost import COUNTING, TP, interval, nothing_counted, read, verdict


def consumed(consumer: Consumer[bytes, bytes]) -> float:
    return sum(
        value
        for metric, value in consumer.metrics().items()
        if metric.name == "records-consumed-total" and len(metric.tags) == 1
    )


def test_nothing_is_counted_meanwhile_and_afterwards_it_is_again(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", *(b"record" for _ in range(10)))
    with Consumer[bytes, bytes](bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
        consumer.assign([TP])
        read(consumer, 10)
        assert consumed(consumer) == 10
        with nothing_counted():
            read(consumer, 10)
        assert consumed(consumer) == 10
        read(consumer, 10)
        assert consumed(consumer) == 20


@pytest.mark.parametrize(("owner", "name"), COUNTING)
def test_what_is_replaced_is_there(owner: type, name: str) -> None:
    assert callable(vars(owner)[name])


def test_a_cost_above_the_bound_is_told_and_so_is_a_machine_that_is_too_busy_to_tell() -> None:
    assert verdict(0.005, 0.002) == []
    assert verdict(0.02, 0.002) == ["counting metrics takes 2.00%, more than 1%"]
    (line,) = verdict(0.005, 0.03)
    assert "too busy to tell" in line


def test_the_interval_lies_around_the_median() -> None:
    low, high = interval([1.0, 1.01, 0.99, 1.005, 1.0, 1.002])
    assert 0.99 <= low <= 1.001 <= high <= 1.01
