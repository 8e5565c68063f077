"""Who gets which records, when some take their time: without threads, on a clock of the test's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from uuid import UUID

import numpy as np
import pytest

from kwire import OffsetAndMetadata, Record, TopicPartition
from kwire.clock import NEVER_MS, monotonic_ms
from kwire.fetching.partition_records import PartitionRecords
from kwire.processing import OnDataLoss, OnFailure, Ordering, Retry
from kwire.processing.completion_tracker import CompletionTracker
from kwire.processing.dispatcher import Dispatcher, RecordCounts
from kwire.processing.lazy_records import LazyRecords
from kwire.processing.options import ProcessorOptions
from kwire.processing.ordered_queues import OrderedQueues
from kwire.processing.policies import DeadLetter
from kwire.processing.sources import Source
from kwire.processing.workers import Item, Run
from kwire.protocol.record_columns import RecordColumns

TP = TopicPartition("orders", 0)
BytesRun = Run[bytes, bytes]
KEYS = [b"%d" % number for number in range(10)]
ONCE = Retry(max_attempts=1)


def chunk(first: int, keys: list[bytes]) -> PartitionRecords[bytes, bytes]:
    count = len(keys)
    places, none = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    columns = RecordColumns(
        buffer=b"",
        offsets=np.arange(first, first + count, dtype=np.int64),
        timestamps=none,
        timestamp_types=np.zeros(count, dtype=np.int8),
        leader_epochs=np.zeros(count, dtype=np.int32),
        key_starts=places,
        key_lengths=none,
        value_starts=places,
        value_lengths=none,
    )
    behind = OffsetAndMetadata(first + count)
    return PartitionRecords(topic_partition=TP, columns=columns, next=behind, deserialized_keys=keys)


class Office:
    """A dispatcher, and its workers' side of it."""

    def __init__(
        self,
        *,
        ms_each: float,
        rate_limit: float | None = None,
        workers: int = 2,
        retry: Retry | None = None,
        on_failure: OnFailure | DeadLetter[bytes, bytes] = OnFailure.STOP,
        batch_size: int | None = None,
    ) -> None:
        self.out: list[BytesRun] = []
        options: ProcessorOptions[bytes, bytes] = ProcessorOptions(
            handler=self.handle,
            ordering=Ordering.KEY,
            workers=workers,
            executor=None,
            backend="asyncio",
            batch_size=batch_size,
            rate_limit=rate_limit,
            commit_interval=5.0,
            retry=retry or Retry(),
            on_failure=on_failure,
            on_data_loss=OnDataLoss.STOP,
            offset_map=True,
            key_order_within_ranges=False,
            max_buffered_records=10_000,
            max_buffered_bytes=1_000_000,
            watchdog=60.0,
        )
        self.dispatcher: Dispatcher[bytes, bytes] = Dispatcher(options, self.out.append, self._completion())
        for _ in range(100):
            self.dispatcher.sizer.tried(1, ms_each)

    @staticmethod
    def _completion() -> CompletionTracker:
        completion = CompletionTracker(with_map=True)
        completion.open({TP: None}, {TP.topic: UUID(int=1)})
        return completion

    def handle(self, record: Record[bytes, bytes]) -> None:
        """Whatever it does, a test says when it is over."""

    def handed_out(self, now_ms: float) -> list[list[int]]:
        before = len(self.out)
        self.dispatcher.hand_out(now_ms)
        return [offsets(run) for run in self.out[before:]]

    def end(self, run: BytesRun) -> None:
        run.execute()
        self.dispatcher.ended.put(run)
        self.dispatcher.take_back()

    def fail(self, run: BytesRun, error: Exception | None = None) -> None:
        """With the first record that is left."""
        run.next_item()
        run.error = OSError("not now") if error is None else error
        self.dispatcher.ended.put(run)
        self.dispatcher.take_back()


def offsets(run: BytesRun) -> list[int]:
    return [item.offset for item in run.items if isinstance(item, Record)]


def keys(run: BytesRun) -> list[bytes | None]:
    return [item.key for item in run.items if isinstance(item, Record)]


def test_quick_records_go_in_long_runs_and_slow_ones_to_all_workers() -> None:
    quick, slow = Office(ms_each=0.001), Office(ms_each=5.0)
    for office in (quick, slow):
        office.dispatcher.deliver(chunk(0, [b"%d" % number for number in range(10)]))
    assert quick.handed_out(0.0) == [list(range(10))]
    assert slow.handed_out(0.0) == [[0], [1]]


