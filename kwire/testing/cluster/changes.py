"""Waiting for changes: the only way in which a handler waits.

Keys are whatever the parties agree on: `("partition", topic, index)` for new records, `("group", name)` for a group.
Nothing is remembered: look first, then wait, without an `await` in between, and look again afterwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class Changes:
    """The waiting tasks of each key."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, dict[trio.Event, None]] = {}

    async def wait(self, key: Hashable, timeout_ms: float = math.inf) -> bool:
        """Wait until `key` is notified; False if the timeout is over first."""
        return await self.wait_any((key,), timeout_ms)

    async def wait_any(self, keys: Iterable[Hashable], timeout_ms: float = math.inf) -> bool:
        """Wait until one of `keys` is notified; False if the timeout is over first."""
        event = trio.Event()
        watched = tuple(dict.fromkeys(keys))
        for key in watched:
            self._waiting.setdefault(key, {})[event] = None
        try:
            with trio.move_on_after(max(0.0, timeout_ms) / 1000):
                await event.wait()
        finally:
            self._forget(event, watched)
        return event.is_set()

    def notify(self, key: Hashable) -> None:
        """Wake every task that waits for `key`, in the order in which they began to wait."""
        for event in self._waiting.pop(key, ()):
            event.set()

    def _forget(self, event: trio.Event, keys: tuple[Hashable, ...]) -> None:
        for key in keys:
            events = self._waiting.get(key)
            if events is not None:
                events.pop(event, None)
                if not events:
                    del self._waiting[key]
