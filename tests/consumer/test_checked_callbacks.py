"""Listeners and callbacks that cannot be called are refused when they are given; failing ones never keep a close."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from kwire import Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition
from kwire.clock import Deadline
from kwire.consumer.listener import RebalanceConsumer
from kwire.errors import InvalidArgumentError, RebalanceListenerError
from kwire.model import Partitions
from kwire.testing import Cluster

# A member that had not left would be waited for until its session is over: 45 s.
PATIENCE_MS = 5_000.0


class OfKafkaPython(RebalanceListener):
    def on_partitions_assigned(self, assigned: Partitions) -> None:  # type: ignore[override]
        """As kafka-python calls it."""


class Awaited(RebalanceListener):
    async def on_partitions_revoked(  # type: ignore[override]
        self, consumer: RebalanceConsumer, partitions: Partitions
    ) -> None:
        """Nobody would await it."""


class Whole:
    """Not derived, but with all that is needed."""

    def __init__(self) -> None:
        self.assigned = 0

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, _partitions: Partitions) -> None:
        self.assigned += 1

    def on_partitions_revoked(self, *_: object) -> None: ...

    on_partitions_lost = on_partitions_revoked


@pytest.fixture
def consumer(kafka_cluster: Cluster) -> Consumer[bytes, bytes]:
    kafka_cluster.create_topic("t", partitions=1)
    return Consumer(bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="g")


def poll_until(consumer: Consumer[bytes, bytes], condition: Callable[[], bool]) -> None:
    """There are no records: a poll takes all its time."""
    deadline = Deadline.after(PATIENCE_MS)
    while not condition():
        assert not deadline.expired, "still not so"
        consumer.poll(0.01)


@pytest.mark.parametrize(
    ("listener", "why"),
    [
        (print, "it has no method on_partitions_assigned"),
        (RebalanceListener, "it is a class"),
        (OfKafkaPython(), "on_partitions_assigned cannot be called with 2 arguments"),
        (Awaited(), "on_partitions_revoked is a coroutine function"),
        (object(), "it has no method on_partitions_assigned"),
    ],
    ids=["function", "class", "kafka-python's", "coroutine", "object"],
)
def test_a_listener_that_cannot_be_called_is_refused_at_once(
    consumer: Consumer[bytes, bytes], listener: RebalanceListener, why: str
) -> None:
    """It failed in `poll`, and again in `close()`."""
    with consumer:
        gives: list[Callable[[], None]] = [
            lambda: consumer.subscribe(["t"], listener=listener),
            lambda: setattr(consumer, "rebalance_listener", listener),
        ]
        for give in gives:
            with pytest.raises(InvalidArgumentError, match=f"{why}.*Derive from kwire.RebalanceListener"):
                give()
        assert consumer.subscription() == frozenset()


@pytest.mark.slow
def test_an_object_with_the_three_methods_will_do(consumer: Consumer[bytes, bytes]) -> None:
    listener = Whole()
    with consumer:
        consumer.subscribe(["t"], listener=listener)  # type: ignore[arg-type]  # it has what is called
        poll_until(consumer, lambda: bool(listener.assigned))


@pytest.mark.parametrize("callback", [7, lambda _offsets: None])
def test_a_commit_callback_that_cannot_be_called_is_refused_at_once(
    consumer: Consumer[bytes, bytes], callback: Callable[[object, object], None]
) -> None:
    with consumer, pytest.raises(InvalidArgumentError, match="cannot be called"):
        consumer.commit_async(callback=callback)


async def note(*_: object) -> None: ...


class CalledAsAsync:
    async def __call__(self, *_: object) -> None: ...


def test_an_object_that_is_called_as_a_coroutine_function_is_refused_at_once(
    consumer: Consumer[bytes, bytes],
) -> None:
    with consumer:
        for callback in (note, CalledAsAsync(), partial(CalledAsAsync(), 1)):
            with pytest.raises(InvalidArgumentError, match="nobody would await"):
                consumer.subscribe(["t"], on_assigned=callback)
            with pytest.raises(InvalidArgumentError, match="nobody would await"):
                consumer.commit_async(callback=callback)


@pytest.mark.slow
def test_a_callback_that_returns_a_coroutine_is_an_error_of_the_poll(consumer: Consumer[bytes, bytes]) -> None:
    """Nobody awaited it, and nobody said so."""
    with consumer:
        consumer.subscribe(["t"], on_assigned=lambda consumer, _partitions: note(consumer))
        with pytest.raises(RebalanceListenerError, match="nobody awaits it"):
            poll_until(consumer, lambda: False)
        consumer.rebalance_listener = RebalanceListener()  # the other one would be called again
        told = list[object]()
        offsets = {TopicPartition("t", 0): OffsetAndMetadata(0)}
        consumer.commit_async(offsets, callback=lambda committed, _error: note(committed))
        with pytest.raises(TypeError, match="nobody awaits it"):
            poll_until(consumer, lambda: False)
        consumer.commit_async(
            {TopicPartition("t", 0): OffsetAndMetadata(0)}, callback=lambda *given: told.append(given)
        )
        poll_until(consumer, lambda: bool(told))


@pytest.mark.slow
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_listener_that_fails_does_not_keep_close_from_leaving(
    kafka_cluster: Cluster, consumer: Consumer[bytes, bytes], error: BaseException
) -> None:
    class Failing(RebalanceListener):
        def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
            raise error

    consumer.subscribe(["t"], listener=Failing())
    poll_until(consumer, lambda: bool(consumer.assignment()))
    with pytest.raises((type(error), RebalanceListenerError)):
        consumer.close()
    assert not consumer._session.link.thread._thread.is_alive()  # type: ignore[attr-defined]  # a thread's
    consumer.close()
    with Consumer[bytes, bytes]("t", bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="g") as second:
        poll_until(second, lambda: bool(second.assignment()))  # the group waits for nobody
