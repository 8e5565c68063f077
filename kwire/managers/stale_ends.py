"""Asks where logs end of partitions that are not fetched: paused ones, and all while the buffer is full. Fetches tell
the ends of the others. Without this the lag of a consumer whose program is stuck would stand still.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from kwire.clock import NEVER_MS
from kwire.epochs import AssignmentEpoch
from kwire.errors import KafkaError
from kwire.events import LATEST_TIMESTAMP, Reply
from kwire.managers.list_offsets import Found, ListOffsetsManager
from kwire.model import TopicPartition
from kwire.subscription.partition import AssignedPartition
from kwire.subscription.subscription import Subscription

ASK_EACH_MS = 5_000.0


class StaleEnds:
    """Used by those who want to know the lag, each time when they do.

    Args:
        is_fetched: Whether a fetch is under way that would tell of new records in the partition.
    """

    def __init__(
        self,
        subscription: Subscription,
        list_offsets: ListOffsetsManager,
        is_fetched: Callable[[AssignedPartition], bool],
        *,
        read_committed: bool,
    ) -> None:
        self._subscription = subscription
        self._list_offsets = list_offsets
        self._is_fetched = is_fetched
        self._read_committed = read_committed
        self._asked: dict[tuple[TopicPartition, AssignmentEpoch], Reply[Found]] = {}
        self._due_ms = -NEVER_MS

    def refresh(self, now_ms: float) -> None:
        """Ask for the ends that may be old, unless that was done a moment ago."""
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + ASK_EACH_MS
        wanted = {
            (tp, partition.epoch)
            for tp, partition in self._subscription.partitions.items()
            if partition.has_valid_position and not self._is_fetched(partition)
        }
        for asked in self._asked.keys() - wanted:
            self._asked.pop(asked).abandon()
        for tp, epoch in sorted(wanted - self._asked.keys()):
            self._ask(tp, epoch)

    def _ask(self, tp: TopicPartition, epoch: AssignmentEpoch) -> None:
        reply: Reply[Found] = Reply("", on_done=partial(self._on_end, tp, epoch))
        self._asked[tp, epoch] = reply
        self._list_offsets.ask(tp, LATEST_TIMESTAMP, reply)

    def _on_end(self, tp: TopicPartition, epoch: AssignmentEpoch) -> None:
        """An error leaves the end as it was known."""
        reply, partition = self._asked.pop((tp, epoch), None), self._subscription.partitions.get(tp)
        if reply is None or partition is None or partition.epoch != epoch:
            return
        with suppress(KafkaError):
            if (found := reply.result()) is not None:
                partition.ends_at(*self._ends(partition, found.offset))

    def _ends(self, partition: AssignedPartition, end: int) -> tuple[int, int]:
        """The high watermark and the last stable offset. With read_committed the answer is the latter."""
        if self._read_committed:
            return max(partition.high_watermark, end), end
        return end, min(partition.last_stable_offset, end)
