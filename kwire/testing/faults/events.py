"""The recorder: many threads write the events of a run to it, and it makes one ledger of them.

Readers of members, callbacks of the producer and injectors write events; the harness listens, and takes the `ledger`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from kwire.testing.invariants.ledger import Event, Hidden, Ledger, Removed, Sent, Truncated, Vanished
from kwire.testing.invariants.violation import Violation

Listener: TypeAlias = Callable[[Event], None]

# In the same millisecond, events of the log come before those of members, which could not happen without them.
OF_THE_LOG = (Sent, Hidden, Removed, Truncated, Vanished)


class Recorder:
    """Records events. Times are ms since it was made, by a monotonic clock. Any thread may call it.

    Args:
        clock: seconds of a clock that only goes forward.
        wall_clock: seconds since the epoch, as in timestamps of members and brokers. Read once, at the start.
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
        """The run's time for a timestamp by the wall clock of this machine."""
        return wall_clock_ms - self._began_wall_ms

    def write(self, event: Event) -> None:
        """Write an event. Its `at_ms` may be earlier than that of events which are written already."""
        with self._lock:
            self._events.append(event)
            for listener in self._listeners:
                listener(event)

    def note(self, make: Callable[[float], Event]) -> None:
        """Write an event that happens now: `make` is called with the time."""
        with self._lock:
            self.write(make(self.now_ms()))

    def violate(self, rule: str, what: str) -> None:
        """Record a violation that cannot be derived from events."""
        with self._lock:
            self._violations.append(Violation(rule=rule, at_ms=self.now_ms(), what=what))

    def listen(self, listener: Listener) -> None:
        """Have the listener called with each event from now on. It is called under the lock, so it must not wait."""
        with self._lock:
            self._listeners.append(listener)

    @property
    def violations(self) -> tuple[Violation, ...]:
        with self._lock:
            return tuple(self._violations)

    @property
    def ledger(self) -> Ledger:
        """The events so far, ordered by time."""
        with self._lock:
            events = list(self._events)
        return Ledger(sorted(events, key=_order))


def _order(event: Event) -> tuple[float, bool]:
    """By time. The sort is stable: otherwise things stay in the order in which they were written."""
    return event.at_ms, not isinstance(event, OF_THE_LOG)
