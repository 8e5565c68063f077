"""`wakeup()`, then `close()`: how a consumer is closed that another thread uses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from kwire import Consumer, Records, TopicPartition
from kwire.errors import ConcurrentModificationError, WakeupError
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
