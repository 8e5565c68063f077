"""What tasks of an event loop may do with an `AsyncConsumer`, on asyncio and on trio.

All that it promises as a `Consumer` does is tried by the tests of that one, with `--facade asyncio` and `trio`.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio
import pytest
import trio
import uvloop

from kwire import AsyncConsumer, AsyncRebalanceListener, Consumer, OffsetAndMetadata, TopicPartition
from kwire.consumer.polling import FIRST_PORTION
from kwire.consumer.steps import GIVE_WAY
from kwire.errors import (
    ConcurrentModificationError,
    IllegalStateError,
    InvalidArgumentError,
    RebalanceListenerError,
    WakeupError,
)
from kwire.mailbox import Awaited, Mailbox, Woken
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire import AsyncRebalanceConsumer
    from kwire.config import Settings
    from kwire.model import Partitions

T = TypeVar("T")
BytesConsumer = AsyncConsumer[bytes, bytes]

PARTITIONS = 2
RECORDS = 400
LONG_S = 30.0


class Runtime(Protocol):
    """An event loop, by what tests need of it."""

    def run(self, main: Callable[[], Awaitable[T]]) -> T: ...

    async def sleep(self, seconds: float) -> None: ...

    async def beside(self, first: Callable[[], Awaitable[object]], second: Callable[[], Awaitable[object]]) -> None:
        """Run both at the same time, to their ends."""

    async def at_most(self, seconds: float, function: Callable[[], Awaitable[T]]) -> T | None:
        """Cancel it when the time is over, and answer None then."""


class Asyncio:
    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._new_loop = new_loop

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        async def entered() -> T:
            return await main()

        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            return runner.run(entered())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def beside(self, first: Callable[[], Awaitable[object]], second: Callable[[], Awaitable[object]]) -> None:
        async def finish(function: Callable[[], Awaitable[object]]) -> None:
            await function()

        async with asyncio.TaskGroup() as group:
            group.create_task(finish(first))
            group.create_task(finish(second))

    async def at_most(self, seconds: float, function: Callable[[], Awaitable[T]]) -> T | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await function()
        return None


class Trio:
    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        return trio.run(main)

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def beside(self, first: Callable[[], Awaitable[object]], second: Callable[[], Awaitable[object]]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            nursery.start_soon(second)

    async def at_most(self, seconds: float, function: Callable[[], Awaitable[T]]) -> T | None:
        with trio.move_on_after(seconds):
            return await function()
        return None


@pytest.fixture(params=[Asyncio(), Asyncio(uvloop.new_event_loop), Trio()], ids=["asyncio", "uvloop", "trio"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    chosen: Runtime = request.param
    return chosen


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": PARTITIONS, "one": 1}) as running:
        for partition in range(PARTITIONS):
            running.produce("orders", *(b"%d" % n for n in range(RECORDS // PARTITIONS)), partition=partition)
        running.produce("one", *(b"%d" % n for n in range(RECORDS)))
        yield running


_groups = iter(range(1_000_000))


def settings(cluster: Cluster, *, max_poll_records: int = 500) -> Settings:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": f"group-{next(_groups)}",
        "auto_offset_reset": "earliest",
        "max_poll_records": max_poll_records,
    }


async def read(consumer: BytesConsumer, count: int) -> list[tuple[int, int]]:
    """Positions of the records, in the order in which they came."""
    found: list[tuple[int, int]] = []
    while len(found) < count:
        found += [(record.partition, record.offset) for record in await consumer.poll(LONG_S)]
    return found


# --- many tasks ---------------------------------------------------------------------------------------------------


def test_tasks_that_commit_do_not_wake_each_other(
    runtime: Runtime, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand tasks that committed at once took seven seconds: each reply woke all of them."""
    tp, waits = TopicPartition("one", 0), list[object]()
    add_waiter = Mailbox.add_waiter

    def counted(mailbox: Mailbox, waiter: Woken, reply: Awaited | None = None) -> None:
        waits.append(waiter)
        add_waiter(mailbox, waiter, reply)

    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            await read(consumer, RECORDS)
            monkeypatch.setattr(Mailbox, "add_waiter", counted)

            async def commit(most: int) -> None:
                """As many tasks as that, all at the same time."""
                if most > 1:
                    await runtime.beside(lambda: commit(most // 2), lambda: commit(most - most // 2))
                else:
                    await consumer.commit_sync({tp: OffsetAndMetadata(7)})

            await commit(100)

    runtime.run(main)
    assert 0 < len(waits) <= 300, "a task waits for its own reply, once as a rule"


def test_while_one_task_polls_another_may_do_everything_else(runtime: Runtime, cluster: Cluster) -> None:
    tp = TopicPartition("one", 0)

    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            await read(consumer, RECORDS)
            seen: list[int] = []

            async def poll_on() -> None:
                seen.extend(record.offset for record in await consumer.poll(LONG_S))

            async def do_the_rest() -> None:
                await consumer.commit_sync({tp: OffsetAndMetadata(7)})
                assert (await consumer.committed([tp]))[tp] == OffsetAndMetadata(7)
                assert await consumer.end_offsets([tp]) == {tp: RECORDS}
                assert await consumer.position(tp) == RECORDS
                consumer.pause([tp])
                assert await consumer.paused() == {tp}
                await consumer.seek(tp, RECORDS - 3)
                consumer.resume([tp])

            await runtime.beside(poll_on, do_the_rest)
            assert seen == [RECORDS - 3, RECORDS - 2, RECORDS - 1]

    runtime.run(main)


def test_a_second_task_that_polls_is_refused(runtime: Runtime, cluster: Cluster) -> None:
    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            await read(consumer, RECORDS)

            async def poll_too() -> None:
                await runtime.sleep(0)  # trio begins with either
                await runtime.sleep(0)
                with pytest.raises(ConcurrentModificationError, match="another task polls"):
                    await consumer.poll(0)
                consumer.wakeup()

            async def poll() -> None:
                with pytest.raises(Exception, match=r"wakeup\(\) was called"):
                    await consumer.poll(LONG_S)

            await runtime.beside(poll, poll_too)

    runtime.run(main)


def test_another_task_may_change_the_subscription_of_a_poll_that_waits(runtime: Runtime, cluster: Cluster) -> None:
    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            await read(consumer, RECORDS)
            topics: set[str] = set()

            async def poll() -> None:
                topics.update(record.topic for record in await consumer.poll(LONG_S))

            async def change() -> None:
                await consumer.unsubscribe()
                await consumer.subscribe("orders")

            await runtime.beside(poll, change)
            assert topics == {"orders"}

    runtime.run(main)


def test_close_by_another_task_ends_a_loop_and_does_not_commit_the_record_it_is_at(
    runtime: Runtime, cluster: Cluster
) -> None:
    tp = TopicPartition("one", 0)
    given = settings(cluster, max_poll_records=10)

    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **given)
        seen: list[int] = []

        async def loop() -> None:
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == 14:
                    await runtime.beside(consumer.close, lambda: runtime.sleep(0))

        await loop()
        assert seen[-1] == 14
        async with AsyncConsumer(**given) as second:
            committed = (await second.committed([tp]))[tp]
            assert committed is not None
            assert committed.offset == 14, "the record that the loop was at is not done"

    runtime.run(main)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.commit_sync({TopicPartition("one", 0): OffsetAndMetadata(0)}),
        lambda consumer: consumer.catch_up_progress(),
    ],
    ids=["commit_sync", "catch_up_progress"],
)
def test_a_call_of_another_task_says_nothing_of_the_records_that_the_reader_then_fails_over(
    runtime: Runtime, cluster: Cluster, call: Callable[[BytesConsumer], Awaitable[object]]
) -> None:
    given = settings(cluster, max_poll_records=10)

    async def fail() -> None:
        async with AsyncConsumer("one", **given) as consumer:
            await read(consumer, 20)
            await runtime.beside(lambda: call(consumer), lambda: runtime.sleep(0))
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        runtime.run(fail)
    assert cluster.committed(str(given["group_id"]))[TopicPartition("one", 0)].offset == 10


