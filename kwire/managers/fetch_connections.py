"""Which connection each partition is fetched over. Pure; used by the fetch manager.

A broker answers one fetch of a connection at a time, and may wait for records before it does. Partitions that must not
wait for others have a connection of their own: see `Channel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.fetching.idle_partitions import MANY_PARTITIONS, IdlePartitions
from kwire.managers.fetch_connection import MIN_WAIT_MS, FetchConnection, FetchConnectionId
from kwire.managers.second_fetch import SecondFetch
from kwire.managers.unsent import Channel
from kwire.model import Cursor
from kwire.subscription.partition import UNKNOWN_OFFSET

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Set

    from kwire.clock import Backoff
    from kwire.fetching.session import FetchSpec
    from kwire.model import TopicPartition
    from kwire.subscription.partition import AssignedPartition
    from kwire.subscription.subscription import Subscription

LATE_MS = 100.0
"""A fetch that is overdue by less is about to be answered."""


class FetchConnections:
    """All connections that fetch, and the partitions of each.

    Args:
        read_committed: Whether a log ends at its first open transaction.
        cursor: whose fetches these are. A child's go over a connection of their own.
        timeout_ms: How long an answer may take, beside what the broker waits for records.

    Attributes:
        second: Which partitions are fetched over a second connection to their broker, while it is the only one.
    """

    def __init__(
        self, subscription: Subscription, backoff: Backoff, timeout_ms: float, *, read_committed: bool, cursor: Cursor
    ) -> None:
        self._read_committed = read_committed
        self._subscription = subscription
        self._backoff = backoff
        self._timeout_ms = timeout_ms
        self._cursor = cursor
        self._by_id: dict[FetchConnectionId, FetchConnection] = {}
        self._of: dict[TopicPartition, FetchConnection] = {}
        self._idle = IdlePartitions()
        # What is fetched over NEW_FETCH, and the connection whose fetch waits meanwhile.
        self._new: dict[TopicPartition, FetchConnection] = {}
        self.second = SecondFetch(subscription, read_committed=read_committed)

    def __iter__(self) -> Iterator[FetchConnection]:
        return iter(self._by_id.values())

    def of(self, tp: TopicPartition) -> FetchConnection | None:
        """Where it is fetched, if it is."""
        return self._of.get(tp)

    def wait_ms(self, connection: FetchConnection, most_ms: float, now_ms: float) -> float:
        """How long the broker may wait for records. NEW_FETCH is to be free again for the next seek when its partitions
        join the others: it waits no longer than the fetch that they were not to wait behind."""
        if connection.id.channel is Channel.NEW_FETCH:
            dues_ms = [waiting.due_ms for tp, waiting in self._new.items() if self._of[tp] is connection]
            left_ms = max(dues_ms, default=now_ms) - now_ms
            if left_ms > -LATE_MS:  # else nobody knows how long it takes
                most_ms = min(most_ms, max(MIN_WAIT_MS, left_ms))
        return connection.wait_ms(most_ms, now_ms)

    @property
    def due_bytes(self) -> int:
        """How many bytes the open requests may bring, all together."""
        return sum(connection.due_bytes for connection in self)

    @property
    def have_many(self) -> bool:
        """Whether there are so many partitions that the idle ones are fetched by themselves."""
        return len(self._subscription.partitions) > MANY_PARTITIONS

    def answered(self, tp: TopicPartition, *, has_more: bool, now_ms: float) -> None:
        """An answer had the partition in it: see `IdlePartitions`."""
        self._idle.answered(tp, has_more=has_more, now_ms=now_ms)

    def misplaced(self, now_ms: float) -> Set[TopicPartition]:
        """Partitions that may belong to another connection now: they became idle, the fetch that they were not to wait
        behind is answered, or they move to or from the second connection."""
        joining = {tp for tp, waiting in self._new.items() if not waiting.request.in_flight} if self._new else set()
        return joining.union(self._idle.expire(now_ms), self.second.misplaced(now_ms))

    def opening(self, now_ms: float) -> FetchConnection | None:
        """The second connection, if an empty fetch is to open it now.

        Only if one broker alone is fetched from: several brokers send at the same time anyway.
        """
        if not self.second.is_needed(now_ms) or self.have_many:
            return None
        busy = [each for each in self if each.session.wanted]
        if [each.id.channel for each in busy] != [Channel.FETCH]:
            return None
        second = self._connection(busy[0].id.node_id, Channel.SECOND_FETCH)
        self.second.pair(busy[0], second)
        return second if second.request.ready(now_ms) else None

    def remove(self, tp: TopicPartition) -> None:
        """Do not fetch this partition for now."""
        self._idle.forget(tp)
        self._new.pop(tp, None)
        self.second.partitions.discard(tp)
        connection = self._of.pop(tp, None)
        if connection is not None:
            connection.session.unwant(tp)

    def forget_brokers(self, but: Container[int]) -> None:
        """Forget brokers that left the cluster, once nothing is fetched from them, and no fetch is in flight."""
        for each in list(self):
            if each.id.node_id not in but and not (each.session.wanted or each.request.in_flight):
                del self._by_id[each.id]

    def place(
        self, partition: AssignedPartition, node_id: int, spec: FetchSpec, *, with_many: bool, now_ms: float
    ) -> None:
        """Fetch the partition from this broker, as `spec` says.

        Args:
            with_many: Whether it is one of many that came together.
        """
        tp = partition.topic_partition
        before = self._of.get(tp)
        is_new = before is None or before.session.wanted[tp].epoch != partition.epoch
        if is_new:
            self._idle.added(tp, with_many=with_many)
        if is_new or not self.second.is_at(node_id):
            self.second.partitions.discard(tp)
        # A partition that was refused, or has just been assigned, is not urgent: after a rebalance of a large group
        # every member would open another connection to most brokers, and send many more fetches.
        is_urgent = is_new and partition.error is None and partition.high_watermark != UNKNOWN_OFFSET
        connection = self._connection_for(tp, node_id, is_urgent=is_urgent)
        if before is not None and before is not connection:
            before.session.unwant(tp)
        self._of[tp] = connection
        connection.session.want(tp, spec)
        if is_urgent:
            connection.sought_at_ms = now_ms

    def _connection_for(self, tp: TopicPartition, node_id: int, *, is_urgent: bool) -> FetchConnection:
        """The connection for a partition. One that was sought or resumed does not stand behind a fetch that waits for
        records of others, up to `fetch_max_wait_ms`: it has NEW_FETCH until that fetch is answered."""
        usual = self._connection(node_id, self._channel(tp))
        is_urgent = is_urgent or tp in self._new
        self._new.pop(tp, None)
        if is_urgent and usual.id.channel is Channel.FETCH and self._waits(usual):
            self._new[tp] = usual
            return self._connection(node_id, Channel.NEW_FETCH)
        return usual

    def _connection(self, node_id: int, channel: Channel) -> FetchConnection:
        connection_id = FetchConnectionId(node_id, channel)
        if connection_id not in self._by_id:
            self._by_id[connection_id] = FetchConnection(connection_id, self._backoff, self._timeout_ms)
        return self._by_id[connection_id]

    def _channel(self, tp: TopicPartition) -> Channel:
        if self._cursor is Cursor.CHILD:
            return Channel.CHILD_FETCH
        if tp in self.second.partitions:
            return Channel.SECOND_FETCH
        return Channel.IDLE_FETCH if self.have_many and self._idle.is_idle(tp) else Channel.FETCH

    def _waits(self, connection: FetchConnection) -> bool:
        """Whether the open fetch waits at the broker: no partition in it is known to have records."""
        return connection.request.in_flight and all(
            0 <= partition.end_offset(read_committed=self._read_committed) <= spec.offset
            for tp, spec in connection.session.sent.items()
            if (partition := self._subscription.partitions.get(tp)) is not None
        )
