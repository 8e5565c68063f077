"""Which record may be worked on next, so that each lane's go one after the other.

A lane is a partition, or a key of a partition, or, where order does not matter, each record for itself. Contract: pure,
and of one thread; records of a lane are taken in the order they were added, none while another of its lane is in work.
That goes on when a partition is taken away and comes back: what was in work keeps its lane closed until it is done.

    lanes = Lanes(Ordering.KEY)
    lanes.add(records)
    while (work := lanes.take()) is not None:   # of lanes that are open, which it closes
        ...
    lanes.done(work)                            # opens them again
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic

from kwire.errors import IllegalStateError
from kwire.model import K, Record, TopicPartition, V
from kwire.processing.partition_lanes import KeyLanes, Mixing, NoLanes, OneLane
from kwire.processing.rows import Rows


class Ordering(Enum):
    """What keeps its order."""

    PARTITION = "partition"
    """All records of a partition."""
    KEY = "key"
    """All records of a partition that have the same key, as deserialized; those without one have no order."""
    NONE = "none"
    """Nothing: each record may overtake each other one."""


@dataclass(slots=True, eq=False)
class Work(Generic[K, V]):
    """Records of one partition that are in work; the object itself stands for them."""

    partition: TopicPartition
    records: Sequence[Record[K, V]]
    lanes: Sequence[Hashable]
    """What they keep closed; of a lane as often as it has records here."""


@dataclass(slots=True, eq=False)
class _Partition(Generic[K, V]):
    lanes: NoLanes[K, V]
    in_work: int = 0
    is_lined_up: bool = False


class Lanes(Generic[K, V]):
    """Args:
    ordering: What makes a lane.
    """

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering
        self._partitions: dict[TopicPartition, _Partition[K, V]] = {}
        # Those that may have something to take, the one that has waited longest first.
        self._turns: deque[TopicPartition] = deque()
        self._works: dict[int, Work[K, V]] = {}  # by id()
        self.waiting = 0
        """How many records wait."""
        self.in_work = 0
        """How many records are in work."""

    def add(self, records: Sequence[Record[K, V]]) -> None:
        """They wait from now on, each behind those of its lane.

        Args:
            records: Of one partition, in order.

        Raises:
            InvalidArgumentError: A key that no lane can be looked up by, under `Ordering.KEY`.
        """
        if not records:
            return
        tp = records.topic_partition if isinstance(records, Rows) else records[0].topic_partition
        partition = self._partitions.get(tp) or self._partitions.setdefault(tp, _Partition(_new_lanes(self._ordering)))
        partition.lanes.add(records)
        self.waiting += len(records)
        self._line_up(tp, partition)

    def take(self, most: int = 1, mixing: Mixing = Mixing.ONE_LANE) -> Work[K, V] | None:
        """The next records of an open lane, up to `most`, which is closed until they are done. None: all that wait have
        another of their lane in front of them that is in work, or none waits.

        Args:
            most: How many records.
            mixing: Whether to fill up with records of other lanes of the same partition.
        """
        for _ in range(len(self._turns)):
            tp = self._turns.popleft()
            partition = self._partitions[tp]
            partition.is_lined_up = False
            records, closed = partition.lanes.take(most, mixing)
            if mixing is Mixing.WHOLE_SLICES and not records:
                self._line_up(tp, partition)  # parts of it may be taken
            if records:
                work = Work(tp, records, closed)
                self._works[id(work)] = work
                self._count(partition, len(records), waiting=-len(records))
                self._line_up(tp, partition)
                return work
        return None

    def done(self, work: Work[K, V]) -> None:
        """The records are done with, one way or the other; their lanes are open again.

        Raises:
            IllegalStateError: They are not in work: done before, or never taken.
        """
        partition = self._partition_of(work)
        del self._works[id(work)]
        self._count(partition, -len(work.records))
        partition.lanes.open(work.lanes)
        self._line_up(work.partition, partition)

    def give_back(self, work: Work[K, V], at: int) -> None:
        """A work's record number `at` (from 0) takes its time. Those in front of it are done with, it alone stays in
        work, and those behind it wait again.

        Raises:
            IllegalStateError: They are not in work.
        """
        partition = self._partition_of(work)
        behind, stays = work.records[at + 1 :], work.lanes[at : at + 1]
        partition.lanes.give_back(behind)
        partition.lanes.open([lane for lane in work.lanes if lane not in stays])
        self._count(partition, 1 - len(work.records), waiting=len(behind))
        work.records, work.lanes = work.records[at : at + 1], stays
        self._line_up(work.partition, partition)

    def drop(self, partitions: Collection[TopicPartition], first: int = 0) -> list[Record[K, V]]:
        """Forget what waits of these partitions, from the offset `first` on; what that was. What is in work stays so
        until it is done."""
        gone: list[Record[K, V]] = []
        for tp in partitions:
            if (partition := self._partitions.get(tp)) is not None:
                gone += partition.lanes.drop(first)
        self.waiting -= len(gone)
        return gone

    def in_work_of(self, partitions: Collection[TopicPartition]) -> int:
        """How many of these partitions' records are in work: what a revocation has to wait for."""
        return sum(self._partitions[tp].in_work for tp in partitions if tp in self._partitions)

    # --- inside ---------------------------------------------------------------------------------------------

    def _partition_of(self, work: Work[K, V]) -> _Partition[K, V]:
        if self._works.get(id(work)) is not work:
            raise IllegalStateError(f"this work of {work.partition} is not under way; it can be done only once")
        return self._partitions[work.partition]

    def _count(self, partition: _Partition[K, V], in_work: int, *, waiting: int = 0) -> None:
        partition.in_work += in_work
        self.in_work += in_work
        self.waiting += waiting

    def _line_up(self, tp: TopicPartition, partition: _Partition[K, V]) -> None:
        if partition.lanes.waiting and not partition.is_lined_up:
            partition.is_lined_up = True
            self._turns.append(tp)


def _new_lanes(ordering: Ordering) -> NoLanes[K, V]:
    match ordering:
        case Ordering.PARTITION:
            return OneLane()
        case Ordering.KEY:
            return KeyLanes()
        case Ordering.NONE:
            return NoLanes()
