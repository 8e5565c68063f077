"""Partitions that a rebalance wants back while everything else goes on (KIP-983): each goes as soon as nothing of it is
in work and all that is done is committed.

For consumers with `enable_async_revocation`; used by the processor's thread alone, in front of each poll. With others
the listener has to wait, and so has everything else.
"""

from __future__ import annotations

from collections.abc import Collection

from kwire.clock import NEVER_MS
from kwire.consumer.sync import Consumer
from kwire.model import K, TopicPartition, V
from kwire.processing.commits import Commits
from kwire.processing.dispatcher import Dispatcher

# A handler that is still at it when a partition is taken away has this share of the poll interval to end.
DRAIN_SHARE = 0.8
# By this share the last commit has ended, even without a coordinator: a member that does not poll for the whole
# interval loses the partitions that it keeps as well.
_COMMIT_SHARE = 0.95
# Handlers that are cancelled then have so long, or that share, whichever is shorter, to clean up.
_GRACE_MS = 1_000.0
_GRACE_SHARE = 0.05


class RevocationDrain:
    """Lets partitions go that are asked back once nothing of them is in work.

    Args:
        max_poll_interval_ms: What the group grants, at most.
        patience_ms: How long a last commit may take where nothing else ends it.
    """

    def __init__(self, max_poll_interval_ms: float, patience_ms: float) -> None:
        self.patience_ms = patience_ms
        self._drain_ms = DRAIN_SHARE * max_poll_interval_ms
        self._commit_ms = (_COMMIT_SHARE - DRAIN_SHARE) * max_poll_interval_ms
        self.grace_ms = min(_GRACE_MS, _GRACE_SHARE * max_poll_interval_ms)
        """How long cancelled handlers may take."""
        self._until_ms: dict[TopicPartition, float] = {}

    @property
    def due_ms(self) -> float:
        """When something is not held back any longer."""
        return min(self._until_ms.values(), default=NEVER_MS)

    def until_ms(self, partitions: Collection[TopicPartition], now_ms: float) -> float:
        """How long what is in work of these may take: as long as is left since they were asked for."""
        return min((self._until_ms.get(tp, now_ms + self._drain_ms) for tp in partitions), default=now_ms)

    def commit_ms(self, until_ms: float, now_ms: float) -> float:
        """How long the last commit may take behind a drain that might have gone on until then."""
        return max(0.0, min(self.patience_ms, until_ms + self._commit_ms - now_ms))

    def hold_back(
        self, consumer: Consumer[K, V], dispatcher: Dispatcher[K, V], commits: Commits, now_ms: float
    ) -> None:
        """Begin nothing more of the partitions that are asked back, and delay the revoke of those not finished."""
        asked = consumer.to_be_revoked_partitions()
        self._until_ms = {tp: self.until_ms((tp,), now_ms) for tp in asked}
        if not asked:
            return
        dispatcher.drop(asked)
        in_time = frozenset(tp for tp in asked if now_ms < self._until_ms[tp])
        busy = frozenset(tp for tp in in_time if dispatcher.busy_with((tp,)))
        if not commits.is_settled(consumer, in_time - busy, now_ms):
            busy = in_time
        if busy:
            consumer.delay_revoke(busy)
