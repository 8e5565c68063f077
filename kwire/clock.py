"""Time and chance: the only module that reads clocks and draws random numbers. Below the facades both are arguments.

Times are milliseconds on a monotonic clock, as floats; wall-clock time appears only in record timestamps. A simulation
puts a `TimeSource` of its own in the place of the machine's (`install`), for the whole process.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

NEVER_MS = float("inf")
_own = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSource:
    """Where time and chance come from, each in the unit its reader below asks for.

    Random numbers come from a generator of kwire's own, not from the module `random`. So a program that seeds `random`
    gets the numbers it expects, however many kwire draws. A forked child seeds the generator anew.
    """

    monotonic_seconds: Callable[[], float] = time.monotonic
    wall_clock_ns: Callable[[], int] = time.time_ns
    chance: Callable[[], float] = _own.random
    new_uuid: Callable[[], UUID] = uuid4
    secure_random_bytes: Callable[[int], bytes] = os.urandom


_installed = TimeSource()
# Polls read the clock, so what they call is one look-up away, not two.
_monotonic_seconds = _installed.monotonic_seconds


def install(source: TimeSource) -> TimeSource:
    """Take time and chance from `source` from now on. Returns the source before it, for the caller to put back."""
    global _installed, _monotonic_seconds  # noqa: PLW0603  the process has one clock
    before, _installed = _installed, source
    _monotonic_seconds = source.monotonic_seconds
    return before


def installed() -> TimeSource:
    """The source in use."""
    return _installed


def monotonic_ms() -> float:
    """Now, on a clock that no administrator can set back."""
    return _monotonic_seconds() * 1000.0


def wall_clock_ms() -> int:
    """Now, in milliseconds since the epoch: for comparing with record timestamps, never for waiting."""
    return _installed.wall_clock_ns() // 1_000_000


def chance() -> float:
    """A number in [0, 1), each call a new one."""
    return _installed.chance()


def new_uuid() -> UUID:
    """A random id, each call a new one."""
    return _installed.new_uuid()


def secure_random_bytes(count: int) -> bytes:
    """`count` bytes that nobody can predict, new ones with each call: for nonces."""
    return _installed.secure_random_bytes(count)


class Deadline(NamedTuple):
    """A point in time that a call must not outlast. Deadlines, not timeouts, cross the thread boundary."""

    at_ms: float

    @classmethod
    def after(cls, timeout_ms: float, now_ms: float | None = None) -> Deadline:
        return cls((monotonic_ms() if now_ms is None else now_ms) + timeout_ms)

    def remaining_ms(self) -> float:
        return max(0.0, self.at_ms - monotonic_ms())

    @property
    def expired(self) -> bool:
        return monotonic_ms() >= self.at_ms


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off: base 2, 20 % jitter, as in the Java client (KIP-580).

    Args:
        initial_ms: delay after the first failure.
        max_ms: no delay is longer, before jitter.
        chance: where the jitter comes from.
    """

    initial_ms: float
    max_ms: float
    chance: Callable[[], float] = chance

    # Guards against `retry_backoff_ms=0`: a wait of zero turns a broken broker into a busy loop (KAFKA-21049).
    FLOOR_MS = 1.0

    def delay_ms(self, failures: int) -> float:
        """How long to wait after the given number of failures in a row; 0 when there was none."""
        if failures <= 0:
            return 0.0
        exponential_ms = min(self.initial_ms * 2.0 ** min(failures - 1, 62), max(self.initial_ms, self.max_ms))
        jitter = 0.8 + 0.4 * self.chance()
        return max(self.FLOOR_MS, exponential_ms * jitter)
