"""The recorder: whatever happens in a run is written here, by many threads, and comes out as one ledger.

Members' readers, the producer's callbacks and the injectors write; the harness listens, and takes `ledger` in the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from kwire.testing.invariants.ledger import Event, Hidden, Ledger, Removed, Sent, Truncated, Vanished
from kwire.testing.invariants.violation import Violation

Listener: TypeAlias = Callable[[Event], None]

# What happens to the log comes before what members do in the same millisecond: they could not have done it otherwise.
OF_THE_LOG = (Sent, Hidden, Removed, Truncated, Vanished)


class Recorder:
    """Times are ms since it was made, by a clock that nobody can set. Any thread may call it.

    Args:
        clock: seconds of a clock that only goes forward.
        wall_clock: seconds since the epoch, as members and brokers stamp what they tell. Read once, at the start.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._began_s = clock()
        self._began_wall_ms = wall_clock() * 1000.0
        self._lock = threading.RLock()  # a listener may write, too
        self._events: list[Event] = []
        self._violations: list[Violation] = []
        self._listeners: list[Listener] = []

    def now_ms(self) -> float:
        return (self._clock() - self._began_s) * 1000.0

    def at_ms(self, wall_clock_ms: float) -> float:
        """The run's time of a moment that a process of this machine has stamped by its wall clock."""
        return wall_clock_ms - self._began_wall_ms

    def write(self, event: Event) -> None:
        """It happened at its `at_ms`, which may be earlier than what is written already."""
        with self._lock:
            self._events.append(event)
            for listener in self._listeners:
                listener(event)

    def note(self, make: Callable[[float], Event]) -> None:
        """It happens now: `make` is told when that is."""
        with self._lock:
            self.write(make(self.now_ms()))

    def violate(self, rule: str, what: str) -> None:
        """Something must not have happened that no event can tell of."""
        with self._lock:
            self._violations.append(Violation(rule=rule, at_ms=self.now_ms(), what=what))

    def listen(self, listener: Listener) -> None:
        """Each event from now on, as it is written. Called under the lock: it has to be quick, and waits for nobody."""
        with self._lock:
            self._listeners.append(listener)

    @property
    def violations(self) -> tuple[Violation, ...]:
        with self._lock:
            return tuple(self._violations)

    @property
    def ledger(self) -> Ledger:
        """What has been written so far, in the order in which it happened."""
        with self._lock:
            events = list(self._events)
        return Ledger(sorted(events, key=_order))


def _order(event: Event) -> tuple[float, bool]:
    """By time. The sort is stable: otherwise things stay in the order in which they were written."""
    return event.at_ms, not isinstance(event, OF_THE_LOG)
