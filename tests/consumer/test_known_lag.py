"""The lag that is known: by what a fetch session has told, and where nothing is fetched by asking for the end."""

from __future__ import annotations

from queue import Queue

import pytest

from kwire import Consumer, TopicPartition
from kwire.clock import Deadline
from kwire.consumer_events import ConsumerEvent, LagExceeded
from kwire.testing import Cluster

TP = TopicPartition("orders", 0)


def lag(consumer: Consumer[bytes, bytes]) -> int | None:
    """Once it is known; None if it stays unknown."""
    deadline = Deadline.after(10_000)
    while (found := consumer.current_lag(TP)) is None and not deadline.expired:
        consumer.poll(0.1)
    return found


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_the_lag_of_a_paused_partition_grows_with_its_log(isolation_level: str) -> None:
    """No fetch tells where the log ends; an alarm on the lag stayed silent."""
    deadline = Deadline.after(30_000)
    with (
        Cluster(topics={"orders": 1}) as cluster,
        Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level=isolation_level
        ) as consumer,
    ):
        cluster.produce("orders", b"1")
        consumer.assign([TP])
        assert len(consumer.poll(10)) == 1
        consumer.pause([TP])
        cluster.produce("orders", *(b"%d" % number for number in range(100)))
        while (health := consumer.healthy(max_lag=50)) and not deadline.expired:
            consumer.poll(0.1)
        assert "more than 50" in str(health)
        assert consumer.current_lag(TP) == 100


def test_an_alarm_on_the_lag_of_a_program_that_does_not_poll() -> None:
    """Its buffer is full, so nothing is fetched."""
    told: Queue[ConsumerEvent] = Queue()
    with (
        Cluster(topics={"orders": 1}) as cluster,
        Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_buffer_bytes=1_000,
            event_lag_records=500,
            on_event=told.put,
        ) as consumer,
    ):
        for _ in range(20):
            cluster.produce("orders", *(bytes(100) for _ in range(20)))
        consumer.assign([TP])
        assert consumer.poll(10)
        for _ in range(20):
            cluster.produce("orders", *(bytes(100) for _ in range(20)))
        while not isinstance(event := told.get(timeout=30), LagExceeded):
            pass
        assert event.lag > 500


def test_an_eager_rebalance_does_not_make_the_lag_of_idle_partitions_unknown() -> None:
    """The partition stays in the broker's fetch session, which tells where a log ends once, and again if that changes:
    the lag stayed unknown until somebody wrote to the topic."""
    rebalances: list[object] = []
    with (
        Cluster(topics={"orders": 1}) as cluster,
        Consumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
        ) as consumer,
    ):
        cluster.produce("orders", b"1", b"2")
        consumer.subscribe("orders", on_assigned=lambda _, partitions: rebalances.append(partitions))
        read = 0
        while read < 2:
            read += len(consumer.poll(10))
        assert lag(consumer) == 0
        consumer.enforce_rebalance()
        while len(rebalances) < 2:
            consumer.poll(0.1)
        assert lag(consumer) == 0
        names = [
            metric.name for metric, value in consumer.metrics().items() if value == 0 and metric.name == "records-lag"
        ]
        assert names == ["records-lag"]
