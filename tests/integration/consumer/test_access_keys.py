"""Rebalance callbacks that have their work done in another thread, in a task of trio, in one of asyncio (KIP-944)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest
import trio

from kwire import OffsetAndMetadata, RebalanceConsumer, RebalanceListener, ThreadAccessKey, TopicPartition
from kwire.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from kwire.model import Partitions
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer

T = TypeVar("T")

DEADLINE_S = 30.0
pytestmark = pytest.mark.threads(reason="without its key other threads are refused; tasks need none")
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


class Runtime(Protocol):
    """Where an application lives: something that polls, and something that does the work of its callbacks."""

    def run(self, poll: Callable[[], T]) -> T:
        """Runs what polls; blocks."""
        ...

    def elsewhere(self, work: Callable[[], T]) -> T:
        """Called by a callback: has the work done elsewhere and waits for it."""
        ...


class Threads:
    """Polls in the main thread, works in another."""

    def run(self, poll: Callable[[], T]) -> T:
        with ThreadPoolExecutor(1) as self._pool:
            return poll()

    def elsewhere(self, work: Callable[[], T]) -> T:
        return self._pool.submit(work).result(DEADLINE_S)


class Trio:
    """Polls in a thread of trio's, works in a task, and in a thread that the task starts."""

    def run(self, poll: Callable[[], T]) -> T:
        return trio.run(trio.to_thread.run_sync, poll)

    def elsewhere(self, work: Callable[[], T]) -> T:
        async def task() -> T:
            await trio.to_thread.run_sync(work)
            return work()

        return trio.from_thread.run(task)


class Asyncio:
    """Polls in a thread of asyncio's, works in a task, and in a thread that the task starts."""

    def run(self, poll: Callable[[], T]) -> T:
        async def main() -> T:
            self._loop = asyncio.get_running_loop()
            return await asyncio.to_thread(poll)

        return asyncio.run(main())

    def elsewhere(self, work: Callable[[], T]) -> T:
        async def task() -> T:
            await asyncio.to_thread(work)
            return work()

        return asyncio.run_coroutine_threadsafe(task(), self._loop).result(DEADLINE_S)


RUNTIMES = pytest.mark.parametrize("runtime", [Threads(), Trio(), Asyncio()], ids=["thread", "trio", "asyncio"])


class WorksElsewhere(RebalanceListener):
    """Seeks to offset 2 when it is given a partition, commits offset 7 when it gives it back."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.refusals: list[str] = []
        self.positions: list[int] = []

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        key = consumer.get_thread_access_key()

        def seek() -> None:
            consumer.set_thread_access_key(key)
            for tp in partitions:
                consumer.pause([tp])
                consumer.seek(tp, 2)
                self.positions.append(consumer.position(tp))
                consumer.resume([tp])

        self._runtime.elsewhere(lambda: self._without_key(consumer))
        self._runtime.elsewhere(seek)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        key = consumer.get_thread_access_key()

        def commit() -> None:
            consumer.set_thread_access_key(key)
            offsets = dict.fromkeys(partitions, OffsetAndMetadata(7, "elsewhere"))
            consumer.commit_sync(offsets, timeout=DEADLINE_S)
            assert consumer.committed(partitions) == offsets

        self._runtime.elsewhere(commit)

    def _without_key(self, consumer: RebalanceConsumer) -> None:
        try:
            consumer.assignment()
        except ConcurrentModificationError as error:
            self.refusals.append(str(error))


def poll_for(consumer: BytesConsumer, count: int) -> list[int]:
    """The offsets of what comes."""
    until_s = time.monotonic() + DEADLINE_S
    offsets: list[int] = []
    while len(offsets) < count:
        offsets += [record.offset for record in consumer.poll(0.5)]
        assert time.monotonic() < until_s, f"{len(offsets)} of {count} records after {DEADLINE_S} s"
    return offsets


@pytest.mark.slow
@PROTOCOLS
@RUNTIMES
def test_callbacks_seek_and_commit_elsewhere(
    open_consumer: OpenConsumer, topic: MakeTopic, produce: Produce, group_id: str, protocol: str, runtime: Runtime
) -> None:
    name = topic()
    produce(name, [b"%d" % number for number in range(10)])
    consumer = open_consumer(group_id=group_id, group_protocol=protocol, enable_auto_commit=False)
    listener = WorksElsewhere(runtime)
    consumer.subscribe(name, listener=listener)

    def application() -> list[int]:
        offsets = poll_for(consumer, 8)
        consumer.unsubscribe()
        return offsets

    assert runtime.run(application) == list(range(2, 10)), "it went where the callback sent it"
    assert set(listener.positions) == {2}
    assert listener.refusals
    assert all("has not been given its key" in refusal for refusal in listener.refusals)
    tp = TopicPartition(name, 0)
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(7, "elsewhere")}


@pytest.mark.slow
@PROTOCOLS
def test_what_a_callback_does_not_wait_for_fails_the_poll_and_loses_no_records(
    open_consumer: OpenConsumer, topic: MakeTopic, produce: Produce, group_id: str, protocol: str
) -> None:
    """The poll must not go on to collect records that nobody would see, and that the next poll would commit."""
    name = topic()
    produce(name, [b"%d" % number for number in range(10)])
    consumer = open_consumer(group_id=group_id, group_protocol=protocol)

    is_in, may_leave = threading.Event(), threading.Event()

    def stay(key: ThreadAccessKey | None) -> None:
        consumer.set_thread_access_key(key)
        with consumer._guard:  # as inside any call
            is_in.set()
            assert may_leave.wait(DEADLINE_S)

    class DoesNotWait(RebalanceListener):
        def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
            if partitions and not is_in.is_set():
                stayed.append(straggler.submit(stay, consumer.get_thread_access_key()))
                assert is_in.wait(DEADLINE_S)

    stayed: list[Future[None]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="straggler") as straggler:
        consumer.subscribe(name, listener=DoesNotWait())
        with pytest.raises(ConcurrentModificationError, match="while thread 'straggler_0' was still using"):
            poll_for(consumer, 1)
        with pytest.raises(ConcurrentModificationError, match="being used by thread 'straggler_0'"):
            consumer.poll(0)
        may_leave.set()
        stayed[0].result(DEADLINE_S)
    assert poll_for(consumer, 10) == list(range(10))


def test_a_deserializer_has_no_key_to_pass_on(open_consumer: OpenConsumer, topic: MakeTopic, produce: Produce) -> None:
    """What it runs in has records in its hands and goes on; others must not change their positions meanwhile."""
    name = topic()
    produce(name, [b"1"])
    found: list[object] = []

    def deserialize(data: bytes) -> bytes:
        found.append(consumer.get_thread_access_key())
        return data

    consumer = open_consumer(value_deserializer=deserialize)
    consumer.assign([TopicPartition(name, 0)])
    assert poll_for(consumer, 1) == [0]
    assert found == [None]
