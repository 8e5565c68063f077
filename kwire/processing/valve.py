"""Which partitions are paused: those of which there is enough, each for itself, so that a slow one does not stop the
others.

Contract: used by the processor's thread alone. What it has paused it resumes; what the user has paused it leaves alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic

from kwire.consumer.sync import Consumer
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, OffsetAndMetadata, TopicPartition, V
from kwire.processing.loads import Loads
from kwire.processing.plan import Plan
from kwire.processing.sources import partition_of
from kwire.subscription.partition import leader_epoch_or_none

# Of its share a partition that is paused has to work off so much before it goes on.
RESUMED_AT = 0.5


class Valve(Generic[K, V]):
    """Args:
    loads: What is buffered of each partition.
    """

    def __init__(self, plan: Plan[K, V], consumer: Consumer[K, V], loads: Loads) -> None:
        self.paused: frozenset[TopicPartition] = frozenset()
        self._plan = plan
        self._consumer = consumer
        self._loads = loads

    def regulate(self, closed: frozenset[TopicPartition]) -> None:
        """Pause what there is enough of, and resume the others, but for those that came before they were open: as a
        rule they are open before anything comes, and who is paused has to wait for the fetch that is under way."""
        assigned = self._consumer.assignment()
        self.paused &= assigned
        self._set(closed & self.paused | self._plenty(len(assigned)))

    def shut(self) -> None:
        """Pause everything."""
        assigned = self._consumer.assignment()
        self.paused &= assigned
        self._set(assigned)

    def put_off(self, chunks: Iterable[PartitionRecords[K, V]]) -> None:
        """What a poll returned of these came too soon, and comes again: when the partition is resumed, or for whoever
        goes on with the consumer."""
        firsts: dict[TopicPartition, PartitionRecords[K, V]] = {}
        for chunk in chunks:
            if len(chunk):
                firsts.setdefault(chunk.topic_partition, chunk)  # there may be several of a partition, in order
        self._set(self.paused | firsts.keys())
        for tp, chunk in firsts.items():
            epoch = leader_epoch_or_none(int(chunk.columns.leader_epochs[0]))
            self._consumer.seek(tp, OffsetAndMetadata(int(chunk.columns.offsets[0]), leader_epoch=epoch))

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They are not ours any more; should they come back, they come back unpaused."""
        self.paused -= frozenset(partitions)

    def open(self) -> None:
        """Leave nothing paused."""
        self.paused &= self._consumer.assignment()
        self._set(frozenset())

    def _set(self, wanted: frozenset[TopicPartition]) -> None:
        wanted -= self._consumer.paused() - self.paused  # what the user has paused
        if begin := wanted - self.paused:
            self._consumer.pause(begin)
        if end := self.paused - wanted:
            self._consumer.resume(end)
        self.paused = wanted

    def _plenty(self, assigned: int) -> frozenset[TopicPartition]:
        """Partitions with more than their share of what may be buffered; once paused, with more than half of it."""
        plan = self._plan
        return frozenset(
            partition_of(tp)
            for tp, load in self._loads.items()
            if max(load.records / plan.max_buffered_records, load.size_bytes / plan.max_buffered_bytes) * assigned
            > (RESUMED_AT if tp in self.paused else 1.0)
        )
