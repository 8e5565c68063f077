"""Polls between `start()` and the program's first call for records.

In kwire rebalances happen inside polls, in aiokafka in tasks of its own. So a program may start several members of a
group one after the other, and read once all have started: a member that nobody polls would keep the next one from
joining, and so from starting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

# How often there is a poll: a rebalance takes a few of them.
INTERVAL_S = 0.1


class EarlyPolls:
    """A task that polls until the program asks for records, or stops the consumer.

    Args:
        poll: Takes part in a rebalance, if there is one. It does not wait for records.
        longest_s: A program that has not asked for records by then is taken for stuck, and its consumer leaves the
            group as any that does not poll.
    """

    def __init__(self, poll: Callable[[], Awaitable[None]], longest_s: float) -> None:
        self._poll = poll
        self._until_s = time.monotonic() + longest_s
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def are_over(self) -> bool:
        return self._over.is_set()

    def end(self) -> None:
        """Have the task end; a callback of a rebalance that it runs is run to its end."""
        self._over.set()

    async def wait_ended(self) -> None:
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self.are_over and time.monotonic() < self._until_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), INTERVAL_S)
            await self._poll()
