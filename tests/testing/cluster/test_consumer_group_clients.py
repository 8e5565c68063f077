"""kwire and librdkafka as members of consumer groups of the in-process cluster (KIP-848), alone and mixed."""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire import Consumer, SubscriptionPattern
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Unpack

    from kwire.config import Settings

pytestmark = pytest.mark.slow

DEADLINE_S = 20.0
HEARTBEAT_MS = 50


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {
        "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
        "group.consumer.assignment.interval.ms": 0,
    }
    with Cluster(brokers=3, topics={"orders": 4}, settings=settings) as running:
        yield running


class Kwire:
    """A member of kwire's make."""

    def __init__(self, cluster: Cluster, **more: Unpack[Settings]) -> None:
        settings: Settings = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "group_protocol": "consumer",
            "auto_offset_reset": "earliest",
            **more,
        }
        self.consumer: Consumer[bytes, bytes] = Consumer("orders", **settings)
        self.values: list[bytes | None] = []

    def poll(self) -> None:
        """Take part."""
        self.values.extend(record.value for record in self.consumer.poll(0.02))

    def owned(self) -> list[int]:
        """Its partitions."""
        return sorted(partition.partition for partition in self.consumer.assignment())

    def close(self) -> None:
        """Leave."""
        self.consumer.close()


class Librdkafka:
    """A member of librdkafka's make."""

    def __init__(self, cluster: Cluster) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        self.consumer.subscribe(["orders"])
        self.values: list[bytes | None] = []

    def poll(self) -> None:
        """Take part."""
        message = self.consumer.poll(0.02)
        if message is not None and message.error() is None:
            self.values.append(message.value())

    def owned(self) -> list[int]:
        """Its partitions."""
        return sorted(partition.partition for partition in self.consumer.assignment())

    def close(self) -> None:
        """Leave."""
        self.consumer.close()


Member = Kwire | Librdkafka


def poll_until(condition: Callable[[], bool], *members: Member) -> None:
    """Let the members take part until it holds."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, [member.owned() for member in members]
        for member in members:
            member.poll()


def poll_until_shared(*members: Member) -> None:
    """Until each of the four partitions has an owner, and all own something."""

    def is_shared() -> bool:
        shares = [member.owned() for member in members]
        return all(shares) and sorted(chain(*shares)) == [0, 1, 2, 3]

    poll_until(is_shared, *members)


MAKES = {"kwire": Kwire, "librdkafka": Librdkafka}


@pytest.mark.parametrize("first_make", MAKES)
@pytest.mark.parametrize("second_make", MAKES)
def test_members_share_and_inherit(cluster: Cluster, first_make: str, second_make: str) -> None:
    first, second = MAKES[first_make](cluster), MAKES[second_make](cluster)
    poll_until_shared(first, second)
    first.close()
    poll_until_shared(second)
    second.close()


def test_what_one_member_committed_the_next_goes_on_from(cluster: Cluster) -> None:
    for number in range(20):
        cluster.produce("orders", b"%d" % number, partition=number % 4)
    first = Kwire(cluster)
    poll_until(lambda: len(first.values) == 20, first)
    first.consumer.commit_sync()
    first.close()
    for number in range(20, 24):
        cluster.produce("orders", b"%d" % number, partition=number % 4)
    second = Librdkafka(cluster)
    poll_until(lambda: len(second.values) == 4, second)
    assert sorted(second.values) == [b"20", b"21", b"22", b"23"]  # type: ignore[type-var]  # none is None
    second.close()


def test_a_group_goes_over_to_the_consumer_protocol_and_back(cluster: Cluster) -> None:
    classic = Kwire(
        cluster,
        group_protocol="classic",
        partition_assignment_strategy=["cooperative-sticky"],
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    poll_until_shared(classic)
    consumer = Kwire(cluster)
    poll_until_shared(classic, consumer)
    consumer.close()
    poll_until_shared(classic)
    classic.close()


def test_a_group_outlives_its_coordinator(cluster: Cluster) -> None:
    first, second = Kwire(cluster), Librdkafka(cluster)
    poll_until_shared(first, second)
    cluster.move_coordinator("g")
    cluster.grow_topic("orders", 5)

    def is_shared() -> bool:
        return sorted(first.owned() + second.owned()) == [0, 1, 2, 3, 4]

    poll_until(is_shared, first, second)
    first.close()
    second.close()


def test_topics_that_match_a_pattern_are_read(cluster: Cluster) -> None:
    member = Kwire(cluster)
    member.consumer.subscribe(SubscriptionPattern("ord[a-z]+"))
    poll_until_shared(member)
    member.close()
