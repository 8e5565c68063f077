"""asyncio as `AsyncWorkers` uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial

from kwire.model import K, Record, V
from kwire.processing.last_task import LastTask
from kwire.processing.policies import DeadLetter
from kwire.processing.workers import Run


class AsyncioLoop:
    """See `EventLoop`."""

    cancelled: type[BaseException] = asyncio.CancelledError

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._cancellable: dict[int, asyncio.Task[None]] = {}  # by the run's id()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself does not keep them alive
        self._not_begun: set[asyncio.Task[None]] = set()
        self._is_dying = False

    def run(self, ready: Callable[[], None]) -> None:
        asyncio.run(self._main(ready))  # which cancels what is left, and waits for it

    async def _main(self, ready: Callable[[], None]) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        ready()
        try:
            await self._over.wait()
        finally:
            self._is_dying = True

    def call_soon(self, function: Callable[[], None]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function)

    def spawn(
        self,
        step: Callable[[Run[K, V]], Coroutine[object, object, None]],
        run: Run[K, V],
        never_ran: Callable[[Run[K, V]], None],
    ) -> None:
        assert self._loop is not None
        if self._is_dying:
            return  # it would not begin any more: the run is told of when the loop is gone
        # Not by the loop's task factory: an eager one runs the task in this call, and that one spawns the next.
        task = asyncio.Task(step(run), loop=self._loop)
        self._tasks.add(task)
        self._not_begun.add(task)
        task.add_done_callback(partial(self._done, run, never_ran))

    def _done(self, run: Run[K, V], never_ran: Callable[[Run[K, V]], None], task: asyncio.Task[None]) -> None:
        self._forget(task)
        if task in self._not_begun:
            self._not_begun.discard(task)
            if not self._is_dying:
                never_ran(run)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)

    async def call_in_thread(self, function: DeadLetter[K, V], record: Record[K, V], error: Exception) -> object:
        return await asyncio.to_thread(function, record, error)

    @contextmanager
    def cancellable(self, run: Run[K, V]) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._not_begun.discard(task)
        self._cancellable[id(run)] = task
        try:
            yield
        except asyncio.CancelledError as error:
            if task.cancelling():
                raise
            raise RuntimeError("the handler has awaited what was cancelled") from error
        finally:
            del self._cancellable[id(run)]

    def check_cancelled(self, run: Run[K, V]) -> None:
        if self._cancellable[id(run)].cancelling():
            raise asyncio.CancelledError

    def cancel(self, run: Run[K, V]) -> None:
        if (task := self._cancellable.get(id(run))) is not None:
            task.cancel()

    def end(self) -> None:
        assert self._over is not None
        self._over.set()


class RunningAsyncioLoop(AsyncioLoop):
    """One that the application runs already."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._last_task = LastTask()

    def run(self, ready: Callable[[], None]) -> None:
        ready()
        self._last_task.wait()

    def _forget(self, task: asyncio.Task[None]) -> None:
        super()._forget(task)
        self._last_task.note(self._tasks)

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._last_task.expect(self._tasks)
