"""How workers get the owner out of `poll()`: `Consumer.wakeup()`, told apart from the user's own.

A wake-up may come when the poll it was meant for is just over, and then strikes the next call that waits, whichever
that is. So each call of the owner's that may wait goes through here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kwire.errors import WakeupError

T = TypeVar("T")


class Nudge:
    """Args:
    wakeup: The consumer's.
    """

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._is_polling = False
        self._given = False

    def give(self) -> None:
        """From any thread: there is something to look at."""
        # Both under the lock: a wake-up that came when its note had been taken already would look like the user's.
        with self._lock:
            if self._is_polling and not self._given:
                self._given = True
                self._wakeup()

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Around a poll, which a nudge may end. Who nudged before that woke nobody: look first inside."""
        self._is_polling = True
        try:
            yield
        except WakeupError:
            if not self._was_given():
                raise
        finally:
            self._is_polling = False

    def insist(self, call: Callable[[], T]) -> T:
        """The call's answer, whatever nudges come meanwhile."""
        while True:
            try:
                return call()
            except WakeupError:
                if not self._was_given():
                    raise

    def _was_given(self) -> bool:
        """Whether it was a nudge; says so once."""
        with self._lock:
            given, self._given = self._given, False
            return given
