"""How far the catching up of a partition is: what users see of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from kwire.model import TopicPartition

WINDOW_MS = 10_000.0
_STEP_MS = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpProgress:
    """The catching up of one partition.

    Attributes:
        ranges: What is not done: processed and committed, or about to be committed. In order; none overlap.
        done: How many offsets of the lag have been returned, since this consumer began with it.
        left: How many have not. Both count offsets; a compacted topic has fewer records.
        rate_per_s: Offsets a second, over the last ten seconds.
        left_s: How long it takes at that rate, in seconds; None while nothing moves.
    """

    topic_partition: TopicPartition
    ranges: tuple[range, ...]
    done: int
    left: int
    rate_per_s: float
    left_s: float | None

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return self.done / (self.done + self.left) if self.done + self.left else 1.0


class RateWindow:
    """How fast a number grows, over the last ten seconds."""

    def __init__(self, now_ms: float) -> None:
        self._looks: deque[tuple[float, int]] = deque([(now_ms, 0)])

    def look(self, now_ms: float, done: int) -> None:
        if now_ms - self._looks[-1][0] >= _STEP_MS:
            self._looks.append((now_ms, done))
        while len(self._looks) > 1 and now_ms - self._looks[1][0] >= WINDOW_MS:
            self._looks.popleft()

    def per_s(self, now_ms: float, done: int) -> float:
        since_ms, before = self._looks[0]
        return (done - before) * 1000.0 / (now_ms - since_ms) if now_ms > since_ms else 0.0
