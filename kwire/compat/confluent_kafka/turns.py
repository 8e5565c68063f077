"""One thread at a time uses a consumer. Others wait for their turn, as in confluent-kafka; kwire would refuse them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType

from kwire import errors
from kwire.consumer.sync import Consumer

WAKE_AGAIN_S = 0.05


class Turns:
    """Enter it for a call. A poll that waits for messages is woken for others, and waits on behind them.

    Re-entrant: callbacks call inside a call, and so do signal handlers.
    """

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self._consumer = consumer
        self._lock = threading.RLock()
        self._next = threading.RLock()  # who polls on and on comes behind those who wait
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
        """A poll that waits for messages returns without."""
        with self._waking:
            if self._is_wakeable:
                self._consumer.wakeup()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a poll, which ends early when another thread wants its turn."""
        with self._wakeable(True), contextlib.suppress(errors.WakeupError):
            yield

    def in_callback(self) -> contextlib.AbstractContextManager[None]:
        """Around a function of the program: what it waits for is not woken."""
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
        """A wakeup that came too late strikes nothing else."""
        with self._waking:
            self._is_wakeable = is_wakeable
            self._consumer._session.link.mailbox.take_wakeup()
