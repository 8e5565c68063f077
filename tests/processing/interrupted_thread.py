"""A processor's thread, for which somebody waits who is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.consumer.host import Joinable


class InterruptedThread:
    """Who waits for it is interrupted the first time, after `first_s`."""

    def __init__(self, thread: Joinable, first_s: float = 0.0) -> None:
        self._thread = thread
        self._first_s = first_s
        self._interrupts = 1

    def join(self, timeout: float | None = None) -> None:
        if self._interrupts:
            self._interrupts -= 1
            self._thread.join(self._first_s)
            raise KeyboardInterrupt
        self._thread.join(timeout)
