"""Threads of a simulated process, as tasks that drive greenlets: what a processor's workers run in, in a world.

`Processes.host()` hands these out in the place of `threading.Thread` and `queue.SimpleQueue`; `TaskExecutor` is an
executor whose calls run beside each other in the same way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from functools import partial
from queue import Empty
from typing import Generic, ParamSpec, Protocol, TypeVar

import trio

from kwire.testing.simulation.blocking import run_blocking, wait_for
from kwire.testing.simulation.virtual_clock import Sleeper

T = TypeVar("T")
P = ParamSpec("P")


class GreenletQueue(Generic[T]):
    """`consumer.host.Queue` between greenlets; any of them may put."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._sleepers: deque[Sleeper] = deque()

    def put(self, item: T) -> None:
        self._items.append(item)
        if self._sleepers:
            self._sleepers.popleft().wake()

    def get(self, *, timeout: float | None = None) -> T:
        until = math.inf if timeout is None else trio.current_time() + timeout
        while not self._items:  # again: somebody who did not sleep may have been quicker
            if trio.current_time() >= until:
                raise Empty
            self._sleep(until)
        return self._items.popleft()

    def _sleep(self, until: float) -> None:
        sleeper = Sleeper()
        self._sleepers.append(sleeper)
        try:
            wait_for(lambda: sleeper.sleep(until))
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def get_nowait(self) -> T:
        if not self._items:
            raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class ThreadsHost(Protocol):
    """The interface of the process that a thread belongs to: `host.Process`."""

    @property
    def nursery(self) -> trio.Nursery: ...

    def running_here(self) -> AbstractContextManager[None]:
        """Around what drives blocking code of this process."""
        ...

    async def while_frozen(self) -> None:
        """Returns when the process is not frozen."""
        ...


class GreenletThread:
    """A thread of a process: frozen and killed with it."""

    def __init__(self, process: ThreadsHost, main: Callable[[], None]) -> None:
        self._process = process
        self._main = main
        self._ended = trio.Event()
        process.nursery.start_soon(self._live)

    async def _live(self) -> None:
        with self._process.running_here():
            try:
                await run_blocking(self._main, self._process.while_frozen)
            finally:
                self._ended.set()

    def join(self, timeout: float | None = None) -> None:
        wait_for(partial(self._wait_for_end, math.inf if timeout is None else timeout))

    async def _wait_for_end(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._ended.wait()


class TaskExecutor(Executor):
    """A pool of a simulated process, as large as it is asked to be."""

    def __init__(self, process: ThreadsHost) -> None:
        self._process = process

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            future.set_running_or_notify_cancel()
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  as the pools of the standard library do
                future.set_exception(error)
            else:
                future.set_result(result)

        GreenletThread(self._process, call)
        return future
