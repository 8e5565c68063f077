"""The timers of one group: what happens when, in the order of deadlines. Pure: the caller says what time it is.

The cluster's clockwork calls `expire` through the group store, and looks again after every request.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Action: TypeAlias = Callable[[float], None]


class GroupTimers:
    """Deadlines by key. One key has one deadline: scheduling it again moves it."""

    def __init__(self) -> None:
        self._due: dict[Hashable, tuple[float, int, Action]] = {}
        self._scheduled = 0

    def schedule(self, key: Hashable, deadline_ms: float, action: Action) -> None:
        """Run `action(now_ms)` once the deadline has come, unless `key` is scheduled anew or cancelled before."""
        self._scheduled += 1
        self._due[key] = (deadline_ms, self._scheduled, action)

    def cancel(self, key: Hashable) -> None:
        """Forget `key`; it need not be scheduled."""
        self._due.pop(key, None)

    def is_scheduled(self, key: Hashable) -> bool:
        """Whether `key` has a deadline."""
        return key in self._due

    def clear(self) -> None:
        """Forget everything."""
        self._due.clear()

    @property
    def next_ms(self) -> float:
        """The earliest deadline; infinity without one."""
        return min((deadline_ms for deadline_ms, _, _ in self._due.values()), default=math.inf)

    def expire(self, now_ms: float) -> float:
        """Run everything that is due, also what that schedules; answers the next deadline."""
        while self._due:
            key, (deadline_ms, _, action) = min(self._due.items(), key=lambda item: item[1][:2])
            if deadline_ms > now_ms:
                return deadline_ms
            del self._due[key]
            action(now_ms)
        return math.inf
