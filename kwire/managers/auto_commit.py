"""When to commit automatically: by the interval, and again after a back-off where a failure may go away (as in Java).

The timer of `offset_commit.py`, which makes the commits.
"""

from __future__ import annotations

import logging

from kwire.clock import NEVER_MS, Backoff
from kwire.errors import KafkaError

# auto_commit_interval_ms=0 means "with every poll" in Java; here a timer commits, which must not become a spin.
MIN_INTERVAL_MS = 100.0
FAILURES_WORTH_A_WARNING = 5


class AutoCommitTimer:
    """Says when to commit automatically. Runs while there is something to commit. One commit at a time."""

    def __init__(self, interval_ms: float, backoff: Backoff) -> None:
        self._first_ms = interval_ms
        self._interval_ms = max(MIN_INTERVAL_MS, interval_ms)
        self._backoff = backoff
        self._under_way = False
        self._failures = 0
        self._refusal: str | None = None
        """What the last commit was refused with, if it was."""
        self._again = False
        self.due_at_ms = NEVER_MS

    def stop(self) -> None:
        self.due_at_ms = NEVER_MS

    def fires(self, now_ms: float) -> bool:
        """Whether a commit is to be made now; `due_at_ms` says when to ask again."""
        if self.due_at_ms == NEVER_MS:
            self.due_at_ms = now_ms + self._first_ms
        if self._again:
            self._again = False
            self.due_at_ms = min(self.due_at_ms, now_ms + self._backoff.delay_ms(self._failures))
        if now_ms < self.due_at_ms:
            return False
        self.due_at_ms = now_ms + self._interval_ms
        return not self._under_way

    def started(self) -> None:
        self._under_way = True

    def ended(self, error: KafkaError | None) -> int:
        """Note the outcome; returns the level to log it at. A retriable failure, as while a broker is restarted, is a
        warning only if it lasts. Each failure is a warning once in a row: a member that was removed from its group,
        and does not poll for half an hour, would fill the log."""
        self._under_way = False
        self._again = error is not None and error.retriable
        self._failures = self._failures + 1 if self._again else 0
        refusal = None if error is None or error.retriable else str(error)
        is_new, self._refusal = refusal != self._refusal, refusal
        is_warning = is_new if refusal is not None else self._failures == FAILURES_WORTH_A_WARNING
        return logging.WARNING if is_warning else logging.DEBUG
