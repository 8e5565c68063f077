"""What counts as delivered: everything with the next poll, and in a loop the records up to the current one."""

from __future__ import annotations

import numpy as np
import pytest

from kwire import OffsetAndMetadata, Records, TopicPartition
from kwire.consumer.delivery import LOOP_MS, Delivery
from kwire.epochs import AssignmentEpoch
from kwire.events import AssignmentView
from kwire.fetching.cursor_collector import Collected
from kwire.fetching.partition_records import PartitionRecords
from kwire.protocol.record_columns import RecordColumns

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
EPOCHS = {A: AssignmentEpoch(1), B: AssignmentEpoch(2)}
VIEW = AssignmentView(epochs=EPOCHS)
MOST = 500


def columns(offsets: range) -> RecordColumns:
    """Rows with these offsets, and null keys and values."""
    count = len(offsets)
    return RecordColumns(
        buffer=b"",
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
    return PartitionRecords(topic_partition=tp, columns=columns(offsets), next=position, epoch=EPOCHS[tp])


def polled(*chunks: PartitionRecords[bytes, bytes], to_loop: bool = False) -> Delivery[bytes, bytes]:
    """As a poll leaves it that has returned these chunks."""
    delivery: Delivery[bytes, bytes] = Delivery()
    delivery.pending.extend(map(Collected.of, chunks))
    delivery.hand_out(VIEW, MOST, to_loop=to_loop)
    delivery.come_back()
    return delivery


def taken(delivery: Delivery[bytes, bytes]) -> dict[TopicPartition, int]:
    """What the application tells the network thread when it comes back."""
    found = offsets_of(delivery.so_far())
    delivery.told()
    return found


def handed_out(
    delivery: Delivery[bytes, bytes], view: AssignmentView = VIEW, max_records: int = MOST
) -> list[tuple[TopicPartition, int]]:
    """What the next poll returns of what is pending."""
    return [(record.topic_partition, record.offset) for record in Records(delivery.hand_out(view, max_records))]


def offsets_of(delivered: object) -> dict[TopicPartition, int]:
    assert isinstance(delivered, list | tuple)
    return {tp: position.offset for tp, _, position in delivered}


def test_a_poll_leaves_for_the_next_ones_what_is_pending_beyond_its_size() -> None:
    """As a larger poll leaves it that raised, or partitions that were paused."""
    delivery: Delivery[bytes, bytes] = Delivery()
    delivery.pending.extend(map(Collected.of, (chunk(A, range(3)), chunk(B, range(10, 12), behind=15))))
    assert handed_out(delivery, max_records=2) == [(A, 0), (A, 1)]
    assert taken(delivery) == {A: 2}
    assert handed_out(delivery, max_records=2) == [(A, 2), (B, 10)]
    assert taken(delivery) == {A: 3, B: 11}
    assert handed_out(delivery, max_records=2) == [(B, 11)]
    assert taken(delivery) == {B: 15}


def test_a_loop_is_handed_all_that_is_pending_and_leaves_what_it_has_not_seen() -> None:
    """Cut at the size of a poll, what is left of a large one fell into pieces, one for each time the loop was left."""
    delivery: Delivery[bytes, bytes] = Delivery()
    delivery.pending.append(Collected.of(chunk(A, range(5))))
    assert [len(each) for each in delivery.hand_out(VIEW, 2, to_loop=True)] == [5]


def test_when_all_records_of_a_loop_are_taken_nothing_is_left() -> None:
    delivery = polled(chunk(A, range(3)), chunk(B, range(10, 12), behind=15), to_loop=True)
    told = [(sum(map(len, delivery.take(4))), delivery.is_all_handed_out) for _ in range(3)]
    assert told == [(4, False), (1, True), (0, True)], "so the next poll may be a quick one, and may be larger"
    assert taken(delivery) == {A: 3, B: 15}


def test_what_a_loop_has_left_is_returned_by_polls_of_their_own_size() -> None:
    delivery = polled(chunk(A, range(5)), to_loop=True)
    seen = next(delivery.iterate())
    delivery.interrupt()
    assert taken(delivery) == {A: 1}
    assert (seen.offset, handed_out(delivery, max_records=3)) == (0, [(A, 1), (A, 2), (A, 3)])


def test_all_that_a_poll_returned_is_delivered_with_the_next_call_and_once() -> None:
    delivery = polled(chunk(A, range(3)), chunk(B, range(10, 12), behind=15))
    assert taken(delivery) == {A: 3, B: 15}
    assert taken(delivery) == {}


def test_a_loop_delivers_up_to_the_record_it_is_at() -> None:
    delivery = polled(chunk(A, range(3)), chunk(B, range(10, 13)), to_loop=True)
    loop = delivery.iterate()
    seen = [taken(delivery) for _ in loop]
    assert seen == [{A: 1}, {A: 2}, {A: 3}, {A: 3, B: 11}, {A: 3, B: 12}, {A: 3, B: 13}]
    assert taken(delivery) == {A: 3, B: 13}


def test_the_position_in_a_loop_is_behind_its_record_with_that_records_epoch() -> None:
    delivery = polled(chunk(A, range(3), behind=9), to_loop=True)
    loop = delivery.iterate()
    next(loop)
    assert delivery.position(A, EPOCHS[A]) == 1
    assert delivery.position(A, AssignmentEpoch(99)) is None, "of another assignment"
    assert delivery.position(B, EPOCHS[B]) is None
    assert delivery.so_far()[0][2] == OffsetAndMetadata(1, leader_epoch=5)
    next(loop)
    next(loop)
    assert delivery.position(A, EPOCHS[A]) == 9, "behind the last record lies what nobody may see"


def test_what_advances_without_records_is_delivered_at_once() -> None:
    delivery = polled(chunk(B, range(0), behind=20), chunk(A, range(3)), chunk(A, range(0), behind=7), to_loop=True)
    loop = delivery.iterate()
    next(loop)
    assert taken(delivery) == {B: 20, A: 1}
    assert len(list(loop)) == 2
    assert taken(delivery) == {B: 20, A: 7}


def test_a_loop_that_is_left_leaves_the_rest_to_the_next_poll() -> None:
    delivery = polled(chunk(A, range(4), behind=8), chunk(B, range(10, 12)), to_loop=True)
    loop = delivery.iterate()
    next(loop)
    next(loop)
    delivery.interrupt()
    assert taken(delivery) == {A: 2}
    assert handed_out(delivery) == [(A, 2), (A, 3), (B, 10), (B, 11)]
    assert taken(delivery) == {A: 8, B: 12}
    assert handed_out(delivery) == []
    assert list(loop) == [], "the old loop is over"


def test_a_loop_whose_body_takes_long_makes_way_for_a_poll_which_returns_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ms = 0.0
    monkeypatch.setattr("kwire.consumer.delivery.monotonic_ms", lambda: now_ms)
    delivery = polled(chunk(A, range(5), behind=8), to_loop=True)
    seen: list[int] = []
    for record in delivery.iterate():
        seen.append(record.offset)
        now_ms += LOOP_MS / 2
    assert seen == [0, 1]
    delivery.interrupt()
    assert taken(delivery) == {A: 2}
    assert handed_out(delivery) == [(A, 2), (A, 3), (A, 4)]


def test_what_a_loop_has_not_seen_is_dropped_when_it_is_stale() -> None:
    delivery = polled(chunk(A, range(4)), chunk(B, range(10, 12)), to_loop=True)
    next(delivery.iterate())
    delivery.interrupt()
    moved = AssignmentView(epochs={A: AssignmentEpoch(EPOCHS[A] + 10), B: EPOCHS[B]})
    assert handed_out(delivery, moved) == [(B, 10), (B, 11)]
    assert handed_out(delivery) == []


def test_what_a_loop_has_not_seen_waits_while_it_is_withheld() -> None:
    delivery = polled(chunk(A, range(4)), chunk(B, range(10, 12)), to_loop=True)
    next(delivery.iterate())
    delivery.interrupt()
    assert handed_out(delivery, AssignmentView(epochs=EPOCHS, withheld=frozenset({A}))) == [(B, 10), (B, 11)]
    assert handed_out(delivery) == [(A, 1), (A, 2), (A, 3)]


# --- some records at once -------------------------------------------------------------------------------------------


def offsets_taken(delivery: Delivery[bytes, bytes], max_records: int) -> list[tuple[TopicPartition, int]]:
    return [(record.topic_partition, record.offset) for record in Records(delivery.take(max_records))]


def test_what_is_taken_at_once_is_delivered_and_the_loop_goes_on_behind_it() -> None:
    delivery = polled(
        chunk(B, range(0), behind=20), chunk(A, range(4), behind=8), chunk(B, range(20, 23)), to_loop=True
    )
    next(delivery.iterate())
    assert offsets_taken(delivery, 2) == [(A, 1), (A, 2)]
    assert delivery.position(A, EPOCHS[A]) == 3
    assert taken(delivery) == {A: 3}
    assert offsets_taken(delivery, 2) == [(A, 3), (B, 20)]
    assert taken(delivery) == {A: 8, B: 21}
    assert [record.offset for record in delivery.iterate()] == [21, 22]
    assert offsets_taken(delivery, 2) == []
    assert taken(delivery) == {A: 8, B: 23}


@pytest.mark.parametrize("max_records", [1, 3, 4, 5, 100])
def test_what_was_not_taken_is_for_the_next_poll(max_records: int) -> None:
    delivery = polled(chunk(A, range(4), behind=8), chunk(B, range(10, 12)), to_loop=True)
    whole = [(A, 0), (A, 1), (A, 2), (A, 3), (B, 10), (B, 11)]
    assert offsets_taken(delivery, max_records) == whole[:max_records]
    delivery.interrupt()
    told = taken(delivery)
    assert handed_out(delivery) == whole[max_records:]
    assert told | taken(delivery) == {A: 8, B: 12}


def test_who_takes_slowly_makes_way_for_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 0.0
    monkeypatch.setattr("kwire.consumer.delivery.monotonic_ms", lambda: now_ms)
    delivery = polled(chunk(A, range(5)), to_loop=True)
    now_ms += 2 * LOOP_MS
    assert offsets_taken(delivery, 2) == [(A, 0), (A, 1)], "something at least"
    assert offsets_taken(delivery, 2) == []
    assert list(delivery.iterate()) == []
    delivery.interrupt()
    assert handed_out(delivery) == [(A, 2), (A, 3), (A, 4)]


def test_while_a_loop_is_at_a_record_all_in_front_of_it_is_passed() -> None:
    delivery = polled(chunk(A, range(2), behind=8), chunk(B, range(10, 12)), to_loop=True)
    assert delivery.in_front_of_loop() == ()
    told = [offsets_of(delivery.in_front_of_loop()) for _ in delivery.iterate()]
    assert told == [{}, {A: 1}, {A: 8}, {A: 8, B: 11}]
    assert delivery.in_front_of_loop() == (), "which the next poll tells of"


def test_of_records_that_were_taken_at_once_nobody_knows_whether_they_are_processed() -> None:
    delivery = polled(chunk(A, range(4)), to_loop=True)
    assert len(offsets_taken(delivery, 2)) == 2
    assert delivery.in_front_of_loop() == ()
    next(delivery.iterate())
    assert offsets_of(delivery.in_front_of_loop()) == {A: 2}


def test_what_was_taken_and_lost_on_the_way_is_handed_out_again() -> None:
    delivery = polled(chunk(A, range(4)), to_loop=True)
    next(delivery.iterate())
    begun = delivery.mark()
    assert offsets_taken(delivery, 2) == [(A, 1), (A, 2)]
    delivery.go_back(begun)
    delivery.interrupt()
    assert taken(delivery) == {A: 1}
    assert handed_out(delivery) == [(A, 1), (A, 2), (A, 3)]


# --- failing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 3])
def test_failing_over_a_record_delivers_what_lies_in_front_of_it(at: int) -> None:
    delivery = polled(chunk(A, range(4), behind=6), to_loop=True)
    for record in delivery.iterate():
        if record.offset == at:
            break
    delivery.abandon()
    assert taken(delivery) == {A: at}


def test_failing_is_told_twice_by_the_task_that_loops_and_by_the_block_that_it_is_in() -> None:
    delivery = polled(chunk(A, range(4)), to_loop=True)
    for record in delivery.iterate():
        if record.offset == 2:
            break
    delivery.abandon()
    delivery.abandon()
    assert taken(delivery) == {A: 2}


def test_failing_over_what_a_poll_returned_delivers_none_of_it() -> None:
    delivery = polled(chunk(A, range(4)))
    delivery.abandon()
    assert taken(delivery) == {}


def test_failing_over_the_record_a_loop_was_interrupted_at_delivers_what_lies_in_front_of_it() -> None:
    """The loop's body paused a partition first. What the loop had gone past came again."""
    delivery = polled(chunk(A, range(4)), chunk(B, range(10, 13)), to_loop=True)
    for record in delivery.iterate():
        if record.topic_partition == B and record.offset == 11:
            break
    delivery.interrupt()
    delivery.abandon()
    assert taken(delivery) == {A: 4, B: 11}


def test_what_a_loop_has_seen_stays_delivered_though_the_next_poll_raises_before_it_has_anything() -> None:
    """The exception of a signal handler, between the end of the loop and what the network thread is told of it."""
    delivery = polled(chunk(A, range(4)), chunk(B, range(10, 13)), to_loop=True)
    for record in delivery.iterate():
        if record.topic_partition == B:
            break
    delivery.come_back()
    delivery.interrupt()
    delivery.put_back()
    assert taken(delivery) == {A: 4, B: 11}
    assert handed_out(delivery) == [(B, 11), (B, 12)]


# --- offsets that the application commits ---------------------------------------------------------------------------


def committing(delivery: Delivery[bytes, bytes], tp: TopicPartition, offset: int) -> dict[TopicPartition, int]:
    """What a commit of this offset says of what was handed out."""
    return offsets_of(delivery.up_to({tp: OffsetAndMetadata(offset)}))


def test_a_commit_of_an_offset_delivers_what_lies_in_front_of_it_and_the_rest_stays() -> None:
    delivery = polled(chunk(A, range(4)), chunk(B, range(10, 12)))
    assert committing(delivery, A, 2) == {A: 2}
    assert committing(delivery, B, 12) == {B: 12}
    assert taken(delivery) == {A: 4, B: 12}


def test_a_commit_of_an_offset_behind_what_was_handed_out_says_nothing_of_it() -> None:
    """With parallel rebalance it is of what another cursor has handed out."""
    assert committing(polled(chunk(A, range(4))), A, 5) == {}


# --- seeks ----------------------------------------------------------------------------------------------------------


def test_what_was_handed_out_before_a_seek_says_nothing_of_that_partition() -> None:
    moved = AssignmentView(epochs={A: AssignmentEpoch(EPOCHS[A] + 10), B: EPOCHS[B]})
    delivery = polled(chunk(A, range(4)), chunk(B, range(10, 12)))
    delivery.sought(moved)
    assert taken(delivery) == {B: 12}
    delivery = polled(chunk(A, range(4)), chunk(B, range(10, 12)))
    delivery.sought(VIEW, in_buffer=A)
    assert taken(delivery) == {B: 12}
