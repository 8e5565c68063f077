"""How many records a second: a bound for them, and what was seen of them.

Contract: pure; time comes in as an argument. Used by the processor's thread, which alone changes anything; `per_second`
and `quantile_ms` may be asked from others, and are then right to a moment.
"""

from __future__ import annotations

from math import ceil, log2

from kwire.clock import NEVER_MS

# Tokens are saved up for so long: what was not used then is lost.
_BURST_S = 0.1
_BUCKETS_PER_DOUBLING = 4
_MIN_MS = 0.001
_BUCKETS = 120  # up to 0.001 ms * 2**30: twelve days
_SPAN_S = 10


class TokenBucket:
    """A rate limit: this many records a second, and at once what was saved up in the last tenth of a second.

    Args:
        per_second: None for no bound.
    """

    def __init__(self, per_second: float | None, now_ms: float) -> None:
        self._per_ms = NEVER_MS if per_second is None else per_second / 1000.0
        self._most = max(1.0, self._per_ms * 1000.0 * _BURST_S)
        self._tokens = self._most
        self._at_ms = now_ms

    def available(self, now_ms: float) -> float:
        """How many records may go now; less than one: none."""
        earned = (now_ms - self._at_ms) * self._per_ms if now_ms > self._at_ms else 0.0
        self._tokens = min(self._most, self._tokens + earned)
        self._at_ms = now_ms
        return self._tokens

    def take(self, count: int) -> None:
        """This many records go. A batch may be more than is available: the next ones wait for longer."""
        self._tokens -= count

    @property
    def ready_ms(self) -> float:
        """When the next one may go; never, if one could have gone when it was asked last."""
        return NEVER_MS if self._tokens >= 1.0 else self._at_ms + (1.0 - self._tokens) / self._per_ms


class Meter:
    """Records per second, over the last ten seconds or since it was made."""

    def __init__(self, now_ms: float) -> None:
        self._began_ms = now_ms
        self._counts = [0] * _SPAN_S
        self._seconds = [-1] * _SPAN_S
        """Which second each count is of."""

    def add(self, count: int, now_ms: float) -> None:
        second = int(now_ms // 1000.0)
        slot = second % _SPAN_S
        if self._seconds[slot] != second:
            self._seconds[slot], self._counts[slot] = second, 0
        self._counts[slot] += count

    def per_second(self, now_ms: float) -> float:
        now_s = now_ms / 1000.0
        oldest = int(now_s) - _SPAN_S + 1
        counted = sum(count for second, count in zip(self._seconds, self._counts, strict=True) if second >= oldest)
        return counted / max(1.0, now_s - max(oldest, self._began_ms / 1000.0))


class Times:
    """How long records took, in buckets each a fifth wider than the one before."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS

    def add(self, each_ms: float, count: int) -> None:
        """This many records took this long each."""
        bucket = ceil(_BUCKETS_PER_DOUBLING * log2(max(each_ms, _MIN_MS) / _MIN_MS))
        self._counts[min(bucket, _BUCKETS - 1)] += count

    def quantile_ms(self, share: float) -> float:
        """What this share of the records did not exceed, to a fifth; 0 when there was none."""
        wanted = share * sum(self._counts)
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return _MIN_MS * float(2.0 ** (bucket / _BUCKETS_PER_DOUBLING))
        return 0.0
