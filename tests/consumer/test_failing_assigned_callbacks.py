"""An assigned callback that raises is called again by each poll, and until it succeeds no record comes: as in Java.

Once it was not called again. A program that keeps its offsets elsewhere, and seeks in the callback, then read from the
committed position: a `wakeup()` that was pending, or a look-up that took too long, was enough.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kwire import AsyncConsumer, Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition
from kwire.errors import KafkaError, RebalanceListenerError, WakeupError
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire import AsyncRebalanceConsumer, RebalanceConsumer
    from kwire.model import Partitions

TOPIC, OTHER, RECORDS, STORED_AT = "orders", "clicks", 10, 7
T0, O0 = TopicPartition(TOPIC, 0), TopicPartition(OTHER, 0)
ORDERS, CLICKS = frozenset({T0}), frozenset({O0})
LEFT = list(range(STORED_AT, RECORDS))
MOST_POLLS = 600

pytestmark = pytest.mark.parametrize(
    "protocol",
    [
        pytest.param({"heartbeat_interval_ms": 50}, id="eager"),
        pytest.param(
            {"heartbeat_interval_ms": 50, "partition_assignment_strategy": "cooperative-sticky"}, id="cooperative"
        ),
        pytest.param({"group_protocol": "consumer"}, id="consumer"),
        pytest.param({"heartbeat_interval_ms": 50, "group_instance_id": "one"}, id="eager-static"),
        pytest.param({"group_protocol": "consumer", "group_instance_id": "one"}, id="consumer-static"),
    ],
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.consumer.heartbeat.interval.ms": 50}
    with Cluster(topics={TOPIC: 1, OTHER: 1}, settings=settings) as cluster:
        cluster.produce(TOPIC, *(b"%d" % number for number in range(RECORDS)))
        cluster.produce(OTHER, *(b"%d" % number for number in range(RECORDS)))
        yield cluster


@pytest.fixture
def settings(
    cluster: Cluster, protocol: dict[str, str | int], request: pytest.FixtureRequest
) -> dict[str, str | int | bool]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": request.node.name,
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        **protocol,
    }


@pytest.fixture
def consumer(settings: dict[str, str | int | bool]) -> Iterator[Consumer[bytes, bytes]]:
    with Consumer[bytes, bytes](**settings) as made:
        yield made


class Storing(RebalanceListener):
    """Seeks to where a store says, once it has raised what it was given to raise."""

    def __init__(self, *raises: Exception) -> None:
        self.raises = list(raises)
        self.events: list[tuple[str, Partitions]] = []

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append(("assigned", partitions))
        if self.raises:
            raise self.raises.pop(0)
        for tp in partitions:
            consumer.seek(tp, STORED_AT)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append(("revoked", partitions))

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append(("lost", partitions))

    @property
    def told(self) -> list[tuple[str, Partitions]]:
        """What it was told of any partitions."""
        return [event for event in self.events if event[1]]


def poll_on(
    consumer: Consumer[bytes, bytes], is_done: Callable[[list[int]], bool]
) -> tuple[list[int], list[KafkaError]]:
    """The offsets and the errors that polls come to."""
    offsets, errors = list[int](), list[KafkaError]()
    for _ in range(MOST_POLLS):
        if is_done(offsets):
            return offsets, errors
        try:
            offsets += [record.offset for record in consumer.poll(0.1)]
        except KafkaError as error:
            errors.append(error)
    raise AssertionError(f"not done: {offsets}, {errors}")


def until_failed(consumer: Consumer[bytes, bytes]) -> None:
    with pytest.raises(RebalanceListenerError):
        poll_on_raising(consumer)


def poll_on_raising(consumer: Consumer[bytes, bytes]) -> None:
    for _ in range(MOST_POLLS):
        consumer.poll(0.1)


def test_records_wait_for_the_call_that_succeeds(consumer: Consumer[bytes, bytes]) -> None:
    listener = Storing(ValueError("the store is away"), KafkaError("so is the broker"))
    consumer.subscribe([TOPIC], listener=listener)
    offsets, errors = poll_on(consumer, lambda offsets: len(offsets) >= len(LEFT))
    assert offsets == LEFT
    assert [type(error) for error in errors] == [RebalanceListenerError, KafkaError]
    assert listener.told == [("assigned", ORDERS)] * 3


def test_a_wakeup_that_meets_the_callback_costs_no_position(cluster: Cluster, consumer: Consumer[bytes, bytes]) -> None:
    called = 0

    def on_assigned(view: RebalanceConsumer, partitions: Partitions) -> None:
        nonlocal called
        called += 1
        if called == 1:
            cluster.control.on(OffsetFetchRequest, times=1).delay(
                500
            )  # else the answer may be there before the wake-up
            consumer.wakeup()  # as another thread may at this moment
        view.committed(partitions)
        for tp in partitions:
            view.seek(tp, STORED_AT)

    consumer.subscribe([TOPIC], on_assigned=on_assigned)
    offsets, errors = poll_on(consumer, lambda offsets: len(offsets) >= len(LEFT))
    assert (offsets, [type(error) for error in errors]) == (LEFT, [WakeupError])
    assert called >= 2


def test_one_that_always_raises_is_called_once_for_each_poll(consumer: Consumer[bytes, bytes]) -> None:
    listener = Storing(*(ValueError(number) for number in range(MOST_POLLS)))
    consumer.subscribe([TOPIC], listener=listener)
    until_failed(consumer)
    for _ in range(5):
        with pytest.raises(RebalanceListenerError):
            consumer.poll(0.2)
    assert listener.told == [("assigned", ORDERS)] * 6
    assert consumer.assignment() == {T0}
    assert consumer.group_metadata().generation_id > 0, "heartbeats have kept the membership"


def test_on_an_event_loop(settings: dict[str, str | int | bool]) -> None:
    called: list[Partitions] = []

    async def on_assigned(view: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        called.append(partitions)
        await view.committed(partitions)
        if len(called) <= 2:
            raise ValueError("the store is away")
        for tp in partitions:
            await view.seek(tp, STORED_AT)

    async def main() -> None:
        async with AsyncConsumer[bytes, bytes](**settings) as consumer:
            await consumer.subscribe([TOPIC], on_assigned=on_assigned)
            offsets, errors = list[int](), list[str]()
            while len(offsets) < len(LEFT):
                try:
                    offsets += [record.offset for record in await consumer.poll(1.0)]
                except RebalanceListenerError as error:
                    errors.append(str(error))
            assert offsets == LEFT
            assert len(errors) == 2
            assert "the store is away" in errors[0]
            assert "the next poll calls it again" in errors[0]

    asyncio.run(main())
    assert [partitions for partitions in called if partitions] == [ORDERS] * 3


def test_unsubscribing_calls_revoked_and_assigned_no_more(consumer: Consumer[bytes, bytes]) -> None:
    """As in Java, where the partitions are assigned all the same."""
    listener, other = Storing(ValueError()), Storing()
    consumer.subscribe([TOPIC], listener=listener)
    until_failed(consumer)
    consumer.unsubscribe()
    assert listener.told == [("assigned", ORDERS), ("revoked", ORDERS)]
    consumer.subscribe([OTHER], listener=other)
    offsets, errors = poll_on(consumer, lambda offsets: len(offsets) >= len(LEFT))
    assert (offsets, errors) == (LEFT, [])
    assert other.told[-1] == ("assigned", CLICKS)
    assert listener.told == [("assigned", ORDERS), ("revoked", ORDERS)]


def test_so_does_closing(settings: dict[str, str | int | bool]) -> None:
    listener = Storing(ValueError())
    with Consumer[bytes, bytes](**settings) as consumer:
        consumer.subscribe([TOPIC], listener=listener)
        until_failed(consumer)
    assert listener.told == [("assigned", ORDERS), ("revoked", ORDERS)]


def test_nothing_is_called_for_topics_that_are_not_subscribed_any_more(consumer: Consumer[bytes, bytes]) -> None:
    """Else a program whose store does not know a topic could not go on with others."""
    listener, other = Storing(ValueError()), Storing()
    consumer.subscribe([TOPIC], listener=listener)
    until_failed(consumer)
    consumer.subscribe([OTHER], listener=other)
    offsets, errors = poll_on(consumer, lambda offsets: len(offsets) >= len(LEFT))
    assert (offsets, errors) == (LEFT, [])
    assert sorted(other.told) == [("assigned", CLICKS), ("revoked", ORDERS)]
    assert listener.told == [("assigned", ORDERS)]


def test_a_new_listener_is_called_for_what_stays_subscribed(consumer: Consumer[bytes, bytes]) -> None:
    listener, other = Storing(ValueError()), Storing()
    consumer.subscribe([TOPIC], listener=listener)
    until_failed(consumer)
    consumer.subscribe([TOPIC, OTHER], listener=other)
    offsets, errors = poll_on(consumer, lambda offsets: len(offsets) >= 2 * len(LEFT))
    assert (sorted(offsets), errors) == (sorted(2 * LEFT), [])
    assert other.told[0] == ("assigned", ORDERS)


def test_what_is_committed_is_not_what_was_never_read(
    settings: dict[str, str | int | bool], consumer: Consumer[bytes, bytes]
) -> None:
    """An automatic commit that closes a membership must not move the group behind records nobody was handed."""
    consumer.assign([T0])
    consumer.commit_sync({T0: OffsetAndMetadata(3)})
    consumer.unsubscribe()
    listener = Storing(*(ValueError(number) for number in range(MOST_POLLS)))
    consumer.subscribe([TOPIC], listener=listener)
    until_failed(consumer)
    with suppress(RebalanceListenerError):
        consumer.poll(0.1)
    consumer.unsubscribe()
    found = consumer.committed([T0])[T0]
    assert found is not None
    assert found.offset == 3
