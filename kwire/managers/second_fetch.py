"""When a broker is fetched from over two connections at a time. Pure; used by `fetch_connections`.

Over one connection the broker and the consumer take turns. The broker sends an answer; then the consumer reads it and
sends the next fetch. If the application waits for records meanwhile, these turns limit its speed. So half of the
partitions with a lag move to a second connection: the broker sends records of one half while the consumer reads the
other.

Nothing depends on that connection. A fetch of nothing opens it, and partitions move once it is answered. They go back
when it fails, when their lag is read, and when the application has fallen behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.clock import NEVER_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Set

    from kwire.managers.fetch_connection import FetchConnection
    from kwire.model import TopicPartition
    from kwire.subscription.subscription import Subscription

WAITS_IN_A_ROW = 2
"""This many answers have to leave a lag behind and find the application waiting: a short lag is not worth a connection.
"""
RETRY_AFTER_MS = 60_000.0
"""A broker may allow a client few connections. After a failure another one is tried only after this time."""
NOTHING: frozenset[TopicPartition] = frozenset()


class SecondFetch:
    """The second connection beside the usual one, and which partitions are fetched over it.

    Args:
        read_committed: Whether a log ends at its first open transaction.

    Attributes:
        partitions: Those that are fetched over the second connection.
    """

    def __init__(self, subscription: Subscription, *, read_committed: bool) -> None:
        self._subscription = subscription
        self._read_committed = read_committed
        self._usual: FetchConnection | None = None
        self._second: FetchConnection | None = None
        self.partitions: set[TopicPartition] = set()
        self._waits = 0
        self._is_open = False
        self._is_behind = False
        self._not_before_ms = -NEVER_MS

    def is_at(self, node_id: int) -> bool:
        """Whether this broker has the second connection."""
        return self._second is not None and self._second.id.node_id == node_id

    def is_needed(self, now_ms: float) -> bool:
        """Whether the application waits for a broker that has more."""
        return self._waits >= WAITS_IN_A_ROW and now_ms >= self._not_before_ms

    def pair(self, usual: FetchConnection, second: FetchConnection) -> None:
        """Take these two connections, to the broker that the application waits for."""
        if self._usual is not usual or self._second is not second:
            self._usual, self._second, self._is_open = usual, second, False

    def answered(
        self, connection: FetchConnection, partitions: Collection[TopicPartition], *, held_bytes: int, limit_bytes: int
    ) -> None:
        """An answer is here.

        Args:
            partitions: Those that it has records of.
            held_bytes: What was buffered when it came; with nothing, the application waited.
            limit_bytes: How much may be buffered.
        """
        if connection is self._second:
            self._is_open = True
            self._is_behind = held_bytes > limit_bytes // 2
        elif not self.partitions:
            may_share = not held_bytes and self._leaves_lags(connection, partitions)
            self._waits = self._waits + 1 if may_share else 0
            self._is_open &= may_share  # it may be closed for being idle

    def failed(self, connection: FetchConnection, now_ms: float) -> None:
        """A fetch got no answer."""
        if connection is self._second:
            self._is_open = False
            self._not_before_ms = now_ms + RETRY_AFTER_MS

    def misplaced(self, now_ms: float) -> Set[TopicPartition]:
        """Partitions that have moved to the second connection, or back."""
        if self._usual is None or self._second is None:
            return NOTHING
        if self.partitions:
            return self._leave(self._usual, self._second)
        if self._is_open and self.is_needed(now_ms):
            return self._join(self._usual, self._second)
        return NOTHING

    def _join(self, usual: FetchConnection, second: FetchConnection) -> Set[TopicPartition]:
        """Move partitions, between two fetches: those of a fetch in flight would be fetched twice."""
        if usual.request.in_flight or second.request.in_flight:
            return NOTHING
        self._waits = 0
        self.partitions.update(self._with_lag(usual)[1::2])
        second.most_bytes = usual.most_bytes  # the same line
        return frozenset(self.partitions)

    def _leave(self, usual: FetchConnection, second: FetchConnection) -> Set[TopicPartition]:
        """Take partitions back, just before a fetch over the usual connection, so that none is without one. The fetch
        of the second connection may still be in flight for one that was read to its end: the first news counts."""
        leaving = set(self.partitions)
        if self._is_open:
            if usual.request.in_flight:
                return NOTHING
            if not self._is_behind or second.request.in_flight:
                leaving = {tp for tp in leaving if not self._has_lag(tp)}
        self.partitions -= leaving
        return leaving

    def _leaves_lags(self, connection: FetchConnection, partitions: Collection[TopicPartition]) -> bool:
        """Whether several of these have more, and no other partition has. Where an answer has no room for all,
        partitions take turns; over two connections they could not."""
        if not any(map(self._has_lag, partitions)):  # as a rule
            return False
        lagging = self._with_lag(connection)
        return len(lagging) > 1 and set(lagging) <= set(partitions)

    def _with_lag(self, connection: FetchConnection) -> list[TopicPartition]:
        return [tp for tp in connection.session.wanted if self._has_lag(tp)]

    def _has_lag(self, tp: TopicPartition) -> bool:
        partition = self._subscription.partitions.get(tp)
        return partition is not None and partition.has_lag(read_committed=self._read_committed)
