"""What a consumer has to do with its group: commits, heartbeats, rebalances, and the callbacks that these run.

Java's `OffsetCommitMetricsManager`, `HeartbeatMetricsManager`, `ConsumerRebalanceMetricsManager`; in classic groups
`AbstractCoordinator`. Counted by the network thread, but for callbacks.
"""

from __future__ import annotations

import math

from kwire.metrics.names import Values
from kwire.metrics.window import Window, WindowSetting

NEVER = -1.0
"""What Java says of the seconds since something that has not happened yet."""
_S_PER_HOUR = 3600.0
_HOUR_MS = 3_600_000.0


def seconds_since(at_ms: float, now_ms: float) -> float:
    """In whole seconds, as Java counts them."""
    return NEVER if math.isnan(at_ms) else float(max(0.0, now_ms - at_ms) // 1000)


class Rebalances:
    """How often, and for how long, this member was on its way to a new assignment.

    In a classic group that is from its first JoinGroup to the SyncGroup that has an assignment; with the consumer
    protocol from a target that is not what it has, to the acknowledgement.
    """

    def __init__(self, setting: WindowSetting) -> None:
        self._latency = Window(setting)
        self._failed = Window(setting)
        self._started_ms = math.nan
        self._ended_ms = math.nan
        self._count = 0

    def started(self, now_ms: float) -> None:
        """One begins, unless it is the next attempt of one that has begun."""
        if math.isnan(self._started_ms):
            self._started_ms = now_ms

    def ended(self, now_ms: float) -> None:
        """There is a new assignment."""
        if not math.isnan(self._started_ms):
            self._latency.record(now_ms - self._started_ms, now_ms)
            self._started_ms = math.nan
        self._ended_ms = now_ms
        self._count += 1

    def failed(self, now_ms: float) -> None:
        """An attempt has failed; the next one is of the same rebalance."""
        self._failed.record(1, now_ms)

    @property
    def since_ms(self) -> float | None:
        """When the one began that is under way."""
        return None if math.isnan(self._started_ms) else self._started_ms

    @property
    def count(self) -> int:
        """How many have ended with an assignment."""
        return self._count

    def given_up(self) -> None:
        """The application does not want it any more."""
        self._started_ms = math.nan

    def broken_off(self, now_ms: float) -> None:
        """The membership is over. Whatever comes is another rebalance."""
        if not math.isnan(self._started_ms):
            self._failed.record(1, now_ms)
        self._started_ms = math.nan

    def values(self, now_ms: float) -> Values:
        # As Java since Kafka 4.3: those of late, as if there had been none in the hour before. One is not 120 an hour.
        latency, failed = self._latency.measure(now_ms, _HOUR_MS), self._failed.measure(now_ms, _HOUR_MS)
        yield from latency.avg_max("rebalance-latency")
        yield "rebalance-latency-total", latency.total
        yield "rebalance-total", latency.ever
        yield "rebalance-rate-per-hour", latency.count_per_s * _S_PER_HOUR
        yield "failed-rebalance-total", failed.ever
        yield "failed-rebalance-rate-per-hour", failed.count_per_s * _S_PER_HOUR
        yield "last-rebalance-seconds-ago", seconds_since(self._ended_ms, now_ms)


class CoordinatorMetrics:
    """Counts what has to do with the group.

    Args:
        is_classic: Whether it is a classic one: with the consumer protocol nobody joins or syncs.

    Attributes:
        commits, heartbeats, joins, syncs: How long each was waited for. Of joins and syncs only those that succeeded.
        assigned, revoked, lost: How long the user's callbacks took; written by the application thread.
    """

    def __init__(self, setting: WindowSetting, *, is_classic: bool) -> None:
        self._is_classic = is_classic
        self.commits = Window(setting)
        self.heartbeats = Window(setting)
        self.joins = Window(setting)
        self.syncs = Window(setting)
        self.rebalances = Rebalances(setting)
        self.assigned = Window(setting)
        self.revoked = Window(setting)
        self.lost = Window(setting)
        self._heartbeat_ms = math.nan
        self.heartbeat_answered_ms: float | None = None
        """When a heartbeat, a join or a sync was last accepted."""

    def heartbeat_sent(self, now_ms: float) -> None:
        """A heartbeat goes out."""
        self._heartbeat_ms = now_ms

    def values(self, now_ms: float) -> Values:
        heartbeats = self.heartbeats.measure(now_ms)
        yield "heartbeat-response-time-max", heartbeats.greatest
        yield from heartbeats.meter("heartbeat")
        yield "last-heartbeat-seconds-ago", seconds_since(self._heartbeat_ms, now_ms)
        requests = (
            ("commit", "commit-latency", self.commits),
            ("join", "join-time", self.joins),
            ("sync", "sync-time", self.syncs),
        )
        for name, times, window in requests if self._is_classic else requests[:1]:
            measured = window.measure(now_ms)
            yield from measured.meter(name)
            yield from measured.avg_max(times)
        yield from self.rebalances.values(now_ms)
        for name, window in (("assigned", self.assigned), ("revoked", self.revoked), ("lost", self.lost)):
            yield from window.measure(now_ms).avg_max(f"partition-{name}-latency")
