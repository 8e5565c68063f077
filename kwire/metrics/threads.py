"""What a consumer's two threads do: polls and calls of the application, turns of the network thread (KIP-1068).

Java's `KafkaConsumerMetrics` and `AsyncConsumerMetrics`.
"""

from __future__ import annotations

import math

from kwire.metrics.coordinator import seconds_since
from kwire.metrics.names import Values
from kwire.metrics.window import Window, WindowSetting

_NS_PER_MS = 1_000_000


class PollMetrics:
    """Written by the application thread."""

    def __init__(self, setting: WindowSetting) -> None:
        self._between = Window(setting)
        self._idle_ratio = Window(setting)
        self._began_ms = math.nan
        self._between_ms = 0.0
        self._commit_sync_ms = 0.0
        self._committed_ms = 0.0

    def began(self, now_ms: float) -> None:
        """A poll begins."""
        self._between_ms = 0.0 if math.isnan(self._began_ms) else now_ms - self._began_ms
        self._between.record(self._between_ms, now_ms)
        self._began_ms = now_ms

    @property
    def has_begun(self) -> bool:
        """Whether there ever was one."""
        return not math.isnan(self._began_ms)

    def ended(self, now_ms: float) -> None:
        """The poll returns. Records its share of the time since the poll before: 1 if the application only polls."""
        took_ms = now_ms - self._began_ms
        if took_ms + self._between_ms > 0:
            self._idle_ratio.record(took_ms / (took_ms + self._between_ms), now_ms)

    def commit_sync_took(self, duration_ms: float) -> None:
        """`commit_sync` has returned, or raised."""
        self._commit_sync_ms += duration_ms

    def committed_took(self, duration_ms: float) -> None:
        """`committed` has returned, or raised."""
        self._committed_ms += duration_ms

    def values(self, now_ms: float) -> Values:
        yield "last-poll-seconds-ago", seconds_since(self._began_ms, now_ms)
        yield from self._between.measure(now_ms).avg_max("time-between-poll")
        yield "poll-idle-ratio-avg", self._idle_ratio.measure(now_ms).average
        yield "commit-sync-time-ns-total", round(self._commit_sync_ms * _NS_PER_MS)
        yield "committed-time-ns-total", round(self._committed_ms * _NS_PER_MS)


class TurnMetrics:
    """Written by the network thread."""

    def __init__(self, setting: WindowSetting) -> None:
        self.now_ms = 0.0
        """When the turn began that is under way, or was the last: the time of what happens in it."""
        self.unsent_requests = 0
        """How many wait for a connection that they can go out on."""
        self._between = Window(setting)
        self._processing = Window(setting)
        self._unsent = Window(setting)

    def began(self, now_ms: float) -> None:
        """A turn begins."""
        if self.now_ms:
            self._between.record(now_ms - self.now_ms, now_ms)
        self.now_ms = now_ms

    def processed_events(self, duration_ms: float, now_ms: float) -> None:
        """All there was from the application was dealt with."""
        self._processing.record(duration_ms, now_ms)

    def request_waited(self, duration_ms: float, now_ms: float) -> None:
        """A request goes out that a manager has asked for so long ago."""
        self._unsent.record(duration_ms, now_ms)

    def values(self, now_ms: float) -> Values:
        yield "unsent-requests-queue-size", self.unsent_requests
        for name, window in (
            ("time-between-network-thread-poll", self._between),
            ("application-event-queue-processing-time", self._processing),
            ("unsent-requests-queue-time", self._unsent),
        ):
            yield from window.measure(now_ms).avg_max(name)
