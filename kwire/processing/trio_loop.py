"""trio as `AsyncWorkers` uses it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import Context

import trio

from kwire.model import K, Record, V
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
        self, step: Callable[[Run[K, V]], Coroutine[object, object, None]], run: Run[K, V], context: Context
    ) -> None:
        assert self._nursery is not None
        context.run(self._nursery.start_soon, step, run)  # a task copies the context it is started in

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

    def cancel(self, run: Run[K, V]) -> None:
        if (scope := self._cancellable.get(id(run))) is not None:
            scope.cancel()

    def end(self) -> None:
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
