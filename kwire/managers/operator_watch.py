"""Looks at what the other managers know, and tells operators of what has begun or ended.

It sends no requests and changes nothing. What happens between two looks, such as a reset of an offset, is told by the
manager that does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kwire.clock import NEVER_MS
from kwire.consumer_events import (
    ConsumerEvent,
    HeartbeatsAnswered,
    HeartbeatsUnanswered,
    LagExceeded,
    LagRecovered,
    PollOverdue,
    PollOverdueSoon,
    RebalanceBegan,
    RebalanceEnded,
)
from kwire.managers.unsent import PollResult

if TYPE_CHECKING:
    from kwire.config import ConsumerConfig
    from kwire.managers.membership import Membership
    from kwire.metrics.coordinator import CoordinatorMetrics
    from kwire.model import TopicPartition
    from kwire.subscription.subscription import Subscription

UNANSWERED_SHARE = 0.5
OVERDUE_SHARE = 0.8
LAG_EACH_MS = 1_000.0
RECOVERED_SHARE = 0.5


class OperatorWatch:
    """Polled behind all other managers.

    Args:
        metrics: Has the times of heartbeats and rebalances.
        polled_at_ms: When the application polled last.
        tell_operator: Takes events.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        membership: Membership,
        subscription: Subscription,
        metrics: CoordinatorMetrics,
        polled_at_ms: Callable[[], float],
        tell_operator: Callable[[ConsumerEvent], None],
    ) -> None:
        self._tell_operator = tell_operator
        self._heartbeats = _Heartbeats(config.session_timeout_ms, membership, metrics)
        self._polls = _Polls(config.max_poll_interval_ms, membership, polled_at_ms)
        self._rebalances = _Rebalances(membership, metrics)
        self._lags = _Lags(config, subscription)

    def poll(self, now_ms: float) -> PollResult:
        wake_at_ms = NEVER_MS
        for part in (self._rebalances, self._heartbeats, self._polls, self._lags):
            for event in part.look(now_ms):
                self._tell_operator(event)
            wake_at_ms = min(wake_at_ms, part.due_ms)
        return PollResult([], wake_at_ms)


class _Heartbeats:
    """Whether the group still hears of this member."""

    def __init__(self, session_timeout_ms: float, membership: Membership, metrics: CoordinatorMetrics) -> None:
        self._session_ms = session_timeout_ms
        self._membership = membership
        self._metrics = metrics
        self._told = 0
        """How many of the two moments have been told of."""
        self._last_answer_ms = 0.0
        self.due_ms = NEVER_MS

    def look(self, now_ms: float) -> Iterator[ConsumerEvent]:
        answered_ms = self._metrics.heartbeat_answered_ms
        is_member = self._membership.status().generation is not None
        self.due_ms = NEVER_MS
        if self._told and (not is_member or answered_ms != self._last_answer_ms):
            self._told = 0
            yield HeartbeatsAnswered(unanswered_ms=now_ms - self._last_answer_ms, is_member=is_member)
        if not is_member or answered_ms is None or self._membership.blocks_coordinator:
            return
        self._last_answer_ms = answered_ms
        passed, self.due_ms = _passed(answered_ms, self._session_ms, UNANSWERED_SHARE, now_ms)
        if passed > self._told:
            self._told = passed
            yield HeartbeatsUnanswered(
                unanswered_ms=now_ms - answered_ms,
                session_timeout_ms=self._session_ms,
                may_be_over=passed == BOTH,
            )


class _Polls:
    """Whether the application still polls often enough to stay a member."""

    def __init__(self, max_poll_interval_ms: float, membership: Membership, polled_at_ms: Callable[[], float]) -> None:
        self._interval_ms = max_poll_interval_ms
        self._membership = membership
        self._polled_at_ms = polled_at_ms
        self._seen_ms = -1.0
        self._told = 0
        self.due_ms = NEVER_MS

    def look(self, now_ms: float) -> Iterator[ConsumerEvent]:
        polled_ms = self._polled_at_ms()
        if polled_ms != self._seen_ms:
            self._seen_ms, self._told = polled_ms, 0
        self.due_ms = NEVER_MS
        is_member = self._membership.status().generation is not None
        if not is_member and not self._told:
            return
        kinds = (PollOverdueSoon, PollOverdue)
        passed, self.due_ms = _passed(polled_ms, self._interval_ms, OVERDUE_SHARE, now_ms)
        if passed > self._told:
            self._told = passed
            yield kinds[passed - 1](since_poll_ms=now_ms - polled_ms, max_poll_interval_ms=self._interval_ms)


BOTH = 2


def _passed(since_ms: float, limit_ms: float, share: float, now_ms: float) -> tuple[int, float]:
    """How many of two moments are over, at a share of the limit and at the limit; and when the next one is."""
    moments = (since_ms + limit_ms * share, since_ms + limit_ms)
    passed = sum(now_ms >= moment for moment in moments)
    return passed, (*moments, NEVER_MS)[passed]


class _Rebalances:
    """Whether a rebalance has begun or ended, by the metrics."""

    due_ms = NEVER_MS

    def __init__(self, membership: Membership, metrics: CoordinatorMetrics) -> None:
        self._membership = membership
        self._rebalances = metrics.rebalances
        self._since_ms: float | None = None
        self._reason = ""
        self._ended = 0

    def look(self, now_ms: float) -> Iterator[ConsumerEvent]:
        since_ms, ended = self._rebalances.since_ms, self._rebalances.count
        if self._since_ms is not None and since_ms != self._since_ms:
            yield RebalanceEnded(
                reason=self._reason,
                duration_ms=now_ms - self._since_ms,
                succeeded=ended > self._ended,
                generation=self._membership.status().generation,
            )
        if since_ms is not None and since_ms != self._since_ms:
            self._reason = self._membership.status().reason
            yield RebalanceBegan(reason=self._reason)
        self._since_ms, self._ended = since_ms, ended


class _Lags:
    """How far each partition is behind, looked at once a second."""

    def __init__(self, config: ConsumerConfig, subscription: Subscription) -> None:
        self._bound = config.event_lag_records
        self._read_committed = config.reads_committed
        self._subscription = subscription
        self._behind: set[TopicPartition] = set()
        self.due_ms = NEVER_MS if self._bound is None else -NEVER_MS

    def look(self, now_ms: float) -> Iterator[ConsumerEvent]:
        if self._bound is None or now_ms < self.due_ms:
            return
        self.due_ms = now_ms + LAG_EACH_MS
        self._behind &= self._subscription.partitions.keys()
        for tp, partition in self._subscription.partitions.items():
            lag = partition.lag(read_committed=self._read_committed)
            if lag is None:
                continue
            if lag > self._bound and tp not in self._behind:
                self._behind.add(tp)
                yield LagExceeded(partition=tp, lag=lag, bound=self._bound)
            elif lag <= self._bound * RECOVERED_SHARE and tp in self._behind:
                self._behind.remove(tp)
                yield LagRecovered(partition=tp, lag=lag, bound=self._bound)
