"""What a program stores with `store_offsets` (`enable.auto.offset.store` off), until it is committed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kwire.model import OffsetAndMetadata, TopicPartition


class StoredOffsets:
    """The newest stored offset of each partition, and which of them are committed.

    Args:
        interval_s: How often they are committed in the background; infinite for never.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._due_s = 0.0
        self._stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}

    def store(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._stored.update(offsets)

    def left(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Those that are not committed yet."""
        return {tp: at for tp, at in self._stored.items() if self._committed.get(tp) != at}

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These have been committed: by the program, or in the background."""
        self._committed.update({tp: at for tp, at in offsets.items() if tp in self._stored})

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They belong to somebody else now."""
        for tp in partitions:
            self._stored.pop(tp, None)
            self._committed.pop(tp, None)

    @property
    def are_committed_in_background(self) -> bool:
        return self._interval_s < math.inf

    def wait_s(self, now_s: float) -> float:
        """How long until some are to be committed in the background; infinite if there are none."""
        is_waiting = self.are_committed_in_background and self.left()
        return max(0.0, self._due_s - now_s) if is_waiting else math.inf

    def due(self, now_s: float) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is to be committed now."""
        if self.wait_s(now_s) > 0.0:
            return {}
        self._due_s = now_s + self._interval_s
        return self.left()
