"""Async handlers: each record is a task on an event loop, which has a thread of its own.

Contract: that of `workers.py`, and: `close` cancels what is still under way. Each task has a context of its own, copied
from the one in which the processor was made: what a handler sets no other one sees.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from functools import partial
from typing import Generic, Literal, Protocol, TypeAlias, cast

from kwire.clock import monotonic_ms
from kwire.consumer.host import current_host
from kwire.model import K, Record, V
from kwire.processing.plan import is_async
from kwire.processing.policies import DeadLetter
from kwire.processing.workers import Item, Run, records_of

log = logging.getLogger(__name__)

# Who is cancelled may have things to put in order; who does not listen must not keep others waiting.
GRACE_S = 1.0

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

    def spawn(self, step: Step[K, V], run: Run[K, V], context: Context) -> None:
        """A task; from the loop's thread."""

    async def call_in_thread(self, function: DeadLetter[K, V], record: Record[K, V], error: Exception) -> object:
        """What a function answers that would keep the loop waiting."""

    def cancellable(self, run: Run[K, V]) -> AbstractContextManager[None]:
        """Around what a task does for a run, and `cancel` can end. Raises when it did."""

    def cancel(self, run: Run[K, V]) -> None:
        """What is done for this run, if something is; from the loop's thread."""

    def end(self) -> None:
        """Cancel all tasks; from the loop's thread."""


class AsyncWorkers(Generic[K, V]):
    """Args:
    ended: Told of each run that is over; on the loop's thread.
    """

    def __init__(self, backend: Literal["asyncio", "trio"], ended: Callable[[Run[K, V]], None]) -> None:
        self._loop = new_loop(backend)
        self._ended = ended
        self._context = copy_context()
        self._begun: deque[Run[K, V]] = deque()
        self._is_woken = False
        self._over: deque[Run[K, V]] = deque()
        self._is_open = False
        self._is_closing = False
        self._has_ended = threading.Event()

    def start(self, run: Run[K, V]) -> None:
        if not self._is_open:
            self._open()
        self._begun.append(run)
        if not self._is_woken:  # once for all that are handed out together
            self._is_woken = True
            self._loop.call_soon(self._begin)

    def cancel(self, run: Run[K, V]) -> None:
        if self._is_open:
            run.is_cancelled = True
            self._loop.call_soon(partial(self._loop.cancel, run))

    def close(self) -> None:
        if not self._is_open or self._has_ended.is_set():
            return
        self._loop.call_soon(self._end)
        if not self._has_ended.wait(GRACE_S):
            log.warning("async handlers were cancelled, and %.1f s later not all have ended", GRACE_S)

    # --- on the loop's thread -------------------------------------------------------------------------------

    def _open(self) -> None:
        self._is_open = True
        ready = threading.Event()

        def main() -> None:
            try:
                self._loop.run(ready.set)
            finally:
                ready.set()
                self._has_ended.set()

        current_host().start_thread(main, "kwire-event-loop")
        ready.wait()

    def _begin(self) -> None:
        self._is_woken = False  # first: who hands out more from now on wakes us again
        while self._begun:
            self._go_on(self._begun.popleft())

    def _go_on(self, run: Run[K, V]) -> None:
        if run.todo and run.error is None and not self._is_closing:
            self._loop.spawn(self._work, run, self._context.copy())
            return
        self._over.append(run)
        if len(self._over) == 1:  # what ends together is told together: it wakes the owner once
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        while self._over:
            self._ended(self._over.popleft())

    async def _work(self, run: Run[K, V]) -> None:
        """The next item of a run, if the owner has not just taken it back."""
        began_ms = monotonic_ms()
        try:
            with self._loop.cancellable(run):
                if run.rescue is not None:
                    await self._rescue(run)
                elif (item := run.next_item()) is not None:
                    await cast("_AsyncHandler[K, V]", run.handler)(item)
        except self._loop.cancelled as error:
            if self._is_closing:
                raise
            run.error = error
        except BaseException as error:  # noqa: BLE001  whatever it is, the lane must not stay closed
            run.error = error
        run.took_ms += monotonic_ms() - began_ms
        self._go_on(run)

    async def _rescue(self, run: Run[K, V]) -> None:
        assert run.rescue is not None
        dead_letter, error = run.rescue
        item = run.next_item()
        for record in [] if item is None else records_of([item]):
            if is_async(dead_letter):
                await cast("Awaitable[object]", dead_letter(record, error))
            else:
                await self._loop.call_in_thread(dead_letter, record, error)
        run.rescue = None

    def _end(self) -> None:
        self._is_closing = True
        self._loop.end()


def new_loop(backend: Literal["asyncio", "trio"]) -> EventLoop:
    """Imported when needed: either takes longer to load than all the rest of this package."""
    if backend == "trio":
        from kwire.processing.trio_loop import TrioLoop

        return TrioLoop()
    from kwire.processing.asyncio_loop import AsyncioLoop

    return AsyncioLoop()
