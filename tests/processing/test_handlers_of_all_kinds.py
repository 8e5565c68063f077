"""Async handlers, batches, a rate, and runs of many queues: on a cluster in the process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import ContextVar
from functools import partial, wraps
from multiprocessing import get_context
from typing import Literal

import pytest
import trio

from kwire import Consumer, Record, TopicPartition
from kwire.errors import InvalidArgumentError, ProcessingError, WorkerError
from kwire.processing import Processor, Retry
from kwire.testing import Cluster

pytestmark = pytest.mark.slow

TP = TopicPartition("orders", 0)
BytesRecord = Record[bytes, bytes]
NewConsumer = Callable[..., Consumer[bytes, bytes]]
Orders = Callable[..., None]
WaitUntil = Callable[[Callable[[], bool]], None]
Backend = Literal["asyncio", "trio"]

SLEEPS: dict[str, Callable[[float], Awaitable[None]]] = {"asyncio": asyncio.sleep, "trio": trio.sleep}
FOREVER_S = 3_600.0
both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def committed(cluster: Cluster) -> int:
    return cluster.committed("billing")[TP].offset


# --- async ------------------------------------------------------------------------------------------------------------


@both
def test_a_thousand_async_handlers_are_in_work_at_once(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, backend: Backend
) -> None:
    orders(1_200)
    at_work, most, go = 0, 0, threading.Event()

    async def handle(_record: BytesRecord) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        while not go.is_set():
            await SLEEPS[backend](0.05)
        at_work -= 1

    with Processor(new_consumer(), handle, ordering="none", workers=1_000, backend=backend) as processor:
        wait_until(lambda: at_work == 1_000)
        go.set()
        wait_until(lambda: processor.status().handled == 1_200)
    assert most == 1_000
    assert committed(cluster) == 1_200


@both
def test_async_handlers_keep_the_order_of_a_key(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, backend: Backend
) -> None:
    orders(300, partitions=2, keys=7)
    seen: defaultdict[object, list[int]] = defaultdict(list)
    at_once: Counter[object] = Counter()
    overlaps = 0

    async def handle(record: BytesRecord) -> None:
        nonlocal overlaps
        queue = (record.partition, record.key)
        at_once[queue] += 1
        overlaps += at_once[queue] > 1
        await SLEEPS[backend](0.001 * (record.offset % 3))
        seen[queue].append(record.offset)
        at_once[queue] -= 1

    with Processor(new_consumer(), handle, ordering="key", workers=8, backend=backend) as processor:
        wait_until(lambda: processor.status().handled == 300)
    assert overlaps == 0
    assert all(offsets == sorted(offsets) for offsets in seen.values())


@both
def test_async_handlers_are_tried_again_and_their_dead_letters_may_be_async(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, backend: Backend
) -> None:
    orders(5)
    attempts: list[int] = []
    dead: list[tuple[int, str]] = []

    async def handle(record: BytesRecord) -> None:
        await SLEEPS[backend](0)
        attempts.append(record.offset)
        if record.offset == 2:
            raise ValueError("bad order")

    async def bury(record: BytesRecord, error: Exception) -> None:
        await SLEEPS[backend](0)
        dead.append((record.offset, str(error)))

    retry = Retry(max_attempts=3, backoff=0.001)
    with Processor(new_consumer(), handle, retry=retry, on_failure=bury, backend=backend) as processor:
        wait_until(lambda: processor.status().handled == 5)
    assert attempts == [0, 1, 2, 2, 2, 3, 4]
    assert dead == [(2, "bad order")]
    assert committed(cluster) == 5


@both
def test_a_dead_letter_that_blocks_does_not_keep_the_event_loop(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, backend: Backend
) -> None:
    orders(10)
    go, dead = threading.Event(), []

    async def handle(record: BytesRecord) -> None:
        if record.offset == 0:
            raise ValueError

    def bury(record: BytesRecord, _error: Exception) -> None:
        assert go.wait(30)
        dead.append(record.offset)

    retry = Retry(max_attempts=1)
    with Processor(new_consumer(), handle, ordering="none", retry=retry, on_failure=bury, backend=backend) as processor:
        wait_until(lambda: processor.status().handled == 9)
        assert not dead
        go.set()
    assert dead == [0]


@both
def test_async_handlers_that_do_not_end_are_cancelled_and_their_records_come_again(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, backend: Backend
) -> None:
    orders(5)
    begun, tidied = threading.Event(), list[int]()

    async def handle(record: BytesRecord) -> None:
        if record.offset == 2:
            begun.set()
            try:
                await SLEEPS[backend](FOREVER_S)
            finally:
                tidied.append(record.offset)

    consumer = new_consumer()
    processor = Processor(consumer, handle, backend=backend)
    processor.__enter__()
    assert begun.wait(30)
    processor.close(drain=False, timeout=0.1)
    wait_until(lambda: tidied == [2])  # it is not waited for for long
    assert committed(cluster) == 2
    assert next(iter(consumer.poll(5.0))).offset == 2


@both
def test_an_async_handler_that_does_not_listen_when_it_is_cancelled_keeps_nobody(
    new_consumer: NewConsumer, orders: Orders, backend: Backend
) -> None:
    orders(1)
    begun, go = threading.Event(), threading.Event()

    async def handle(_record: BytesRecord) -> None:
        begun.set()
        go.wait(30)  # blocks the whole loop

    processor = Processor(new_consumer(), handle, backend=backend)
    processor.__enter__()
    assert begun.wait(30)
    began_s = time.monotonic()
    processor.close(drain=False, timeout=0.1)
    assert time.monotonic() - began_s < 10
    go.set()


@both
def test_each_async_handler_has_a_context_of_its_own(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, backend: Backend
) -> None:
    orders(50)
    variable: ContextVar[str] = ContextVar("variable", default="nothing")
    seen: list[str] = []

    async def handle(record: BytesRecord) -> None:
        seen.append(variable.get())
        variable.set(f"offset {record.offset}")
        await SLEEPS[backend](0)
        assert variable.get() == f"offset {record.offset}"

    variable.set("when it was made")
    processor = Processor(new_consumer(), handle, ordering="none", backend=backend)
    variable.set("later")
    with processor:
        wait_until(lambda: processor.status().handled == 50)
    assert set(seen) == {"when it was made"}


@both
def test_an_async_handler_that_ends_its_thread_ends_the_processor(
    new_consumer: NewConsumer, orders: Orders, backend: Backend
) -> None:
    orders(1)

    async def handle(_record: BytesRecord) -> None:
        raise SystemExit(3)

    with pytest.raises(ProcessingError, match="SystemExit"):
        Processor(new_consumer(), handle, on_failure="skip", backend=backend).run()


class Noting:
    """An object that is called as an async function."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    async def __call__(self, record: BytesRecord) -> None:
        await asyncio.sleep(0)
        self.seen.append(record.offset)


