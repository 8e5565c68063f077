"""A run between its owner and its worker: no item is with both, none with neither."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from queue import SimpleQueue

import numpy as np
import pytest

from kwire import OffsetAndMetadata, Record, TimestampType, TopicPartition
from kwire.fetching.partition_records import PartitionRecords
from kwire.processing import workers
from kwire.processing.lazy_records import LazyRecords
from kwire.processing.workers import ExecutorWorkers, Item, Run, ThreadWorkers
from kwire.protocol.record_columns import RecordColumns

Items = list[Item[bytes, bytes]]


def record(offset: int) -> Record[bytes, bytes]:
    return Record("orders", 0, offset, -1, TimestampType.CREATE_TIME, None, b"", (), None, -1, 0)


def test_what_was_begun_is_the_workers_and_the_rest_can_be_taken_back() -> None:
    items: Items = [record(offset) for offset in range(5)]
    back: Items = []
    seen: Items = []

    def handle(item: Item[bytes, bytes]) -> None:
        seen.append(item)
        if len(seen) == 2:
            assert run.done == 1, "the one in hand does not count"
            back.extend(run.take_back())

    run = Run(items, handle)
    run.is_out = True
    run.execute()
    run.is_out = False
    assert (seen, back) == (items[:2], items[2:])
    assert (run.items, run.done) == (items[:2], 2)


def test_a_failed_item_comes_next_again() -> None:
    def fail_at_one(item: Item[bytes, bytes]) -> None:
        if item == record(1):
            raise OSError

    run = Run([record(0), record(1), record(2)], fail_at_one)
    run.execute()
    assert isinstance(run.error, OSError)
    run.put_back()
    assert run.done == 1
    assert run.record == record(1)
    assert len(run.todo) == 2


class Watched(Items):
    """A list that a weak reference may be to."""


def test_a_thread_that_waits_keeps_nothing_of_what_it_has_done(
    wait_until: Callable[[Callable[[], bool]], None],
) -> None:
    """After a backlog, threads that were not needed any more kept the batches of their last records."""
    items = Watched([record(0)])
    gone = weakref.ref(items)
    pool: ThreadWorkers[bytes, bytes] = ThreadWorkers(1, lambda run: None)
    pool.start(Run(items, lambda item: None))
    del items
    wait_until(lambda: gone() is None)
    pool.close()


class TooLarge(Items):
    """Records that there is no memory for."""

    def __iter__(self) -> Iterator[Item[bytes, bytes]]:
        raise MemoryError


def test_a_run_that_could_not_begin_begins_with_its_first_item() -> None:
    """It had one item more to do than it has, and the last one went to the handler twice."""
    seen: Items = []
    run = Run(TooLarge([record(0), record(1)]), seen.append)
    run.start(0.0)
    run.execute()
    assert isinstance(run.error, MemoryError)
    run.is_out = False
    run.put_back()
    assert (run.done, len(run.todo)) == (0, 2)
    assert run.record == record(0)


def test_a_dead_letter_gets_each_record_of_a_batch() -> None:
    dead: list[int] = []
    run: Run[bytes, bytes] = Run([[record(0), record(1)]], lambda item: None)
    run.dead_letter_attempt = (lambda record, _error: dead.append(record.offset), ValueError())
    run.execute()
    assert dead == [0, 1]
    assert run.done == 1
    assert run.error is None
    assert run.dead_letter_attempt is None


def test_a_dead_letter_that_fails_in_a_batch_is_called_again_with_the_records_that_are_left() -> None:
    """It got the first ones of the batch with each attempt."""
    dead: list[int] = []

    def bury(record: Record[bytes, bytes], _error: Exception) -> None:
        dead.append(record.offset)
        if len(dead) in (2, 3):
            raise ConnectionError

    run: Run[bytes, bytes] = Run([[record(0), record(1), record(2)], [record(3), record(4)]], lambda item: None)
    for _ in range(4):
        run.start(0.0)
        run.dead_letter_attempt = (bury, ValueError())
        run.execute_dead_letter()
        run.is_out = False
        if run.error is not None:
            run.error = None
            run.put_back()
    assert dead == [0, 1, 1, 1, 2, 3, 4]
    assert run.done == 2


def test_each_record_of_a_batch_has_its_own_attempts_as_a_dead_letter() -> None:
    """They shared three: a batch stopped the processor when each of its records had failed once."""

    def bury(record: Record[bytes, bytes], _error: Exception) -> None:
        if record.offset == 1:
            raise ConnectionError

    run: Run[bytes, bytes] = Run([[record(0), record(1)]], lambda item: None)
    run.breakdowns = 2  # over record 0
    run.start(0.0)
    run.dead_letter_attempt = (bury, ValueError())
    run.execute_dead_letter()
    assert (run.dead_lettered, run.breakdowns) == (1, 0)


def test_a_dead_letter_whose_record_was_taken_back_has_nothing_to_do() -> None:
    """The owner may do so before the worker has looked."""
    run: Run[bytes, bytes] = Run([record(0)], lambda item: None)
    run.dead_letter_attempt = (lambda record, _error: pytest.fail("it was taken back"), ValueError())
    assert run.take_back() == [record(0)]
    run.execute()
    assert (run.done, run.error) == (0, None)


def rows(count: int) -> LazyRecords[bytes, bytes]:
    """Records as above, not made yet."""
    none, places = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    columns = RecordColumns(
        buffer=b"",
        offsets=np.arange(count, dtype=np.int64),
        timestamps=none,
        timestamp_types=np.zeros(count, dtype=np.int8),
        leader_epochs=np.full(count, -1, dtype=np.int32),
        key_starts=places,
        key_lengths=none,
        value_starts=places,
        value_lengths=places,
    )
    tp = TopicPartition("orders", 0)
    return LazyRecords([PartitionRecords(topic_partition=tp, columns=columns, next=OffsetAndMetadata(count))])


def test_records_that_nobody_has_made_go_through_a_run_like_others() -> None:
    def fail_at_two(item: Item[bytes, bytes]) -> None:
        if item == record(2) and not seen:
            seen.append(item)
            raise OSError
        handled.append(item)

    handled: Items = []
    seen: Items = []
    run = Run(rows(5), fail_at_two)
    run.start(0.0)
    run.execute()
    run.is_out = False
    run.put_back()
    assert (run.done, run.record) == (2, record(2))
    assert list(run.take_back()) == [record(2), record(3), record(4)]
    run.give([record(2), record(3)])
    run.start(0.0)
    run.execute()
    assert handled == [record(0), record(1), record(2), record(3)]


@pytest.mark.slow
@pytest.mark.parametrize("are_made", [True, False])
def test_owner_and_worker_may_take_at_the_same_time(are_made: bool) -> None:
    for _ in range(200):
        items: Sequence[Item[bytes, bytes]] = [record(offset) for offset in range(300)] if are_made else rows(300)
        handled: Items = []
        run = Run(items, handled.append)
        run.is_out = True
        worker = threading.Thread(target=run.execute)
        worker.start()
        back = run.take_back()
        worker.join()
        run.is_out = False
        assert [*handled, *back] == list(items)
        assert run.done == len(run.items) == len(handled)


class NoProblemsError(Exception):
    """An exception that is false, as one whose `__len__` counts what was found."""

    def __len__(self) -> int:
        return 0


def test_a_handler_in_an_executor_may_raise_an_exception_that_is_false() -> None:
    """The run never came back: its partition stood still for ever."""
    ended = SimpleQueue[Run[bytes, bytes]]()

    def fail(item: Item[bytes, bytes]) -> None:
        raise NoProblemsError

    with ThreadPoolExecutor(1) as pool:
        ExecutorWorkers(pool, ended.put).start(Run([record(0)], fail))
        assert isinstance(ended.get(timeout=10.0).error, NoProblemsError)


class Pool(ProcessPoolExecutor):
    """One whose tasks end when a test says so. It has no processes."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self.futures: list[Future[object]] = []

    def submit(self, _task: Callable[..., object], /, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
        self.futures.append(Future())
        return self.futures[-1]

    def breaks(self, task: int) -> None:
        self.futures[task].set_exception(BrokenProcessPool("a process died"))


def test_what_the_broken_pool_gives_back_late_does_not_break_the_one_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One process that died cost several pools: the tasks of a pool that broke do not come back at once."""
    pools = [Pool()]

    def pool_like(_: ProcessPoolExecutor) -> Pool:
        pools.append(Pool())
        return pools[-1]

    def begin() -> None:
        hands.start(Run([record(0)], lambda _: None))

    monkeypatch.setattr(workers, "pool_like", pool_like)
    hands: ExecutorWorkers[bytes, bytes] = ExecutorWorkers(pools[0], lambda _: None)
    begin()
    begin()
    pools[0].breaks(0)
    begin()
    pools[0].breaks(1)
    begin()
    assert [len(pool.futures) for pool in pools] == [2, 2]
    pools[1].breaks(0)
    begin()
    assert [len(pool.futures) for pool in pools] == [2, 2, 1]
    hands.close()
    pools[0].shutdown()
