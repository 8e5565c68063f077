"""Which task and which context the handler of a record has: on a loop of `AsyncWorkers`, with no broker."""

from __future__ import annotations

import asyncio
import gc
import queue
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar

import pytest
import trio

from kwire import Record, TimestampType
from kwire.processing import async_workers
from kwire.processing.async_workers import AsyncWorkers
from kwire.processing.workers import BreakdownError, Item, Run

BytesItem = Item[bytes, bytes]
Execute = Callable[[Run[bytes, bytes]], None]
DEADLINE_S = 10.0
RECORDS = 5
SLEEPS: dict[str, Callable[[float], Awaitable[None]]] = {"asyncio": asyncio.sleep, "trio": trio.sleep}
TASKS: dict[str, Callable[[], object]] = {"asyncio": asyncio.current_task, "trio": trio.lowlevel.current_task}


class BillingError(Exception):
    pass


def record(offset: int) -> Record[bytes, bytes]:
    return Record("orders", 0, offset, -1, TimestampType.CREATE_TIME, None, b"", (), None, -1, 0)


def offset_of(item: BytesItem) -> int:
    assert isinstance(item, Record)
    return item.offset


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def execute(backend: str) -> Iterator[Execute]:
    """Has workers execute a run to its end."""
    ended: queue.SimpleQueue[Run[bytes, bytes]] = queue.SimpleQueue()
    workers = AsyncWorkers("trio" if backend == "trio" else "asyncio", ended.put)

    def run_to_its_end(run: Run[bytes, bytes]) -> None:
        run.start(0.0)
        workers.start(run)
        assert ended.get(timeout=DEADLINE_S) is run

    yield run_to_its_end
    workers.close()


