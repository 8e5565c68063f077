"""Who calls the handler: threads of the processor's own, or any `concurrent.futures.Executor`.

Contract: `start` never blocks; whoever works posts the run to `ended` when it is over, whatever the handler did, and
touches nothing else of the processor's. A run that is asked to stop ends behind the record it is at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Generic, Protocol, TypeAlias

from kwire.clock import monotonic_ms
from kwire.model import K, Record, V
from kwire.processing.lanes import Work
from kwire.processing.policies import DeadLetter

Handler: TypeAlias = Callable[[Record[K, V]], object]


Rescue: TypeAlias = tuple[DeadLetter[K, V], Exception]


class Run(Generic[K, V]):
    """Records of one lane on their way through the handler.

    Attributes:
        done: How many of them are done with.
        attempts: How often the next one has failed.
        error: What it failed with this time.
        rescue: Instead of the handler, this gets the next one; see `DeadLetter`.
        is_stopped: Set by its owner: end behind the record it is at.
        started_ms, began_at: When it was handed out this time, and with how many done.
        took_ms: How long it was in the worker's hands this time.
    """

    __slots__ = (
        "attempts",
        "began_at",
        "done",
        "error",
        "handler",
        "is_stopped",
        "rescue",
        "started_ms",
        "took_ms",
        "work",
    )

    def __init__(self, work: Work[K, V], handler: Handler[K, V]) -> None:
        self.work = work
        self.handler = handler
        self.started_ms = 0.0
        self.took_ms = 0.0
        self.done = self.began_at = 0
        self.attempts = 0
        self.error: BaseException | None = None
        self.rescue: Rescue[K, V] | None = None
        self.is_stopped = False

    @property
    def record(self) -> Record[K, V]:
        """The next one."""
        return self.work.records[self.done]

    def execute(self) -> None:
        """Handle one after the other, up to the end, a failure, or the one at which it was stopped."""
        began_ms, handler = monotonic_ms(), self.handler
        try:
            if self.rescue is not None:
                self._be_rescued(*self.rescue)
            for record in self.work.records[self.done :]:
                if self.is_stopped:
                    break
                handler(record)
                self.done += 1
        except BaseException as error:  # noqa: BLE001  whatever it is, the lane must not stay closed
            self.error = error
        self.took_ms = monotonic_ms() - began_ms

    def _be_rescued(self, dead_letter: DeadLetter[K, V], error: Exception) -> None:
        dead_letter(self.record, error)
        self.rescue = None
        self.done += 1


class Workers(Protocol[K, V]):
    """See the module."""

    def start(self, run: Run[K, V]) -> None: ...
    def close(self) -> None:
        """No more runs come; those that are under way may end."""


class ThreadWorkers(Generic[K, V]):
    """Threads of our own, started as they are needed: handing a run over takes a microsecond, an executor's twenty."""

    def __init__(self, count: int, ended: Callable[[Run[K, V]], None]) -> None:
        self._count = count
        self._ended = ended
        self._runs: SimpleQueue[Run[K, V] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self, run: Run[K, V]) -> None:
        if len(self._threads) < self._count:
            self._start_thread()
        self._runs.put(run)

    def _start_thread(self) -> None:
        name = f"kwire-worker-{len(self._threads)}"
        # Daemons: a handler that never returns must not keep the process from ending.
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            run.execute()
            self._ended(run)

    def close(self) -> None:
        for _ in self._threads:
            self._runs.put(None)


class ExecutorWorkers(Generic[K, V]):
    """Somebody else's pool, of processes too: then handler, record and what is raised travel. A run is one record."""

    def __init__(self, executor: Executor, ended: Callable[[Run[K, V]], None]) -> None:
        self._executor = executor
        self._ended = ended

    def start(self, run: Run[K, V]) -> None:
        began_ms = monotonic_ms()
        try:
            if run.rescue is not None:
                future = self._executor.submit(run.rescue[0], run.record, run.rescue[1])
            else:
                future = self._executor.submit(run.handler, run.record)
        except RuntimeError as error:  # it was shut down
            run.error = error
            self._ended(run)
        else:
            future.add_done_callback(partial(self._on_done, run, began_ms))

    def _on_done(self, run: Run[K, V], began_ms: float, future: Future[object]) -> None:
        run.error = CancelledError() if future.cancelled() else future.exception()
        if run.error is None:
            run.done += 1
            run.rescue = None
        run.took_ms = monotonic_ms() - began_ms
        self._ended(run)

    def close(self) -> None:
        """The pool is its owner's."""
