"""trio as `AsyncWorkers` uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, contextmanager

import trio

from kwire.model import K, Record, V
from kwire.processing.last_task import LastTask
from kwire.processing.policies import DeadLetter
from kwire.processing.workers import Run


class TrioLoop:
    """See `EventLoop`."""

    cancelled: type[BaseException] = trio.Cancelled

    def __init__(self) -> None:
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._cancellable: dict[int, trio.CancelScope] = {}  # by the run's id()

    def run(self, ready: Callable[[], None]) -> None:
        trio.run(self._main, ready)

    async def _main(self, ready: Callable[[], None]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            ready()
            await trio.sleep_forever()

    def call_soon(self, function: Callable[[], None]) -> None:
        assert self._token is not None
        self._token.run_sync_soon(function)

    def spawn(
        self,
        step: Callable[[Run[K, V]], Coroutine[object, object, None]],
        run: Run[K, V],
        never_ran: Callable[[Run[K, V]], None],  # noqa: ARG002  trio runs each task up to its first wait
    ) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._take, step, run)

    async def _take(self, step: Callable[[Run[K, V]], Coroutine[object, object, None]], run: Run[K, V]) -> None:
        await step(run)

    async def call_in_thread(self, function: DeadLetter[K, V], record: Record[K, V], error: Exception) -> object:
        return await trio.to_thread.run_sync(function, record, error)

    @contextmanager
    def cancellable(self, run: Run[K, V]) -> Iterator[None]:
        with trio.CancelScope() as scope:
            self._cancellable[id(run)] = scope
            try:
                yield
            finally:
                del self._cancellable[id(run)]
        if scope.cancelled_caught:
            raise CancelledError

    def check_cancelled(self, run: Run[K, V]) -> None:
        """A task that runs has nothing of ours that it could cancel."""

    def cancel(self, run: Run[K, V]) -> None:
        if (scope := self._cancellable.get(id(run))) is not None:
            scope.cancel()

    def end(self) -> None:
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()


@asynccontextmanager
async def hosting() -> AsyncIterator[RunningTrioLoop]:
    """The loop that the caller runs on, while handlers may be its tasks."""
    async with trio.open_nursery() as nursery:
        yield RunningTrioLoop(nursery)


class RunningTrioLoop(TrioLoop):
    """One that the application runs already."""

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__()
        self._token = trio.lowlevel.current_trio_token()
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()
        self._last_task = LastTask()

    def run(self, ready: Callable[[], None]) -> None:
        ready()
        self._last_task.wait()

    async def _take(self, step: Callable[[Run[K, V]], Coroutine[object, object, None]], run: Run[K, V]) -> None:
        # The application may be cancelled, and what is in work is to end nevertheless: `end` cancels what is left.
        with trio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                await step(run)
            finally:
                self._scopes.discard(scope)
                self._last_task.note(self._scopes)

    def end(self) -> None:
        for scope in self._scopes:
            scope.cancel()
        self._last_task.expect(self._scopes)