@pytest.fixture
def clock_ms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is, and by how much each look at the clock puts it forward."""
    now_ms, step_ms = 0, 1
    clock = [0.0, 0.0]

    def look() -> float:
        clock[now_ms] += clock[step_ms]
        return clock[now_ms]

    monkeypatch.setattr(async_workers, "monotonic_ms", look)
    return clock


def sharing(execute: Execute, backend: str, waits: list[int]) -> list[int]:
    """How many records share each task, if the handlers wait so often."""
    tasks: list[object] = []

    async def handle(item: BytesItem) -> None:
        tasks.append(TASKS[backend]())
        for _ in range(waits[offset_of(item)]):
            await SLEEPS[backend](0)

    run = Run([record(offset) for offset in range(len(waits))], handle)
    execute(run)
    assert (run.error, len(tasks)) == (None, len(waits))
    return [tasks.count(task) for task in dict.fromkeys(tasks)]


@pytest.mark.usefixtures("clock_ms")
def test_a_record_after_one_that_waited_has_a_task_of_its_own(execute: Execute, backend: str) -> None:
    """What is kept for the current task, as a database session may be, is not that of the record before."""
    assert sharing(execute, backend, [1, 1, 3, 1, 1]) == [1, 1, 1, 1, 1]


@pytest.mark.usefixtures("clock_ms")
def test_records_whose_handlers_do_not_wait_share_a_task(execute: Execute, backend: str) -> None:
    assert sharing(execute, backend, [0, 0, 0, 0, 0]) == [RECORDS]
    assert sharing(execute, backend, [0, 0, 1, 0, 1]) == [3, 2]


def test_a_task_that_has_taken_long_makes_way_for_others(execute: Execute, backend: str, clock_ms: list[float]) -> None:
    clock_ms[1] = 10 * async_workers.TURN_MS
    assert sharing(execute, backend, [0, 0, 0, 0, 0]) == [1, 1, 1, 1, 1]


@pytest.mark.usefixtures("clock_ms")
@pytest.mark.parametrize("waits", [0, 2])
def test_no_handler_sees_what_another_one_has_set(execute: Execute, backend: str, waits: int) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nothing")
    seen: list[str] = []

    async def handle(item: BytesItem) -> None:
        seen.append(variable.get())
        variable.set(f"offset {offset_of(item)}")
        for _ in range(waits):
            await SLEEPS[backend](0)
            assert variable.get() == f"offset {offset_of(item)}"

    run = Run([record(offset) for offset in range(RECORDS)], handle)
    execute(run)
    assert (run.error, seen) == (None, ["nothing"] * RECORDS)


@pytest.mark.usefixtures("clock_ms")
def test_a_handler_may_catch_what_it_awaited(execute: Execute, backend: str) -> None:
    """Errors are thrown into the handler, in its own context."""
    variable: ContextVar[int] = ContextVar("variable")
    caught: list[tuple[int, int]] = []

    async def refuse() -> None:
        await SLEEPS[backend](0)
        raise ConnectionError

    async def handle(item: BytesItem) -> None:
        variable.set(offset_of(item))
        try:
            if backend == "asyncio":
                await asyncio.create_task(refuse())
            else:
                await refuse()
        except ConnectionError:
            caught.append((offset_of(item), variable.get()))

    run = Run([record(offset) for offset in range(RECORDS)], handle)
    execute(run)
    assert (run.error, caught) == (None, [(offset, offset) for offset in range(RECORDS)])


@pytest.mark.usefixtures("clock_ms")
def test_an_error_that_a_handler_has_caught_is_gone_at_once(execute: Execute, backend: str) -> None:
    """Error, frame and future held each other, and the context of the record, until a collection."""
    errors: list[weakref.ref[BaseException]] = []

    async def refuse() -> None:
        await SLEEPS[backend](0)
        raise BillingError

    async def handle(_item: BytesItem) -> None:
        try:
            await (asyncio.create_task(refuse()) if backend == "asyncio" else refuse())
        except BillingError as error:
            errors.append(weakref.ref(error))
        await SLEEPS[backend](0)
        assert errors[-1]() is None

    gc.disable()
    try:
        run = Run([record(offset) for offset in range(RECORDS)], handle)
        execute(run)
    finally:
        gc.enable()
    assert run.error is None
    assert len(errors) == RECORDS


@pytest.mark.usefixtures("clock_ms")
@pytest.mark.parametrize("waits", [0, 1])
def test_the_run_ends_with_the_record_whose_handler_raised(execute: Execute, backend: str, waits: int) -> None:
    async def handle(item: BytesItem) -> None:
        for _ in range(waits):
            await SLEEPS[backend](0)
        if offset_of(item) == 2:
            raise ConnectionError("no database")

    run = Run([record(offset) for offset in range(RECORDS)], handle)
    execute(run)
    assert isinstance(run.error, ConnectionError)
    assert len(run.todo) == 2, "the others come later"


@pytest.mark.usefixtures("clock_ms")
@pytest.mark.parametrize("backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("is_waited_after", [False, True])
def test_a_handler_that_cancels_its_own_task_fails_alone(execute: Execute, is_waited_after: bool) -> None:
    """The record after it was taken for one whose task had never begun: its handler was not called, and yet it
    counted as tried."""
    handled: list[int] = []

    async def handle(item: BytesItem) -> None:
        handled.append(offset_of(item))
        if offset_of(item) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        if is_waited_after:
            await asyncio.sleep(0)

    run = Run([record(offset) for offset in range(RECORDS)], handle)
    execute(run)
    assert isinstance(run.error, BreakdownError)
    assert handled == [0, 1]
    run.is_out = False
    run.put_back()
    assert run.record.offset == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_dead_letter_that_fails_in_a_batch_goes_on_with_the_records_that_are_left(
    execute: Execute, is_async: bool
) -> None:
    """It got the first ones of the batch with each attempt."""
    dead: list[int] = []

    def bury(record: Record[bytes, bytes], _error: Exception) -> None:
        dead.append(record.offset)
        if len(dead) == 2:
            raise ConnectionError

    async def bury_later(record: Record[bytes, bytes], error: Exception) -> None:
        bury(record, error)

    run: Run[bytes, bytes] = Run([[record(0), record(1), record(2)]], lambda item: None)
    for error in (ConnectionError, None):
        run.dead_letter_attempt = (bury_later if is_async else bury, ValueError())
        execute(run)
        run.is_out = False
        assert type(run.error) is (error or type(None))
        if error:
            run.error = None
            run.put_back()
    assert (dead, run.done) == ([0, 1, 1, 2], 1)
