"""What breaks the workers is no fault of the record in hand: it is tried again, and at last the processor stops.

A process of a pool that was killed once made each record behind it "given up", skipped and committed: 37 of 60 lost.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from kwire import Consumer, Record, TopicPartition
from kwire.consumer.host import Joinable, current_host, host_with, start_daemon
from kwire.errors import InvalidArgumentError, ProcessingError, WorkerError
from kwire.processing import DeadLetter, Processor, Retry, async_workers
from kwire.processing.asyncio_loop import AsyncioLoop
from kwire.processing.workers import BreakdownError, Run
from kwire.testing import Cluster

RECORDS = 60
POISON = 23
TP = TopicPartition("orders", 0)

BytesRecord: TypeAlias = Record[bytes, bytes]
NewConsumer: TypeAlias = Callable[..., Consumer[bytes, bytes]]


@pytest.fixture(autouse=True)
def filled(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=1)
    cluster.produce("orders", *(b"%d" % number for number in range(RECORDS)))


def committed(cluster: Cluster) -> int:
    found = cluster.committed("billing").get(TP)
    return 0 if found is None else found.offset


class Handler:
    """Counts what it has handled, and does what a test wants first."""

    def __init__(self, first: Callable[[BytesRecord], object] = lambda _: None) -> None:
        self.done: Counter[int] = Counter()
        self.processor: Processor[bytes, bytes] | None = None
        self._first = first

    def __call__(self, record: BytesRecord) -> None:
        self._first(record)
        self.done[record.offset] += 1
        if len(self.done) == RECORDS and self.processor is not None:
            self.processor.stop()

    async def be_awaited(self, record: BytesRecord) -> None:
        self(record)


class Once:
    """Does something with one record, as often as told."""

    def __init__(self, action: Callable[[], object], times: int = 1) -> None:
        self._action, self._left = action, times

    def __call__(self, record: BytesRecord, _error: Exception | None = None) -> None:
        if record.offset == POISON and self._left:
            self._left -= 1
            self._action()


def short_of_memory() -> None:
    raise MemoryError


# --- a pool of processes --------------------------------------------------------------------------------------------


def die_over_poison(seen: Path, times: int, record: BytesRecord) -> None:
    """In a process of the pool, which is killed as by a system that has no memory left."""
    deaths = len(list(seen.glob("died-*")))
    if record.offset == POISON and deaths < times:
        (seen / f"died-{deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with (seen / "done").open("a") as done:
        done.write(f"{record.offset}\n")


def handled(seen: Path) -> Counter[int]:
    return Counter(map(int, (seen / "done").read_text().split()))


@pytest.mark.parametrize("ordering", ["partition", "none"])
def test_records_in_a_pool_that_breaks_are_tried_again_in_a_new_one(
    cluster: Cluster, new_consumer: NewConsumer, tmp_path: Path, ordering: Literal["partition", "none"]
) -> None:
    with ProcessPoolExecutor(2) as pool:
        processor = Processor(
            new_consumer(),
            partial(die_over_poison, tmp_path, 1),
            executor=pool,
            ordering=ordering,
            workers=2,
            on_failure="skip",
        )
        ends = threading.Thread(target=stop_when, args=(processor, lambda: processor.status().handled == RECORDS))
        ends.start()
        processor.run()
        ends.join()
    assert set(handled(tmp_path)) == set(range(RECORDS))
    assert (processor.status().skipped, committed(cluster)) == (0, RECORDS)


def stop_when(processor: Processor[bytes, bytes], condition: Callable[[], bool]) -> None:
    wait = threading.Event()
    while not condition():
        wait.wait(0.005)
    processor.stop()


def test_a_record_that_kills_its_process_each_time_ends_the_processor_and_is_not_committed(
    cluster: Cluster, new_consumer: NewConsumer, tmp_path: Path
) -> None:
    with ProcessPoolExecutor(2) as pool:
        processor = Processor(new_consumer(), partial(die_over_poison, tmp_path, 100), executor=pool, on_failure="skip")
        with pytest.raises(WorkerError, match="in work when the workers broke down 3 times") as caught:
            processor.run()
    assert (caught.value.topic_partition, caught.value.offset) == (TP, POISON)
    assert isinstance(caught.value, ProcessingError), "who catches that catches this"
    assert (set(handled(tmp_path)), committed(cluster)) == (set(range(POISON)), POISON)


class OtherArgumentsError(Exception):
    """`Exception` keeps the message alone, and of that no such error can be made in another process."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class OnlyHere:
    """Cannot be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("stays here")


def fail_in_its_own_way(record: BytesRecord) -> object:
    if record.offset == POISON:
        raise OtherArgumentsError(503, "busy")
    if record.offset == POISON + 1:
        raise ValueError(OtherArgumentsError(503, "inside of another"))
    return OnlyHere()


def test_what_a_handler_raises_or_returns_in_a_process_does_not_break_the_pool(
    cluster: Cluster, new_consumer: NewConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    with ProcessPoolExecutor(2) as pool:
        processor = Processor(new_consumer(), fail_in_its_own_way, executor=pool, on_failure="skip")
        ends = threading.Thread(target=stop_when, args=(processor, lambda: processor.status().handled == RECORDS))
        ends.start()
        processor.run()
        ends.join()
    assert (processor.status().skipped, committed(cluster)) == (2, RECORDS)
    assert f"offset {POISON}: given up: RuntimeError(\"OtherArgumentsError('busy')\")" in caplog.text


def test_a_closed_executor_ends_the_processor_and_costs_no_record(cluster: Cluster, new_consumer: NewConsumer) -> None:
    pool = ThreadPoolExecutor(2)
    handler = Handler(Once(lambda: pool.shutdown(wait=False)))
    consumer = new_consumer()
    with pytest.raises(WorkerError, match="cannot schedule new futures after shutdown"):
        Processor(consumer, handler, executor=pool, on_failure="skip").run()
    assert committed(cluster) == len(handler.done) < RECORDS


def test_a_handler_that_cannot_travel_to_another_process_is_refused_at_once(new_consumer: NewConsumer) -> None:
    """It failed with each record, and each was skipped."""
    with ProcessPoolExecutor(1) as pool, pytest.raises(InvalidArgumentError, match="top of a module"):
        Processor(new_consumer(), lambda record: record, executor=pool, on_failure="skip")


# --- threads, loops, memory -----------------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[list[int]]:
    """How many worker threads may be started; the number can be changed."""
    left = [1_000]

    def start(main: Callable[[], None], name: str) -> Joinable:
        if name.startswith("kwire-worker"):
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("can't start new thread")
        return start_daemon(main, name)

    before = host_with(replace(current_host(), start_thread=start))
    yield left
    host_with(before)


def test_the_threads_that_can_be_started_do_all_the_work(
    cluster: Cluster, new_consumer: NewConsumer, threads: list[int]
) -> None:
    threads[0] = 1
    handler = Handler()
    handler.processor = Processor(new_consumer(), handler, ordering="none", workers=8, on_failure="skip")
    handler.processor.run()
    assert (set(handler.done), committed(cluster)) == (set(range(RECORDS)), RECORDS)


def test_without_any_thread_the_processor_ends_and_nothing_is_committed(
    cluster: Cluster, new_consumer: NewConsumer, threads: list[int]
) -> None:
    threads[0] = 0
    with pytest.raises(WorkerError, match="no thread can be started"):
        Processor(new_consumer(), Handler(), on_failure="skip").run()
    assert committed(cluster) == 0


@pytest.fixture
def each_has_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records share no task, as if each took long."""
    monkeypatch.setattr(async_workers, "TURN_MS", 0.0)