class ReaderError(Exception):
    pass


async def in_turn(consumer: BytesConsumer, handle: Callable[[int], Awaitable[None]], *, is_loop: bool) -> None:
    """Handle each record's offset, without an end."""
    if is_loop:
        async for record in consumer:
            await handle(record.offset)
    while True:
        for record in await consumer.poll(LONG_S):
            await handle(record.offset)


@pytest.mark.parametrize("is_loop", [True, False], ids=["loop", "poll"])
@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "fails"])
def test_close_does_not_commit_what_a_task_failed_over_or_was_cancelled_at(
    runtime: Runtime, cluster: Cluster, is_loop: bool, is_cancelled: bool
) -> None:
    """With trio it took each task that had ended for one that had returned."""
    given = settings(cluster, max_poll_records=10)
    at: list[int] = []

    async def bill(offset: int) -> None:
        if offset == 14:
            at.append(offset)
            if is_cancelled:
                await runtime.sleep(LONG_S)
            raise ReaderError

    async def end_the_reader() -> None:
        while not at:
            await runtime.sleep(0.001)
        raise ReaderError

    async def main() -> None:
        async with AsyncConsumer("one", **given) as consumer:
            try:
                await runtime.beside(lambda: in_turn(consumer, bill, is_loop=is_loop), end_the_reader)
            except* ReaderError:
                pass

    runtime.run(main)
    assert cluster.committed(str(given["group_id"]))[TopicPartition("one", 0)].offset == (14 if is_loop else 10)