def test_while_all_workers_are_at_work_nobody_looks_at_what_the_rate_allows() -> None:
    """The loop went round without a pause from the moment the next record was allowed until a worker had ended."""
    office = Office(ms_each=5.0, workers=1, rate_limit=10.0)
    office.dispatcher.deliver(chunk(0, [b"x", b"y", b"z"]))
    assert office.handed_out(0.0) == [[0]]
    assert office.handed_out(1.0) == []
    office.out[0].todo.clear()  # its worker has begun with the only one
    assert office.dispatcher.due_ms == NEVER_MS
    office.end(office.out[0])
    assert office.dispatcher.due_ms < NEVER_MS


def test_records_that_take_no_time_are_made_by_who_handles_them() -> None:
    office, slow = Office(ms_each=0.001), Office(ms_each=1.0)
    for each in (office, slow):
        each.dispatcher.deliver(chunk(0, [b"%d" % number for number in range(100)]))
        each.handed_out(0.0)
    assert isinstance(office.out[0].items, LazyRecords)
    assert not any(isinstance(run.items, LazyRecords) for run in slow.out)
    assert office.dispatcher.usage[TP].records == 100
    office.end(office.out[0])
    assert office.dispatcher.counts.handled == 100
    assert not office.dispatcher.usage


def test_while_a_record_takes_its_time_nothing_waits_in_the_answer_it_came_in() -> None:
    """What waits for long would keep all of the answer in memory, of other partitions too."""
    office = Office(ms_each=0.001)
    office.dispatcher.deliver(chunk(0, [b"x"]))
    office.handed_out(0.0)
    office.out[0].todo.popleft()  # its worker is at it
    office.handed_out(office.dispatcher.due_ms)
    office.dispatcher.deliver(chunk(1, [b"%d" % number for number in range(100)]))
    office.handed_out(100.0)
    assert len(office.out) > 1
    assert not any(isinstance(run.items, LazyRecords) for run in office.out[1:])


def test_records_behind_one_that_takes_its_time_go_to_others() -> None:
    office = Office(ms_each=0.001)
    office.dispatcher.deliver(chunk(0, [b"%d" % (number % 5) for number in range(10)]))
    assert office.handed_out(0.0) == [list(range(10))]
    run = office.out[0]
    run.todo.popleft()  # its worker has begun with the first, and is at it
    assert office.handed_out(office.dispatcher.due_ms) == [[1, 6, 2, 7, 3, 8, 4, 9]], "5 has the key of 0"
    assert offsets(run) == [0]


def test_a_record_whose_queue_is_closed_in_quick_times_does_not_wait_for_a_slow_one() -> None:
    """Records of many keys are handed out as they lie as long as their queues open again in a moment."""
    office = Office(ms_each=0.001)
    office.dispatcher.deliver(chunk(0, [b"x"]))
    assert office.handed_out(0.0) == [[0]]
    office.out[0].todo.popleft()
    office.dispatcher.deliver(chunk(1, [b"x", b"y", b"z"]))
    assert office.handed_out(1.0) == []
    assert office.dispatcher.due_ms < 100, "somebody has to look again"
    assert office.handed_out(office.dispatcher.due_ms) == [[2, 3]]


def test_a_run_that_nobody_has_begun_gives_nothing_back() -> None:
    """All threads may be waiting for the interpreter."""
    office = Office(ms_each=0.001)
    office.dispatcher.deliver(chunk(0, [b"x", b"y", b"z"]))
    office.handed_out(0.0)
    assert office.handed_out(1_000.0) == []
    assert offsets(office.out[0]) == [0, 1, 2]
    office.end(office.out[0])
    assert office.dispatcher.counts.handled == 3
    assert office.dispatcher.is_idle


def test_who_looks_at_a_run_that_is_tried_again_before_its_worker_does_counts_nothing_twice() -> None:
    """A look between the second start and the worker's first step counted a record less, and then that record again."""
    office = Office(ms_each=0.001)
    office.dispatcher.deliver(chunk(0, [b"x", b"y"]))
    office.handed_out(0.0)
    (run,) = office.out
    run.todo.popleft()
    run.todo.popleft()
    run.error = OSError("the second")
    office.dispatcher.ended.put(run)
    office.dispatcher.take_back()
    assert office.dispatcher.counts.handled == 1
    later_ms = monotonic_ms() + 1_000.0
    assert office.handed_out(later_ms) == [[0, 1]], "again"
    office.dispatcher.report_done()
    office.handed_out(later_ms + 1_000.0)
    office.dispatcher.report_done()
    assert len(run.todo) == len(run.items) - 1, "it keeps what it has not begun"
    office.end(run)
    assert office.dispatcher.counts.handled == 2
    assert office.dispatcher.is_idle
    assert not office.dispatcher.usage


