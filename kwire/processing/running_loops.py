"""The event loop that an application runs already, as `AsyncWorkers` uses it: async handlers are its tasks.

The workers expect a thread that runs their loop until the end. Here that thread waits until the tasks have ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context

import trio

from kwire.model import K, V
from kwire.processing.async_workers import EventLoop
from kwire.processing.asyncio_loop import AsyncioLoop
from kwire.processing.trio_loop import TrioLoop
from kwire.processing.workers import Run


@asynccontextmanager
async def hosting() -> AsyncIterator[EventLoop]:
    """The loop that the caller runs on, while handlers may be its tasks."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        async with trio.open_nursery() as nursery:
            yield _RunningTrio(nursery)
    else:
        yield _RunningAsyncio(loop)


class _RunningAsyncio(AsyncioLoop):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._has_ended = threading.Event()
        self._is_ending = False

    def run(self, ready: Callable[[], None]) -> None:
        ready()
        self._has_ended.wait()

    def spawn(
        self, step: Callable[[Run[K, V]], Coroutine[object, object, None]], run: Run[K, V], context: Context
    ) -> None:
        assert self._loop is not None
        task = self._loop.create_task(step(run), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._end_without_tasks()

    def end(self) -> None:
        self._is_ending = True
        for task in self._tasks:
            task.cancel()
        self._end_without_tasks()

    def _end_without_tasks(self) -> None:
        if self._is_ending and not self._tasks:
            self._has_ended.set()


class _RunningTrio(TrioLoop):
    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__()
        self._token = trio.lowlevel.current_trio_token()
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()
        self._has_ended = threading.Event()
        self._is_ending = False

    def run(self, ready: Callable[[], None]) -> None:
        ready()
        self._has_ended.wait()

    def spawn(
        self, step: Callable[[Run[K, V]], Coroutine[object, object, None]], run: Run[K, V], context: Context
    ) -> None:
        assert self._nursery is not None
        context.run(self._nursery.start_soon, self._in_scope, step, run)  # a task copies the context it is started in

    async def _in_scope(self, step: Callable[[Run[K, V]], Coroutine[object, object, None]], run: Run[K, V]) -> None:
        # The application may be cancelled, and what is in work is to end nevertheless: `end` cancels what is left.
        with trio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                await step(run)
            finally:
                self._scopes.discard(scope)
                self._end_without_tasks()

    def end(self) -> None:
        self._is_ending = True
        for scope in self._scopes:
            scope.cancel()
        self._end_without_tasks()

    def _end_without_tasks(self) -> None:
        if self._is_ending and not self._scopes:
            self._has_ended.set()
