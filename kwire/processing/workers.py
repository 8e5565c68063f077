"""Who calls the handler: threads of the processor's own, or any `concurrent.futures.Executor`.

Contract: `start` never blocks and never raises; each run is posted to `ended` when it is over, whatever the handler
did, and nothing else of the processor's is touched. What breaks the workers themselves is a `BreakdownError`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from copy import deepcopy
from functools import partial
from itertools import chain, repeat
from typing import Generic, Protocol, TypeAlias, cast

from kwire.clock import monotonic_ms
from kwire.consumer.host import Queue, current_host
from kwire.errors import RecordDeserializationError
from kwire.logs import part_logger
from kwire.model import K, Record, V
from kwire.processing.lazy_records import LazyRecords
from kwire.processing.policies import DeadLetter
from kwire.unfinished import unfinished

log = part_logger("processing")

Handler: TypeAlias = Callable[[Record[K, V]], object]
BatchHandler: TypeAlias = Callable[[list[Record[K, V]]], object]
Item: TypeAlias = Record[K, V] | list[Record[K, V]]
"""What a handler is called with: a record, or those of a batch."""
DeadLetterAttempt: TypeAlias = tuple[DeadLetter[K, V], Exception]


class BreakdownError(Exception):
    """What runs the handler has broken down, which is no fault of the record that was in hand; `__cause__` says how."""


class UnreadableRecord(Record[K, V]):
    """A record whose key or value could not be deserialized, with the raw bytes in its place: it fails with `error`
    when it is its turn, and no handler is called."""

    error: RecordDeserializationError


def unreadable(record: Record[K, V], error: RecordDeserializationError) -> UnreadableRecord[K, V]:
    """The same record, with why it could not be read."""
    made: UnreadableRecord[K, V] = tuple.__new__(UnreadableRecord, record)
    made.error = error
    return made


def check_readable(item: Item[K, V]) -> None:
    """Raise why the record could not be deserialized. In a batch such a record is alone."""
    record = item[0] if isinstance(item, list) else item
    if isinstance(record, UnreadableRecord):
        raise record.error


def not_done(result: object) -> BreakdownError | None:
    """Why the function that has returned this has done nothing yet. It is no fault of the record: no policy for records
    that fail may pass it by."""
    if problem := unfinished(result):
        return BreakdownError(f"{problem}. Give an async function itself (`async def`), not one that calls it")
    return None


def check_done(result: object) -> type[object]:
    """Raise why the function that has returned this has done nothing yet. Answers the kind of what it returned."""
    if error := not_done(result):
        raise error
    return type(result)


class Run(Generic[K, V]):
    """Items on their way through the handler, one after the other.

    For each of them there is a ticket in `todo`. The worker takes tickets from the left; the owner withdraws them from
    the right. Both are atomic, so no item is with both, and nobody waits for a lock.

    Attributes:
        items: All of them, but for what the owner has taken back. The owner's, who never changes it in place.
        at: Which item the next ticket is for. The worker's while it is out.
        is_out: Whether it is in a worker's hands. The owner's.
        is_stopped: Whether it ends with the item it is at. The owner's.
        is_cancelled: Whether that item counts as failed, whatever its handler says: it was told to end. The owner's.
        attempts: How often the next item has failed.
        error: What the last item that was taken failed with.
        breakdowns: How often the workers have broken down over the next item, or over its next dead letter.
        may_be_unreadable: Whether there are records that cannot be deserialized.
        dead_letter_attempt: Instead of the handler, this gets the next item; see `DeadLetter`.
        dead_lettered: How many records of that item, which is a batch then, it has taken already.
        started_ms, began_at: When it was handed out this time, and with how many items done.
        took_ms: How long it was in the worker's hands this time.
    """

    __slots__ = (
        "at",
        "attempts",
        "began_at",
        "breakdowns",
        "dead_letter_attempt",
        "dead_lettered",
        "error",
        "handler",
        "is_cancelled",
        "is_out",
        "is_stopped",
        "items",
        "may_be_unreadable",
        "started_ms",
        "todo",
        "took_ms",
    )

    def __init__(
        self,
        items: Sequence[Item[K, V]],
        handler: Callable[[Item[K, V]], object],
        *,
        may_be_unreadable: bool = False,
    ) -> None:
        self.may_be_unreadable = may_be_unreadable
        self.items = items
        self.todo = deque(repeat(None, len(items)))
        self.at = 0
        self.handler = handler
        self.started_ms = 0.0
        self.took_ms = 0.0
        self.began_at = 0
        self.attempts = 0
        self.breakdowns = 0
        self.error: BaseException | None = None
        self.dead_letter_attempt: DeadLetterAttempt[K, V] | None = None
        self.dead_lettered = 0
        self.is_out = False
        self.is_stopped = False
        self.is_cancelled = False

    # --- the owner's ----------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """How many items are done with; while it is out, at least this many: one may be in the worker's hands."""
        return max(self.began_at, len(self.items) - len(self.todo) - self.is_out)

    @property
    def record(self) -> Record[K, V]:
        """The record it is at, or the first of the batch; the last one, if it is through."""
        items = self.items  # once: its owner may take some back meanwhile
        item = items[min(self.done, len(items) - 1)]
        return item[0] if isinstance(item, list) else item

    @property
    def offsets(self) -> Sequence[int]:
        """Of the record or the batch that it is at."""
        return [record.offset for record in records_of(self.items[self.done : self.done + 1] or self.items[-1:])]

    def put_back(self) -> None:
        """The item that was taken last has failed, and comes next again. None was taken if the run could not begin, as
        when memory is short for its records."""
        if len(self.items) - len(self.todo) > self.began_at:
            self.todo.appendleft(None)

    def start(self, now_ms: float) -> None:
        """Hand it to a worker."""
        self.started_ms, self.took_ms = now_ms, 0.0
        self.began_at = self.at = self.done
        self.is_out = True

    def take_back(self) -> Sequence[Item[K, V]]:
        """Take back the items that the worker has not begun, in order."""
        count = 0
        with suppress(IndexError):
            while True:
                self.todo.pop()
                count += 1
        stays = len(self.items) - count
        back, self.items = self.items[stays:], self.items[:stays]
        return back

    def give(self, items: Sequence[Item[K, V]]) -> None:
        """More to do, behind the rest."""
        self.items = [*self.items, *items]
        self.todo.extend(repeat(None, len(items)))

    # --- the worker's ---------------------------------------------------------------------------------------

    def next_item(self) -> Item[K, V] | None:
        """Take it. None: there is no more."""
        try:
            self.todo.popleft()
        except IndexError:
            return None
        self.at += 1
        return self.items[self.at - 1]

    def execute(self) -> None:
        """One after the other, to the end or to a failure."""
        began_ms, take = monotonic_ms(), self.todo.popleft
        harmless: type[object] | None = None
        handler = self._handle if self.may_be_unreadable else self.handler
        try:
            if self.dead_letter_attempt is not None:
                self.attempt_dead_letter()
            for item in self.items[self.at :] if self.at else self.items:  # made only now, if they are rows
                try:
                    take()  # what takes no time takes as long as its call: no `next_item` here
                except IndexError:
                    break
                # Most return nothing, or the same kind of thing each time: they are spared the call.
                if (result := handler(item)) is not None and type(result) is not harmless:
                    harmless = check_done(result)
        except BaseException as error:  # noqa: BLE001  whatever it is, the queue must not stay closed
            self.error = error
        self.took_ms = monotonic_ms() - began_ms

    def _handle(self, item: Item[K, V]) -> object:
        check_readable(item)
        return self.handler(item)

    def execute_dead_letter(self) -> None:
        """As `execute`, for the next item alone: another thread calls the handler with those behind it."""
        began_ms = monotonic_ms()
        try:
            self.attempt_dead_letter()
        except BaseException as error:  # noqa: BLE001  as above
            self.error = error
        self.took_ms = monotonic_ms() - began_ms

    def attempt_dead_letter(self) -> None:
        """The next item has failed: it goes to `dead_letter_attempt`, record by record."""
        assert self.dead_letter_attempt is not None
        dead_letter, error = self.dead_letter_attempt
        if (item := self.next_item()) is not None:  # the owner may just have taken it back
            for record in self.to_dead_letter(item):
                check_done(dead_letter(record, error))
        self.dead_letter_attempt = None

    def to_dead_letter(self, item: Item[K, V]) -> Iterator[Record[K, V]]:
        """The records of a failed item that are left. Each counts as taken when the next one is asked for: an attempt
        after one that raised begins with the record that it raised over."""
        for record in records_of([item])[self.dead_lettered :]:
            yield record
            self.dead_lettered += 1
            self.breakdowns = 0  # those of the next record count anew
        self.dead_lettered = 0


