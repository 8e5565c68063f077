"""What a consumer says it did, compared with what was done: records, bytes, lags, commits, rebalances, requests."""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pytest

from kwire import Consumer, RebalanceListener, TopicPartition
from kwire.errors import KafkaError
from kwire.metrics import MetricName
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.events import AssignmentView
    from kwire.fetching.cursor_collector import Pending
    from kwire.testing import Cluster

VALUE = b"x" * 100
RECORD_BYTES = (
    109  # length 2, attributes 1, timestamp 1, offset 1, no key 1, length of the value 2, value, no headers 1
)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)

Bytes: TypeAlias = Consumer[bytes, bytes]


def read(consumer: Bytes, count: int) -> None:
    """Poll until so many records have come."""
    while count > 0:
        count -= len(consumer.poll(10.0))
    assert count == 0


def value(consumer: Bytes, name: str, *, topic: str | None = None, partition: int | None = None) -> float:
    """One metric, by its name and what it is of."""
    given = (("topic", topic), ("partition", partition))
    wanted = tuple((word, str(what)) for word, what in given if what is not None)
    (found,) = (
        number for metric, number in consumer.metrics().items() if metric.name == name and metric.tags[1:] == wanted
    )
    return found


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Cluster:
    """One with 40 records of 109 bytes in one partition, and 10 in the other."""
    kafka_cluster.create_topic("orders", partitions=2)
    kafka_cluster.produce("orders", *[VALUE] * 40)
    kafka_cluster.produce("orders", *[VALUE] * 10, partition=1)
    return kafka_cluster


