"""Async handlers: each record that is waited for is a task on an event loop, which has a thread of its own.

A task costs ten times as much as a call. So the records of a run share a task as long as their handlers return without
waiting for anything, until it is the turn of others.

Contract: that of `workers.py`, and: `close` cancels what is still under way. Each call of a handler has a context of
its own, copied from the one in which the processor was made: what a handler sets no other one sees.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from types import coroutine
from typing import Generic, Literal, Protocol, TypeAlias, cast

from kwire.clock import monotonic_ms
from kwire.consumer import event_loops
from kwire.consumer.host import current_host
from kwire.logs import part_logger
from kwire.model import K, Record, V
from kwire.processing.policies import DeadLetter
from kwire.processing.workers import (
    BreakdownError,
    Item,
    Run,
    check_done,
    check_readable,
    fail,
    workers_of_caller,
)
from kwire.unfinished import is_coroutine

log = part_logger("processing")

# A cancelled handler may clean up; one that ignores its cancellation must not keep others waiting.
GRACE_S = 1.0
# How long all runs together keep the loop from other tasks, if their handlers never wait.
TURN_MS = 1.6

_AsyncHandler: TypeAlias = Callable[[Item[K, V]], Awaitable[object]]
Step: TypeAlias = Callable[[Run[K, V]], Coroutine[object, object, None]]


class EventLoop(Protocol):
    """What is asked of asyncio, or of trio."""

    cancelled: type[BaseException]
    """What a task that is cancelled at the end has raised in it."""

    def run(self, ready: Callable[[], None]) -> None:
        """A thread's work, until `end`: by then all tasks have ended. Calls `ready` when the loop can be used."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Have the loop call it; from any thread."""

    def spawn(self, step: Step[K, V], run: Run[K, V], never_ran: Callable[[Run[K, V]], None]) -> None:
        """A task; from the loop's thread. It begins later, not inside this call. If it is cancelled before it has
        begun, `never_ran` is called instead. A loop that dies begins nothing more, and does not call that either."""

    async def call_in_thread(self, function: DeadLetter[K, V], record: Record[K, V], error: Exception) -> object:
        """Call a function that would block the loop, in another thread; returns its result."""

    def cancellable(self, run: Run[K, V]) -> AbstractContextManager[None]:
        """Around what a task does for a run, and `cancel` can end. Raises `cancelled` if the task was told to end, and
        another error if only something that it awaits was."""

    def check_cancelled(self, run: Run[K, V]) -> None:
        """Raise `cancelled` if a task that has not waited since was told to end; inside `cancellable`."""

    def cancel(self, run: Run[K, V]) -> None:
        """Cancel what is done for this run, if something is; from the loop's thread."""

    def end(self) -> None:
        """Cancel all tasks; from the loop's thread."""


