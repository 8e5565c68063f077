"""Which record may be worked on next, so that each lane's go one after the other.

A lane is a partition, or a key of a partition, or, where order does not matter, each record for itself. Contract: pure,
and of one thread; records of a lane are taken in the order they were added, none while another of its lane is in work.
That goes on when a partition is taken away and comes back: what was in work keeps its lane closed until it is done.

    lanes = Lanes(Ordering.KEY)
    lanes.add(records)
    while (work := lanes.take()) is not None:   # of a lane that is open, which it closes
        ...
    lanes.done(work)                            # opens it again
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic

from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.model import K, Record, TopicPartition, V


class Ordering(Enum):
    """What keeps its order."""

    PARTITION = "partition"
    """All records of a partition."""
    KEY = "key"
    """All records of a partition that have the same key, as deserialized; those without one have no order."""
    NONE = "none"
    """Nothing: each record may overtake each other one."""


@dataclass(frozen=True, slots=True, eq=False)
class Work(Generic[K, V]):
    """Records of one lane that are in work; the object itself stands for them."""

    records: tuple[Record[K, V], ...]
    lane: Hashable


@dataclass(slots=True, eq=False)
class _Lane(Generic[K, V]):
    waiting: deque[Record[K, V]] = field(default_factory=deque)
    work: Work[K, V] | None = None


class Lanes(Generic[K, V]):
    """Args:
    ordering: What makes a lane.
    """

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering
        self._lanes: dict[Hashable, _Lane[K, V]] = {}
        # Lanes that are open and have something waiting, the one that has waited longest first. One that was emptied
        # by `drop` is met here once more, and passed by.
        self._ready: deque[Hashable] = deque()
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
        if self._ordering is Ordering.PARTITION and records:
            self._line_up(records[0].topic_partition, records)
        else:
            for record in records:
                self._line_up(_key_of(record) if self._ordering is Ordering.KEY else object(), (record,))

    def _line_up(self, key: Hashable, records: Sequence[Record[K, V]]) -> None:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        if not lane.waiting and lane.work is None:
            self._ready.append(key)
        lane.waiting.extend(records)
        self.waiting += len(records)

    def take(self, most: int = 1) -> Work[K, V] | None:
        """The next records of one lane, up to `most`, which is closed until they are done. None: all that wait have
        another of their lane in front of them that is in work, or none waits."""
        while self._ready:
            key = self._ready.popleft()
            lane = self._lanes.get(key)
            if lane is not None and lane.waiting and lane.work is None:
                records = tuple(lane.waiting.popleft() for _ in range(min(most, len(lane.waiting))))
                lane.work = Work(records, key)
                self.waiting -= len(records)
                self.in_work += len(records)
                return lane.work
        return None

    def done(self, work: Work[K, V]) -> None:
        """The records are done with, one way or the other; the lane is open again.

        Raises:
            IllegalStateError: They are not in work: done before, or never taken.
        """
        lane = self._lanes.get(work.lane)
        if lane is None or lane.work is not work:
            raise IllegalStateError(f"the work of lane {work.lane} is not under way; it can be done only once")
        lane.work = None
        self.in_work -= len(work.records)
        if lane.waiting:
            self._ready.append(work.lane)
        else:
            del self._lanes[work.lane]

    def drop(self, partitions: Collection[TopicPartition], first: int = 0) -> list[Record[K, V]]:
        """Forget what waits of these partitions, from the offset `first` on; what that was. What is in work stays so
        until it is done."""
        gone: list[Record[K, V]] = []
        for key, lane in list(self._lanes.items()):
            if lane.waiting and lane.waiting[0].topic_partition in partitions:
                gone += (record for record in lane.waiting if record.offset >= first)
                lane.waiting = deque(record for record in lane.waiting if record.offset < first)
                if lane.work is None and not lane.waiting:
                    del self._lanes[key]
        self.waiting -= len(gone)
        return gone

    def in_work_of(self, partitions: Collection[TopicPartition]) -> int:
        """How many of these partitions' records are in work: what a revocation has to wait for."""
        return sum(
            len(lane.work.records)
            for lane in self._lanes.values()
            if lane.work is not None and lane.work.records[0].topic_partition in partitions
        )


def _key_of(record: Record[K, V]) -> Hashable:
    """What its lane is looked up by. A record without a key, as without order, is a lane of its own; not its offset:
    when a log was cut, another record may have that, and they are strangers."""
    key = record.key
    if key is None:
        return object()
    try:
        hash(key)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{record.topic_partition} offset {record.offset}: ordering by key needs keys that can be looked up, and a "
            f"{type(key).__name__} like this cannot; let the key deserializer make something immutable of it"
        ) from error
    return record.topic, record.partition, key
