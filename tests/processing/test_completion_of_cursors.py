"""What may be committed of a partition that two cursors read, record by record."""

from __future__ import annotations

from uuid import UUID

from kwire.epochs import AssignmentEpoch
from kwire.events import ProcessedOffsets, Unfinished
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.processing.completion_tracker import CompletionTracker
from kwire.processing.offset_map import OffsetMap, decode, encode
from kwire.processing.sources import LagOf, Source

TP = TopicPartition("orders", 0)
LAG = LagOf(TP)
TOPIC_ID = UUID(int=1)
MAIN_EPOCH, CHILD_EPOCH = 3, 4


def at(offset: int, leader_epoch: int | None = 0) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, leader_epoch=leader_epoch)


def progress_of(committed: OffsetAndMetadata | None = None, *, children: int = 1) -> CompletionTracker:
    completion = CompletionTracker(with_map=True, children=children)
    completion.open({TP: committed}, {TP.topic: TOPIC_ID})
    return completion


def deliver(completion: CompletionTracker, source: Source, part: range, epoch: int, leader_epoch: int = 0) -> list[int]:
    behind = at(part.stop, leader_epoch)
    leader_epochs = [leader_epoch] * len(part)
    return list(completion.deliver(source, part, lambda: leader_epochs, behind, AssignmentEpoch(epoch)))


def committed(completion: CompletionTracker) -> ProcessedOffsets:
    """Offered, and acknowledged."""
    offers = completion.offers()
    completion.acknowledged(offers, completion.progress_of(offers))
    processed = offers[TP].processed
    assert processed is not None
    return processed


def finished_in(processed: ProcessedOffsets) -> tuple[range, ...]:
    found = decode(0, processed.metadata)
    return () if found is None else found.finished


def test_where_the_main_cursor_of_a_group_without_a_commit_begins_is_committed_before_anything_is_done() -> None:
    completion = progress_of()
    deliver(completion, TP, range(120, 140), MAIN_EPOCH)
    processed = committed(completion)
    assert (processed.head, processed.unfinished) == (at(120), ())


def test_what_a_child_reads_says_nothing_of_where_the_main_cursor_begins() -> None:
    completion = progress_of()
    deliver(completion, LAG, range(70, 90), CHILD_EPOCH)
    assert (completion.has_begun, completion.offers()) == (False, {})


def test_each_cursor_is_committed_as_far_as_it_is_done() -> None:
    completion = progress_of(at(70))
    deliver(completion, LAG, range(70, 90), CHILD_EPOCH)
    deliver(completion, TP, range(120, 140), MAIN_EPOCH)
    assert completion.offers() == {}
    completion.finish(LAG, {*range(70, 90)} - {75})
    completion.finish(TP, {*range(120, 140)} - {130})
    processed = committed(completion)
    assert (processed.head, processed.unfinished) == (at(130), (Unfinished(range(75, 90), 0),))
    assert finished_in(processed) == (range(76, 90), range(120, 130), range(131, 140))
    assert completion.offers() == {}
    assert (completion.begins_at(TP), completion.left_of_lags(TP)) == (at(130), [(at(75), 90)])


def test_what_lies_between_two_ranges_of_a_child_is_not_finished_with_them() -> None:
    completion = progress_of(at(100))
    deliver(completion, LAG, range(100, 120), CHILD_EPOCH)
    deliver(completion, LAG, range(140, 160), CHILD_EPOCH + 1)
    completion.finish(LAG, {*range(100, 120), *range(140, 160)} - {105})
    processed = committed(completion)
    assert finished_in(processed) == (range(106, 120), range(140, 160))
    assert processed.unfinished == (Unfinished(range(105, 120), 0),)


def test_a_child_that_is_through_hands_over_to_the_main_cursor() -> None:
    completion = progress_of(at(70))
    deliver(completion, LAG, range(70, 120), CHILD_EPOCH)
    deliver(completion, TP, range(120, 140), MAIN_EPOCH)
    completion.finish(LAG, range(70, 120))
    completion.finish(TP, range(120, 130))
    assert committed(completion) == ProcessedOffsets(at(130))
    completion.finish(TP, range(130, 140))
    assert committed(completion) == ProcessedOffsets(at(140))


