"""How a processor ends: whether somebody has asked for it, how long that may take, and how far it has come.

Written by `stop()` on any thread, one attribute at a time, and read by the processor's own.
"""

from __future__ import annotations

from kwire.clock import NEVER_MS, Deadline

# How long it may take to finish what was polled.
DRAIN_S = 30.0
# How long brokers have to answer the last commit, even if the drain took all of its time.
LAST_COMMIT_S = 5.0


class Ending:
    """The end of one processor.

    Attributes:
        is_asked: Whether somebody wants it to end.
        keeps_waiting: Whether what was polled is worked on to the end; else only what is in work.
        is_draining: Whether it has begun.
        last_commit: By when the last commit has ended at the latest; None while something is in work.
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

    def ask(self, *, drain: bool, timeout_ms: float) -> None:
        """Ask for the end. Of several calls the one that ends it sooner counts."""
        self.keeps_waiting = self.keeps_waiting and drain
        deadline = Deadline.after(timeout_ms)
        if self._deadline is None or deadline.at_ms < self._deadline.at_ms:
            self._deadline = deadline
        self.is_asked = True

    def begin(self) -> None:
        """Begin to end, asked or not."""
        if self._deadline is None:
            self._deadline = Deadline.after(DRAIN_S * 1000.0)
        self.is_draining = True

    @property
    def may_poll_on(self) -> bool:
        """Whether polls may still help the last commit, which has begun."""
        return self.last_commit is not None and not self.last_commit.expired and not self.until.expired

    def commit_ms(self, patience_ms: float) -> float:
        """How long a last commit may be waited for: so long, or less if somebody waits for the end."""
        last = self.last_commit or Deadline.after(patience_ms)
        soon = Deadline(self.until.at_ms + LAST_COMMIT_S * 1000.0)
        return min(patience_ms, last.remaining_ms(), soon.remaining_ms())