class AsyncWorkers(Generic[K, V]):
    """Runs async handlers as tasks of an event loop in a thread of its own.

    Args:
        ended: Told of each run that is over; on the loop's thread.
    """

    def __init__(self, backend: Literal["asyncio", "trio"], ended: Callable[[Run[K, V]], None]) -> None:
        self._backend = backend
        self._ended = ended
        self._context = copy_context()
        self._context.run(workers_of_caller.set, self)
        self._lock = threading.Lock()  # between the owner and a loop that dies
        self._is_closing = False
        self._forget()

    @property
    def caller_is_handler(self) -> bool:
        return workers_of_caller.get() is self

    def use(self, loop: EventLoop) -> None:
        """Have handlers be tasks of this loop, which runs already. Before the first run."""
        self._loop = loop

    def _forget(self) -> None:
        """There is no loop: none yet, or none any more."""
        self._loop = new_loop(self._backend)
        self._is_open = self._is_woken = False
        self._has_ended = threading.Event()
        self._under_way: dict[int, Run[K, V]] = {}  # by id(), until the owner is told
        self._in_hand: set[int] = set()  # those of which a handler has an item
        self._begun: deque[Run[K, V]] = deque()
        self._over: deque[Run[K, V]] = deque()

    def start(self, run: Run[K, V]) -> None:
        with self._lock:
            try:
                if not self._is_open:
                    self._open()
            except (RuntimeError, MemoryError) as error:
                fail(run, _breakdown(error), self._ended)
                return
            self._under_way[id(run)] = run
            self._begun.append(run)
            if not self._is_woken:  # once for all that are handed out together
                self._is_woken = True
                self._call_soon(self._begin)

    def cancel(self, run: Run[K, V]) -> None:
        with self._lock:
            if self._is_open:
                run.is_cancelled = True
                self._call_soon(partial(self._loop.cancel, run))

    def close(self) -> None:
        with self._lock:
            if not self._is_open or self._has_ended.is_set():
                return
            has_ended = self._has_ended
            self._call_soon(self._end)
        if not has_ended.wait(GRACE_S):
            log.warning("async handlers were cancelled, and %.1f s later not all have ended", GRACE_S)

    def _call_soon(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has just died; what is under way is told of by `_lose`
            self._loop.call_soon(function)

    # --- on the loop's thread -------------------------------------------------------------------------------

    def _open(self) -> None:
        ready = threading.Event()
        has_ended = self._has_ended

        def main() -> None:
            error: BaseException | None = None
            try:
                self._loop.run(ready.set)
            except BaseException as caught:  # noqa: BLE001  told with the runs that it takes along
                error = caught
            has_ended.set()
            ready.set()
            if not self._is_closing:
                self._lose(error)

        current_host().start_thread(main, "kwire-event-loop")
        ready.wait()
        if has_ended.is_set():
            raise RuntimeError("the event loop did not start")
        self._is_open = True

    def _lose(self, error: BaseException | None) -> None:
        """The loop has died (a handler stopped it, say), and nothing that was under way can go on. The next run has a
        loop made for it."""
        log.error("the event loop of async handlers has died: %r", error)
        with self._lock:
            runs, over, in_hand = list(self._under_way.values()), set(map(id, self._over)), self._in_hand
            self._forget()
        for run in runs:
            if id(run) not in over and (id(run) in in_hand or run.next_item() is not None):
                run.error = _breakdown(error)
            self._ended(run)

    def _begin(self) -> None:
        self._is_woken = False  # first: who hands out more from now on wakes us again
        while self._begun:
            self._go_on(self._begun.popleft())

    def _go_on(self, run: Run[K, V]) -> None:
        if run.todo and run.error is None and not self._is_closing:
            self._loop.spawn(self._work, run, self._never_ran)
            return
        self._over.append(run)
        if len(self._over) == 1:  # what ends together is told together: it wakes the owner once
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        while self._over:
            run = self._over.popleft()
            del self._under_way[id(run)]
            self._ended(run)

    async def _work(self, run: Run[K, V]) -> None:
        """The next items of a run, if the owner has not just taken them back: up to the first whose handler waits."""
        began_ms = monotonic_ms()
        turn_ms = TURN_MS / max(1, len(self._under_way))
        self._in_hand.add(id(run))
        try:
            with self._loop.cancellable(run):
                while (item := run.next_item()) is not None:
                    if await _await_in(self._context.copy(), self._handle(run, item)):
                        break
                    self._loop.check_cancelled(run)
                    if monotonic_ms() - began_ms >= turn_ms:
                        break
        except self._loop.cancelled as error:
            if self._is_closing:
                raise
            run.error = error if run.is_cancelled else _cancelled_by_others(error)
        except BaseException as error:  # noqa: BLE001  whatever it is, the queue must not stay closed
            run.error = error
        self._in_hand.discard(id(run))
        run.took_ms += monotonic_ms() - began_ms
        self._go_on(run)

    def _never_ran(self, run: Run[K, V]) -> None:
        """Its task was cancelled before it began. `asyncio.run` cancels all tasks of the loop at its end."""
        if self._is_closing:
            return
        if run.next_item() is not None:
            run.error = _cancelled_by_others(None)
        self._go_on(run)

    async def _handle(self, run: Run[K, V], item: Item[K, V]) -> None:
        if run.dead_letter_attempt is not None:
            await self._attempt_dead_letter(run, item)
        else:
            if run.may_be_unreadable:
                check_readable(item)
            if (result := await cast("_AsyncHandler[K, V]", run.handler)(item)) is not None:
                check_done(result)

    async def _attempt_dead_letter(self, run: Run[K, V], item: Item[K, V]) -> None:
        assert run.dead_letter_attempt is not None
        dead_letter, error = run.dead_letter_attempt
        for record in run.to_dead_letter(item):
            if is_coroutine(dead_letter):
                result = await cast("Awaitable[object]", dead_letter(record, error))
            else:
                result = await self._loop.call_in_thread(dead_letter, record, error)
            check_done(result)
        run.dead_letter_attempt = None

    def _end(self) -> None:
        self._is_closing = True
        self._loop.end()


@coroutine
def _await_in(context: Context, to_await: Coroutine[object, object, None]) -> Generator[object, object, bool]:
    """Await it in this context, in the task that runs now. Answers whether it has waited for anything.

    An error that is thrown in holds this frame. So the frame holds neither the error nor the future that has it, when
    the handler goes on.
    """
    has_waited = False
    resume: Callable[..., object] = to_await.send
    given: object = None
    awaited: list[object] = []
    try:
        while True:
            awaited.append(context.run(resume, given))
            given, has_waited = None, True
            try:
                resume, given = to_await.send, (yield awaited.pop())
            except BaseException as error:  # noqa: BLE001  as any other `await`, it hands on whatever is thrown
                resume, given = to_await.throw, error
    except StopIteration:
        return has_waited
    finally:
        given = None


def _breakdown(error: BaseException | None) -> BreakdownError:
    made = BreakdownError(f"the event loop has broken down: {error!r}")
    made.__cause__ = error
    return made


def _cancelled_by_others(error: BaseException | None) -> BreakdownError:
    made = BreakdownError("somebody else has cancelled the handler's task, or the event loop has broken down")
    made.__cause__ = error
    return made


@asynccontextmanager
async def hosting() -> AsyncIterator[EventLoop]:
    """The event loop that the caller runs on, while handlers may be its tasks."""
    if isinstance(running := event_loops.running_loop(), event_loops.AsyncioLoop):
        from kwire.processing.asyncio_loop import RunningAsyncioLoop

        yield RunningAsyncioLoop(running.loop)
        return
    from kwire.processing.trio_loop import hosting as hosting_on_trio

    async with hosting_on_trio() as hosted:
        yield hosted


def new_loop(backend: Literal["asyncio", "trio"]) -> EventLoop:
    """Imported when needed: either takes longer to load than all the rest of this package."""
    if backend == "trio":
        from kwire.processing.trio_loop import TrioLoop

        return TrioLoop()
    from kwire.processing.asyncio_loop import AsyncioLoop

    return AsyncioLoop()
