"""The cluster's one clockwork: what groups and transactions have to do at a time is done by a single task.

Both are pure: `expire(now_ms)` does what is due and answers when it wants to be called again. A request may bring that
moment nearer, so `connection` calls `look` around each one that could; the task then asks again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable


class Timers:
    """Calls what is due.

    Args:
        now_ms: The cluster's clock.
    """

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._expiring: list[Callable[[float], float]] = []
        self._again = trio.Event()

    def add(self, expire: Callable[[float], float]) -> None:
        """Somebody whose `expire(now_ms)` answers when to call it next; `math.inf` for not until somebody looks."""
        self._expiring.append(expire)
        self.look()

    def look(self) -> None:
        """Ask everybody again, as soon as the caller waits for something."""
        self._again.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._again = trio.Event()
            next_ms = min((expire(self._now_ms()) for expire in self._expiring), default=math.inf)
            with trio.move_on_after(max(0.0, next_ms - self._now_ms()) / 1000):
                await self._again.wait()