async def note(seen: list[int], record: BytesRecord) -> None:
    await asyncio.sleep(0)
    seen.append(record.offset)


def test_objects_and_partial_functions_can_be_async_too(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(3)
    called, seen = Noting(), list[int]()
    with Processor(new_consumer(), called):
        wait_until(lambda: called.seen == [0, 1, 2])
    with Processor(new_consumer(group_id="audit"), partial(note, seen)):
        wait_until(lambda: seen == [0, 1, 2])


class NotingWith:
    """An object that is called as an async function, with more than a record."""

    async def __call__(self, seen: list[int], record: BytesRecord) -> None:
        await note(seen, record)


def test_a_partial_object_can_be_async_too(new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil) -> None:
    orders(3)
    seen = list[int]()
    with Processor(new_consumer(), partial(NotingWith(), seen)):
        wait_until(lambda: seen == [0, 1, 2])


async def forget_to_await(record: BytesRecord) -> object:
    return note([], record)


def each_later(record: BytesRecord) -> Iterator[int]:
    yield record.offset


async def each_later_async(record: BytesRecord) -> AsyncIterator[int]:
    yield record.offset


@pytest.mark.parametrize(
    "handler",
    [lambda record: note([], record), forget_to_await, lambda record: (each for each in [record])],
    ids=["function of a coroutine", "coroutine of a coroutine", "function of a generator"],
)
@pytest.mark.parametrize("is_awaited", [False, True], ids=["run", "run_async"])
def test_a_handler_whose_work_nobody_would_do_ends_it_and_costs_no_record(
    cluster: Cluster,
    new_consumer: NewConsumer,
    orders: Orders,
    handler: Callable[[BytesRecord], object],
    is_awaited: bool,
) -> None:
    """All records were committed, and none was handled. No policy for records that fail may pass them by."""
    orders(3)
    processor = Processor(new_consumer(), handler, on_failure="skip")
    with pytest.raises(WorkerError, match=r"it returned .*nobody") as raised:
        asyncio.run(processor.run_async()) if is_awaited else processor.run()
    assert raised.value.offset == 0
    assert committed(cluster) == 0


def test_an_executor_whose_handler_returns_a_coroutine_costs_no_record(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders
) -> None:
    orders(3)
    with ThreadPoolExecutor(1) as pool, pytest.raises(WorkerError, match="nobody awaits it"):
        Processor(new_consumer(), lambda record: note([], record), executor=pool).run()
    assert committed(cluster) == 0


async def fail(record: BytesRecord) -> None:
    raise ValueError(record.offset)


def fail_at_once(record: BytesRecord) -> None:
    raise ValueError(record.offset)


@pytest.mark.parametrize("handler", [fail, fail_at_once], ids=["async", "thread"])
def test_a_dead_letter_function_that_returns_a_coroutine_costs_no_record(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, handler: Callable[[BytesRecord], object]
) -> None:
    orders(1)
    with pytest.raises(WorkerError, match="nobody awaits it"):
        Processor(new_consumer(), handler, on_failure=lambda record, _error: note([], record)).run()
    assert committed(cluster) == 0


def given_a_database(handle: Callable[[BytesRecord, object], None]) -> Callable[[BytesRecord], None]:
    @wraps(handle)
    def wrapper(record: BytesRecord) -> None:
        handle(record, "database")

    return wrapper


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"handler": each_later}, "handler is a generator"),
        ({"handler": each_later_async}, "handler is a generator"),
        ({"handler": None}, "handler is None, and cannot be called"),
        ({"handler": note}, "cannot be called with 1 arguments"),
        ({"on_failure": note, "handler": Noting()}, None),
        ({"handler": given_a_database(lambda record, database: None)}, None),
        ({"on_failure": print}, None),
        ({"on_failure": each_later}, "on_failure is .* cannot be called with 2 arguments"),
        ({"on_failure": None}, "on_failure is None, and cannot be called"),
    ],
)
def test_functions_that_cannot_be_called_are_refused_at_once(
    new_consumer: NewConsumer, arguments: dict[str, object], why: str | None
) -> None:
    """With `on_failure=None` records that failed were passed by."""
    with pytest.raises(InvalidArgumentError, match=why) if why else nullcontext():
        Processor(new_consumer(), **{"handler": print, **arguments})  # type: ignore[arg-type]


