"""The load of the machine during a run: on an overloaded machine, recovery times say little about the consumer.

The harness reads it a few times a second, and reports a high load.
"""

from __future__ import annotations

import os

# The load for each processor that a run causes by itself, with all brokers and consumers on one machine.
USUAL_FOR_EACH = 4.0


class Load:
    """The maximum of the system's load average (over a minute, as `uptime` shows it).

    Args:
        processors: the number of processors; by default that of this machine.
    """

    def __init__(self, processors: int | None = None) -> None:
        self._processors = processors or os.cpu_count() or 1
        self._most = 0.0

    def look(self) -> None:
        self._most = max(self._most, os.getloadavg()[0])

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for the report, if the load was unusually high."""
        if self._most <= USUAL_FOR_EACH * self._processors:
            return ()
        return (f"the machine was busy: a load of {self._most:.0f} on {self._processors} processors",)
