"""Turns: one thread at a time uses a consumer. Others wait, as in confluent-kafka; kwire would raise an error."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType

from kwire import errors
from kwire.consumer.sync import Consumer

WAKE_AGAIN_S = 0.05


class Turns:
    """The lock around each call. A poll that waits for messages is woken for other threads, and goes on waiting after
    them.

    Re-entrant: callbacks and signal handlers make calls inside a call.
    """

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self._consumer = consumer
        self._lock = threading.RLock()
        self._next = threading.RLock()  # a thread that polls in a loop has its turn after those that wait
        self._waking = threading.RLock()
        self._is_wakeable = False

    def __enter__(self) -> None:
        with self._next:
            while not self._lock.acquire(blocking=False):
                self.wake()
                if self._lock.acquire(timeout=WAKE_AGAIN_S):
                    return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def wake(self) -> None:
        """Have a poll that waits for messages return without any."""
        with self._waking:
            if self._is_wakeable:
                self._consumer.wakeup()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A context for a poll, which ends early when another thread wants its turn."""
        with self._wakeable(True), contextlib.suppress(errors.WakeupError):
            yield

    def in_callback(self) -> contextlib.AbstractContextManager[None]:
        """A context for a function of the program, in which nothing is woken for other threads."""
        return self._wakeable(False)

    @contextlib.contextmanager
    def _wakeable(self, is_wakeable: bool) -> Iterator[None]:
        before = self._is_wakeable
        self._change(is_wakeable)
        try:
            yield
        finally:
            self._change(before)

    def _change(self, is_wakeable: bool) -> None:
        """Change whether a poll may be woken. A wakeup that came too late for it is dropped."""
        with self._waking:
            self._is_wakeable = is_wakeable
            self._consumer._session.link.mailbox.take_wakeup()
