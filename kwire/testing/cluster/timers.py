"""Timers of the cluster: a single task does what groups and transactions have to do at a given time.

Groups and transactions are pure: `expire(now_ms)` does what is due and returns when to call it again. A request may
bring that moment nearer, so `connection` calls `look` before and after each one that could; the task then asks again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable


class Timers:
    """Calls `expire` functions when they are due.

    Args:
        now_ms: The cluster's clock.
    """

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._expiring: list[Callable[[float], float]] = []
        self._again = trio.Event()

    def add(self, expire: Callable[[float], float]) -> None:
        """Add a function `expire(now_ms)` that returns when to call it next; `math.inf` for not before the next
        `look`."""
        self._expiring.append(expire)
        self.look()

    def look(self) -> None:
        """Call all functions again, as soon as the calling task waits."""
        self._again.set()

    async def run(self) -> None:
        """Call functions when they are due, until cancelled."""
        while True:
            self._again = trio.Event()
            next_ms = min((expire(self._now_ms()) for expire in self._expiring), default=math.inf)
            with trio.move_on_after(max(0.0, next_ms - self._now_ms()) / 1000):
                await self._again.wait()