async def poll_in_a_task(consumer: BytesConsumer) -> None:
    await asyncio.create_task(consumer.poll(LONG_S))


async def fetch_three_in_tasks(consumer: BytesConsumer) -> None:
    records = aiter(consumer)
    for _ in range(3):
        await asyncio.create_task(anext(records))  # type: ignore[arg-type]  # a coroutine, as wait_for takes it


@pytest.mark.parametrize(("read_some", "processed"), [(poll_in_a_task, 0), (fetch_three_in_tasks, 2)])
def test_close_does_not_commit_what_a_task_of_its_own_has_read_for_one_that_is_at_work(
    cluster: Cluster, read_some: Callable[[BytesConsumer], Awaitable[None]], processed: int
) -> None:
    """As Python 3.11's `wait_for` does it."""
    given = settings(cluster, max_poll_records=10)

    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **given)
        has_read, done = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            await read_some(consumer)
            has_read.set()
            await done.wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            await has_read.wait()
            await consumer.close()
            done.set()

    asyncio.run(main())
    assert cluster.committed(str(given["group_id"]))[TopicPartition("one", 0)].offset == processed


def test_close_commits_all_that_a_task_was_returned_that_polls_again(cluster: Cluster) -> None:
    """A poll that finds records lets other tasks go first: one of them closed, and saw a task at its records."""
    given = settings(cluster, max_poll_records=10)
    handled = 0

    async def main() -> None:
        nonlocal handled
        consumer: BytesConsumer = AsyncConsumer("one", **given)

        async def work() -> None:
            nonlocal handled
            with suppress(IllegalStateError):
                while True:
                    for record in await consumer.poll(LONG_S):
                        handled = record.offset + 1  # awaits nothing, so close() runs while poll() waits

        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            while not handled:
                await asyncio.sleep(0)
            await consumer.close()

    asyncio.run(main())
    assert cluster.committed(str(given["group_id"]))[TopicPartition("one", 0)].offset == handled


