"""Hands records to workers and takes them back: which run is where, what is tried again, what has failed for good.

Contract: used by the processor's thread alone, but for `ended`, which workers post to. Nothing here polls or commits.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from queue import Empty
from typing import Generic

from kwire.clock import NEVER_MS, monotonic_ms
from kwire.consumer.host import Queue, current_host
from kwire.errors import ProcessingError, RecordDeserializationError
from kwire.fetching.partition_records import PartitionRecords
from kwire.logs import part_logger
from kwire.model import K, Record, TopicPartition, V
from kwire.offset_set import NO_OFFSETS, OffsetSet
from kwire.processing.buffer_usage import BufferUsage
from kwire.processing.completion_tracker import CompletionTracker
from kwire.processing.failures import Failures, GiveUp, Stop, TryAgain, Verdict, place
from kwire.processing.lazy_records import LazyRecords, with_keys
from kwire.processing.options import ProcessorOptions
from kwire.processing.ordered_queues import OrderedQueues, Ordering, Work
from kwire.processing.partition_progress import PartitionProgress
from kwire.processing.partition_queues import MergePolicy
from kwire.processing.policies import OnFailure
from kwire.processing.run_sizer import RUN_MS, RunSizer
from kwire.processing.sources import Source, partition_of
from kwire.processing.workers import (
    BreakdownError,
    DeadLetterAttempt,
    Item,
    Run,
    UnreadableRecord,
    records_of,
    unreadable,
)

log = part_logger("processing")

# A run that is out for longer than this has met a slow record, and gives back the records behind it.
_STUCK_MS = 4 * RUN_MS
_QUICK_WORKERS = 1
_offset_of = itemgetter(Record._fields.index("offset"))


@dataclass(slots=True, eq=False)
class _Entry(Generic[K, V]):
    """A run, and the work that it is of. The first `reported` of its items are counted as done. Records with
    `superseded` offsets are delivered once more: what comes of them here does not matter."""

    run: Run[K, V]
    work: Work[K, V]
    progress: PartitionProgress | None
    reported: int = 0
    superseded: OffsetSet = NO_OFFSETS
    is_waiting: bool = False
    """For its next attempt."""
    dead_lettering: int = 0
    """How many records the dead-letter function is to take: those of the item it is at, or none."""

    @property
    def source(self) -> Source:
        return self.work.source

    @property
    def is_superseded(self) -> bool:
        """Whether the record it is at is delivered once more."""
        return self.is_superseded_at(self.run.record.offset)

    def is_superseded_at(self, offset: int) -> bool:
        return self.superseded.covers(offset)

    def is_stuck(self, now_ms: float) -> bool:
        """Whether it will not be over in a moment."""
        return self.is_waiting or now_ms >= self.run.started_ms + _STUCK_MS


@dataclass(slots=True)
class RecordCounts:
    """What `Status` shows."""

    handled: int = 0
    failed_attempts: int = 0
    skipped: int = 0
    dead_lettered: int = 0


class Dispatcher(Generic[K, V]):
    """Hands records to workers, and takes them back.

    Args:
        start: Gives a run to a worker.
    """

    def __init__(
        self, options: ProcessorOptions[K, V], start: Callable[[Run[K, V]], None], completion: CompletionTracker
    ) -> None:
        self.ended: Queue[Run[K, V]] = current_host().new_queue()
        self.counts = RecordCounts()
        self.sizer = RunSizer(options, monotonic_ms())
        self.usage = BufferUsage()
        self.error: ProcessingError | None = None
        """Set when a record failed for good, and that is the end."""
        self._options = options
        self._start_run = start
        self._completion = completion
        self._failures = Failures(options.retry, stops=options.on_failure is OnFailure.STOP)
        self._queues: OrderedQueues[K, V] = OrderedQueues(options.ordering)
        self._may_merge = options.ordering is not Ordering.PARTITION and options.batch_size is None
        """Whether a run may have records of several queues. A batch has records of one queue."""
        self._by_key = options.ordering is Ordering.KEY
        self._has_unreadable = False
        """Whether a record was met that cannot be deserialized."""
        self._gives_up_retries = False
        self._is_held_up = False
        """Whether a run has met a slow record: others may have to wait for it."""
        self._entries: dict[int, _Entry[K, V]] = {}  # by the run's id()
        self._executing = 0
        self._retries: list[tuple[float, int, _Entry[K, V]]] = []
        self._numbers = count()
        self._stuck_ms = NEVER_MS
        """When to look for stuck runs: other records may wait behind their slow one."""

    # --- how it stands --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        return self._queues.waiting

    @property
    def in_work(self) -> int:
        return self._queues.in_work

    @property
    def retrying(self) -> int:
        return sum(entry.is_waiting for entry in list(self._entries.values()))

    @property
    def is_idle(self) -> bool:
        return not self._queues.waiting and not self._entries

    @property
    def has_backlog(self) -> bool:
        """Whether so much is in store that nothing is lost by letting the workers have the interpreter for a moment.

        Piling up more would end in a pause, which goes through the network thread; and what waits for long has left the
        processor's cache when it is its turn.
        """
        return self._executing > 0 and self._queues.waiting >= self._high_mark

    @property
    def wants_more(self) -> bool:
        """Whether it is better to poll once more before anything is handed out: the records at hand are less work than
        handing them over."""
        return self.sizer.are_fast and self._queues.waiting < self._high_mark

    @property
    def _high_mark(self) -> int:
        return min(self.sizer.longest_run, self._options.max_buffered_records // 2)

    @property
    def has_ended(self) -> bool:
        """Whether a worker has posted something."""
        return not self.ended.empty()

    @property
    def _idle_workers(self) -> int:
        """How many workers are idle."""
        return max(0, self._options.workers - self._executing)

    @property
    def _is_quick(self) -> bool:
        """Whether records take no time."""
        return self.sizer.are_fast and not self._is_held_up

    @property
    def _wanted_workers(self) -> int:
        """How many may be at work. What takes no time needs one: others would only queue for the interpreter."""
        return _QUICK_WORKERS if self._is_quick else self._options.workers

    @property
    def due_ms(self) -> float:
        """When there is something to hand out, though nothing comes: a record is tried again, the rate allows the next
        one, or a run gives back the records behind a slow one."""
        return min(
            self._retry_due_ms,
            self.sizer.ready_ms if self._queues.waiting and self._wanted_workers > self._executing else NEVER_MS,
            self._stuck_ms,
        )

    @property
    def _retry_due_ms(self) -> float:
        if not self._retries or not self._idle_workers:  # a worker that ends wakes us
            return NEVER_MS
        at_ms, ready_ms = self._retries[0][0], self.sizer.ready_ms
        return at_ms if ready_ms == NEVER_MS else max(at_ms, ready_ms)

    def oldest(self) -> Record[K, V] | None:
        """The record that a worker has been at for longest."""
        at_work = [entry.run for entry in self._entries.values() if entry.run.is_out and entry.run.items]
        return min(at_work, key=lambda run: run.started_ms).record if at_work else None

    def at_work(self) -> list[tuple[Record[K, V], float, int]]:
        """The records that workers are at, since when they are (ms), and how often each has failed; from any thread."""
        found = []
        for run in [entry.run for entry in list(self._entries.values()) if entry.run.is_out]:
            with suppress(IndexError):  # all of it is taken back, perhaps at this moment
                found.append((run.record, run.started_ms, run.attempts))
        return found

    def in_work_by_partition(self) -> dict[tuple[str, int], int]:
        """How many records are in work of each partition; from any thread."""
        counts: Counter[tuple[str, int]] = Counter()
        for entry in list(self._entries.values()):
            counts[partition_of(entry.source)] += len(entry.run.items) - entry.reported
        return dict(counts)

    def busy_with(self, partitions: Collection[TopicPartition]) -> int:
        """How many of their records are in work."""
        return self._queues.in_work_of(partitions)

    def executing(self, partitions: Collection[TopicPartition]) -> list[Run[K, V]]:
        """The runs of these partitions that workers execute."""
        return [entry.run for entry in self._entries_of(self._queues.sources_of(partitions)) if entry.run.is_out]

    # --- in and out -----------------------------------------------------------------------------------------

    def deliver(self, chunk: PartitionRecords[K, V]) -> None:
        """A poll returned these."""
        columns = chunk.columns
        source = self._completion.source_of(chunk.topic_partition, chunk.cursor, chunk.epoch)
        offsets = columns.offset_list()
        first = offsets[0] if offsets else chunk.next.offset
        for superseded in self._completion.overtaken(source, first, chunk.next.offset):
            self._forget(*superseded)
        wanted = self._completion.deliver(source, offsets, columns.epoch_list, chunk.next, chunk.epoch)
        makes_late = self.sizer.makes_late and not self._is_held_up
        records: Sequence[Record[K, V]]
        if chunk.failures:
            self._has_unreadable = True
            records = _with_failures(chunk, chunk.failures, set(wanted))
        elif len(wanted) < len(chunk):
            still_wanted = set(wanted)
            records = [record for record in chunk if record.offset in still_wanted]
        else:
            records = (
                LazyRecords((with_keys(chunk) if self._by_key else chunk,), offsets) if makes_late else list(chunk)
            )
        if records:
            # Counted first: if a signal handler raises in between, no more is dropped in the end than was counted.
            self.usage.add(source, records)
            self._queues.add(records, source)

    def hand_out(self, now_ms: float) -> None:
        """Hand out what is due to be tried again, then what waits, as far as free workers and the rate allow."""
        if now_ms >= self._stuck_ms:
            self._free_stuck(now_ms)
        self._hand_out_retries(now_ms)
        self._is_held_up = any(entry.is_stuck(now_ms) for entry in self._entries.values())
        self._hand_out_new(now_ms)

    def _hand_out_retries(self, now_ms: float) -> None:
        while self._retries and self._retries[0][0] <= now_ms and self._idle_workers and self.sizer.may_begin(now_ms):
            _, _, entry = heapq.heappop(self._retries)
            if entry.is_waiting:
                entry.is_waiting = False
                self.sizer.take_tokens(len(entry.run.offsets))  # those behind it have theirs
                self._start(entry, now_ms)

    def _hand_out_new(self, now_ms: float) -> None:
        merge_policy, workers = self._merge_policy(self._is_quick), self._wanted_workers
        while (idle := workers - self._executing) > 0:
            if self.error is not None:
                return
            most = self.sizer.run_length(now_ms, waiting=self._queues.waiting, idle_workers=idle)
            if not most or (work := self._queues.take(most, merge_policy)) is None:
                return
            self.sizer.take_tokens(len(work.records))
            run = Run(self._items_of(work), self._options.call, may_be_unreadable=self._has_unreadable)
            entry = _Entry(run, work, self._completion.progress(work.source))
            self._entries[id(entry.run)] = entry
            self._start(entry, now_ms)

    def _items_of(self, work: Work[K, V]) -> Sequence[Item[K, V]]:
        """What the handler gets. A record that cannot be deserialized is a batch of its own: the others of the batch
        must not fail with it."""
        if self._options.batch_size is None:
            return work.records
        if not self._has_unreadable:
            return [list(work.records)]
        batches = groupby(work.records, lambda record: record if isinstance(record, UnreadableRecord) else None)
        return [list(batch) for _, batch in batches]

    def give_up_retries(self) -> None:
        """Try nothing again any more: records that have failed stay undone, and so do those behind them
        in their partitions."""
        self._gives_up_retries = True
        waiting = [entry for entry in self._entries.values() if entry.is_waiting]
        if waiting:
            log.warning("%d records that have failed are not tried again: they are not committed", len(waiting))
        for entry in waiting:
            entry.is_waiting = False
            self._leave_undone(entry)

    def take_back(self, timeout_s: float = 0.0) -> int:
        """Take back the runs that workers have posted, waiting for the first. Returns how many records are done so."""
        before = self.counts.handled
        with suppress(Empty):
            run = self.ended.get(timeout=timeout_s) if timeout_s else self.ended.get_nowait()
            while True:
                self._take(self._entries[id(run)], monotonic_ms())
                run = self.ended.get_nowait()
        done = self.counts.handled - before
        self.sizer.meter.add(done, monotonic_ms())
        return done

    def report_done(self) -> None:
        """Report what is done of runs that are still under way: it can be committed already."""
        for entry in self._entries.values():
            self._report(entry)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin nothing more of these: what waits is forgotten, what is in work ends with the record it is at."""
        sources = self._queues.sources_of(partitions)
        for source in sources:
            self.usage.remove(source, self._queues.drop((source,)))
        for entry in self._entries_of(sources):
            entry.run.is_stopped = True
            self.usage.remove(entry.source, records_of(entry.run.take_back()))
            if entry.is_waiting:
                entry.is_waiting = False
                self._end(entry)

    def drop_all(self) -> None:
        """`drop` for all partitions."""
        self.drop({partition_of(source) for source in self.usage})

    # --- one run --------------------------------------------------------------------------------------------

    def _start(self, entry: _Entry[K, V], now_ms: float) -> None:
        run = entry.run
        self._executing += 1
        run.start(now_ms)
        if self.sizer.are_fast or len(run.todo) > 1:  # else nobody stands behind it
            self._stuck_ms = min(self._stuck_ms, now_ms + _STUCK_MS)
        self._start_run(run)

    def _take(self, entry: _Entry[K, V], now_ms: float) -> None:
        run = entry.run
        self._executing -= 1
        run.is_out = False
        error, run.error = run.error, None
        if error is None and run.is_cancelled:
            error = CancelledError()
        attempt, run.dead_letter_attempt = run.dead_letter_attempt, None
        self.sizer.tried(run.done - run.began_at, run.took_ms)
        if error is not None:
            run.put_back()
        self._report(entry)
        if error is not None:
            self._on_error(entry, error, now_ms, attempt)
        elif run.todo:
            self._start(entry, now_ms)  # a pool takes them one at a time
        else:
            self._end(entry)

    def _report(self, entry: _Entry[K, V]) -> None:
        """The completion tracker hears of the records that are done with since the last time."""
        run = entry.run
        begin, end = entry.reported, run.done  # the worker may be going on meanwhile
        if end == begin:
            return
        done = records_of(run.items[begin:end])
        entry.reported = end
        run.attempts = run.breakdowns = 0
        self.usage.remove(entry.source, done)
        self.counts.dead_lettered += entry.dead_lettering
        entry.dead_lettering = 0
        self.counts.handled += len(done)
        # Not reported: records of a partition that was given up, or of a log that was cut.
        progress = self._completion.progress(entry.source)
        if progress is entry.progress and progress is not None:
            offsets = done.offsets() if isinstance(done, LazyRecords) else map(_offset_of, done)
            is_cut = bool(entry.superseded)
            wanted = [each for each in offsets if not entry.is_superseded_at(each)] if is_cut else offsets
            self._completion.finish(entry.source, wanted)

    def _on_error(
        self, entry: _Entry[K, V], error: BaseException, now_ms: float, attempt: DeadLetterAttempt[K, V] | None
    ) -> None:
        run = entry.run
        if run.is_stopped or entry.is_superseded:  # without any item, if it could not begin
            self._end(entry)
            return
        match self._verdict(entry, error, now_ms, attempt):
            case TryAgain(delay_ms):
                run.dead_letter_attempt = attempt
                self._try_again(entry, delay_ms, now_ms)
            case GiveUp(failure):
                self._give_up(entry, failure, now_ms)
            case Stop(end):
                self.error = end
                self._end(entry)

    def _verdict(
        self, entry: _Entry[K, V], error: BaseException, now_ms: float, attempt: DeadLetterAttempt[K, V] | None
    ) -> Verdict:
        run, source = entry.run, entry.source
        if attempt is not None or isinstance(error, BreakdownError | MemoryError):
            run.breakdowns += 1
            reason = repr(error) if attempt is None else f"the dead-letter function raised {error!r}"
            return self._failures.of_workers(
                source, run.offsets[run.dead_lettered :], run.breakdowns, error, reason, now_ms
            )
        run.attempts += 1
        self.counts.failed_attempts += 1
        return self._failures.of_handler(source, run.offsets, run.attempts, error, now_ms)

    def _try_again(self, entry: _Entry[K, V], delay_ms: float, now_ms: float) -> None:
        if self._gives_up_retries:
            log.warning("%s: not tried again, and not committed", place(entry.source, entry.run.offsets))
            self._leave_undone(entry)
            return
        entry.is_waiting = True
        self._narrow(entry, now_ms)
        heapq.heappush(self._retries, (now_ms + delay_ms, next(self._numbers), entry))

    def _leave_undone(self, entry: _Entry[K, V]) -> None:
        """Give up its record, and those behind it, which would overtake it."""
        if self._options.ordering is not Ordering.NONE:
            self.usage.remove(entry.source, self._queues.drop((entry.source,)))
        self.usage.remove(entry.source, records_of(entry.run.take_back()))
        self._end(entry)

    def _give_up(self, entry: _Entry[K, V], error: Exception, now_ms: float) -> None:
        """The item has failed for good: pass it by, or let somebody else take it."""
        run, policy = entry.run, self._options.on_failure
        concerned = len(records_of([run.items[run.done]]))
        if callable(policy):
            run.dead_letter_attempt = (policy, error)
            entry.dead_lettering = concerned
            self._start(entry, now_ms)
            return
        log.error("%s: given up: %r", place(entry.source, run.offsets), error)
        self.counts.skipped += concerned
        run.todo.popleft()
        self._report(entry)
        if run.todo:
            self._start(entry, now_ms)
        else:
            self._end(entry)

    def _end(self, entry: _Entry[K, V]) -> None:
        self.usage.remove(entry.source, records_of(entry.run.items[entry.reported :]))
        self._queues.done(entry.work)
        del self._entries[id(entry.run)]

    # --- runs that wait for one record ----------------------------------------------------------------------

    def _free_stuck(self, now_ms: float) -> None:
        self._stuck_ms = NEVER_MS
        for entry in self._entries.values():
            if not entry.run.is_out or not (self.sizer.are_fast or entry.run.todo):
                continue
            if not entry.is_stuck(now_ms):
                self._stuck_ms = min(self._stuck_ms, entry.run.started_ms + _STUCK_MS)
            elif entry.run.todo:
                self._narrow(entry, now_ms)

    def _narrow(self, entry: _Entry[K, V], now_ms: float) -> None:
        """Take back all but the record that the run is at: records of other queues need not wait for it."""
        run = entry.run
        if not self._may_merge:
            return
        behind = run.take_back()
        if not run.is_out:
            run.give(behind[:1])
            behind = behind[1:]
        if len(run.items) == run.began_at or not behind:  # the worker has not begun, or is at the last
            run.give(behind)
            if behind:
                self._stuck_ms = min(self._stuck_ms, now_ms + _STUCK_MS)
            return
        self._report(entry)
        self._queues.give_back(entry.work, len(run.items) - 1, self._without_superseded(entry, records_of(behind)))

    def _without_superseded(self, entry: _Entry[K, V], records: Sequence[Record[K, V]]) -> Sequence[Record[K, V]]:
        """The records that may wait again; superseded ones would be taken for those that have their offsets now."""
        if not entry.superseded:
            return records
        self.usage.remove(entry.source, [record for record in records if entry.is_superseded_at(record.offset)])
        return [record for record in records if not entry.is_superseded_at(record.offset)]

    # --- the rest -------------------------------------------------------------------------------------------

    def _merge_policy(self, is_quick: bool) -> MergePolicy:
        if not self._may_merge or self.sizer.are_slow:
            return MergePolicy.ONE_QUEUE
        return MergePolicy.WHOLE_SLICES if is_quick else MergePolicy.OPEN_QUEUES

    def _forget(self, source: Source, offsets: range) -> None:
        """The position went back there: what comes now are other records, or the same once more."""
        self.usage.remove(source, self._queues.drop((source,), offsets))
        for entry in self._entries_of((source,)):
            entry.superseded |= (offsets,)
            if entry.is_waiting and entry.is_superseded:
                entry.is_waiting = False
                self._end(entry)
            else:
                self._take_back_superseded(entry)

    def _take_back_superseded(self, entry: _Entry[K, V]) -> None:
        """A worker begins none of the records at the end of its run that nobody waits for: they would go in front of
        those that have these offsets now."""
        run = entry.run
        behind = run.take_back()
        stays = len(behind)
        while stays and all(entry.is_superseded_at(record.offset) for record in records_of([behind[stays - 1]])):
            stays -= 1
        run.give(behind[:stays])
        run.is_stopped = run.is_stopped or not run.items
        self.usage.remove(entry.source, records_of(behind[stays:]))

    def _entries_of(self, sources: Iterable[Source]) -> list[_Entry[K, V]]:
        wanted = set(sources)
        return [entry for entry in self._entries.values() if entry.source in wanted]


def _with_failures(
    chunk: PartitionRecords[K, V], failures: Mapping[int, RecordDeserializationError], wanted: Collection[int]
) -> list[Record[K, V]]:
    """The records that are wanted; those that cannot be deserialized know why."""
    records = [
        unreadable(record, failures[row]) if row in failures else record for row, record in enumerate(iter(chunk))
    ]
    return [record for record in records if record.offset in wanted]
