"""Runs one simulated world: one thread, one trio run, a clock that jumps, and an order of tasks that a seed decides.

The same seed gives the same run in every process: trio's order of tasks is drawn from a random generator of its own,
which is seeded here, and time passes only when every task waits for it. Code that blocks runs in greenlets
(`blocking.py`). Nothing in a world may touch real I/O or real time, and something has to be waiting for a moment in
virtual time as long as the world lasts.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Final, ParamSpec, TypeVar
from uuid import UUID

import trio

from kwire import clock
from kwire.testing.cluster.state import EPOCH_MS
from kwire.testing.simulation.blocking import maybe_yield
from kwire.testing.simulation.virtual_clock import VirtualClock

P = ParamSpec("P")
T = TypeVar("T")

# A machine that has been up for a while: zero would hide what is wrong with zero.
BOOTED_SECONDS_AGO: Final = 10_000.0
# So often may the clock be read before it moves: a loop that turns without waiting for anything reads it for ever.
READS_WITHOUT_PROGRESS: Final = 50_000
# How often an application thread that reads the clock is overtaken by the others, as the operating system might do:
# when some of them are ready, and when none seems to be (a task that is to run in this turn of trio's is not counted).
SHARE_PREEMPTED: Final = 0.2
SHARE_PREEMPTED_FOR_NOTHING: Final = 0.03


class StandstillError(Exception):
    """Tasks run on and on, and time does not pass: somewhere a loop does not wait."""


class VirtualTime:
    """The clock of a trio run, which jumps when all tasks are waiting, and the `clock.TimeSource` of a world."""

    def __init__(self, rng: random.Random) -> None:
        self.trio_clock = VirtualClock(BOOTED_SECONDS_AGO)
        self.wall_clock_step_ms = 0
        self.allowed_reads = READS_WITHOUT_PROGRESS
        self._rng = rng
        self._read_at = 0.0
        self._reads = 0

    def now_ms(self) -> float:
        """Since the world began."""
        return (self.trio_clock.now - BOOTED_SECONDS_AGO) * 1000.0

    def source(self) -> clock.TimeSource:
        return clock.TimeSource(
            monotonic_seconds=self._monotonic_seconds,
            wall_clock_ns=self._wall_clock_ns,
            chance=self._rng.random,
            new_uuid=lambda: UUID(int=self._rng.getrandbits(128), version=4),
            secure_random_bytes=self._rng.randbytes,
        )

    def _monotonic_seconds(self) -> float:
        chance = self._rng.random()
        if chance < SHARE_PREEMPTED and (chance < SHARE_PREEMPTED_FOR_NOTHING or _others_are_ready()):
            maybe_yield()
        now = self.trio_clock.now
        self._reads = self._reads + 1 if now == self._read_at else 0
        self._read_at = now
        if self._reads > self.allowed_reads:
            self._reads = 0  # a task that hears of it may have to read the clock to end
            raise StandstillError(f"the clock was read {self.allowed_reads} times at {self.now_ms():.3f} ms")
        return now

    def _wall_clock_ns(self) -> int:
        return (EPOCH_MS + int(self.now_ms()) + self.wall_clock_step_ms) * 1_000_000


def _others_are_ready() -> bool:
    context = trio._core._run.GLOBAL_RUN_CONTEXT  # `current_statistics` knows as well, and counts a lot beside
    return bool(context.runner.runq)


def run_deterministically(seed: int, main: Callable[[VirtualTime], Awaitable[T]]) -> T:
    """Run `main` in a world of its own; what it returns. Not reentrant; other threads keep the machine's time."""
    time = VirtualTime(random.Random(f"clock {seed}"))

    async def run() -> T:
        return await main(time)

    with _trio_in_the_order_of(seed), _without_garbage_collection():
        before = clock.installed()
        clock.install(_for_this_thread(time.source(), before))
        try:
            return trio.run(run, clock=time.trio_clock)
        finally:
            clock.install(before)


def _for_this_thread(world: clock.TimeSource, before: clock.TimeSource) -> clock.TimeSource:
    """Clusters and consumers of other threads would draw from its chance, and read its clock to a standstill."""
    return clock.TimeSource(
        monotonic_seconds=_here_or_elsewhere(world.monotonic_seconds, before.monotonic_seconds),
        wall_clock_ns=_here_or_elsewhere(world.wall_clock_ns, before.wall_clock_ns),
        chance=_here_or_elsewhere(world.chance, before.chance),
        new_uuid=_here_or_elsewhere(world.new_uuid, before.new_uuid),
        secure_random_bytes=_here_or_elsewhere(world.secure_random_bytes, before.secure_random_bytes),
    )


def _here_or_elsewhere(here: Callable[P, T], elsewhere: Callable[P, T]) -> Callable[P, T]:
    """A function that calls the first one in this thread, and the second one in all others."""
    thread = get_ident()

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return (here if get_ident() == thread else elsewhere)(*args, **kwargs)

    return call


class _Order(random.Random):
    """What trio draws from: a seed's in the thread that makes it, in all others what they drew from before."""

    def __init__(self, seed: int, elsewhere: random.Random) -> None:
        super().__init__(f"order {seed}")
        self.random = _here_or_elsewhere(super().random, elsewhere.random)  # type: ignore[method-assign]
        self.getrandbits = _here_or_elsewhere(super().getrandbits, elsewhere.getrandbits)  # type: ignore[method-assign]


@contextmanager
def _trio_in_the_order_of(seed: int) -> Iterator[None]:
    """trio shuffles tasks that could run at the same time: have it draw from the seed, and from the same order.

    These two names are trio's own hook for libraries that test; hypothesis-trio uses the same.
    """
    run_module = trio._core._run
    before = run_module._ALLOW_DETERMINISTIC_SCHEDULING, run_module._r
    run_module._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # declared Final, for everybody else
    run_module._r = _Order(seed, run_module._r)
    try:
        yield
    finally:
        run_module._ALLOW_DETERMINISTIC_SCHEDULING, run_module._r = before  # type: ignore[misc]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Finalizers that run when the collector feels like it would change the order of things."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
