"""trio as a guest of asyncio's loop, as in programs whose host has the loop: tasks of either use consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import trio
from outcome import Outcome

from kwire import AsyncConsumer, Consumer, Record
from kwire.processing import Processor
from kwire.testing import Cluster


async def as_guest(main: Callable[[], Awaitable[object]]) -> object:
    """What this function, run by trio, answers to the asyncio task that calls."""
    ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def end(outcome: Outcome[object]) -> None:
        try:
            ended.set_result(outcome.unwrap())
        except BaseException as error:  # noqa: BLE001  told to the caller
            ended.set_exception(error)

    trio.lowlevel.start_guest_run(
        main,
        run_sync_soon_threadsafe=asyncio.get_running_loop().call_soon_threadsafe,
        done_callback=end,
        host_uses_signal_set_wakeup_fd=True,
    )
    return await ended


def test_each_task_reads_by_its_own_library(kafka_cluster: Cluster) -> None:
    """The consumer took the task for one of asyncio, whose loop runs as well: trio raised a TypeError."""
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", b"an order")

    async def read() -> list[bytes | None]:
        bootstrap = kafka_cluster.bootstrap_servers
        async with AsyncConsumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            return (await consumer.poll(10)).values()

    async def main() -> list[object]:
        return [await as_guest(read), await read()]

    assert asyncio.run(main()) == [[b"an order"], [b"an order"]]


def test_a_processor_runs_its_handlers_in_tasks_of_the_guest(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", b"an order")
    handled: list[bytes | None] = []

    async def handle(record: Record[bytes, bytes]) -> None:
        await trio.lowlevel.checkpoint()
        handled.append(record.value)
        processors[0].stop()

    async def run() -> None:
        settings: dict[str, object] = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": "billing"}
        more: dict[str, object] = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        with Consumer(settings | more, "orders") as consumer:
            processors.append(Processor(consumer, handle))
            await processors[0].run_async()

    processors: list[Processor[bytes, bytes]] = []
    asyncio.run(as_guest(run))
    assert handled == [b"an order"]
