"""How a processor ends: whether somebody has asked for it, how long that may take, and how far it has come.

Written by `stop()` on any thread, one attribute at a time, and read by the processor's own.
"""

from __future__ import annotations

from kwire.clock import NEVER_MS, Deadline

# What was polled may take so long to be finished.
DRAIN_S = 30.0


class Ending:
    """The end of one processor.

    Attributes:
        is_asked: Whether somebody wants it to end.
        keeps_waiting: Whether what was polled is worked on to the end; else only what is in work.
        is_draining: Whether it has begun.
        last_commit: By when the last commit has ended; None while something is in work.
    """

    def __init__(self) -> None:
        self.is_asked = self.is_draining = False
        self.keeps_waiting = True
        self.last_commit: Deadline | None = None
        self._deadline: Deadline | None = None

    @property
    def until(self) -> Deadline:
        """When even what is in work is left alone."""
        return self._deadline or Deadline(NEVER_MS)

    def ask(self, *, drain: bool, timeout_s: float | None) -> None:
        """Of several calls the one that ends it sooner counts."""
        self.keeps_waiting = self.keeps_waiting and drain
        deadline = Deadline(NEVER_MS) if timeout_s is None else Deadline.after(timeout_s * 1000.0)
        if self._deadline is None or deadline.at_ms < self._deadline.at_ms:
            self._deadline = deadline
        self.is_asked = True

    def begin(self) -> None:
        """It ends, asked or not."""
        if self._deadline is None:
            self._deadline = Deadline.after(DRAIN_S * 1000.0)
        self.is_draining = True

    def begin_last_commit(self, patience_ms: float) -> Deadline:
        """Nothing is in work any more; how long polls may go on for the last commit."""
        self.last_commit = Deadline.after(patience_ms)
        return Deadline(min(self.until.at_ms, self.last_commit.at_ms))