@pytest.fixture(params=["classic", "consumer"])
def consumer(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Bytes]:
    """A member that has nothing yet, by either protocol."""
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="me",
        group_id="billing",
        group_protocol=request.param,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=20,
    ) as made:
        yield made


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[Bytes]:
    """A consumer without a group, at the beginning of both partitions."""
    with Consumer[bytes, bytes](bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as made:
        made.assign([P0, P1])
        yield made


# --- records ------------------------------------------------------------------------------------------------------


def test_records_and_bytes_are_exactly_those_that_were_written(reader: Bytes) -> None:
    read(reader, 50)
    assert value(reader, "records-consumed-total") == 50
    assert value(reader, "bytes-consumed-total") == 50 * RECORD_BYTES
    assert value(reader, "records-consumed-total", topic="orders") == 50
    assert value(reader, "bytes-consumed-total", topic="orders") == 50 * RECORD_BYTES


def test_what_an_interrupted_poll_has_collected_is_counted(reader: Bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is pending: a later poll returns it."""
    collector = reader._session.polling._collector
    collect = collector.collect

    def strike(view: AssignmentView, into: Pending[bytes, bytes], *bounds: float | None) -> None:
        collect(view, into, *bounds)  # type: ignore[arg-type]  # as it came
        if into:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(collector, "collect", strike)
        with pytest.raises(KeyboardInterrupt):
            reader.poll(10.0)
    read(reader, 50)
    assert value(reader, "records-consumed-total") == 50


def test_each_topic_has_its_own(cluster: Cluster, reader: Bytes) -> None:
    cluster.create_topic("bills")
    cluster.produce("bills", *[VALUE] * 3)
    reader.assign([P1, TopicPartition("bills", 0)])
    read(reader, 13)
    assert value(reader, "records-consumed-total", topic="bills") == 3
    assert value(reader, "records-consumed-total", topic="orders") == 10
    assert value(reader, "records-consumed-total") == 13


def test_records_that_are_read_twice_are_counted_twice(reader: Bytes) -> None:
    read(reader, 50)
    reader.seek(P1, 5)
    read(reader, 5)
    assert value(reader, "records-consumed-total") == 55
    assert value(reader, "bytes-consumed-total") == 55 * RECORD_BYTES


def test_the_front_of_a_batch_that_is_not_wanted_is_not_counted(reader: Bytes) -> None:
    reader.assign([P0])
    reader.seek(P0, 30)
    read(reader, 10)
    assert value(reader, "records-consumed-total") == 10
    assert value(reader, "bytes-consumed-total") == 10 * RECORD_BYTES


def test_the_size_of_a_fetch_is_of_all_its_partitions_once_all_are_collected(consumer: Bytes) -> None:
    consumer.assign([P0, P1])
    read(consumer, 20)
    assert math.isnan(value(consumer, "fetch-size-avg"))
    read(consumer, 30)
    assert value(consumer, "fetch-size-avg") == value(consumer, "fetch-size-max", topic="orders") == 50 * RECORD_BYTES
    assert value(consumer, "records-per-request-avg") == 50


# --- lags ---------------------------------------------------------------------------------------------------------


def test_lag_and_lead_are_those_of_the_newest_record_collected(consumer: Bytes) -> None:
    consumer.assign([P0])
    of_p0 = partial(value, consumer, topic="orders", partition=0)
    read(consumer, 20)
    assert of_p0("records-lag") == 20
    assert of_p0("records-lead") == 20
    read(consumer, 20)
    assert of_p0("records-lag") == 0
    assert of_p0("records-lag-avg") == 10
    assert of_p0("records-lag-max") == value(consumer, "records-lag-max") == 20
    assert of_p0("records-lead-min") == value(consumer, "records-lead-min") == 20


def test_the_lead_begins_where_the_log_does(cluster: Cluster, reader: Bytes) -> None:
    cluster.delete_records("orders", 0, 35)
    reader.assign([P0])
    read(reader, 5)
    assert value(reader, "records-lead", topic="orders", partition=0) == 5


def test_a_partition_at_its_end_has_a_lag_of_0_though_it_never_gave_a_record(cluster: Cluster, reader: Bytes) -> None:
    answered = threading.Event()
    cluster.control.on(FetchRequest).observe(lambda *_: answered.set())
    reader.assign([P1])
    reader.seek_to_end()
    cluster.produce("orders", VALUE)
    reader.poll(0.6)
    assert answered.is_set()
    assert value(reader, "records-lag", topic="orders", partition=1) == 0


def test_partitions_that_are_not_assigned_any_more_are_gone(reader: Bytes) -> None:
    read(reader, 50)
    reader.assign([P1])
    reader.poll(0)
    partitions = {dict(metric.tags).get("partition") for metric in reader.metrics()}
    assert partitions == {None, "1"}
    assert value(reader, "assigned-partitions") == 1


def test_a_partition_is_read_from_its_leader_unless_that_says_otherwise(reader: Bytes) -> None:
    read(reader, 50)
    assert value(reader, "preferred-read-replica", topic="orders", partition=0) == -1


# --- the group ----------------------------------------------------------------------------------------------------


def test_commits_are_counted_as_they_are_answered(cluster: Cluster, consumer: Bytes) -> None:
    seen: list[object] = []
    cluster.control.on(OffsetCommitRequest).observe(lambda *call: seen.append(call))
    consumer.subscribe(["orders"])
    read(consumer, 50)
    for _ in range(3):
        consumer.commit_sync()
    assert value(consumer, "commit-total") == len(seen) == 3
    assert 0 < value(consumer, "commit-latency-avg") <= value(consumer, "commit-latency-max")
    assert value(consumer, "commit-sync-time-ns-total") > 0
    assert value(consumer, "committed-time-ns-total") == 0
    consumer.committed([P0])
    assert value(consumer, "committed-time-ns-total") > 0


def test_joining_is_one_rebalance_and_brings_all_partitions(consumer: Bytes) -> None:
    assert value(consumer, "last-rebalance-seconds-ago") == -1
    consumer.subscribe(["orders"])
    read(consumer, 50)
    assert value(consumer, "assigned-partitions") == 2
    assert value(consumer, "rebalance-total") == 1
    assert value(consumer, "last-rebalance-seconds-ago") == 0
    assert value(consumer, "rebalance-latency-total") == value(consumer, "rebalance-latency-max") > 0
    assert value(consumer, "rebalance-rate-per-hour") == pytest.approx(1, rel=0.01)


def test_a_classic_member_counts_joins_and_syncs_and_that_its_first_join_only_brought_its_id(cluster: Cluster) -> None:
    joins: list[object] = []
    cluster.control.on(JoinGroupRequest).observe(lambda *call: joins.append(call))
    with classic(cluster) as consumer:
        read(consumer, 50)
        assert len(joins) == 2
        assert (value(consumer, "join-total"), value(consumer, "sync-total")) == (1, 1)
        assert value(consumer, "failed-rebalance-total") == 1
        consumer.enforce_rebalance("for a test")
        consumer.poll(0)
        while value(consumer, "rebalance-total") < 2:
            consumer.poll(0.01)
        assert (value(consumer, "join-total"), value(consumer, "sync-total")) == (2, 2)
        assert value(consumer, "failed-rebalance-total") == 1


def classic(cluster: Cluster, heartbeat_interval_ms: int = 3_000) -> Bytes:
    """A member of a classic group."""
    return Consumer[bytes, bytes](
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="classics",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=heartbeat_interval_ms,
    )


def test_heartbeats_are_counted_and_the_last_one_is_known(cluster: Cluster) -> None:
    seen: list[object] = []
    cluster.control.on(HeartbeatRequest).observe(lambda *call: seen.append(call))
    with classic(cluster, heartbeat_interval_ms=20) as consumer:
        assert value(consumer, "last-heartbeat-seconds-ago") == -1
        while value(consumer, "heartbeat-total") < 3:
            consumer.poll(0.01)
        assert len(seen) >= 3
        assert value(consumer, "last-heartbeat-seconds-ago") == 0
        assert value(consumer, "heartbeat-response-time-max") > 0


def test_callbacks_are_timed(consumer: Bytes) -> None:
    consumer.subscribe(["orders"], listener=RebalanceListener())
    read(consumer, 50)
    assert value(consumer, "partition-assigned-latency-max") >= 0
    assert math.isnan(value(consumer, "partition-revoked-latency-max"))
    consumer.unsubscribe()
    assert value(consumer, "partition-revoked-latency-max") >= 0
    assert math.isnan(value(consumer, "partition-lost-latency-max"))


# --- the network --------------------------------------------------------------------------------------------------


def test_what_goes_to_each_broker_is_all_that_goes(reader: Bytes) -> None:
    read(reader, 50)
    metrics = reader.metrics()
    for name in ("request-total", "response-total", "outgoing-byte-total", "incoming-byte-total"):
        nodes = [number for metric, number in metrics.items() if metric.name == name and "node" in metric.group]
        (all_of_them,) = (number for metric, number in metrics.items() if metric == _of_client(metric, name))
        assert sum(nodes) == all_of_them > 0


def _of_client(metric: MetricName, name: str) -> MetricName:
    return MetricName(name=name, group="consumer-metrics", tags=metric.tags[:1])


def test_a_connection_that_breaks_is_counted_as_closed(cluster: Cluster, reader: Bytes) -> None:
    read(reader, 50)
    assert value(reader, "connection-close-total") == 0
    assert value(reader, "connection-count") == value(reader, "connection-creation-total") > 0
    before = value(reader, "connection-creation-total")
    cluster.cut_connections()
    cluster.produce("orders", VALUE)
    read(reader, 1)
    now = {metric.name: number for metric, number in reader.metrics().items() if not metric.tags[1:]}
    assert now["connection-close-total"] > 0
    assert now["connection-creation-total"] > before
    assert now["connection-count"] == now["connection-creation-total"] - now["connection-close-total"]


@pytest.mark.kafka_cluster(security_protocol="SASL_SSL", users={"alice": "secret"})
def test_logins_are_counted_accepted_or_refused(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", VALUE)
    good = kafka_cluster.client_config("alice")
    with Consumer[bytes, bytes](config={**good, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([P0])
        read(consumer, 1)
        logins = value(consumer, "successful-authentication-total")
        assert logins == value(consumer, "connection-creation-total") > 0
        assert value(consumer, "failed-authentication-total") == 0
    with Consumer[bytes, bytes](config={**good, "sasl.password": "wrong"}) as consumer:
        consumer.assign([P0])
        with pytest.raises(KafkaError):
            read(consumer, 1)
        assert value(consumer, "failed-authentication-total") > 0
        assert value(consumer, "successful-authentication-total") == 0


def test_a_throttled_fetch_is_seen(cluster: Cluster, reader: Bytes) -> None:
    cluster.throttle(FetchRequest, 7)
    read(reader, 50)
    assert value(reader, "fetch-throttle-time-max") == 7
    assert value(reader, "fetch-total") >= 1


def test_polls_say_how_long_ago_they_were_and_how_idle_the_application_is(reader: Bytes) -> None:
    assert value(reader, "last-poll-seconds-ago") == -1
    read(reader, 50)
    reader.poll(0.05)
    reader.poll(0.05)
    assert value(reader, "last-poll-seconds-ago") == 0
    assert value(reader, "time-between-poll-max") >= 50
    assert 0 < value(reader, "poll-idle-ratio-avg") <= 1


# --- who may ask --------------------------------------------------------------------------------------------------


def test_another_thread_may_ask_while_a_poll_waits(reader: Bytes) -> None:
    read(reader, 50)
    found: list[dict[MetricName, float]] = []
    other = threading.Timer(0.02, lambda: found.append(reader.metrics()))
    other.start()
    reader.poll(0.2)
    other.join()
    assert found


def test_the_end_of_the_network_thread_keeps_nobody_waiting(reader: Bytes) -> None:
    read(reader, 50)
    reader._session.link.mailbox.fail(KafkaError("it is dead"))
    assert value(reader, "records-consumed-total") == 50


def test_a_closed_consumer_still_says_what_it_did(reader: Bytes) -> None:
    read(reader, 50)
    reader.close()
    assert value(reader, "records-consumed-total") == 50
    with suppress(KafkaError):
        reader.poll(0)
