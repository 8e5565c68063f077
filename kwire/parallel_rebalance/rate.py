"""How fast the catching up goes."""

from __future__ import annotations

from collections import deque

WINDOW_MS = 10_000.0
_STEP_MS = 500.0


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
