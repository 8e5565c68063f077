"""Which partitions are paused, and what comes before it may."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import Cursor
from kwire.processing.backpressure import Backpressure
from kwire.processing.buffer_usage import BufferUsage, Usage
from kwire.processing.sources import LagOf
from kwire.protocol.record_columns import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.consumer.position_calls import PositionCalls
    from kwire.processing.options import ProcessorOptions

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Source:
    """A consumer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.assigned = frozenset((T0, T1))

    def assignment(self) -> frozenset[TopicPartition]:
        return self.assigned

    def set_backpressure(self, partitions: Collection[TopicPartition], _cursor: Cursor, *, is_on: bool) -> None:
        self.told.append(("hold" if is_on else "let go", *sorted(partitions)))

    def seek(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        self.told.append(("seek", partition, offset))

    def pass_again(self, chunk: PartitionRecords[bytes, bytes]) -> None:
        self.told.append(("pass", chunk.topic_partition, chunk.next))


def backpressure_of(source: Source) -> Backpressure[bytes, bytes]:
    """That of a processor with nothing in its buffer."""
    return Backpressure(
        cast("ProcessorOptions[bytes, bytes]", None),
        cast("Consumer[bytes, bytes]", source),
        cast("PositionCalls[bytes, bytes]", source),
        BufferUsage(),
    )


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
    backpressure = backpressure_of(source)
    backpressure.put_off([chunk(T0, 5, 0), chunk(T0, 7, 2), chunk(T0, 9, 4), chunk(T1, 3, 1, epoch=-1)])
    assert source.told == [
        ("hold", T0, T1),
        ("seek", T0, OffsetAndMetadata(7, leader_epoch=3)),
        ("seek", T1, OffsetAndMetadata(3)),
    ]
    source.told.clear()
    backpressure.put_off([])
    backpressure.end()
    assert source.told == [("let go", T0, T1)]


def test_a_position_that_came_too_soon_is_told_again() -> None:
    """There is no record to go back to; the partition's commit would stay in front of what nobody may see."""
    source = Source()
    backpressure_of(source).put_off([chunk(T0, 5, 0), chunk(T0, 7, 0)])
    assert source.told == [("hold", T0), ("pass", T0, OffsetAndMetadata(7))]


def test_a_partition_that_was_given_up_in_the_middle_of_its_work_is_not_held() -> None:
    """Nobody let it go again: when it came back, nothing of its lag was read."""
    source, usage = Source(), BufferUsage()
    source.assigned = frozenset((T1,))
    usage[LagOf(T0)] = usage[LagOf(T1)] = Usage(records=100)
    backpressure = Backpressure(
        cast("ProcessorOptions[bytes, bytes]", SimpleNamespace(max_buffered_records=50, max_buffered_bytes=10**9)),
        cast("Consumer[bytes, bytes]", source),
        cast("PositionCalls[bytes, bytes]", source),
        usage,
        (Cursor.MAIN, Cursor.CHILD),
    )
    backpressure.regulate(frozenset())
    usage.clear()
    backpressure.regulate(frozenset())
    assert source.told == [("hold", T1), ("let go", T1)]
