"""`close()` in a handler would wait for the handler that calls it: thirty seconds, or for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Literal, TypeAlias

import pytest

from kwire import Consumer, Record
from kwire.errors import IllegalStateError
from kwire.processing import Processor, Retry
from kwire.testing import Cluster

BytesRecord: TypeAlias = Record[bytes, bytes]
Called: TypeAlias = "Future[None]"
WAIT_S = 20.0


@pytest.fixture
def consumer() -> Iterator[Consumer[bytes, bytes]]:
    with Cluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", b"one")
        with Consumer[bytes, bytes](
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as opened:
            yield opened


def settle(called: Called, call: Callable[[], None]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001  looked at by the test
        called.set_exception(error)
    else:
        called.set_result(None)


def refused(called: Called) -> None:
    with pytest.raises(IllegalStateError, match=r"^close\(\) in a handler would wait for that handler: call stop\(\)$"):
        called.result(WAIT_S)


def test_it_is_refused_in_a_thread(consumer: Consumer[bytes, bytes]) -> None:
    called: Called = Future()

    def handle(_: BytesRecord) -> None:
        settle(called, processor.close)

    processor = Processor(consumer, handle)
    with processor:
        refused(called)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_is_refused_in_a_coroutine(consumer: Consumer[bytes, bytes], backend: Literal["asyncio", "trio"]) -> None:
    called: Called = Future()

    async def handle(_: BytesRecord) -> None:
        settle(called, processor.close)

    with Processor(consumer, handle, backend=backend) as processor:
        refused(called)


def test_it_is_refused_in_a_dead_letter_function(consumer: Consumer[bytes, bytes]) -> None:
    called: Called = Future()

    def fail(_: BytesRecord) -> None:
        raise ValueError

    def keep(_record: BytesRecord, _error: Exception) -> None:
        settle(called, processor.close)

    processor = Processor(consumer, fail, retry=Retry(max_attempts=1), on_failure=keep)
    with processor:
        refused(called)


def test_a_handler_may_stop_the_processor_and_anybody_else_close_it(consumer: Consumer[bytes, bytes]) -> None:
    called: Called = Future()

    def handle(_: BytesRecord) -> None:
        settle(called, processor.stop)

    processor = Processor(consumer, handle)
    with processor:
        called.result(WAIT_S)
        processor.close()
    processor.close()


def test_it_may_be_called_behind_run_async_in_its_task(consumer: Consumer[bytes, bytes]) -> None:
    async def handle(_: BytesRecord) -> None:
        processor.stop()

    async def run() -> None:
        await processor.run_async()
        processor.close()

    processor = Processor(consumer, handle)
    asyncio.run(run())