def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()


def cancel_the_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@pytest.mark.threads(reason="the loop is the application's, which ends with it")
def test_an_event_loop_that_dies_is_replaced_and_its_records_are_tried_again(
    cluster: Cluster, new_consumer: NewConsumer
) -> None:
    """All that was under way was never heard of again, and the processor stood still for ever."""
    handler = Handler(Once(stop_the_loop))
    handler.processor = Processor(new_consumer(), handler.be_awaited, ordering="none", on_failure="skip")
    handler.processor.run()
    assert (set(handler.done), committed(cluster)) == (set(range(RECORDS)), RECORDS)


def test_a_loop_that_is_over_begins_nothing() -> None:
    """What was handed out while it died was a coroutine that nobody awaited."""
    loop, begun = AsyncioLoop(), list[object]()

    async def step(run: Run[bytes, bytes]) -> None:
        begun.append(run)

    loop.run(lambda: loop.call_soon(loop.end))
    loop.spawn(step, Run([], begun.append), begun.append)
    assert begun == []


@pytest.mark.threads(reason="the loop is the application's, which ends with it")
def test_a_loop_that_dies_each_time_ends_the_processor(cluster: Cluster, new_consumer: NewConsumer) -> None:
    async def stop(record: BytesRecord) -> None:
        if record.offset == POISON:
            stop_the_loop()
            await asyncio.sleep(10.0)

    with pytest.raises(WorkerError, match="event loop has broken down"):
        Processor(new_consumer(), stop, on_failure="skip").run()
    assert committed(cluster) == POISON


