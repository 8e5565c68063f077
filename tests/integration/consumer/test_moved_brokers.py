"""Brokers and leaders that are not where they were: a whole cluster at other addresses (KIP-899), a new leader that the
old one names (KIP-951)."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Unpack

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, TopicPartition
from kwire.cluster import ClusterSnapshot
from kwire.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from kwire.testing.kafka.addresses import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kwire.config import Settings
    from tests.integration.consumer.conftest import BytesConsumer
    from tests.integration.kafkas import OwnKafka, RealKafka, StartKafka
else:
    from kafkas import RealKafka

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
NAMES = (f"moved-{number}" for number in count())


def open_consumer(*topics: str, **settings: Unpack[Settings]) -> BytesConsumer:
    """Reads from the beginning, and does not wait long for what is gone."""
    quick: Settings = {"auto_offset_reset": "earliest", "reconnect_backoff_max_ms": 200, "request_timeout_ms": 5_000}
    consumer: BytesConsumer = Consumer(*topics, **(quick | settings))
    return consumer


def make_topic(cluster: OwnKafka, *replicas: int) -> TopicPartition:
    """A partition on these brokers, led by the first."""
    name = next(NAMES)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, replica_assignment=[list(replicas)])])[name].result(DEADLINE_S)
    return TopicPartition(name, 0)


def write(cluster: OwnKafka, tp: TopicPartition, numbers: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in numbers:
        producer.produce(tp.topic, b"%d" % number, partition=tp.partition)
    assert producer.flush(DEADLINE_S) == 0


def read(consumer: BytesConsumer, number: int) -> list[int]:
    """Poll until there are so many records."""
    values: list[int] = []
    until_s = time.monotonic() + DEADLINE_S
    while len(values) < number:
        values += [int(record.value or b"-1") for record in consumer.poll(0.5)]
        assert time.monotonic() < until_s, f"{len(values)} of {number} records after {DEADLINE_S} s"
    return values


# --- the whole cluster moves ------------------------------------------------------------------------------------


@pytest.fixture
def lone_broker() -> Iterator[RealKafka]:
    with RealKafka() as cluster:
        yield cluster


@pytest.mark.only("kafka", reason="brokers of the other keep their port")
def test_a_cluster_that_comes_back_elsewhere_is_found_through_the_bootstrap_servers(lone_broker: RealKafka) -> None:
    """The second bootstrap address is dead at first, and the only one that is right afterwards. The members are still
    members, with the generation they had; a client that was told never to rebootstrap waits for the old address."""
    port = free_ports(1)[0]
    servers = f"{lone_broker.bootstrap_servers},{HOST}:{port}"
    tp = make_topic(lone_broker, 0)
    write(lone_broker, tp, range(100))
    with (
        open_consumer(tp.topic, bootstrap_servers=servers, group_id="classic") as classic,
        open_consumer(tp.topic, bootstrap_servers=servers, group_id="new", group_protocol="consumer") as new,
        open_consumer(bootstrap_servers=servers, metadata_recovery_strategy="none") as steadfast,
    ):
        steadfast.assign([tp])
        members = {"classic": classic, "new": new}
        for consumer in (classic, new, steadfast):
            assert read(consumer, 100) == list(range(100))
        for consumer in members.values():
            consumer.commit_sync()
        before = {name: consumer.group_metadata() for name, consumer in members.items()}

        lone_broker.move_broker(0, port)
        write(lone_broker, tp, range(100, 200))

        for consumer in members.values():
            assert read(consumer, 100) == list(range(100, 200))
            consumer.commit_sync()
            assert consumer.committed([tp])[tp].offset == 200  # type: ignore[union-attr]  # just committed
        assert {name: consumer.group_metadata() for name, consumer in members.items()} == before
        assert not steadfast.poll(1.0)


# --- a leader moves ---------------------------------------------------------------------------------------------


@pytest.fixture
def two_brokers(start_kafka: StartKafka) -> Iterator[OwnKafka]:
    with start_kafka(2) as cluster:
        yield cluster


def test_the_old_leader_names_the_new_one(two_brokers: OwnKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both brokers are up, so no connection breaks: that the leader has moved, the old one says in its answer."""
    adopted: list[tuple[int, int]] = []
    with_leaders = ClusterSnapshot.with_leaders

    def watched(
        cluster: ClusterSnapshot, leaders: Mapping[TopicPartition, LeaderIdAndEpoch], endpoints: Iterable[NodeEndpoint]
    ) -> ClusterSnapshot:
        after = with_leaders(cluster, leaders, endpoints)
        if after is not cluster:
            adopted.append((cluster.leader_id(tp) or 0, after.leader_id(tp) or 0))
        return after

    monkeypatch.setattr(ClusterSnapshot, "with_leaders", watched)
    tp = make_topic(two_brokers, 1, 0)
    write(two_brokers, tp, range(50))
    two_brokers.restart_broker(1)  # now the other one leads
    with open_consumer(bootstrap_servers=two_brokers.bootstrap_servers) as consumer:
        consumer.assign([tp])
        assert read(consumer, 50) == list(range(50))
        two_brokers.let_lead(tp, 1)
        write(two_brokers, tp, range(50, 100))
        assert read(consumer, 50) == list(range(50, 100))
    assert adopted == [(0, 1)]