def records_of(items: Sequence[Item[K, V]]) -> Sequence[Record[K, V]]:
    """The records in the items of a run: all items are records, or all are batches."""
    if not isinstance(items, LazyRecords) and items and isinstance(items[0], list):
        return list(chain.from_iterable(cast("Sequence[list[Record[K, V]]]", items)))
    return cast("Sequence[Record[K, V]]", items)


def fail(run: Run[K, V], error: BaseException, ended: Callable[[Run[K, V]], None]) -> None:
    """The run ends with its next item, which failed before anybody could take it."""
    run.next_item()
    run.error = error
    ended(run)


workers_of_caller: ContextVar[object] = ContextVar("kwire_workers_of_caller", default=None)
"""Those that run the handler which runs in this context; None: none does."""


class Workers(Protocol[K, V]):
    """What calls the handler; the module's docstring has the contract."""

    @property
    def caller_is_handler(self) -> bool:
        """Whether the caller is a handler, or what one has started; of handlers in another's executor nobody knows."""

    def start(self, run: Run[K, V]) -> None: ...
    def cancel(self, run: Run[K, V]) -> None:
        """Cancels the current item, where the workers can; it counts as failed."""

    def close(self) -> None:
        """No more runs come. Those that are under way may end, or are cancelled, where that can be done."""