def test_close_commits_what_a_task_has_returned_from(cluster: Cluster) -> None:
    given = settings(cluster, max_poll_records=10)

    async def main() -> None:
        async with AsyncConsumer("one", **given) as consumer:
            await asyncio.create_task(read(consumer, 10))

    asyncio.run(main())
    assert cluster.committed(str(given["group_id"]))[TopicPartition("one", 0)].offset == 10


def test_a_wakeup_of_a_task_that_then_returns_has_all_committed(runtime: Runtime, cluster: Cluster) -> None:
    given = settings(cluster, max_poll_records=10)

    async def main() -> None:
        async with AsyncConsumer("one", **given) as consumer:

            async def read_on() -> None:
                with suppress(WakeupError):
                    async for record in consumer:
                        if record.offset == 14:
                            consumer.wakeup()

            await runtime.beside(read_on, lambda: runtime.sleep(0))

    runtime.run(main)
    assert cluster.committed(str(given["group_id"]))[TopicPartition("one", 0)].offset == 20


def test_a_wakeup_ends_the_loop_though_another_task_waits_for_a_commit(runtime: Runtime, cluster: Cluster) -> None:
    """SIGTERM: the other task took it, and the service polled on."""
    given = settings(cluster, max_poll_records=10)
    ended: list[str] = []
    goes_on = threading.Event()

    def hold(*_: object) -> None:
        goes_on.wait(LONG_S)

    async def main() -> None:
        async with AsyncConsumer("one", **given) as consumer:
            records = await consumer.poll(LONG_S)
            held = cluster.control.on(OffsetCommitRequest, times=1).observe(hold)

            async def commit() -> None:
                with pytest.raises(WakeupError):
                    await consumer.commit_sync(records.next_offsets())
                ended.append("commit")
                await consumer.commit_sync(records.next_offsets())
                ended.append("another commit")

            async def wake() -> None:
                while not held.fired:
                    await runtime.sleep(0.001)
                consumer.wakeup()
                while not ended:
                    await runtime.sleep(0.001)
                goes_on.set()

            await runtime.beside(commit, wake)
            with pytest.raises(WakeupError):
                await consumer.poll(LONG_S)
            ended.append("poll")
            assert len(await consumer.poll(LONG_S)) == 10, "it is raised once"

    runtime.run(main)
    assert ended == ["commit", "another commit", "poll"]


def test_a_consumer_that_is_unsubscribed_before_its_first_poll_has_nothing_to_poll(
    runtime: Runtime, cluster: Cluster
) -> None:
    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))
        await consumer.unsubscribe()
        with pytest.raises(IllegalStateError, match="nothing to poll"):
            await consumer.poll(LONG_S)
        await consumer.close()

    runtime.run(main)


def test_partitions_that_are_assigned_before_the_first_poll_take_the_place_of_topics(
    runtime: Runtime, cluster: Cluster
) -> None:
    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))
        await consumer.assign([TopicPartition("orders", 0)])
        assert {record.topic for record in await consumer.poll(LONG_S)} == {"orders"}
        await consumer.close()

    runtime.run(main)


def test_a_poll_that_begins_while_another_task_subscribes_does_not_undo_that(
    runtime: Runtime, cluster: Cluster
) -> None:
    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))

        async def poll() -> None:
            assert {record.topic for record in await consumer.poll(LONG_S)} == {"orders"}

        await runtime.beside(lambda: consumer.subscribe("orders"), poll)
        await consumer.close()

    runtime.run(main)


def test_close_leaves_it_to_asyncio_to_tell_of_a_reader_that_has_failed(cluster: Cluster) -> None:
    told: list[object] = []

    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))

        async def fail() -> None:
            await consumer.poll(LONG_S)
            raise ReaderError

        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        reader = asyncio.create_task(fail())
        await asyncio.wait([reader])
        await consumer.close()
        del reader
        gc.collect()

    asyncio.run(main())
    assert [type(error) for error in told] == [ReaderError]


