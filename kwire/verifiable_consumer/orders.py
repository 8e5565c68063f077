"""Orders to a consumer in a test: how long to process records. Java's program has no orders.

    {"each_ms": 100, "is_stuck": false}

They are in a file that the starting program may replace at any time; it is read again between steps of the work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

LOOK_EVERY_S = 0.05
# The pause after a failed poll: otherwise a lasting error would be printed thousands of times.
PAUSE_S = 0.1


class ProcessingOrders:
    """Orders from a file about the processing of each record.

    Args:
        path: the file; without it, processing a record takes no time.
    """

    def __init__(self, path: Path, sleep: Callable[[float], None] = time.sleep) -> None:
        self._path = path
        self._sleep = sleep
        self._is_released = False

    def release(self) -> None:
        """End the processing, so that the consumer can close. May be called by a signal handler."""
        self._is_released = True

    def work(self, records: int) -> None:
        """Process this many records of one poll."""
        worked_s = 0.0
        while not self._is_released:
            each_ms, is_stuck = self._read()
            left_s = each_ms / 1000 * records - worked_s
            if not records or (left_s <= 0 and not is_stuck):
                return
            slice_s = LOOK_EVERY_S if is_stuck else min(LOOK_EVERY_S, left_s)
            self._sleep(slice_s)
            worked_s += slice_s

    def pause(self) -> None:
        """Pause after a failed poll."""
        if not self._is_released:
            self._sleep(PAUSE_S)

    def _read(self) -> tuple[float, bool]:
        try:
            orders = json.loads(self._path.read_text())
        except FileNotFoundError:
            return 0.0, False
        return float(orders["each_ms"]), bool(orders["is_stuck"])
