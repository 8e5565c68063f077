"""The same small programs with confluent-kafka's `AIOConsumer` and with the adapter's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import confluent_kafka.aio
import pytest

from kwire.compat import confluent_kafka as adapter
from kwire.compat.confluent_kafka import aio
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.compat.confluent_settings import settings
else:
    from confluent_settings import settings

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize(
    ("module", "kind"),
    [(confluent_kafka, confluent_kafka.aio.AIOConsumer), (adapter, aio.AIOConsumer)],
    ids=["confluent-kafka", "kwire"],
)
PATIENCE_S = 30.0


def run(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On an event loop of its own, and not for ever."""
    asyncio.run(asyncio.wait_for(program(), PATIENCE_S))


async def values(consumer: Any, count: int) -> list[bytes]:  # noqa: ANN401  of either module
    found: list[bytes] = []
    while len(found) < count:
        if (message := await consumer.poll(0.5)) is not None and message.error() is None:
            found.append(message.value())
    return sorted(found)


@BOTH
def test_messages_come_one_by_one_and_together(cluster: Cluster, module: Any, kind: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        async with kind(settings(cluster)) as consumer:
            await consumer.subscribe(["orders"])
            assert await values(consumer, 2)
            found: list[Any] = []
            while len(found) < 4:
                found += await consumer.consume(4 - len(found), 1.0)
            assert all(message.error() is None for message in found)
            assert await consumer.poll(0.1) is None
            assert await consumer.consume(10, 0.1) == []
            await consumer.commit(asynchronous=False)
            places = sorted((at.partition, at.offset) for at in await consumer.position(await consumer.assignment()))
            assert places == [(0, 3), (1, 3)]
            committed = await consumer.committed([module.TopicPartition("orders", 0)], timeout=10)
            assert [at.offset for at in committed] == [3]

    run(program)
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_callbacks_are_coroutines_that_may_use_the_consumer(cluster: Cluster, module: Any, kind: Any) -> None:  # noqa: ANN401
    told: list[object] = []

    async def program() -> None:
        me = threading.current_thread()

        async def on_assign(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
            assert threading.current_thread() is me
            for partition in partitions:
                partition.offset = 2
            await consumer.assign(partitions)
            told.append(("assigned", consumer is given, len(await consumer.assignment())))

        async def on_revoke(consumer: Any, _: list[Any]) -> None:  # noqa: ANN401
            await consumer.commit(asynchronous=False)
            told.append("revoked")

        given = kind(settings(cluster))
        await given.subscribe(["orders"], on_assign=on_assign, on_revoke=on_revoke)
        assert await values(given, 2) == [b"4", b"5"]
        await given.close()

    run(program)
    assert told == [("assigned", True, 2), "revoked"]
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_statistics_are_told_to_a_coroutine(cluster: Cluster, module: Any, kind: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        told: asyncio.Queue[str] = asyncio.Queue()
        consumer = kind({**settings(cluster, statistics_interval_ms=50), "stats_cb": told.put})
        await consumer.subscribe(["orders"])
        while told.empty():
            await consumer.poll(0.1)
        assert json.loads(await told.get())["type"] == "consumer"
        await consumer.close()

    run(program)


@BOTH
def test_a_closed_consumer_is_not_used(cluster: Cluster, module: Any, kind: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        consumer = kind(settings(cluster))
        await consumer.close()
        for call in (consumer.poll(0.1), consumer.consume(2, 0.1), consumer.assignment(), consumer.list_topics()):
            with pytest.raises(RuntimeError, match="closed"):
                await call

    run(program)


@BOTH
def test_threads_are_those_of_an_executor(cluster: Cluster, module: Any, kind: Any) -> None:  # noqa: ANN401
    async def program() -> None:
        with ThreadPoolExecutor(2) as executor:
            async with kind(settings(cluster), executor=executor) as consumer:
                assert consumer.executor is executor
            assert executor.submit(int, "7").result() == 7
        with pytest.raises(ValueError, match="max_workers must be at least 1"):
            kind(settings(cluster), max_workers=0)

    run(program)


# --- what confluent-kafka's does not do ------------------------------------------------------------------------------


def test_other_calls_run_while_a_poll_waits(cluster: Cluster) -> None:
    async def program() -> None:
        consumer = aio.AIOConsumer(settings(cluster))
        await consumer.assign([adapter.TopicPartition("orders", 0, 3)])
        polling = asyncio.create_task(consumer.poll(PATIENCE_S))
        await asyncio.sleep(0)
        low, high = await consumer.get_watermark_offsets(adapter.TopicPartition("orders", 0), timeout=10)
        assert (low, high) == (0, 3)
        assert not polling.done()
        cluster.produce("orders", b"late", partition=0)
        message = await polling
        assert message is not None
        assert message.value() == b"late"
        await consumer.close()

    run(program)


def test_a_cancelled_poll_takes_no_message_with_it(cluster: Cluster) -> None:
    async def program() -> None:
        consumer = aio.AIOConsumer(settings(cluster))
        await consumer.subscribe(["orders"])
        found: list[bytes] = []
        for number in range(200):
            waiting = asyncio.create_task(consumer.poll(PATIENCE_S))
            await asyncio.sleep(number % 7 / 1000)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                if (message := await waiting) is not None:
                    found.append(message.value() or b"")
            if number % 10 == 0:
                cluster.produce("orders", b"late %d" % number, partition=number % 2)
        found += await values(consumer, 6 + 20 - len(found))
        assert len(set(found)) == len(found) == 26
        await consumer.close()

    run(program)


def test_a_cancelled_poll_commits_nothing_that_was_not_returned(cluster: Cluster) -> None:
    async def program() -> None:
        consumer = aio.AIOConsumer(settings(cluster, enable_auto_commit=True))
        await consumer.assign([adapter.TopicPartition("orders", 0, 3)])
        waiting = asyncio.create_task(consumer.poll(PATIENCE_S))
        await asyncio.sleep(0.05)
        waiting.cancel()
        cluster.produce("orders", b"late", partition=0)
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await asyncio.sleep(0.3)  # it may be here by now
        await consumer.close()

    run(program)
    assert cluster.committed("billing") == {}


def test_an_end_that_came_to_a_cancelled_poll_is_told_by_the_next(cluster: Cluster) -> None:
    async def program() -> None:
        consumer = aio.AIOConsumer(settings(cluster, enable_partition_eof=True))
        await consumer.assign([adapter.TopicPartition("orders", 0, 3)])
        ends: list[object] = []
        while not ends:
            waiting = asyncio.create_task(consumer.poll(PATIENCE_S))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                ends.append(await waiting)
            if consumer._step is not None and consumer._step.done() and consumer._step.result():
                ends.append(await consumer.poll(1.0))
        (end,) = ends
        assert isinstance(end, adapter.Message)
        assert end.offset() == 3
        assert str(end.error()).startswith("KafkaError{code=_PARTITION_EOF")
        await consumer.close()

    run(program)


def test_a_consumer_goes_on_in_another_event_loop(cluster: Cluster) -> None:
    made: list[aio.AIOConsumer] = []
    found: list[bytes] = []

    async def first() -> None:
        made.append(aio.AIOConsumer(settings(cluster)))
        await made[0].subscribe(["orders"])
        found.extend(await values(made[0], 6))
        waiting = asyncio.create_task(made[0].poll(PATIENCE_S))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

    async def second() -> None:
        cluster.produce("orders", b"6", partition=0)
        found.extend(await values(made[0], 1))
        await made[0].close()

    run(first)
    run(second)
    assert found == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]


def test_a_callback_that_polls_is_not_waited_for_for_ever(cluster: Cluster) -> None:
    told: list[object] = []

    async def program() -> None:
        async def on_assign(consumer: aio.AIOConsumer, _: list[adapter.TopicPartition]) -> None:
            for call in (consumer.poll(0.1), consumer.consume(2, 0.1)):
                try:
                    told.append(await call)
                except (adapter.KafkaException, RuntimeError) as error:
                    told.append(error)

        consumer = aio.AIOConsumer(settings(cluster))
        await consumer.subscribe(["orders"], on_assign=on_assign)
        assert len(await values(consumer, 6)) == 6
        await consumer.close()

    run(program)
    assert len(told) == 2


def test_what_a_callback_has_begun_and_not_awaited_is_done_by_others(cluster: Cluster) -> None:
    async def program() -> None:
        begun: list[asyncio.Task[Any]] = []

        async def on_assign(consumer: aio.AIOConsumer, _: list[adapter.TopicPartition]) -> None:
            begun.append(asyncio.create_task(later(consumer)))

        async def later(consumer: aio.AIOConsumer) -> list[adapter.TopicPartition]:
            await asyncio.sleep(0.05)
            return await consumer.assignment()

        consumer = aio.AIOConsumer(settings(cluster))
        await consumer.subscribe(["orders"], on_assign=on_assign)
        await values(consumer, 6)
        assert len(await begun[0]) == 2
        await consumer.close()

    run(program)


def test_what_a_callback_raises_comes_out_of_the_poll(cluster: Cluster) -> None:
    async def stop(_: str) -> None:
        raise LookupError("enough")

    async def program() -> None:
        consumer = aio.AIOConsumer({**settings(cluster, statistics_interval_ms=20), "stats_cb": stop})
        await consumer.assign([adapter.TopicPartition("orders", 0, 3)])
        with pytest.raises(LookupError, match="enough"):
            await consumer.poll(5)
        await consumer.close()

    run(program)


def test_a_loop_that_ends_in_the_middle_of_a_poll_ends_at_once(cluster: Cluster) -> None:
    made: list[aio.AIOConsumer] = []

    async def program() -> None:
        made.append(aio.AIOConsumer(settings(cluster)))
        await made[0].assign([adapter.TopicPartition("orders", 0, 3)])
        asyncio.create_task(made[0].poll(PATIENCE_S)).add_done_callback(lambda _: None)
        await asyncio.sleep(0.05)

    began_s = time.monotonic()
    run(program)
    asyncio.run(made[0].close())
    assert time.monotonic() - began_s < PATIENCE_S / 2


def test_a_callback_of_a_loop_that_has_ended_is_not_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread would keep the interpreter from ending."""
    monkeypatch.setattr(aio, "_STEP_S", 0.01)
    told: list[str] = []
    consumer = aio.AIOConsumer({**settings(cluster, statistics_interval_ms=1), "stats_cb": told.append})
    loop = consumer._loop = asyncio.new_event_loop()  # it never comes to running what it is given
    found: list[BaseException] = []

    def poll() -> None:
        try:
            consumer._consumer.poll(PATIENCE_S)
        except RuntimeError as error:
            found.append(error)

    polling = threading.Thread(target=poll)
    polling.start()
    while not loop._ready:  # type: ignore[attr-defined]  # what a thread has given it
        time.sleep(0.001)
    loop.close()
    polling.join(PATIENCE_S)
    assert "is closed" in str(found[0])
    assert told == []
    asyncio.run(consumer.close())
