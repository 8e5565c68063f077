"""The clock of a world: time stands while anybody can run, and then jumps to the next moment that somebody waits for.

trio's own deadlines are such moments, and so are those of `Sleeper`s, which cost a tenth of a cancel scope: a world
waits thousands of times a second. `scheduler` puts the clock under a trio run; the network and the applications of a
world sleep in `Sleeper`s, everybody else as always.
"""

from __future__ import annotations

import heapq
import math
from typing import Final

import trio

REAL_SECONDS_FOR_TRIO: Final = 1.0


class NobodyWaitsError(Exception):
    """No task can run, and no moment will come that would change that."""


class VirtualClock(trio.abc.Clock):
    """A clock that moves when everybody waits.

    Args:
        begins_at: what it says first, in seconds.
    """

    def __init__(self, begins_at: float) -> None:
        self.now = begins_at
        # (moment, number of the call, who sleeps, in which of its sleeps): the number makes ties those of the callers.
        self._calls: list[tuple[float, int, Sleeper, int]] = []
        self._count = 0
        self._stands_still = False

    def start_clock(self) -> None:
        """It stands, for now."""

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Asked when no task can run, with trio's next deadline: it is time to jump, and never to sleep."""
        if _is_somebody_about_to_be_woken():
            return 0.0
        calls = self._calls
        while calls and not calls[0][2].sleeps(calls[0][3]):
            heapq.heappop(calls)
        next_at = min(deadline, calls[0][0]) if calls else deadline
        if next_at == math.inf:
            return self._standing_still()
        self._stands_still = False
        self.now = max(self.now, next_at)
        while calls and calls[0][0] <= self.now:
            _, _, sleeper, number = heapq.heappop(calls)
            if sleeper.sleeps(number):
                sleeper.wake()
        return 0.0

    def _standing_still(self) -> float:
        """At a run's end trio wakes itself through a socket, once: for that there is real time, and only once."""
        if self._stands_still:
            raise NobodyWaitsError("every task waits for another one")
        self._stands_still = True
        return REAL_SECONDS_FOR_TRIO

    def call(self, sleeper: Sleeper, number: int, at: float) -> None:
        """Wake it at that moment, if it is still in the same sleep."""
        self._count += 1
        heapq.heappush(self._calls, (at, self._count, sleeper, number))


def _is_somebody_about_to_be_woken() -> bool:
    """By `run_sync_soon`, which goes by way of a socket."""
    runner = getattr(trio._core._run.GLOBAL_RUN_CONTEXT, "runner", None)
    return runner is not None and bool(runner.entry_queue.size())


class Sleeper:
    """Where one task sleeps until it is woken, or until a moment. A world's tasks only: it needs a `VirtualClock`."""

    __slots__ = ("_clock", "_number", "_task")

    def __init__(self) -> None:
        self._clock: VirtualClock | None = None
        self._task: trio.lowlevel.Task | None = None
        self._number = 0

    async def sleep(self, until: float = math.inf) -> None:
        """Sleep at least until the others have run. A wake-up from before is forgotten: look first, then sleep."""
        if self._clock is None:
            clock = trio.lowlevel.current_clock()
            assert isinstance(clock, VirtualClock), "only a world has sleepers"
            self._clock = clock
        assert self._task is None, "somebody sleeps here"
        if until <= self._clock.now:
            await trio.lowlevel.checkpoint()  # who is woken before it sleeps would look, to trio, as if it slept on
            return
        self._number += 1
        self._task = trio.lowlevel.current_task()
        self.call_at(until)
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def call_at(self, at: float) -> None:
        """Wake it at that moment, if it sleeps now and nothing else has woken it."""
        if self._task is None or self._clock is None:
            return
        if at <= self._clock.now:
            self.wake()
        elif at < math.inf:
            self._clock.call(self, self._number, at)

    def wake(self) -> None:
        """End the sleep, if there is one."""
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def sleeps(self, number: int) -> bool:
        """Whether it is (still) in that one of its sleeps."""
        return self._task is not None and self._number == number

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