def test_what_fails_for_good_while_its_partition_is_given_back_is_left_to_the_next_owner() -> None:
    office = Office(ms_each=5.0, retry=ONCE, on_failure=OnFailure.SKIP)
    office.dispatcher.deliver(chunk(0, [b"x", b"y"]))
    assert office.handed_out(0.0) == [[0], [1]]
    for run in office.out:
        run.next_item()
    office.dispatcher.drop({TP})
    office.out[0].error = OSError("not now")
    for run in office.out:
        office.end(run)
    assert office.dispatcher.counts == RecordCounts(handled=1)
    assert office.dispatcher.is_idle


def test_a_run_that_could_not_begin_may_be_given_back() -> None:
    """It has no record to tell of: that was an IndexError, and the end of the processor."""
    office = Office(ms_each=5.0)
    office.dispatcher.deliver(chunk(0, [b"x"]))
    office.handed_out(0.0)
    office.dispatcher.drop({TP})
    office.out[0].error = MemoryError()
    office.end(office.out[0])
    assert office.dispatcher.is_idle
    assert not office.dispatcher.usage


class NoProblemsError(Exception):
    """An exception that is false, as one whose `__len__` counts what was found."""

    def __len__(self) -> int:
        return 0


def test_a_record_that_fails_with_an_exception_that_is_false_has_failed() -> None:
    """It counted as done: it was committed, and nobody was told."""
    office = Office(ms_each=5.0, retry=ONCE, on_failure=OnFailure.SKIP)
    office.dispatcher.deliver(chunk(0, [b"x"]))
    office.handed_out(0.0)
    office.fail(office.out[0], NoProblemsError())
    assert office.dispatcher.counts == RecordCounts(failed_attempts=1, skipped=1, handled=1)


def test_a_record_is_dead_lettered_when_the_function_has_taken_it() -> None:
    """It counted as soon as it was given to the function, even if that failed, and others took it later."""
    dead: list[int] = []
    office = Office(ms_each=5.0, retry=ONCE, on_failure=lambda record, _error: dead.append(record.offset))
    office.dispatcher.deliver(chunk(0, [b"x"]))
    office.handed_out(0.0)
    for _ in range(2):  # the handler, and the function
        office.fail(office.out[-1])
        assert office.dispatcher.counts == RecordCounts(failed_attempts=1)
    office.handed_out(monotonic_ms() + 10_000.0)
    office.end(office.out[-1])
    assert dead == [0]
    assert office.dispatcher.counts == RecordCounts(failed_attempts=1, handled=1, dead_lettered=1)
    assert office.dispatcher.is_idle


def test_the_rate_bounds_what_is_handed_out_and_says_when_to_look_again() -> None:
    office = Office(ms_each=0.001, rate_limit=50.0)
    office.dispatcher.deliver(chunk(0, [b"%d" % number for number in range(20)]))
    now_ms = monotonic_ms() + 1_000.0
    assert office.handed_out(now_ms) == [[0, 1, 2, 3, 4]]
    assert office.dispatcher.due_ms == pytest.approx(now_ms + 20.0)
    assert office.handed_out(now_ms + 41.0) == [[5, 6]]


def test_the_rate_bounds_further_attempts_too() -> None:
    """Sixteen records that failed were tried a thousand times a second where ten were allowed."""
    office = Office(ms_each=5.0, rate_limit=50.0, workers=8, retry=Retry(backoff=0.0, backoff_max=0.0))
    office.dispatcher.deliver(chunk(0, KEYS))
    now_ms = monotonic_ms() + 1_000.0
    assert office.handed_out(now_ms) == [[0], [1], [2], [3], [4]]
    for run in list(office.out):
        office.fail(run)
    assert office.handed_out(now_ms) == []
    assert office.dispatcher.due_ms == pytest.approx(now_ms + 20.0)
    assert office.handed_out(now_ms + 41.0) == [[0], [1]]
    for run in office.out[-2:]:
        office.end(run)
    assert office.handed_out(now_ms + 59.0) == []
    assert office.handed_out(now_ms + 1_000.0) == [[2], [3], [4], [5], [6]]


def test_a_batch_that_is_tried_again_takes_as_much_of_the_rate_as_it_has_records() -> None:
    office = Office(ms_each=5.0, rate_limit=50.0, retry=Retry(backoff=0.0, backoff_max=0.0), batch_size=3)
    office.dispatcher.deliver(chunk(0, [b"x"] * 6))
    now_ms = monotonic_ms() + 1_000.0
    office.handed_out(now_ms)
    office.fail(office.out[0])
    office.handed_out(now_ms)
    assert len(office.out) == 2, "two are left of five"
    office.fail(office.out[1])
    assert office.dispatcher.due_ms == pytest.approx(now_ms + 40.0)


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_a_worker_begins_nothing_that_a_truncated_log_has_no_more(begun: int) -> None:
    """It went on to the end of its run: old records of the offsets that new ones have came in front of these."""
    office = Office(ms_each=0.001, workers=1)
    office.dispatcher.deliver(chunk(0, [b"x"] * 6))
    assert office.handed_out(0.0) == [list(range(6))]
    run = office.out[0]
    for _ in range(begun):
        run.next_item()
    office.dispatcher.deliver(chunk(2, [b"x"] * 2))
    assert offsets(run) == list(range(max(2, begun))), "the one it is at it keeps"
    office.end(run)
    assert office.handed_out(1.0) == [[2, 3]]
    office.end(office.out[1])
    assert not office.dispatcher.usage
    assert office.dispatcher.is_idle


