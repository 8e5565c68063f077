"""The end of the last task on an event loop that goes on: where workers have no loop of their own.

Workers expect a thread that runs their loop until the end. On a loop that the application runs, that thread waits here.
"""

from __future__ import annotations

import threading
from collections.abc import Collection


class LastTask:
    """One for each such loop. A thread waits, the loop's thread says which tasks are left."""

    def __init__(self) -> None:
        self._has_ended = threading.Event()
        self._is_expected = False

    def wait(self) -> None:
        """Until it has ended."""
        self._has_ended.wait()

    def expect(self, left: Collection[object]) -> None:
        """No more tasks begin; these are left."""
        self._is_expected = True
        self.note(left)

    def note(self, left: Collection[object]) -> None:
        """A task has ended; these are left."""
        if self._is_expected and not left:
            self._has_ended.set()