def test_children_with_a_part_each_are_told_apart() -> None:
    completion = progress_of(at(70), children=2)
    first, second = (completion.source_of(TP, Cursor.CHILD, AssignmentEpoch(epoch)) for epoch in (4, 5))
    assert first != second
    deliver(completion, first, range(70, 80), 4)
    deliver(completion, second, range(95, 120), 5)
    completion.finish(second, range(95, 120))
    assert committed(completion).unfinished == (Unfinished(range(70, 80), 0),)
    deliver(completion, first, range(80, 95), 4)
    completion.finish(first, range(70, 85))
    assert committed(completion).unfinished == (Unfinished(range(85, 95), 0),)


def test_what_an_earlier_life_finished_is_found_by_whoever_reads_it() -> None:
    found = OffsetMap(TOPIC_ID, 0, (range(75, 80), range(125, 130)))
    completion = progress_of(OffsetAndMetadata(70, encode(70, found)))
    assert deliver(completion, TP, range(120, 135), MAIN_EPOCH) == [*range(120, 125), *range(130, 135)]
    completion.finish(TP, [121])
    assert finished_in(committed(completion)) == (range(75, 80), range(121, 122), range(125, 130))
    assert deliver(completion, LAG, range(70, 82), CHILD_EPOCH) == [*range(70, 75), 80, 81]


def test_what_is_finished_between_two_lags_is_told_until_both_are_done() -> None:
    """It is in front of the head, and nobody delivers it again: with all done it stayed in the commit's metadata."""
    found = OffsetMap(TOPIC_ID, 0, (range(120, 130),))
    completion = progress_of(OffsetAndMetadata(75, encode(75, found)))
    deliver(completion, LAG, range(75, 120), CHILD_EPOCH)
    deliver(completion, LAG, range(130, 150), CHILD_EPOCH + 1)
    completion.finish(LAG, range(75, 120))
    committed(completion)
    completion.finish(LAG, range(130, 150))
    processed = committed(completion)
    assert finished_in(processed) == (range(120, 150),)
    assert (processed.metadata_at(149), processed.metadata_at(150)) == (processed.metadata, "")


def test_what_was_written_since_is_not_taken_for_finished_by_either_cursor() -> None:
    """The main cursor meets a newer epoch: what it says of the lag may be handed on no more, for nobody could tell."""
    found = OffsetMap(TOPIC_ID, 7, (range(75, 80), range(125, 130)))
    completion = progress_of(OffsetAndMetadata(70, encode(70, found)))
    assert deliver(completion, TP, range(120, 135), MAIN_EPOCH, leader_epoch=8) == [*range(120, 135)]
    completion.finish(TP, [121])
    assert finished_in(committed(completion)) == (range(121, 122),)
    assert deliver(completion, LAG, range(70, 78), CHILD_EPOCH, leader_epoch=7) == [*range(70, 75)]
    assert deliver(completion, LAG, range(78, 82), CHILD_EPOCH, leader_epoch=8) == [78, 79, 80, 81]


def test_a_main_cursor_that_goes_back_takes_over_what_children_have_from_there_on() -> None:
    completion = progress_of(at(70))
    deliver(completion, LAG, range(70, 100), CHILD_EPOCH)
    deliver(completion, TP, range(120, 140), MAIN_EPOCH)
    assert completion.overtaken(TP, 80, 150) == [(LAG, range(80, 100)), (TP, range(120, 140))]
    deliver(completion, TP, range(80, 150), MAIN_EPOCH + 5)
    completion.finish(LAG, range(70, 80))
    processed = committed(completion)
    assert (processed.head, processed.unfinished) == (at(80), ())
    completion.finish(TP, range(80, 150))
    assert committed(completion) == ProcessedOffsets(at(150))
    assert completion.to_redeliver == []


def test_what_a_child_delivers_once_more_counts_no_more_with_who_had_it_and_the_rest_is_asked_for() -> None:
    completion = progress_of(at(70))
    deliver(completion, LAG, range(70, 100), CHILD_EPOCH)
    assert completion.overtaken(LAG, 80, 90) == [(LAG, range(80, 100))]
    deliver(completion, LAG, range(80, 90), CHILD_EPOCH + 1)
    assert completion.to_redeliver == [(TP, at(90), 100)]
    completion.finish(LAG, range(70, 80))
    assert committed(completion).unfinished == (Unfinished(range(80, 90), 0),)


def test_who_may_have_missed_records_lets_nothing_of_a_lag_be_done() -> None:
    completion = progress_of(at(70))
    deliver(completion, LAG, range(70, 90), CHILD_EPOCH)
    completion.finish(LAG, range(70, 90))
    completion.lose_track()
    assert range(10_000) in [each.part[:10_000] for each in committed(completion).unfinished]
