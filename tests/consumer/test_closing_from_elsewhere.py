"""`wakeup()`, then `close()`: how a consumer is closed that another thread uses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from kwire import Consumer, Records, TopicPartition
from kwire.errors import ConcurrentModificationError, IllegalStateError, WakeupError
from kwire.model import Partitions
from kwire.testing import Cluster

TP = TopicPartition("t", 0)


@pytest.fixture
def consumer(kafka_cluster: Cluster) -> Consumer[bytes, bytes]:
    kafka_cluster.create_topic("t", partitions=1)
    return Consumer("t", bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")


def started(consumer: Consumer[bytes, bytes]) -> tuple[threading.Thread, list[object]]:
    """A poll in another thread, and what comes of it."""
    outcome: list[object] = []

    def poll() -> None:
        try:
            outcome.append(consumer.poll(30.0))
        except WakeupError as error:
            outcome.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    while not consumer._guard._ground.thread:
        threading.Event().wait(0.001)
    return thread, outcome


def test_close_waits_for_the_call_that_was_woken(consumer: Consumer[bytes, bytes]) -> None:
    thread, outcome = started(consumer)
    consumer.wakeup()
    consumer.close()
    thread.join(5.0)
    assert isinstance(outcome[0], WakeupError)


@pytest.fixture
def closing(consumer: Consumer[bytes, bytes]) -> Iterator[tuple[threading.Thread, threading.Event]]:
    """A thread that is in `close()` until the event is set."""
    inside, may_end = threading.Event(), threading.Event()

    def wait(_: object, partitions: Partitions) -> None:
        inside.set()
        assert may_end.wait(10.0)

    consumer.subscribe(["t"], on_revoked=wait)
    while not consumer.assignment():
        consumer.poll(0.1)
    thread = threading.Thread(target=consumer.close)
    thread.start()
    assert inside.wait(10.0)
    yield thread, may_end
    may_end.set()
    thread.join(10.0)


@pytest.mark.usefixtures("closing")
def test_who_comes_back_while_another_thread_closes_the_consumer_is_told_that_it_is_closed(
    consumer: Consumer[bytes, bytes],
) -> None:
    """Commit and LeaveGroup take a while. The thread that reads was told of an error of its own: two threads."""
    assert list(consumer) == []
    calls: list[Callable[[], object]] = [lambda: consumer.poll(0), consumer.commit_sync, consumer.assignment]
    for call in calls:
        with pytest.raises(IllegalStateError, match="this consumer is closed") as caught:
            call()
        assert type(caught.value) is IllegalStateError
    consumer.close(0.01)


def test_the_end_of_a_with_block_waits_for_a_close_that_is_under_way(
    consumer: Consumer[bytes, bytes], closing: tuple[threading.Thread, threading.Event]
) -> None:
    _, may_end = closing
    with consumer:
        threading.Timer(0.05, may_end.set).start()
    assert repr(consumer).endswith("closed>")


def test_without_a_wakeup_it_is_refused_and_told_how(consumer: Consumer[bytes, bytes]) -> None:
    thread, _ = started(consumer)
    with pytest.raises(ConcurrentModificationError, match=r"to close it from there: wakeup\(\), then close\(\)"):
        consumer.close()
    consumer.wakeup()
    thread.join(5.0)
    consumer.close()


def test_a_task_that_is_cancelled_while_a_thread_polls_for_it_may_close_the_consumer(
    consumer: Consumer[bytes, bytes],
) -> None:
    """The poll goes on in its thread, and `close()` was refused."""

    async def main() -> None:
        poll: Callable[[float], Records[bytes, bytes]] = consumer.poll
        task = asyncio.create_task(asyncio.to_thread(poll, 30.0))
        while not consumer._guard._ground.thread:
            await asyncio.sleep(0.001)
        task.cancel()
        consumer.wakeup()
        consumer.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_what_a_poll_returned_to_nobody_is_not_committed(
    kafka_cluster: Cluster, consumer: Consumer[bytes, bytes]
) -> None:
    kafka_cluster.produce("t", b"1", b"2")
    thread, outcome = started(consumer)
    thread.join(10.0)
    assert isinstance(outcome[0], Records), "the thread that took it is gone, as after a cancelled task"
    consumer.wakeup()
    consumer.close()
    assert all(at.offset == 0 for at in kafka_cluster.committed("g").values())