class ThreadWorkers(Generic[K, V]):
    """Threads of our own, started as they are needed: handing a run over takes a microsecond, an executor's twenty.

    Each has a queue of its own, and the one that became free last is used first: of many threads that wait at one
    queue, more would be woken than there is work for. They are daemons: a handler that never returns must not keep the
    process from ending.

    Args:
        execute: What a thread does with a run.
    """

    def __init__(
        self,
        count: int,
        ended: Callable[[Run[K, V]], None],
        execute: Callable[[Run[K, V]], None] = Run.execute,
    ) -> None:
        self._count = count
        self._ended = ended
        self._execute = execute
        self._host = current_host()
        self._queues: list[Queue[Run[K, V] | None]] = []  # one for each thread
        self._free: deque[Queue[Run[K, V] | None]] = deque()

    @property
    def caller_is_handler(self) -> bool:
        return workers_of_caller.get() is self

    def start(self, run: Run[K, V]) -> None:
        try:
            self._free_queue().put(run)
        except BreakdownError as error:
            fail(run, error, self._ended)

    def _free_queue(self) -> Queue[Run[K, V] | None]:
        with suppress(IndexError):
            return self._free.pop()
        if len(self._queues) == self._count:  # all are busy: it waits behind what the first one is at
            return self._queues[0]
        queue: Queue[Run[K, V] | None] = self._host.new_queue()
        try:
            self._host.start_thread(partial(self._work, queue), f"kwire-worker-{len(self._queues)}")
        except (RuntimeError, MemoryError) as error:  # the system grants no more threads
            if not self._queues:
                raise BreakdownError("no thread can be started") from error
            self._count = len(self._queues)
            log.warning("no more than %d worker threads can be started: %s", self._count, error)
            return self._queues[0]
        self._queues.append(queue)
        return queue

    def _work(self, queue: Queue[Run[K, V] | None]) -> None:
        workers_of_caller.set(self)
        while (run := queue.get()) is not None:
            self._execute(run)
            self._free.append(queue)  # first: who hears of the end may hand out the next
            self._ended(run)
            del run  # a thread that has nothing to do for hours would keep its records, and their batch

    def cancel(self, run: Run[K, V]) -> None:
        """A thread cannot be ended from outside."""

    def close(self) -> None:
        for queue in self._queues:
            queue.put(None)


