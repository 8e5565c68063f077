"""Topics are filled in order, and a record that the broker does not take is an error."""

from __future__ import annotations

import pytest

from kwire import Consumer, TopicPartition
from kwire.testing import Cluster
from kwire.testing.kafka import ClusterError
from tools import topic_filling
from tools.topic_filling import Entry, fill


@pytest.mark.slow
def test_each_partition_has_its_entries_in_order() -> None:
    with Cluster(topics={"orders": 2}) as cluster:
        entries = [Entry(number % 2, b"%d" % number, b"key" if number % 2 else None) for number in range(10)]
        fill(cluster.bootstrap_servers, "orders", entries, {"linger.ms": 1})
        with Consumer[bytes, bytes](bootstrap_servers=cluster.bootstrap_servers) as consumer:
            tp = TopicPartition("orders", 1)
            consumer.assign([tp])
            consumer.seek_to_beginning([tp])
            read = [record for _ in range(5) for record in consumer.poll(10.0, max_records=1)]
    assert [(record.value, record.key) for record in read] == [(b"%d" % n, b"key") for n in range(1, 10, 2)]


def test_a_record_that_is_refused_is_an_error() -> None:
    with (
        Cluster(topics={"orders": 1}) as cluster,
        pytest.raises(ClusterError, match=r"orders: a record was refused: .*UNKNOWN_PARTITION"),
    ):
        fill(cluster.bootstrap_servers, "orders", [Entry(0, b"one"), Entry(7, b"two")], {"linger.ms": 1})


def test_records_that_are_not_acknowledged_in_time_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_filling, "TIMEOUT_S", 0.05)
    with pytest.raises(ClusterError, match="orders: 1 records were not acknowledged"):
        fill("127.0.0.1:1", "orders", [Entry(0, b"one")])
