"""The ends of partitions that are reported to the program (`enable.partition.eof`)."""

from __future__ import annotations

import contextlib
import math
import time

from kwire import errors
from kwire.consumer.sync import Consumer
from kwire.model import TopicPartition

# How often ends are checked, which asks the network thread about each partition.
ENDS_S = 0.1


class PartitionEnds:
    """The ends of partitions. Each end is reported once, and again after a seek, a pause, or another assignment."""

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self._consumer = consumer
        self._told: dict[TopicPartition, int] = {}
        self._moved: set[TopicPartition] = set()
        self._looked_s = -math.inf

    def moved(self, partition: TopicPartition) -> None:
        """Note that the partition is read from another position, or again after a pause. What fetches have told of its
        end may be older."""
        self._told.pop(partition, None)
        self._moved.add(partition)

    def next(self) -> tuple[TopicPartition, int] | None:
        """The next partition that has reached an end which was not reported, and the offset of the end."""
        now_s = time.monotonic()
        if now_s < self._looked_s + ENDS_S:
            return None
        for partition in sorted(self._consumer.assignment() - self._consumer.paused()):
            with contextlib.suppress(errors.KafkaError):
                if (end := self._end_reached(partition)) is not None:
                    self._told[partition] = end
                    return partition, end
        self._looked_s = now_s
        return None

    def _end_reached(self, partition: TopicPartition) -> int | None:
        if self._consumer.current_lag(partition) != 0:
            return None
        position = self._consumer.position(partition, timeout=0)
        if self._told.get(partition) == position:
            return None
        if partition in self._moved and self._consumer.end_offsets([partition], timeout=ENDS_S)[partition] != position:
            return None
        self._moved.discard(partition)
        return position
