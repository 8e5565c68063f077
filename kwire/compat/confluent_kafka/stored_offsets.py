"""Stored offsets: those of the messages that were returned, or those that a program stores with `store_offsets`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kwire.model import OffsetAndMetadata, TopicPartition


class StoredOffsets:
    """The newest stored offset of each partition, and which of them are committed.

    Args:
        interval_s: The interval of background commits; infinite for none.
        now_s: The time at which the first interval begins.
    """

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._due_s = now_s + interval_s
        self._stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._left: dict[TopicPartition, OffsetAndMetadata] = {}

    def store(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._stored.update(offsets)
        self._compare(offsets)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that these were committed, by the program or in the background."""
        self._committed.update({tp: at.offset for tp, at in offsets.items() if tp in self._stored})
        self._compare(offsets)

    def _compare(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            if (at := self._stored.get(tp)) is not None and at.offset != self._committed.get(tp):
                self._left[tp] = at
            else:
                self._left.pop(tp, None)

    def offset_of(self, partition: TopicPartition) -> int | None:
        """The stored offset of a partition, committed or not."""
        at = self._stored.get(partition)
        return None if at is None else at.offset

    def left(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The stored offsets that are not committed yet."""
        return dict(self._left)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that belong to another member now."""
        for tp in partitions:
            for known in (self._stored, self._committed, self._left):
                known.pop(tp, None)

    def wait_s(self, now_s: float) -> float:
        """The time until the next background commit; infinite if there is nothing to commit."""
        return max(0.0, self._due_s - now_s) if self._left and self._interval_s < math.inf else math.inf

    def due(self, now_s: float) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a background commit has to commit now."""
        if self.wait_s(now_s) > 0.0:
            return {}
        self._due_s = now_s + self._interval_s
        return self.left()