def test_a_task_that_is_cancelled_from_outside_is_tried_again(cluster: Cluster, new_consumer: NewConsumer) -> None:
    cancel = Once(cancel_the_task)
    handler = Handler()

    async def handle(record: BytesRecord) -> None:
        cancel(record)
        await asyncio.sleep(0)
        handler(record)

    handler.processor = Processor(new_consumer(), handle, on_failure="skip")
    handler.processor.run()
    assert (set(handler.done), committed(cluster)) == (set(range(RECORDS)), RECORDS)


@pytest.mark.usefixtures("each_has_a_task")
@pytest.mark.parametrize("is_whole_program", [False, True])
@pytest.mark.threads(reason="it runs a loop of its own")
def test_tasks_that_are_cancelled_before_they_begin_are_not_forgotten(
    cluster: Cluster, new_consumer: NewConsumer, is_whole_program: bool
) -> None:
    """Their partition stood still for ever, and the end of the program took 30 s: `asyncio.run` cancels all tasks."""
    cancel = Once(lambda: asyncio.get_running_loop().call_soon(cancel_tasks))
    handler = Handler()
    kept = set[asyncio.Task[object]]()

    def cancel_tasks() -> None:
        for task in asyncio.all_tasks() - kept:
            task.cancel()

    async def handle(record: BytesRecord) -> None:
        handler(record)
        cancel(record)

    async def main() -> None:
        if not is_whole_program:
            kept.update(asyncio.all_tasks())
        await processor.run_async()

    handler.processor = processor = Processor(new_consumer(), handle, on_failure="skip")
    with pytest.raises(asyncio.CancelledError) if is_whole_program else nullcontext():
        asyncio.run(asyncio.wait_for(main(), 20.0))
    assert committed(cluster) == len(handler.done)


@pytest.mark.usefixtures("each_has_a_task")
@pytest.mark.threads(reason="it runs a loop of its own")
@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio has no eager tasks")
def test_eager_tasks_do_not_run_inside_each_other(cluster: Cluster, new_consumer: NewConsumer) -> None:
    """Each handler that awaits nothing began the next one: a RecursionError, and a partition that stood still."""
    handler = Handler(lambda _record: None)
    depths: list[int] = []

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  3.11 has none
        await processor.run_async()

    async def handle(record: BytesRecord) -> None:
        depths.append(len(inspect.stack(0)))
        handler(record)

    handler.processor = processor = Processor(new_consumer(), handle)
    asyncio.run(main())
    assert committed(cluster) == RECORDS
    assert max(depths) == min(depths)


@pytest.mark.parametrize("policy", ["skip", "dead letters"])
def test_a_handler_that_awaits_what_was_cancelled_has_failed(
    cluster: Cluster, new_consumer: NewConsumer, policy: str
) -> None:
    """It counted as an event loop that breaks down, and one such record ended the processor."""

    async def handle(record: BytesRecord) -> None:
        if record.offset == POISON:
            shared = asyncio.ensure_future(asyncio.sleep(60.0))
            shared.cancel()
            await shared
        handler(record)

    def bury(record: BytesRecord, error: Exception) -> None:
        buried.append(record.offset)
        handler.done[record.offset] += 1
        assert "awaited what was cancelled" in str(error)

    buried: list[int] = []
    handler = Handler(lambda record: handler.done.update([POISON]) if policy == "skip" else None)
    processor = Processor(new_consumer(), handle, on_failure="skip" if policy == "skip" else bury)
    handler.processor = processor
    processor.run()
    assert (processor.status().skipped, len(buried)) == ((1, 0) if policy == "skip" else (0, 1))
    assert committed(cluster) == RECORDS


