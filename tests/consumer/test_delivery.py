"""What counts as handed out: everything with the next poll, and in a loop the records up to the current one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwire import OffsetAndMetadata, Records, TopicPartition
from kwire.consumer.delivery import Delivery
from kwire.events import AssignmentView, Delivered
from kwire.fetching.partition_records import PartitionRecords
from kwire.protocol.record_columns import RecordColumns, empty_columns

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
EPOCHS = {A: 1, B: 2}
VIEW = AssignmentView(epochs=EPOCHS)


def columns(offsets: range) -> RecordColumns:
    """Rows with these offsets, and null keys and values."""
    count = len(offsets)
    return replace(
        empty_columns(),
        offsets=np.array(offsets, dtype=np.int64),
        timestamps=np.zeros(count, np.int64),
        timestamp_types=np.zeros(count, np.int8),
        leader_epochs=np.full(count, 5, np.int32),
        key_starts=np.zeros(count, np.int64),
        key_lengths=np.full(count, -1, np.int64),
        value_starts=np.zeros(count, np.int64),
        value_lengths=np.full(count, -1, np.int64),
    )


def chunk(tp: TopicPartition, offsets: range, behind: int | None = None) -> PartitionRecords[bytes, bytes]:
    position = OffsetAndMetadata(offsets.stop if behind is None else behind, leader_epoch=5)
    return PartitionRecords(topic_partition=tp, columns=columns(offsets), next=position)


def polled(*chunks: PartitionRecords[bytes, bytes]) -> tuple[Delivery[bytes, bytes], Records[bytes, bytes]]:
    """As a poll leaves it that is about to return these chunks."""
    delivery: Delivery[bytes, bytes] = Delivery()
    delivery.hand_out([(each.topic_partition, EPOCHS[each.topic_partition], each.next) for each in chunks])
    return delivery, Records([each for each in chunks if len(each)])


def offsets_of(delivered: object) -> dict[TopicPartition, int]:
    assert isinstance(delivered, list | tuple)
    return {tp: position.offset for tp, _, position in delivered}


def test_all_that_a_poll_returned_is_delivered_with_the_next_call_and_once() -> None:
    delivery, _ = polled(chunk(A, range(3)), chunk(B, range(10, 12), behind=15))
    assert offsets_of(delivery.take()) == {A: 3, B: 15}
    assert offsets_of(delivery.take()) == {}


def test_a_loop_delivers_up_to_the_record_it_is_at() -> None:
    delivery, records = polled(chunk(A, range(3)), chunk(B, range(10, 13)))
    loop = delivery.iterate(records)
    seen = [offsets_of(delivery.take()) for _ in loop]
    assert seen == [{A: 1}, {A: 2}, {A: 3}, {A: 3, B: 11}, {A: 3, B: 12}, {A: 3, B: 13}]
    assert offsets_of(delivery.take()) == {A: 3, B: 13}


def test_the_position_in_a_loop_is_behind_its_record_with_that_records_epoch() -> None:
    delivery, records = polled(chunk(A, range(3), behind=9))
    loop = delivery.iterate(records)
    next(loop)
    assert delivery.position(A, 1) == 1
    assert delivery.position(A, 99) is None, "of another assignment"
    assert delivery.position(B, 2) is None
    assert delivery.take()[0][2] == OffsetAndMetadata(1, leader_epoch=5)
    next(loop)
    next(loop)
    assert delivery.position(A, 1) == 9, "behind the last record lies what nobody may see"


def test_what_advances_without_records_is_delivered_at_once() -> None:
    delivery, records = polled(chunk(B, range(0), behind=20), chunk(A, range(3)), chunk(A, range(0), behind=7))
    loop = delivery.iterate(records)
    next(loop)
    assert offsets_of(delivery.take()) == {B: 20, A: 1}
    assert len(list(loop)) == 2
    assert offsets_of(delivery.take()) == {B: 20, A: 7}


def test_a_loop_that_is_left_leaves_the_rest_to_the_next_poll() -> None:
    delivery, records = polled(chunk(A, range(4), behind=8), chunk(B, range(10, 12)))
    loop = delivery.iterate(records)
    next(loop)
    next(loop)
    delivery.interrupt()
    assert offsets_of(delivery.take()) == {A: 2}
    chunks, delivered = delivery.take_unseen(VIEW)
    assert [record.offset for record in Records(chunks)] == [2, 3, 10, 11]
    assert offsets_of(delivered) == {A: 8, B: 12}
    assert delivery.take_unseen(VIEW) == ([], [])
    assert list(loop) == [], "the old loop is over"


def test_what_a_loop_has_not_seen_is_dropped_when_it_is_stale() -> None:
    delivery, records = polled(chunk(A, range(4)), chunk(B, range(10, 12)))
    next(delivery.iterate(records))
    delivery.interrupt()
    moved = AssignmentView(epochs={A: EPOCHS[A] + 10, B: EPOCHS[B]})
    chunks, _ = delivery.take_unseen(moved)
    assert [record.offset for record in Records(chunks)] == [10, 11]
    assert delivery.take_unseen(VIEW) == ([], [])


def test_what_a_loop_has_not_seen_waits_while_it_is_withheld() -> None:
    delivery, records = polled(chunk(A, range(4)), chunk(B, range(10, 12)))
    next(delivery.iterate(records))
    delivery.interrupt()
    chunks, _ = delivery.take_unseen(AssignmentView(epochs=EPOCHS, withheld=frozenset({A})))
    assert {each.topic_partition for each in chunks} == {B}
    chunks, _ = delivery.take_unseen(VIEW)
    assert [record.offset for record in Records(chunks)] == [1, 2, 3]


@pytest.mark.parametrize("at", [0, 1, 3])
def test_failing_over_a_record_delivers_what_lies_in_front_of_it(at: int) -> None:
    delivery, records = polled(chunk(A, range(4), behind=6))
    for record in delivery.iterate(records):
        if record.offset == at:
            break
    delivery.abandon()
    assert offsets_of(delivery.take()) == {A: at}


def test_failing_over_what_a_poll_returned_delivers_none_of_it() -> None:
    delivery, _ = polled(chunk(A, range(4)))
    delivery.abandon()
    entries: list[Delivered] = list(delivery.take())
    assert entries == []