def test_close_does_not_wait_for_ever_for_a_callback_that_waits_for_it(runtime: Runtime, cluster: Cluster) -> None:
    async def main() -> None:
        refusals: list[str] = []
        async with AsyncConsumer(**settings(cluster)) as consumer:

            async def close_elsewhere(_: object, partitions: Partitions) -> None:
                async def close() -> None:
                    with pytest.raises(ConcurrentModificationError) as caught:
                        await consumer.close(timeout=0.05)
                    refusals.append(str(caught.value))

                await runtime.beside(close, lambda: runtime.sleep(0))

            await consumer.subscribe("one", on_assigned=close_elsewhere)
            assert len(await read(consumer, RECORDS)) == RECORDS
        assert len(refusals) == 1
        assert "in a callback of this consumer" in refusals[0]

    runtime.run(main)


def test_close_by_another_task_ends_a_poll_that_waits(runtime: Runtime, cluster: Cluster) -> None:
    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))
        await read(consumer, RECORDS)

        async def poll() -> None:
            with pytest.raises(IllegalStateError, match="closed"):
                await consumer.poll(LONG_S)

        await runtime.beside(poll, consumer.close)

    runtime.run(main)


def test_another_event_loop_is_refused(cluster: Cluster) -> None:
    consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))
    asyncio.run(read(consumer, RECORDS))

    async def elsewhere(consumer: BytesConsumer) -> None:
        calls: list[Callable[[], Awaitable[object]]] = [lambda: consumer.poll(0), consumer.paused]
        for call in calls:
            with pytest.raises(IllegalStateError, match="belongs to an event loop that has been closed"):
                await call()
        with pytest.raises(IllegalStateError, match="belongs to an event loop that has been closed"):
            consumer.assignment()

    asyncio.run(elsewhere(consumer))
    with pytest.raises(IllegalStateError, match="belongs to an event loop that has been closed"):
        consumer.pause([])
    consumer.metrics()
    with pytest.warns(ResourceWarning, match="unclosed"):
        del consumer


