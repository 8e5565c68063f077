"""Which partitions are paused, and what comes before it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.fetching.partition_records import PartitionRecords
from kwire.processing.loads import Loads
from kwire.processing.valve import Valve
from kwire.protocol.record_columns import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.processing.plan import Plan

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Source:
    """A consumer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self._paused: set[TopicPartition] = set()

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset((T0, T1))

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._paused)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.update(partitions)
        self.told.append(("pause", *sorted(partitions)))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.difference_update(partitions)
        self.told.append(("resume", *sorted(partitions)))

    def seek(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        self.told.append(("seek", partition, offset))


def chunk(tp: TopicPartition, first: int, count: int, epoch: int = 3) -> PartitionRecords[bytes, bytes]:
    none = np.full(count, -1, dtype=np.int64)
    columns = RecordColumns(
        buffer=b"",
        offsets=np.arange(first, first + count, dtype=np.int64),
        timestamps=none,
        timestamp_types=np.zeros(count, dtype=np.int8),
        leader_epochs=np.full(count, epoch, dtype=np.int32),
        key_starts=none,
        key_lengths=none,
        value_starts=none,
        value_lengths=none,
    )
    return PartitionRecords(topic_partition=tp, columns=columns, next=OffsetAndMetadata(first + count))


def test_what_came_too_soon_comes_again_from_its_first_record_on() -> None:
    """Of a partition with several chunks all but the last were left out."""
    source = Source()
    valve = Valve(cast("Plan[bytes, bytes]", None), cast("Consumer[bytes, bytes]", source), Loads())
    valve.put_off([chunk(T0, 5, 0), chunk(T0, 7, 2), chunk(T0, 9, 4), chunk(T1, 3, 1, epoch=-1)])
    assert source.told == [
        ("pause", T0, T1),
        ("seek", T0, OffsetAndMetadata(7, leader_epoch=3)),
        ("seek", T1, OffsetAndMetadata(3)),
    ]
    source.told.clear()
    valve.put_off([])
    valve.open()
    assert source.told == [("resume", T0, T1)]


def test_what_the_user_has_paused_stays_paused() -> None:
    """The end of a processor resumed it: while it drains, everything is paused."""
    source = Source()
    source.pause((T1,))
    valve = Valve(cast("Plan[bytes, bytes]", None), cast("Consumer[bytes, bytes]", source), Loads())
    valve.shut()
    assert valve.paused == {T0}
    assert source.paused() == {T0, T1}
    valve.open()
    assert not valve.paused
    assert source.paused() == {T1}