class ExecutorWorkers(Generic[K, V]):
    """Somebody else's pool, of processes too: then handler, records and what is raised travel. A run is one item.

    A pool of processes breaks as a whole when one of them dies. Its user has the broken one; here a new one like it
    takes its place. Dead letters stay here, on a thread of their own: what they write to, as a rule, cannot travel.
    """

    def __init__(self, executor: Executor, ended: Callable[[Run[K, V]], None]) -> None:
        self._executor = executor
        self._users = executor
        self._ended = ended
        self._broken: Executor | None = None
        """The last one that broke: what it has taken may come back after another has taken its place."""
        self._dead_letter_workers: ThreadWorkers[K, V] = ThreadWorkers(1, ended, Run.execute_dead_letter)

    @property
    def caller_is_handler(self) -> bool:
        return self._dead_letter_workers.caller_is_handler

    def start(self, run: Run[K, V]) -> None:
        if run.dead_letter_attempt is not None:
            self._dead_letter_workers.start(run)
            return
        began_ms = monotonic_ms()
        item = run.next_item()
        assert item is not None  # nobody takes back what was not handed out yet
        try:
            check_readable(item)
            executor = self._working_executor()
            future = (
                executor.submit(call_in_process, run.handler, item)
                if isinstance(executor, ProcessPoolExecutor)
                else executor.submit(run.handler, item)
            )
        except Exception as error:  # noqa: BLE001  the record cannot be read, or the executor takes no more
            is_unreadable = isinstance(error, RecordDeserializationError)
            run.error = error if is_unreadable else self._breakdown(error, self._executor)
            self._ended(run)
        else:
            future.add_done_callback(partial(self._on_done, run, began_ms, executor))

    def _working_executor(self) -> Executor:
        if self._broken is self._executor and isinstance(self._executor, ProcessPoolExecutor):
            log.warning("a process of the pool has died: the processor goes on with a new pool like it")
            broken, self._executor = self._executor, pool_like(self._executor)
            if broken is not self._users:
                broken.shutdown(wait=False)
        return self._executor

    def _breakdown(self, error: BaseException, executor: Executor) -> BreakdownError:
        if isinstance(error, BrokenExecutor) and executor is self._executor:
            self._broken = executor
        made = BreakdownError(f"the executor has broken down: {error!r}")
        made.__cause__ = error
        return made

    def _on_done(self, run: Run[K, V], began_ms: float, executor: Executor, future: Future[object]) -> None:
        error = _error_of(future)
        is_breakdown = isinstance(error, BrokenExecutor | CancelledError)
        run.error = self._breakdown(error, executor) if error is not None and is_breakdown else error
        run.took_ms = monotonic_ms() - began_ms
        self._ended(run)

    def cancel(self, run: Run[K, V]) -> None:
        """A call in somebody else's executor cannot be cancelled."""

    def close(self) -> None:
        """The pool is its owner's, unless it had to be replaced."""
        self._dead_letter_workers.close()
        if self._executor is not self._users:
            self._executor.shutdown(wait=False, cancel_futures=True)


def call_in_process(handler: Callable[[Item[K, V]], object], item: Item[K, V]) -> None:
    """In a process of a pool. What the handler returns stays there, and so does what it raises, if that cannot be made
    again from its arguments: it would break the pool when it arrives."""
    try:
        check_done(handler(item))
    except Exception as error:
        try:
            deepcopy(error)
        except Exception:  # noqa: BLE001  such as a TypeError of its class, which takes other arguments
            raise RuntimeError(repr(error)) from error
        raise


def _error_of(future: Future[object]) -> BaseException | None:
    """What came of a call that has ended, one way or another."""
    if future.cancelled():
        return CancelledError()
    error = future.exception()
    return not_done(future.result()) if error is None else error  # an exception may be false


def pool_like(pool: ProcessPoolExecutor) -> ProcessPoolExecutor:
    """A new pool, with the arguments that this one was made with; the standard library tells them by private names."""
    given = vars(pool)
    most = given.get("_max_tasks_per_child")
    return ProcessPoolExecutor(
        max_workers=given["_max_workers"],
        mp_context=given["_mp_context"],
        initializer=given["_initializer"],
        initargs=given["_initargs"],
        **({} if most is None else {"max_tasks_per_child": most}),
    )
