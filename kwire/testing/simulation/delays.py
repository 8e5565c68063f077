"""Delays by asynchronous revocation (KIP-983): a member keeps some of the partitions to be revoked for some polls.

Called by `member.py` around each poll. Its own contract is asserted here; the invariants check the rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.consumer.sync import Consumer
    from kwire.fetching.columns import Records
    from kwire.model import TopicPartition


# Well below the rebalance timeout: a correct member must not lose partitions.
MAX_MS = 8_000.0


class Delays:
    """A member's asynchronous revocations: which partitions it keeps for a while.

    Args:
        share: the share of partitions to be revoked that it delays. 0: it does not use the feature.
    """

    def __init__(self, share: float, now_ms: Callable[[], float], rng: random.Random) -> None:
        self.share = share
        self._now_ms = now_ms
        self._rng = rng
        self._asked: frozenset[TopicPartition] = frozenset()
        self._asked_since_ms = 0.0

    def after_poll(self, consumer: Consumer[bytes, bytes], records: Records[bytes, bytes], *, is_hurried: bool) -> None:
        """Process the result of a poll. A member that is hurried delays nothing more."""
        if not self.share:
            return
        lists = consumer.to_be_revoked_partitions(), consumer.lost_partitions()
        assert (records.to_be_revoked, records.lost) == lists, f"{records!r} tells otherwise than {lists}"
        drained = self._asked & records.partitions()
        assert not drained, f"records of what is to be revoked: {drained}"
        if not self._asked:
            self._asked_since_ms = self._now_ms()
        self._asked = lists[0]
        may_delay = not is_hurried and self._now_ms() < self._asked_since_ms + MAX_MS
        if held := [tp for tp in sorted(self._asked) if may_delay and self._rng.random() < self.share]:
            consumer.delay_revoke(held)

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that were revoked or lost; the same poll may assign them again."""
        self._asked -= frozenset(partitions)
