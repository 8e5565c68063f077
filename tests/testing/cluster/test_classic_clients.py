"""Groups of real clients on the in-process cluster: librdkafka, kafka-python and kwire divide a topic and hand over."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer

from kwire import Consumer
from kwire.model import TopicPartition
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*Use files.. instead:DeprecationWarning"),  # kafka-python, on import
]

TOPIC, GROUP, PARTITIONS, RECORDS = "orders", "billing", 6, 60
DEADLINE_S = 15.0
Start = Callable[..., "Member"]


class Member(Protocol):
    """A consumer of any make."""

    def poll(self) -> None:
        """Take a turn, and keep what came."""

    @property
    def owned(self) -> set[int]: ...

    @property
    def read(self) -> dict[int, int]:
        """The next offset of each partition that something was read of."""

    def close(self) -> None: ...


class KwireMember:
    """kwire."""

    def __init__(self, bootstrap: str, assignor: str) -> None:
        self.read: dict[int, int] = {}
        self._consumer: Consumer[bytes, bytes] = Consumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor],
            heartbeat_interval_ms=200,
        )

    def poll(self) -> None:
        for record in self._consumer.poll(0.02):
            self.read[record.partition] = record.offset + 1

    @property
    def owned(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class LibrdkafkaMember:
    """librdkafka."""

    def __init__(self, bootstrap: str, assignor: str) -> None:
        self.read: dict[int, int] = {}
        self._consumer = LibrdkafkaConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": assignor,
                "heartbeat.interval.ms": 200,
            }
        )
        self._consumer.subscribe([TOPIC])

    def poll(self) -> None:
        for message in self._consumer.consume(100, 0.02):
            index, offset = message.partition(), message.offset()
            if message.error() is None and index is not None and offset is not None:
                self.read[index] = offset + 1

    @property
    def owned(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class PythonMember:
    """kafka-python. Its polls are long: a short one may lose the answer to SyncGroup, and with it the partitions."""

    def __init__(self, bootstrap: str, assignor: str) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        assignors = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
        self.read: dict[int, int] = {}
        self._consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignors[assignor]],
            heartbeat_interval_ms=200,
        )

    def poll(self) -> None:
        for records in self._consumer.poll(timeout_ms=250).values():
            for record in records:
                self.read[record.partition] = record.offset + 1

    @property
    def owned(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


MAKES = [KwireMember, LibrdkafkaMember, PythonMember]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as made:
        made.create_topic(TOPIC, partitions=PARTITIONS)
        for index in range(PARTITIONS):
            made.produce(TOPIC, *[b"x"] * (RECORDS // PARTITIONS), partition=index)
        yield made


@pytest.fixture
def started(cluster: Cluster) -> Iterator[Start]:
    """Starts members; those that are left are closed at the end, while the cluster still runs."""
    with ExitStack() as stack:

        def start(make: Callable[[str, str], Member], assignor: str = "range") -> Member:
            member = make(cluster.bootstrap_servers, assignor)
            stack.callback(member.close)
            return member

        yield start


def poll_until(members: Sequence[Member], is_done: Callable[[], bool], what: str) -> None:
    """Let each member poll in turn."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_done():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}: {[m.owned for m in members]}"
        for member in members:
            member.poll()


def have_divided(members: Sequence[Member]) -> bool:
    """Whether everybody has something and every partition one owner."""
    owned = [member.owned for member in members]
    return all(owned) and sorted(index for some in owned for index in some) == list(range(PARTITIONS))


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_three_kinds_of_clients_divide_a_topic_read_it_and_hand_over(
    cluster: Cluster, started: Start, assignor: str
) -> None:
    members: list[Member] = []
    for make in MAKES:
        members.append(started(make, assignor))
        poll_until(members, lambda: have_divided(members), f"{make.__name__} has joined")
    poll_until(
        members,
        lambda: {index for member in members for index in member.read} == set(range(PARTITIONS)),
        "everything was read",
    )
    while len(members) > 1:
        gone = members.pop()
        gone.close()
        poll_until(members, lambda: have_divided(members), f"{type(gone).__name__} has left")
    members[0].close()
    committed = cluster.committed(GROUP)
    assert {partition: position.offset for partition, position in committed.items()} == {
        TopicPartition(TOPIC, index): RECORDS // PARTITIONS for index in range(PARTITIONS)
    }


@pytest.mark.parametrize("make", [KwireMember, LibrdkafkaMember])
def test_a_group_goes_on_under_another_coordinator(
    cluster: Cluster, started: Start, make: Callable[[str, str], Member]
) -> None:
    members = [started(make), started(KwireMember)]
    poll_until(members, lambda: have_divided(members), "both have joined")
    old = cluster.coordinator(GROUP)
    cluster.move_coordinator(GROUP)
    assert cluster.coordinator(GROUP) != old
    members.append(started(KwireMember))
    poll_until(members, lambda: have_divided(members), "a third has joined under the new coordinator")
