"""Closing against real brokers, under both group protocols: what the group sees of it, and how long it may take."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Unpack

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.errors import CommitFailedError, ConcurrentModificationError, KafkaError, WakeupError
from tests.network_clients import network_thread_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kwire.config import Settings
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, PollUntil, Read
    from tests.integration.kafkas import OwnKafka, SharedKafka, StartKafka

pytestmark = pytest.mark.slow

PARTITIONS = 2
DEADLINE_S = 30.0
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def settings(protocol: str, **more: Unpack[Settings]) -> Settings:
    """Classic members hear of a rebalance with their next heartbeat; its interval is the broker's in the other."""
    chosen: Settings = {"group_protocol": protocol, **more}
    if protocol == "classic":
        chosen["heartbeat_interval_ms"] = 100
    return chosen


# --- what the group sees (KIP-1092) -------------------------------------------------------------------------------


@both_protocols
@pytest.mark.parametrize(
    ("instance_id", "leave_group", "leaves"),
    [("i1", None, False), ("i1", True, True), ("i1", False, False), (None, None, True), (None, True, True)],
)
def test_whether_its_place_is_free_at_once(
    protocol: str,
    instance_id: str | None,
    leave_group: bool | None,
    leaves: bool,
    topic: MakeTopic,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
) -> None:
    """Who comes next gets everything, or only the half that a place that is kept leaves over."""
    name = topic(PARTITIONS)
    first = open_consumer(name, **settings(protocol, group_id=group_id, group_instance_id=instance_id))
    second = open_consumer(name, **settings(protocol, group_id=group_id))
    poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
    first.close(leave_group=leave_group)
    if leaves:
        poll_until(lambda: len(second.assignment()) == PARTITIONS, second)
        return
    until_s = time.monotonic() + 0.5
    poll_until(lambda: time.monotonic() > until_s, second)
    assert len(second.assignment()) == 1


# --- how long it takes --------------------------------------------------------------------------------------------


@pytest.fixture
def frozen_broker(start_kafka: StartKafka) -> Iterator[OwnKafka]:
    """Freezes when a test says so; nothing refuses a connection then, and nothing answers."""
    with start_kafka() as cluster:
        yield cluster
        cluster.resume_broker(0)


def test_close_keeps_its_time_when_the_broker_is_a_black_hole(frozen_broker: OwnKafka) -> None:
    """With a commit to make and a group to leave, from the middle of a fetch, by members of both protocols."""
    admin = AdminClient({"bootstrap.servers": frozen_broker.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1)])["t"].result(DEADLINE_S)
    told: list[KafkaError | None] = []
    consumers: list[BytesConsumer] = []
    for protocol in ("classic", "consumer"):
        made: BytesConsumer = Consumer(
            "t", **settings(protocol, bootstrap_servers=frozen_broker.bootstrap_servers, group_id=protocol)
        )
        consumers.append(made)
        until_s = time.monotonic() + DEADLINE_S
        while not made.assignment():
            made.poll(0.1)
            assert time.monotonic() < until_s
        made.poll(0.3)
    frozen_broker.pause_broker(0)
    for consumer, timeout in zip(consumers, (1.0, 0.0), strict=True):
        consumer.commit_async({TopicPartition("t", 0): OffsetAndMetadata(0)}, callback=lambda _, e: told.append(e))
        thread = network_thread_of(consumer)
        started_s = time.monotonic()
        consumer.close(timeout)
        assert time.monotonic() - started_s < timeout + 0.5
        thread.join(1)
        assert not thread.is_alive()
    assert [type(error) for error in told] == [CommitFailedError] * 2


def test_a_commit_that_finds_no_coordinator_before_the_end_is_reported() -> None:
    """Java's CommitAsyncFailsWhenCoordinatorUnavailableDuringClose."""
    told: list[KafkaError | None] = []
    consumer: BytesConsumer = Consumer(bootstrap_servers="127.0.0.1:1", group_id="lonely", enable_auto_commit=False)
    tp = TopicPartition("some-topic", 0)

    def note(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        told.append(error)

    consumer.commit_async({tp: OffsetAndMetadata(1)}, callback=note)
    consumer.close(0.1)
    assert [type(error) for error in told] == [CommitFailedError]


# --- by whom, and when --------------------------------------------------------------------------------------------


@pytest.mark.threads(reason="a task may close it at once")
def test_another_thread_may_close_it_once_the_first_has_left(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer
) -> None:
    """While somebody is inside it must not, and says so; `wakeup()` makes room. Once more does no harm."""
    consumer = open_consumer(topic(), group_id=group_id)
    inside, woken = threading.Event(), threading.Event()

    def poll_until_woken() -> None:
        inside.set()
        try:
            while True:
                consumer.poll(30)
        except WakeupError:
            woken.set()

    def try_to_get_in() -> None:
        while not woken.is_set():
            consumer.subscription()

    thread = threading.Thread(target=poll_until_woken)
    thread.start()
    assert inside.wait(5)
    with pytest.raises(ConcurrentModificationError):
        try_to_get_in()
    consumer.wakeup()
    thread.join(10)
    assert woken.is_set()
    consumer.close()
    consumer.close()


def test_a_wakeup_does_not_keep_close_from_committing(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, read: Read
) -> None:
    """Java's AutoCommitOnCloseAfterWakeup."""
    name = topic()
    produce(name, [b"1", b"2"])
    consumer = open_consumer(name, group_id=group_id)
    read(consumer, 2)
    consumer.wakeup()
    consumer.close()
    tp = TopicPartition(name, 0)
    position = open_consumer(group_id=group_id).committed([tp])[tp]
    assert position is not None
    assert position.offset == 2


@both_protocols
def test_a_consumer_that_nobody_holds_any_more_leaves_its_group(
    protocol: str,
    kafka: SharedKafka,
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    read: Read,
) -> None:
    """Once its thread kept it alive for the group, which waited for ever for an application that was gone.

    What it was handed last it may never have processed: that comes again. What it had come back from is committed.
    """
    name = topic()
    produce(name, [b"1"])
    lost: BytesConsumer = Consumer(
        name,
        **settings(
            protocol,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=60_000,
        ),
    )
    read(lost, 1)
    lost.poll(0)
    produce(name, [b"2"])
    read(lost, 1)
    thread = network_thread_of(lost)
    with pytest.warns(ResourceWarning, match="unclosed consumer"):
        del lost
    heir = open_consumer(name, **settings(protocol, group_id=group_id))
    assert [record.value for record in read(heir, 1)] == [b"2"]
    thread.join(5)
    assert not thread.is_alive()
