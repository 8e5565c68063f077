"""Where records wait for a worker, and come back to: which run is where, what is tried again, what has failed for good.

Contract: used by the processor's thread alone, but for `ended`, which workers post to. Nothing here polls or commits.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from typing import Generic, cast

from kwire.clock import NEVER_MS, monotonic_ms
from kwire.errors import ProcessingError
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, Record, TopicPartition, V
from kwire.processing.books import Book, Books
from kwire.processing.lanes import Lanes, Ordering
from kwire.processing.policies import DeadLetter, OnFailure, Retry
from kwire.processing.workers import Handler, Run

log = logging.getLogger(__name__)

# Cheap handlers get several records at a time: about so long shall a run take, so that a revocation need not wait.
_RUN_MS = 5.0
_LONGEST_RUN = 1_000
_NEWEST_WEIGHS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskPlan(Generic[K, V]):
    """What the user has chosen; see `Processor`."""

    handler: Handler[K, V]
    ordering: Ordering
    most_runs: int
    one_by_one: bool
    retry: Retry
    on_failure: OnFailure | DeadLetter[K, V]


@dataclass(slots=True, eq=False)
class _Entry(Generic[K, V]):
    """A run, and whose it is. Its book has heard of `reported` records; of those from `void_from` on it need not."""

    run: Run[K, V]
    partition: TopicPartition
    book: Book | None
    reported: int = 0
    void_from: float = NEVER_MS
    is_waiting: bool = False
    """For its next attempt."""

    @property
    def is_void(self) -> bool:
        """Whether nobody wants to know what comes of the record it is at."""
        return self.run.record.offset >= self.void_from


@dataclass(slots=True)
class Tally:
    """What `Status` shows."""

    handled: int = 0
    failed_attempts: int = 0
    skipped: int = 0
    dead_lettered: int = 0


@dataclass(slots=True)
class Load:
    """What is buffered of a partition, waiting or in work."""

    records: int = 0
    size_bytes: int = 0


class Desk(Generic[K, V]):
    """Args:
    start: Gives a run to a worker.
    """

    def __init__(self, plan: DeskPlan[K, V], start: Callable[[Run[K, V]], None], books: Books) -> None:
        self.ended: SimpleQueue[Run[K, V]] = SimpleQueue()
        self.tally = Tally()
        self.error: ProcessingError | None = None
        """Set when a record failed for good, and that is the end."""
        self._plan = plan
        self._start_run = start
        self._books = books
        self._lanes: Lanes[K, V] = Lanes(plan.ordering)
        self._entries: dict[int, _Entry[K, V]] = {}  # by the run's id()
        self._executing = 0
        self._retries: list[tuple[float, int, _Entry[K, V]]] = []
        self._numbers = count()
        self._loads: dict[TopicPartition, Load] = {}
        self._ms_each = _RUN_MS

    # --- how it stands --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        return self._lanes.waiting

    @property
    def in_work(self) -> int:
        return self._lanes.in_work

    @property
    def retrying(self) -> int:
        return sum(entry.is_waiting for entry in list(self._entries.values()))

    @property
    def is_idle(self) -> bool:
        return not self._lanes.waiting and not self._entries

    @property
    def has_ended(self) -> bool:
        """Whether a worker has posted something."""
        return not self.ended.empty()

    @property
    def next_retry_ms(self) -> float:
        return self._retries[0][0] if self._retries else NEVER_MS

    @property
    def loads(self) -> Mapping[TopicPartition, Load]:
        """What is buffered, of partitions of which there is something."""
        return self._loads

    def oldest(self) -> Record[K, V] | None:
        """The record that has been in a worker's hands for longest."""
        at_work = [entry.run for entry in self._entries.values() if not entry.is_waiting]
        if not at_work:
            return None
        run = min(at_work, key=lambda run: run.started_ms)
        return run.work.records[min(run.done, len(run.work.records) - 1)]

    def busy_with(self, partitions: Collection[TopicPartition]) -> int:
        """How many of their records are in work."""
        return self._lanes.in_work_of(partitions)

    # --- in and out -----------------------------------------------------------------------------------------

    def deliver(self, chunk: PartitionRecords[K, V]) -> None:
        """A poll returned these."""
        tp, offsets = chunk.topic_partition, cast("list[int]", chunk.columns.offsets.tolist())
        first = offsets[0] if offsets else chunk.next.offset
        book = self._books.book(tp)
        if book is not None and book.tracker is not None and first < book.tracker.position:
            self._forget_from(tp, first)
        epochs = cast("list[int]", chunk.columns.leader_epochs.tolist())
        wanted = self._books.deliver(tp, offsets, epochs, chunk.next)
        records: Sequence[Record[K, V]] = list(chunk)
        if len(wanted) < len(records):
            wanted = set(wanted)
            records = [record for record in records if record.offset in wanted]
        self._lanes.add(records)
        if not records:
            return
        load = self._loads.setdefault(tp, Load())
        load.records += len(records)
        load.size_bytes += sum(map(_size_bytes, records))

    def hand_out(self, now_ms: float) -> None:
        """To the workers: what is due to be tried again, then what waits, as far as there are hands."""
        while self._retries and self._retries[0][0] <= now_ms:
            _, _, entry = heapq.heappop(self._retries)
            if entry.is_waiting:
                entry.is_waiting = False
                self._start(entry, now_ms)
        while self._executing < self._plan.most_runs and self.error is None:
            work = self._lanes.take(self._run_length())
            if work is None:
                return
            tp = work.records[0].topic_partition
            entry = _Entry(Run(work, self._plan.handler), tp, self._books.book(tp))
            self._entries[id(entry.run)] = entry
            self._start(entry, now_ms)

    def take_back(self, now_ms: float) -> int:
        """What workers have posted; how many records are done with by it."""
        before = self.tally.handled
        while True:
            try:
                run = self.ended.get_nowait()
            except Empty:
                return self.tally.handled - before
            self._take(self._entries[id(run)], now_ms)

    def take_one(self, timeout_s: float) -> None:
        """The same of the next one to come, waiting for it."""
        try:
            run = self.ended.get(timeout=timeout_s)
        except Empty:
            return
        self._take(self._entries[id(run)], monotonic_ms())

    def look(self) -> None:
        """Over the workers' shoulders: what is done of runs that are still under way can be committed already."""
        for entry in self._entries.values():
            self._report(entry)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin nothing more of these: what waits is forgotten, what is in work ends with the record it is at."""
        for record in self._lanes.drop(partitions):
            self._unload(record)
        for entry in self._entries_of(partitions):
            entry.run.is_stopped = True
            if entry.is_waiting:
                entry.is_waiting = False
                self._end(entry)

    def drop_all(self) -> None:
        """The same of all."""
        self.drop(set(self._loads))

    # --- one run --------------------------------------------------------------------------------------------

    def _start(self, entry: _Entry[K, V], now_ms: float) -> None:
        self._executing += 1
        entry.run.started_ms, entry.run.began_at = now_ms, entry.run.done
        self._start_run(entry.run)

    def _take(self, entry: _Entry[K, V], now_ms: float) -> None:
        run = entry.run
        self._executing -= 1
        error, run.error = run.error, None
        is_rescue, run.rescue = run.rescue is not None, None
        self._ms_each += _NEWEST_WEIGHS * (run.took_ms / max(1, run.done - run.began_at) - self._ms_each)
        self._report(entry)
        if error is not None:
            self._on_error(entry, error, now_ms, is_rescue=is_rescue)
        elif run.done < len(run.work.records) and not run.is_stopped:
            self._start(entry, now_ms)  # a pool takes them one at a time
        else:
            self._end(entry)

    def _report(self, entry: _Entry[K, V]) -> None:
        """Its book hears of the records that are done with since the last time."""
        run = entry.run
        done = run.work.records[entry.reported : run.done]  # the worker may be counting on meanwhile
        if not done:
            return
        entry.reported += len(done)
        run.attempts = 0
        for record in done:
            self._unload(record)
        self.tally.handled += len(done)
        # Of a partition that was given up, or of a log that was cut, nobody wants to know.
        book = self._books.book(entry.partition)
        if book is entry.book and book is not None and book.tracker is not None:
            book.tracker.finish_all(record.offset for record in done if record.offset < entry.void_from)

    def _on_error(self, entry: _Entry[K, V], error: BaseException, now_ms: float, *, is_rescue: bool) -> None:
        run, record = entry.run, entry.run.record
        run.attempts += 1
        self.tally.failed_attempts += 1
        delay_ms = None if is_rescue else self._plan.retry.delay_ms(run.attempts, error)
        if run.is_stopped or entry.is_void:
            self._end(entry)
        elif delay_ms is not None:
            log.info("%s offset %d: attempt %d failed: %r", entry.partition, record.offset, run.attempts, error)
            entry.is_waiting = True
            heapq.heappush(self._retries, (now_ms + delay_ms, next(self._numbers), entry))
        elif isinstance(error, Exception) and not is_rescue and self._plan.on_failure is not OnFailure.STOP:
            self._give_up(entry, error, now_ms)
        else:
            self.error = ProcessingError(entry.partition, record.offset, run.attempts, repr(error))
            self.error.__cause__ = error
            self._end(entry)

    def _give_up(self, entry: _Entry[K, V], error: Exception, now_ms: float) -> None:
        """The record has failed for good: pass it by, or let somebody else take it."""
        run, policy = entry.run, self._plan.on_failure
        if callable(policy):
            run.rescue = (policy, error)
            self.tally.dead_lettered += 1
            self._start(entry, now_ms)
            return
        log.error("%s offset %d: given up: %r", entry.partition, run.record.offset, error)
        self.tally.skipped += 1
        run.done += 1
        self._report(entry)
        if run.done < len(run.work.records):
            self._start(entry, now_ms)
        else:
            self._end(entry)

    def _end(self, entry: _Entry[K, V]) -> None:
        for record in entry.run.work.records[entry.reported :]:
            self._unload(record)
        self._lanes.done(entry.run.work)
        del self._entries[id(entry.run)]

    # --- the rest -------------------------------------------------------------------------------------------

    def _run_length(self) -> int:
        if self._plan.one_by_one:
            return 1
        return max(1, min(_LONGEST_RUN, int(_RUN_MS / max(self._ms_each, _RUN_MS / _LONGEST_RUN))))

    def _forget_from(self, tp: TopicPartition, offset: int) -> None:
        """The position went back there: what comes now are other records, or the same once more."""
        for record in self._lanes.drop([tp], offset):
            self._unload(record)
        for entry in self._entries_of([tp]):
            entry.void_from = min(entry.void_from, offset)
            if entry.is_waiting and entry.is_void:
                entry.is_waiting = False
                self._end(entry)

    def _entries_of(self, partitions: Iterable[TopicPartition]) -> list[_Entry[K, V]]:
        wanted = set(partitions)
        return [entry for entry in self._entries.values() if entry.partition in wanted]

    def _unload(self, record: Record[K, V]) -> None:
        load = self._loads[record.topic_partition]
        load.records -= 1
        load.size_bytes -= _size_bytes(record)
        if not load.records:
            del self._loads[record.topic_partition]


def _size_bytes(record: Record[K, V]) -> int:
    return max(0, record.serialized_key_size) + max(0, record.serialized_value_size)
