"""Which record may be worked on next, so that each queue's go one after the other.

A queue is a partition, or a key of a partition, or, where order does not matter, each record for itself; what a child
reads of a partition has queues of its own (`sources.py`). Contract: pure, and of one thread; records of a queue are
taken in the order they were added, none while another of its queue is in work. That goes on when a partition is taken
away and comes back: what was in work keeps its queue closed until it is done.

    queues = OrderedQueues(Ordering.KEY)
    queues.add(records)
    while (work := queues.take()) is not None:   # of queues that are open, which it closes
        ...
    queues.done(work)                            # opens them again
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Generic

from kwire.errors import IllegalStateError
from kwire.model import K, Record, TopicPartition, V
from kwire.processing.lazy_records import LazyRecords
from kwire.processing.partition_queues import EVERYTHING, KeyQueues, MergePolicy, PartitionQueue, Unordered
from kwire.processing.sources import LagOf, Source, partition_of


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

    source: Source
    records: Sequence[Record[K, V]]
    queues: Sequence[Hashable]
    """The queues that they keep closed: one entry for each record, if order matters."""

    @property
    def partition(self) -> TopicPartition:
        return partition_of(self.source)


@dataclass(slots=True, eq=False)
class _SourceQueues(Generic[K, V]):
    queues: Unordered[K, V]
    in_work: int = 0
    is_lined_up: bool = False


class OrderedQueues(Generic[K, V]):
    """Says which records may be worked on next.

    Args:
        ordering: What makes a queue.
    """

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering
        self._sources: dict[Source, _SourceQueues[K, V]] = {}
        self._lags: dict[TopicPartition, set[LagOf]] = {}
        # Those that may have something to take, the one that has waited longest first.
        self._turns: deque[Source] = deque()
        self._works: dict[int, Work[K, V]] = {}  # by id()
        self.waiting = 0
        """How many records wait."""
        self.in_work = 0
        """How many records are in work."""

    def add(self, records: Sequence[Record[K, V]], source: Source | None = None) -> None:
        """Have records wait, each behind those of its queue.

        Args:
            records: Of one partition, in order.
            source: Which queues they are for, if not simply the partition's.

        Raises:
            InvalidArgumentError: A key that no queue can be looked up by, under `Ordering.KEY`.
        """
        if not records:
            return
        if source is None:
            source = records.topic_partition if isinstance(records, LazyRecords) else records[0].topic_partition
        found = self._sources.get(source) or self._begin(source)
        found.queues.add(records)
        self.waiting += len(records)
        self._line_up(source, found)

    def take(self, max_records: int = 1, merge_policy: MergePolicy = MergePolicy.ONE_QUEUE) -> Work[K, V] | None:
        """The next records of an open queue, up to `max_records`, which is closed until they are done. None: all that
        wait have another of their queue in front of them that is in work, or none waits.

        Args:
            max_records: How many records.
            merge_policy: Whether to fill up with records of other queues of the same partition.
        """
        for _ in range(len(self._turns)):
            source = self._turns.popleft()
            if (found := self._sources.get(source)) is None:
                continue  # it is through
            found.is_lined_up = False
            records, closed = found.queues.take(max_records, merge_policy)
            if merge_policy is MergePolicy.WHOLE_SLICES and not records:
                self._line_up(source, found)  # parts of it may be taken
            if records:
                work = Work(source, records, closed)
                self._works[id(work)] = work
                self._count(found, len(records), waiting=-len(records))
                self._line_up(source, found)
                return work
        return None

    def done(self, work: Work[K, V]) -> None:
        """The records are done with, one way or the other; their queues are open again.

        Raises:
            IllegalStateError: They are not in work: done before, or never taken.
        """
        found = self._source_of(work)
        del self._works[id(work)]
        self._count(found, -len(work.records))
        found.queues.open(work.queues)
        self._line_up(work.source, found)
        self._end_if_through(work.source, found)

    def give_back(self, work: Work[K, V], at: int, behind: Sequence[Record[K, V]]) -> None:
        """A work's record number `at` (from 0) takes its time. It alone stays in work: those in front of it are done
        with, and of those behind it these wait again; nobody waits for the others.

        Raises:
            IllegalStateError: They are not in work.
        """
        found = self._source_of(work)
        stays = work.queues[at : at + 1]
        found.queues.give_back(behind)
        found.queues.open([queue for queue in work.queues if queue not in stays])
        self._count(found, 1 - len(work.records), waiting=len(behind))
        work.records, work.queues = work.records[at : at + 1], stays
        self._line_up(work.source, found)

    def drop(self, sources: Collection[Source], offsets: range = EVERYTHING) -> list[Record[K, V]]:
        """Forget what waits of these, as far as it has such an offset; what that was. What is in work stays so until it
        is done."""
        gone: list[Record[K, V]] = []
        for source in sources:
            if (found := self._sources.get(source)) is not None:
                gone += found.queues.drop(offsets)
                self._end_if_through(source, found)
        self.waiting -= len(gone)
        return gone

    def sources_of(self, partitions: Collection[TopicPartition]) -> list[Source]:
        """The partitions, and what children have read of them that is not through."""
        lags = (sorted(self._lags.get(tp, ())) for tp in partitions) if self._lags else ()
        return [*partitions, *chain.from_iterable(lags)]

    def in_work_of(self, partitions: Collection[TopicPartition]) -> int:
        """How many of these partitions' records are in work: what a revocation has to wait for."""
        return sum(self._sources[each].in_work for each in self.sources_of(partitions) if each in self._sources)

    # --- inside ---------------------------------------------------------------------------------------------

    def _begin(self, source: Source) -> _SourceQueues[K, V]:
        found = self._sources[source] = _SourceQueues(_new_queues(self._ordering))
        if isinstance(source, LagOf):
            self._lags.setdefault(source.topic_partition, set()).add(source)
        return found

    def _end_if_through(self, source: Source, found: _SourceQueues[K, V]) -> None:
        """A partition comes back; a part of a lag does not."""
        if isinstance(source, LagOf) and not found.in_work and not found.queues.waiting:
            del self._sources[source]
            lags = self._lags[source.topic_partition]
            lags.remove(source)
            if not lags:
                del self._lags[source.topic_partition]

    def _source_of(self, work: Work[K, V]) -> _SourceQueues[K, V]:
        if self._works.get(id(work)) is not work:
            raise IllegalStateError(f"this work of {work.partition} is not under way; it can be done only once")
        return self._sources[work.source]

    def _count(self, found: _SourceQueues[K, V], in_work: int, *, waiting: int = 0) -> None:
        found.in_work += in_work
        self.in_work += in_work
        self.waiting += waiting

    def _line_up(self, source: Source, found: _SourceQueues[K, V]) -> None:
        if found.queues.waiting and not found.is_lined_up:
            found.is_lined_up = True
            self._turns.append(source)


def _new_queues(ordering: Ordering) -> Unordered[K, V]:
    match ordering:
        case Ordering.PARTITION:
            return PartitionQueue()
        case Ordering.KEY:
            return KeyQueues()
        case Ordering.NONE:
            return Unordered()