def test_what_does_not_go_together_is_refused(new_consumer: NewConsumer) -> None:
    async def bury(record: BytesRecord, error: Exception) -> None: ...

    consumer = new_consumer()
    with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidArgumentError, match="cannot have an executor"):
        Processor(consumer, Noting(), executor=pool)
    with pytest.raises(InvalidArgumentError, match="async on_failure"):
        Processor(consumer, print, on_failure=bury)
    with pytest.raises(InvalidArgumentError, match="backend is 'curio'"):
        Processor(consumer, Noting(), backend="curio")  # type: ignore[arg-type]
    for name in ("batch_size", "rate_limit"):
        with pytest.raises(InvalidArgumentError, match=f"{name} is 0"):
            Processor(consumer, print, **{name: 0})  # type: ignore[arg-type]


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", ["partition", "key", "none"])
def test_a_batch_has_records_of_one_lane_in_order(
    cluster: Cluster,
    new_consumer: NewConsumer,
    orders: Orders,
    wait_until: WaitUntil,
    ordering: Literal["partition", "key"],
) -> None:
    orders(400, partitions=2, keys=6)
    batches: list[list[BytesRecord]] = []
    with Processor(new_consumer(), batches.append, ordering=ordering, workers=4, batch_size=20) as processor:
        wait_until(lambda: processor.status().handled == 400)
    assert max(map(len, batches)) == 20
    assert sum(map(len, batches)) == 400
    for batch in batches:
        assert len({record.partition for record in batch}) == 1
        assert ordering != "key" or len({record.key for record in batch}) == 1
        assert [record.offset for record in batch] == sorted(record.offset for record in batch)
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 200, 1: 200}