def test_who_waits_for_a_callback_in_vain_is_told_so(cluster: Cluster) -> None:
    """It was told of access keys, which tasks do not need."""

    async def main() -> None:
        begun = asyncio.Event()

        async def hang(_consumer: object, _partitions: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        async with AsyncConsumer(**settings(cluster)) as consumer:
            await consumer.subscribe(["one"], on_assigned=hang)
            polling = asyncio.create_task(consumer.poll(LONG_S))
            await begun.wait()
            with pytest.raises(ConcurrentModificationError, match=r"has not ended in 0\.1 s: cancel that task"):
                await consumer.close(0.1)
            polling.cancel()
            await asyncio.wait([polling])

    asyncio.run(main())


def test_who_comes_from_another_loop_is_refused_while_its_own_one_runs(cluster: Cluster) -> None:
    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            await consumer.poll(0)
            for call in (consumer.poll, consumer.close):
                with pytest.raises(IllegalStateError, match="belongs to another event loop"):
                    await asyncio.to_thread(asyncio.run, call())
            await consumer.poll(0)

    asyncio.run(main())


def test_a_consumer_whose_loop_has_been_closed_can_be_closed_on_another_one(cluster: Cluster) -> None:
    """Nobody could: its thread and its membership stayed until it was collected."""
    given = settings(cluster)
    consumer: BytesConsumer = AsyncConsumer("one", **given)
    assert asyncio.run(read(consumer, RECORDS))
    asyncio.run(consumer.close())
    assert cluster.committed(str(given["group_id"]))
    with pytest.raises(IllegalStateError, match="closed"):
        asyncio.run(consumer.poll(0))


def test_without_an_event_loop_it_says_what_it_needs(cluster: Cluster) -> None:
    consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))
    with pytest.raises(IllegalStateError, match="a task of asyncio or trio"):
        consumer.poll(0).send(None)
    asyncio.run(consumer.close())


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "not closed"])
def test_a_consumer_whose_task_has_failed_is_collected(runtime: Runtime, cluster: Cluster, closes: bool) -> None:
    """A task of asyncio keeps its exception, whose frames hold the consumer; and the table of consumers that a fork has
    to know of held the task. Who restarts readers that fail kept all of them, with all that they held."""
    lost: list[weakref.ref[BytesConsumer]] = []

    async def main() -> None:
        consumer: BytesConsumer = AsyncConsumer("one", **settings(cluster))
        lost.append(weakref.ref(consumer))

        async def fail() -> None:
            await consumer.poll(LONG_S)
            try:
                raise ValueError("a bad record")
            finally:
                if closes:
                    await consumer.close()

        with pytest.raises(ExceptionGroup):
            await runtime.beside(fail, lambda: runtime.sleep(0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        runtime.run(main)
        gc.collect()
    assert lost[0]() is None


# --- cancellation -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_polls_that_are_cancelled_at_any_moment_lose_nothing(runtime: Runtime, cluster: Cluster) -> None:
    """Some are cancelled before they begin, some while they join, wait for a fetch or look at one, some not at all."""
    chance = random.Random(7)

    async def main() -> None:
        async with AsyncConsumer("orders", **settings(cluster, max_poll_records=3)) as consumer:
            found: list[tuple[int, int]] = []
            while len(found) < RECORDS:
                records = await runtime.at_most(chance.random() * 0.001, lambda: consumer.poll(LONG_S))
                found += [(record.partition, record.offset) for record in records or ()]
            expected = [(partition, n) for partition in range(PARTITIONS) for n in range(RECORDS // PARTITIONS)]
            assert sorted(found) == expected

    runtime.run(main)


def test_what_a_cancelled_poll_has_collected_comes_alone(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each of many that are cancelled collects as many bytes as one may."""
    monkeypatch.setattr("kwire.consumer.polling.PORTION_MS", 0.0)

    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster, max_poll_records=100)) as consumer:
            found = await read(consumer, 1)  # of one fetch, which has more
            polling, delivery = consumer._session.polling, consumer._session.state.delivery
            assert next(polling.gather()) is GIVE_WAY, "a poll that is cancelled there"
            collected = len(delivery.pending)
            assert collected
            assert list(polling.gather()) == []
            assert len(delivery.pending) == collected
            found += await read(consumer, RECORDS - len(found))
            assert found == [(0, n) for n in range(RECORDS)]

    asyncio.run(main())


def test_a_cancelled_poll_counts_nothing_as_processed(runtime: Runtime, cluster: Cluster) -> None:
    tp = TopicPartition("one", 0)

    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster, max_poll_records=10)) as consumer:
            await read(consumer, 10)
            await runtime.at_most(0, lambda: consumer.poll(LONG_S))
            await consumer.commit_sync()
            assert (await consumer.committed([tp]))[tp] == OffsetAndMetadata(10, leader_epoch=0)

    runtime.run(main)


def test_a_consumer_whose_block_is_cancelled_leaves_its_group(runtime: Runtime, cluster: Cluster) -> None:
    given = settings(cluster)

    async def in_a_block() -> None:
        async with AsyncConsumer("one", **given) as consumer:
            await read(consumer, RECORDS)
            await runtime.sleep(LONG_S)

    async def main() -> None:
        await runtime.at_most(1.0, in_a_block)
        async with AsyncConsumer("one", **given) as second:  # at once, or the first would have stayed in the group
            await runtime.at_most(LONG_S / 3, lambda: read(second, RECORDS))
            assert second.assignment() == {TopicPartition("one", 0)}

    runtime.run(main)


def test_a_block_that_anyio_cancels_awaits_its_listener_and_commits(cluster: Cluster) -> None:
    """On asyncio, too, anyio cancels each wait in a scope that is cancelled: the listener was cut off in its first."""
    tp, given = TopicPartition("one", 0), settings(cluster)
    told: list[Partitions] = []

    async def note(_: object, partitions: Partitions) -> None:
        await asyncio.sleep(0.01)
        told.append(partitions)

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with AsyncConsumer(**given) as consumer:
                await consumer.subscribe("one", on_revoked=note)
                await read(consumer, RECORDS)
                await consumer.poll(0)
                scope.cancel()
                await asyncio.sleep(LONG_S)
        assert scope.cancelled_caught
        assert told == [{tp}]
        async with AsyncConsumer(**given) as second:
            committed = (await second.committed([tp]))[tp]
            assert committed is not None
            assert committed.offset == RECORDS

    asyncio.run(main())


# --- callbacks ----------------------------------------------------------------------------------------------------


class Slow(AsyncRebalanceListener):
    """Notes what it is told; each method waits for others first."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.told: list[str] = []
        self.is_struck = False

    async def on_partitions_assigned(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        self.told.append("begins")
        await self._runtime.sleep(0 if self.is_struck else 0.05)
        self.is_struck = True
        for tp in partitions:
            await consumer.seek(tp, RECORDS - 1)
        self.told.append("assigned")

    async def on_partitions_revoked(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        await consumer.commit_sync(dict.fromkeys(partitions, OffsetAndMetadata(3)))
        self.told.append("revoked")


def test_callbacks_are_awaited_and_may_use_the_consumer(runtime: Runtime, cluster: Cluster) -> None:
    given = settings(cluster)

    async def main() -> None:
        listener = Slow(runtime)
        async with AsyncConsumer(**given) as consumer:
            await consumer.subscribe("one", listener=listener)
            assert await read(consumer, 1) == [(0, RECORDS - 1)]
        assert listener.told == ["begins", "assigned", "revoked"]
        async with AsyncConsumer(**given) as second:
            tp = TopicPartition("one", 0)
            assert (await second.committed([tp]))[tp] == OffsetAndMetadata(3)

    runtime.run(main)


def test_a_callback_that_is_cancelled_is_called_again(runtime: Runtime, cluster: Cluster) -> None:
    async def main() -> None:
        listener = Slow(runtime)
        async with AsyncConsumer(**settings(cluster)) as consumer:
            await consumer.subscribe("one", listener=listener)
            while not listener.told:
                await runtime.at_most(0.02, lambda: consumer.poll(LONG_S))
            listener.is_struck = True
            assert await read(consumer, 1) == [(0, RECORDS - 1)]
        assert listener.told.count("assigned") == 1
        assert listener.told.count("begins") >= 2

    runtime.run(main)


def test_what_a_callback_raises_comes_out_of_the_poll(runtime: Runtime, cluster: Cluster) -> None:
    class Failing(AsyncRebalanceListener):
        async def on_partitions_assigned(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
            await runtime.sleep(0)
            raise ValueError("no")

    async def main() -> None:
        async with AsyncConsumer(**settings(cluster)) as consumer:
            await consumer.subscribe("one", listener=Failing())
            for _ in range(2):
                with pytest.raises(RebalanceListenerError, match="raised ValueError"):
                    await read(consumer, 1)
            consumer.rebalance_listener = AsyncRebalanceListener()
            assert len(await read(consumer, RECORDS)) == RECORDS

    runtime.run(main)


def test_a_commit_callback_is_awaited(runtime: Runtime, cluster: Cluster) -> None:
    async def main() -> None:
        done: list[object] = []

        async def note(offsets: object, error: object) -> None:
            await runtime.sleep(0)
            done.append(error)

        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            await read(consumer, RECORDS)
            consumer.commit_async(callback=note)
            await consumer.commit_sync()
            assert done == [None]

    runtime.run(main)


def test_a_consumer_that_blocks_refuses_coroutine_functions(cluster: Cluster) -> None:
    async def note(offsets: object, error: object) -> None:
        """Nobody awaits it."""

    with Consumer(**settings(cluster)) as consumer:
        with pytest.raises(InvalidArgumentError, match="an AsyncConsumer does"):
            consumer.commit_async(callback=note)
        with pytest.raises(InvalidArgumentError, match="an AsyncConsumer does"):
            consumer.subscribe("one", listener=Slow(Asyncio()))  # type: ignore[arg-type]  # that is the point


# --- a turn for others --------------------------------------------------------------------------------------------


def test_other_tasks_have_turns_while_records_are_decoded(runtime: Runtime, cluster: Cluster) -> None:
    """Each record takes a while to deserialize: one poll of them all would keep the loop for a second."""
    decoded = 0

    def deserialize(data: bytes) -> int:
        nonlocal decoded
        decoded += 1
        return sum(range(20_000))

    async def main() -> None:
        seen = most = 0
        is_over = False
        given = settings(cluster, max_poll_records=RECORDS)
        async with AsyncConsumer("one", **given, value_deserializer=deserialize) as consumer:
            while not consumer.assignment():
                await consumer.poll(0)
            await consumer.seek_to_end()
            for _ in range(20):
                await consumer.poll(0)  # finds nothing, which must not pass for quick decoding

            def look() -> None:
                nonlocal seen, most
                seen, most = decoded, max(most, decoded - seen)

            async def have_turns() -> None:
                while not is_over:
                    look()
                    await runtime.sleep(0)

            async def poll() -> None:
                nonlocal is_over
                found = 0
                while found < RECORDS:
                    found += len(await consumer.poll(LONG_S))
                is_over = True

            await consumer.seek(TopicPartition("one", 0), 0)
            seen = before = decoded
            await runtime.beside(have_turns, poll)
            look()
            assert seen == before + RECORDS
            assert most <= 2 * FIRST_PORTION  # a poll may return between two portions

    runtime.run(main)


@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_a_task_that_polls_one_record_after_the_other_does_not_keep_others_from_their_turn(
    runtime: Runtime, cluster: Cluster, call: str
) -> None:
    """A task that is woken runs two rounds of the loop later. The one that polled had taken the turn again by then, and
    a close() failed when its time was over."""

    def deserialize(data: bytes) -> int:
        return sum(range(50_000))  # so that a poll gives way in its middle, while it has the turn

    async def main() -> None:
        seen = 0
        consumer = AsyncConsumer("one", **settings(cluster, max_poll_records=20), value_deserializer=deserialize)

        async def poll_on() -> None:
            nonlocal seen
            while True:
                seen += len(await consumer.poll(LONG_S))

        async def poll() -> None:
            with pytest.raises(IllegalStateError):
                await poll_on()

        async def interfere() -> None:
            while not (seen and consumer._guard._ground.thread):  # in the middle of a poll
                await runtime.sleep(0)
            await getattr(consumer, call)()
            assert seen < RECORDS / 4

        await runtime.beside(poll, interfere)
        await consumer.close()

    runtime.run(main)


def test_a_loop_over_records_that_are_there_lets_others_run(runtime: Runtime, cluster: Cluster) -> None:
    async def main() -> None:
        turns: list[int] = []
        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            seen: list[int] = []

            async def loop() -> None:
                async for record in consumer:
                    seen.append(record.offset)
                    sum(range(100_000))
                    if record.offset == RECORDS - 1:
                        break

            async def count() -> None:
                while len(seen) < RECORDS:
                    turns.append(len(seen))
                    await runtime.sleep(0.001)

            await runtime.beside(loop, count)
        assert len(set(turns)) > 10

    runtime.run(main)


def test_a_loop_that_is_left_in_the_middle_warns_of_nothing_and_loses_nothing(
    runtime: Runtime, cluster: Cluster
) -> None:
    async def main() -> None:
        async with AsyncConsumer("one", **settings(cluster)) as consumer:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                async for record in consumer:
                    if record.offset == 4:
                        break
                gc.collect()
            assert (await read(consumer, 1))[0] == (0, 5)

    runtime.run(main)
