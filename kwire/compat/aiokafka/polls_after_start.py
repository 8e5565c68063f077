"""Polls between `start()` and the program's first call for records.

kwire handles rebalances inside polls, aiokafka in background tasks. A program for aiokafka may start several members of
a group one after the other, and read when all have started. Without these polls, the second `start()` would wait for
the first member, which nobody polls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from weakref import WeakMethod

# The time between two polls. A rebalance takes several polls.
INTERVAL_S = 0.1


class PollsAfterStart:
    """A task that polls until the program asks for records, stops the consumer, or drops it.

    Args:
        poll: A method of the consumer. It takes part in a rebalance, if there is one, and does not wait for records.
            The task does not keep the consumer alive.
        longest_s: How long the task polls, in seconds. After that the consumer leaves the group as any consumer that
            does not poll.
    """

    def __init__(self, poll: Callable[[], Coroutine[Any, Any, None]], longest_s: float) -> None:
        self._poll = WeakMethod(poll)
        self._until_s = time.monotonic() + longest_s
        self._has_to_end = False
        self._end = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def are_over(self) -> bool:
        return self._has_to_end

    def end(self) -> None:
        """Ask the task to end. A rebalance callback that it is running is not interrupted."""
        self._has_to_end = True
        if not self._task.get_loop().is_closed():
            self._end.set()

    async def wait_ended(self) -> None:
        # The task of another event loop does not run while this one does.
        if not self._task.done() and self._task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self.are_over and time.monotonic() < self._until_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), INTERVAL_S)
            if (poll := self._poll()) is None:
                return
            await poll()
            del poll  # else the consumer would not be collected while the task waits
