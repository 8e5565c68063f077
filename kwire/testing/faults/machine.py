"""How busy the machine was during a run: how long a recovery took says little about a consumer that got no processor.

The harness looks a few times in a second, and notes it if it was much.
"""

from __future__ import annotations

import os

# A run by itself keeps that many things waiting for each processor, with all its brokers and consumers on one machine.
USUAL_FOR_EACH = 4.0


class Load:
    """The system's load average (over a minute, as `uptime` shows it), at its highest.

    Args:
        processors: how many there are; by default those of this machine.
    """

    def __init__(self, processors: int | None = None) -> None:
        self._processors = processors or os.cpu_count() or 1
        self._most = 0.0

    def look(self) -> None:
        self._most = max(self._most, os.getloadavg()[0])

    @property
    def notes(self) -> tuple[str, ...]:
        """A line, if it was unusually much."""
        if self._most <= USUAL_FOR_EACH * self._processors:
            return ()
        return (f"the machine was busy: a load of {self._most:.0f} on {self._processors} processors",)
