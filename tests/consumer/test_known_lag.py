"""The lag that is known without asking a broker: by what its fetch session has told."""

from __future__ import annotations

from kwire import Consumer, TopicPartition
from kwire.clock import Deadline
from kwire.testing import Cluster

TP = TopicPartition("orders", 0)


def lag(consumer: Consumer[bytes, bytes]) -> int | None:
    """Once it is known; None if it stays unknown."""
    deadline = Deadline.after(10_000)
    while (found := consumer.current_lag(TP)) is None and not deadline.expired:
        consumer.poll(0.1)
    return found


def wait_until_all_is_answered(consumer: Consumer[bytes, bytes]) -> None:
    deadline = Deadline.after(10_000)
    while not deadline.expired:
        totals = [
            value
            for metric, value in consumer.metrics().items()
            if metric.group == "consumer-metrics" and metric.name in {"request-total", "response-total"}
        ]
        if totals[0] == totals[1]:
            return
    raise AssertionError("a request stays unanswered")


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


def test_what_a_session_told_long_ago_is_not_believed_before_the_broker_answers() -> None:
    """No request has made the session forget the partition, for nothing else was read from that broker."""
    with (
        Cluster(topics={"orders": 1}) as cluster,
        Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        cluster.produce("orders", b"1", b"2")
        consumer.assign([TP])
        assert len(consumer.poll(10)) == 2
        assert lag(consumer) == 0
        consumer.assign([])
        wait_until_all_is_answered(consumer)  # the fetch under way would tell of the new end, rightly
        cluster.produce("orders", *(b"%d" % number for number in range(100)))
        cluster.pause_broker(0)
        consumer.assign([TP])
        consumer.seek(TP, 2)
        assert consumer.current_lag(TP) is None
        cluster.resume_broker(0)
        assert lag(consumer) is not None