def test_a_batch_fails_as_a_whole_and_its_dead_letter_gets_each_record(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(9)
    tried: list[list[int]] = []
    dead: list[int] = []

    def handle(batch: list[BytesRecord]) -> None:
        tried.append([record.offset for record in batch])
        if any(record.offset == 4 for record in batch):
            raise ValueError

    with Processor(
        new_consumer(),
        handle,
        batch_size=3,
        retry=Retry(max_attempts=2, backoff=0.001),
        on_failure=lambda record, _error: dead.append(record.offset),
    ) as processor:
        wait_until(lambda: processor.status().handled == 9)
    status = processor.status()
    failed = [batch for batch in tried if 4 in batch]
    assert failed == [failed[0]] * 2
    assert dead == failed[0]
    assert (status.dead_lettered, status.failed_attempts) == (len(dead), 2)
    assert committed(cluster) == 9


def test_the_log_names_each_record_of_a_batch_that_is_skipped(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, caplog: pytest.LogCaptureFixture
) -> None:
    orders(9)

    def handle(batch: list[BytesRecord]) -> None:
        if any(record.offset == 4 for record in batch):
            raise ValueError("no such customer")

    with Processor(
        new_consumer(), handle, batch_size=3, retry=Retry(max_attempts=1), on_failure="skip", ordering="partition"
    ) as processor:
        wait_until(lambda: processor.status().handled == 9)
    assert "orders-0 offsets 3-5: given up: ValueError('no such customer')" in caplog.text


def test_a_batch_that_fails_for_good_ends_it_and_comes_again(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders
) -> None:
    orders(6)

    def handle(batch: list[BytesRecord]) -> None:
        if batch[-1].offset >= 3:
            raise ValueError("never")

    with pytest.raises(ProcessingError, match="never"):
        Processor(new_consumer(max_poll_records=3), handle, batch_size=3, retry=Retry(max_attempts=1)).run()
    assert committed(cluster) == 3


@both
def test_an_async_handler_may_get_batches(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, backend: Backend
) -> None:
    orders(100)
    sizes: list[int] = []

    async def handle(batch: list[BytesRecord]) -> None:
        await SLEEPS[backend](0)
        sizes.append(len(batch))

    with Processor(new_consumer(), handle, batch_size=10, backend=backend) as processor:
        wait_until(lambda: processor.status().handled == 100)
    assert max(sizes) == 10


def refuse_seven(batch: list[BytesRecord]) -> None:
    if any(record.value == b"7" for record in batch):
        raise ValueError("seven")


def test_batches_travel_to_processes_and_their_dead_letters_stay_here(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(12)
    dead: list[int] = []  # nothing that another process could write to
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        Processor(
            new_consumer(),
            refuse_seven,
            executor=pool,
            batch_size=4,
            retry=Retry(max_attempts=1),
            on_failure=lambda record, _error: dead.append(record.offset),
        ) as processor,
    ):
        wait_until(lambda: processor.status().handled == 12)
    assert 7 in dead
    assert processor.status().dead_lettered == len(dead)
    assert committed(cluster) == 12


# --- a rate, and how it goes ------------------------------------------------------------------------------------------


def test_no_more_records_go_than_the_rate_allows(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(300, keys=20)
    began_s: list[float] = []

    def handle(_record: BytesRecord) -> None:
        began_s.append(time.monotonic())

    with Processor(new_consumer(), handle, ordering="key", rate_limit=200) as processor:
        wait_until(lambda: len(began_s) == 300)
    assert processor.status().handled == 300
    # 1.4 s; on a busy machine the first may be late. Without a rate all of it takes some milliseconds.
    assert began_s[-1] - began_s[0] > 0.7


def test_its_status_tells_how_fast_it_goes_and_how_long_handlers_take(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(40, keys=40)

    def handle(record: BytesRecord) -> None:
        time.sleep(0.1 if record.offset == 7 else 0.002)

    with Processor(new_consumer(), handle, ordering="key", workers=2) as processor:
        wait_until(lambda: processor.status().handled == 40)
        status = processor.status()
    assert status.per_second > 0
    assert 2 <= status.handler_p50_ms < status.handler_p99_ms


# --- many queues in a run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", ["key", "none"])
def test_records_that_were_given_to_a_worker_with_a_slow_one_do_not_wait_for_it(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, ordering: Literal["key", "none"]
) -> None:
    """Handlers have been quick so far, so workers get many records at a time; then one takes its time, in front of some
    that were given to its worker, and of others of its key that come later."""
    orders(1_000, keys=100)
    go, lock, seen = threading.Event(), threading.Lock(), Counter[int]()

    def handle(record: BytesRecord) -> None:
        if record.offset == 700:
            assert go.wait(30)
        with lock:
            seen[record.offset] += 1

    with Processor(new_consumer(), handle, ordering=ordering, workers=2, commit_interval=0.05) as processor:
        wait_until(lambda: processor.status().handled == (997 if ordering == "key" else 999))
        assert seen.keys().isdisjoint({700, 800, 900} if ordering == "key" else {700}), "of its key none overtakes it"
        wait_until(lambda: cluster.committed("billing").get(TP) is not None and committed(cluster) == 700)
        go.set()
    assert set(seen.values()) == {1}
    assert committed(cluster) == 1_000


def test_keys_that_were_given_to_a_worker_with_a_failing_record_do_not_wait_for_its_retry(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(1_000, keys=500)
    seen: set[int] = set()
    is_mended = threading.Event()

    def handle(record: BytesRecord) -> None:
        if record.offset == 400 and not is_mended.is_set():
            raise OSError("not now")
        seen.add(record.offset)

    retry = Retry(backoff=0.05, backoff_max=0.05)
    with Processor(new_consumer(), handle, ordering="key", workers=1, retry=retry) as processor:
        wait_until(lambda: len(seen) == 998)
        assert {400, 900}.isdisjoint(seen), "the second has the first one's key"
        is_mended.set()
        wait_until(lambda: processor.status().handled == 1_000)