def test_a_slow_record_gives_nothing_back_that_a_truncated_log_has_no_more() -> None:
    """It was worked on, and when it was done, the new records of its offsets were committed, though nobody had had
    them. Counted out of the buffer twice, it ended the processor with a KeyError."""
    office = Office(ms_each=0.001)
    office.dispatcher.deliver(chunk(0, KEYS))
    assert office.handed_out(0.0) == [list(range(10))]
    slow = office.out[0]
    slow.todo.popleft()  # its worker is at it
    office.dispatcher.deliver(chunk(5, [b"new"] * 3))
    assert offsets(slow) == [0, 1, 2, 3, 4]
    assert office.handed_out(office.dispatcher.due_ms) == [[1, 2, 3, 4, 5, 6, 7]]
    assert keys(office.out[1]) == [*KEYS[1:5], b"new", b"new", b"new"]
    for run in reversed(office.out):
        office.end(run)
    assert office.dispatcher.is_idle
    assert not office.dispatcher.usage
    assert office.dispatcher.counts.handled == 8


def test_nor_is_it_given_back_when_it_stands_between_others() -> None:
    office = Office(ms_each=0.001, workers=3)
    office.dispatcher.deliver(chunk(0, [b"%d" % (number % 5) for number in range(10)]))
    office.handed_out(0.0)
    office.out[0].todo.popleft()
    assert office.handed_out(office.dispatcher.due_ms) == [[1, 6, 2, 7, 3, 8, 4, 9]]
    office.out[1].todo.popleft()
    office.dispatcher.deliver(chunk(5, [b"a", b"b"]))
    assert sorted(chain.from_iterable(office.handed_out(1_000.0))) == [2, 3, 4, 5, 6]
    for run in office.out:
        office.end(run)
    assert office.dispatcher.is_idle
    assert not office.dispatcher.usage
    assert office.dispatcher.counts.handled == 7


def test_a_run_that_nobody_has_begun_and_nobody_waits_for_is_empty() -> None:
    office = Office(ms_each=0.001, workers=1)
    office.dispatcher.deliver(chunk(4, [b"x"] * 3))
    assert office.handed_out(0.0) == [[4, 5, 6]]
    office.dispatcher.deliver(chunk(4, [b"x"]))
    assert offsets(office.out[0]) == []
    office.end(office.out[0])
    assert office.handed_out(1.0) == [[4]]
    office.end(office.out[1])
    assert office.dispatcher.is_idle
    assert office.dispatcher.counts.handled == 1


class TakenBack(list[Item[bytes, bytes]]):
    """What its owner takes back as soon as somebody has seen that it is there."""

    def __len__(self) -> int:
        length = super().__len__()
        self.clear()
        return length


def test_who_looks_at_a_run_while_all_of_it_is_taken_back_does_not_see_it() -> None:
    """It raised an IndexError in the thread that wanted a description."""
    office = Office(ms_each=5.0)
    office.dispatcher.deliver(chunk(0, [b"a", b"b"]))
    office.handed_out(0.0)
    first, second = office.out
    first.items = TakenBack(first.items)
    assert [record.offset for record, _, _ in office.dispatcher.at_work()] == offsets(second) == [1]


def test_a_signal_that_strikes_a_delivery_does_not_keep_what_is_done_from_being_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was half delivered was dropped, and not counted before: the count of what was in work went with it."""
    office = Office(ms_each=5.0)
    dispatcher = office.dispatcher
    dispatcher.deliver(chunk(0, KEYS[:1]))
    office.handed_out(0.0)
    add = OrderedQueues.add

    def add_and_be_struck(
        self: OrderedQueues[bytes, bytes], records: Sequence[Record[bytes, bytes]], source: Source
    ) -> None:
        add(self, records, source)
        raise KeyboardInterrupt

    monkeypatch.setattr(OrderedQueues, "add", add_and_be_struck)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.deliver(chunk(1, KEYS[1:3]))
    (run,) = office.out
    run.execute()
    dispatcher.drop_all()
    dispatcher.ended.put(run)
    dispatcher.take_back()
    assert dispatcher.counts.handled == 1
    assert not dispatcher.usage