def test_a_record_is_tried_again_when_memory_was_short(cluster: Cluster, new_consumer: NewConsumer) -> None:
    handler = Handler(Once(short_of_memory, times=2))
    handler.processor = Processor(new_consumer(), handler, on_failure="skip")
    handler.processor.run()
    assert (set(handler.done), committed(cluster)) == (set(range(RECORDS)), RECORDS)


def test_memory_that_stays_short_ends_the_processor(cluster: Cluster, new_consumer: NewConsumer) -> None:
    with pytest.raises(WorkerError, match="MemoryError"):
        Processor(new_consumer(), Handler(Once(short_of_memory, times=9)), on_failure="skip").run()
    assert committed(cluster) == POISON


# --- dead letters ---------------------------------------------------------------------------------------------------


def refuse() -> None:
    raise ConnectionError("the producer is down")


def fail_over_poison(record: BytesRecord) -> None:
    if record.offset == POISON:
        raise ValueError("not this one")


@pytest.mark.parametrize("times", [2, 3])
def test_a_dead_letter_function_is_called_again_and_then_the_processor_ends(
    cluster: Cluster, new_consumer: NewConsumer, times: int
) -> None:
    handler = Handler(fail_over_poison)
    dead: list[int] = []
    down = Once(refuse, times)

    def keep(record: BytesRecord, error: Exception) -> None:
        down(record, error)
        dead.append(record.offset)
        handler.done[record.offset] += 1

    policy: DeadLetter[bytes, bytes] = keep
    processor = handler.processor = Processor(new_consumer(), handler, on_failure=policy, retry=Retry(max_attempts=1))
    if times < 3:
        processor.run()
        assert (dead, committed(cluster)) == ([POISON], RECORDS)
    else:
        with pytest.raises(WorkerError, match=r"the dead-letter function raised ConnectionError.*the producer is down"):
            processor.run()
        assert (dead, committed(cluster)) == ([], POISON)


def test_a_breakdown_is_no_error_of_a_handler() -> None:
    """Nobody catches it by accident: it never leaves the package."""
    assert not issubclass(BreakdownError, ProcessingError)


# --- what is tried for ever -----------------------------------------------------------------------------------------


def test_stopping_gives_up_what_is_tried_for_ever(
    cluster: Cluster, new_consumer: NewConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """`stop()` waited for it, and so did `with` and a container's SIGTERM."""
    handler = Handler(fail_over_poison)
    processor = Processor(new_consumer(), handler)
    ends = threading.Thread(target=stop_when, args=(processor, lambda: processor.status().failed_attempts > 1))
    ends.start()
    processor.run()
    ends.join()
    assert (set(handler.done), committed(cluster)) == (set(range(POISON)), POISON)
    assert sum("not tried again" in line or "are not committed" in line for line in caplog.messages) == 1


def test_without_an_order_stopping_finishes_all_but_what_is_tried_for_ever(
    cluster: Cluster, new_consumer: NewConsumer
) -> None:
    handler = Handler(fail_over_poison)
    processor = Processor(new_consumer(), handler, ordering="none")
    ends = threading.Thread(target=stop_when, args=(processor, lambda: processor.status().handled == RECORDS - 1))
    ends.start()
    processor.run()
    ends.join()
    assert (set(handler.done), committed(cluster)) == ({*range(RECORDS)} - {POISON}, POISON)


def test_skipping_without_saying_how_often_means_one_attempt(cluster: Cluster, new_consumer: NewConsumer) -> None:
    """It tried without end, so nothing was ever skipped, and nothing said so."""
    handler = Handler(fail_over_poison)
    processor = Processor(new_consumer(), handler, on_failure="skip")
    ends = threading.Thread(target=stop_when, args=(processor, lambda: processor.status().handled == RECORDS))
    ends.start()
    processor.run()
    ends.join()
    assert (processor.status().failed_attempts, processor.status().skipped, committed(cluster)) == (1, 1, RECORDS)
