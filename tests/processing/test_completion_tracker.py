"""What is known of each partition: where its commits go, with which epoch, and which maps are believed."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.processing.completion_tracker import CompletionTracker
from kwire.processing.offset_map import OffsetMap, decode, encode

TP = TopicPartition("orders", 0)
TOPIC_ID, OTHER_ID = UUID(int=1), UUID(int=2)


def progress_of(at: OffsetAndMetadata | None = None) -> CompletionTracker:
    """Opened with what the group has committed."""
    completion = CompletionTracker(with_map=True)
    completion.open({TP: at}, {TP.topic: TOPIC_ID})
    return completion


def deliver(
    completion: CompletionTracker, offsets: Sequence[int], epoch: int = 0, behind: int | None = None
) -> list[int]:
    end = OffsetAndMetadata(offsets[-1] + 1 if behind is None else behind, leader_epoch=epoch)
    return list(completion.deliver(TP, offsets, lambda: [epoch] * len(offsets), end))


def finish(completion: CompletionTracker, *offsets: int) -> None:
    completion.finish(TP, offsets)


def commit(completion: CompletionTracker) -> OffsetAndMetadata | None:
    offer = completion.offers().get(TP)
    return None if offer is None else offer[1]


def with_map(base: int, *finished: range, epoch: int | None = 0, topic_id: UUID = TOPIC_ID) -> OffsetAndMetadata:
    return OffsetAndMetadata(base, encode(base, OffsetMap(topic_id, epoch, finished)), 0)


# --- where a group begins ---------------------------------------------------------------------------------------------


def test_where_a_group_without_a_commit_begins_is_committed_before_anything_is_done() -> None:
    completion = progress_of()
    assert (completion.has_begun, commit(completion)) == (False, None)
    deliver(completion, [7, 8])
    assert (completion.has_begun, commit(completion)) == (True, OffsetAndMetadata(7, leader_epoch=0))
    completion.acknowledged(offers := completion.offers(), completion.progress_of(offers))
    completion.has_begun = False
    deliver(completion, [9])
    assert (completion.has_begun, commit(completion)) == (False, None)


def test_a_group_without_a_commit_that_begins_with_what_nobody_may_see_commits_the_end_of_that() -> None:
    completion = progress_of()
    deliver(completion, [], behind=9)
    assert commit(completion) == OffsetAndMetadata(9, leader_epoch=0)


def test_where_a_group_with_a_commit_begins_is_known() -> None:
    completion = progress_of(OffsetAndMetadata(7, leader_epoch=0))
    deliver(completion, [7, 8])
    assert (completion.has_begun, commit(completion)) == (False, None)


# --- which maps are believed ------------------------------------------------------------------------------------------


def test_what_an_earlier_life_finished_is_not_handed_out() -> None:
    assert deliver(progress_of(with_map(0, range(2, 4))), [0, 1, 2, 3, 4]) == [0, 1, 4]


def test_a_map_of_another_topic_of_that_name_is_not_believed() -> None:
    assert deliver(progress_of(with_map(0, range(2, 4), topic_id=OTHER_ID)), [0, 1, 2, 3]) == [0, 1, 2, 3]


def test_a_map_is_believed_up_to_the_leader_epoch_it_saw() -> None:
    """Records of a later one were written after it was made: the log was cut in between."""
    completion = progress_of(with_map(0, range(2, 4), epoch=3))
    assert deliver(completion, [0, 1], epoch=3) == [0, 1]
    assert deliver(completion, [2, 3], epoch=4) == [2, 3]


def test_a_map_that_is_handed_on_is_believed_as_far_as_before() -> None:
    """What it says of later records holds, though none of those has come again when it is committed anew."""
    completion = progress_of(with_map(0, range(5, 9), epoch=31))
    deliver(completion, [0, 1, 2], epoch=11)
    finish(completion, 1)
    second = commit(completion)
    assert second is not None
    assert deliver(progress_of(second), [0, 1, 2], epoch=11) == [0, 2]
    third = progress_of(second)
    deliver(third, [0, 1, 2], epoch=11)
    assert deliver(third, [3, 4, 5, 6, 7, 8, 9], epoch=31) == [3, 4, 9]


def test_somebody_elses_metadata_stays_in_the_commits() -> None:
    completion = progress_of(OffsetAndMetadata(0, "by hand"))
    deliver(completion, [0, 1, 2])
    finish(completion, 0, 2)
    assert commit(completion) == OffsetAndMetadata(1, "by hand", 0)


def test_what_lies_ahead_is_kept_in_the_commits_meanwhile() -> None:
    completion = progress_of(with_map(0, range(3, 5), range(8, 9)))
    deliver(completion, [0])
    finish(completion, 0)
    found = commit(completion)
    assert found is not None
    known = decode(found.offset, found.metadata)
    assert (found.offset, known and known.finished) == (1, (range(3, 5), range(8, 9)))


def test_a_base_that_comes_to_what_was_finished_steps_over_it() -> None:
    completion = progress_of(with_map(0, range(3, 5)))
    deliver(completion, [0, 1, 2])
    finish(completion, 0, 1, 2)
    assert commit(completion) == OffsetAndMetadata(5, leader_epoch=0)


# --- epochs -----------------------------------------------------------------------------------------------------------


def test_a_commit_carries_the_epoch_of_the_record_in_front_of_it() -> None:
    completion = progress_of(None)
    deliver(completion, [0, 1], epoch=1)
    deliver(completion, [2, 3], epoch=5)
    finish(completion, 0, 1)
    assert commit(completion) == OffsetAndMetadata(2, "", 1)
    finish(completion, 2, 3)
    assert commit(completion) == OffsetAndMetadata(4, "", 5)


def test_epochs_behind_a_cut_are_forgotten() -> None:
    """A commit with the epoch of records that were cut off looks like one of a log that was cut: its owner would go
    back, and do again what it has done."""
    completion = progress_of(None)
    deliver(completion, list(range(10)), epoch=1)
    deliver(completion, [6, 7], epoch=2)
    finish(completion, *range(8))
    assert commit(completion) == OffsetAndMetadata(8, "", 2)


def test_positions_are_not_kept_for_ever_behind_a_record_that_takes_its_time() -> None:
    completion = progress_of()
    for first in range(0, 10_000, 10):
        deliver(completion, range(first, first + 10), epoch=3 if first < 5_000 else 4)
        finish(completion, *range(max(1, first), first + 10))
    progress = completion.progress(TP)
    assert progress is not None
    assert progress.main is not None
    assert len(progress.main.positions) <= 4
    finish(completion, *range(5_000))
    assert commit(completion) == OffsetAndMetadata(10_000, leader_epoch=4)


def test_a_cut_between_positions_with_the_same_epoch_leaves_that_epoch() -> None:
    completion = progress_of()
    for first in range(0, 50, 10):
        deliver(completion, range(first, first + 10), epoch=3)
    deliver(completion, range(25, 30), epoch=5)
    finish(completion, *range(25))
    assert commit(completion) == OffsetAndMetadata(25, leader_epoch=3)


def test_who_goes_on_begins_with_the_epoch_that_was_committed() -> None:
    """Without one, nobody would notice that the log was cut: the position would be out of range, and all be read."""
    completion = progress_of(OffsetAndMetadata(7, "", 3))
    assert completion.begins_at(TP) == OffsetAndMetadata(7, "", 3)
    deliver(completion, [7, 8], epoch=4)
    finish(completion, 8)
    assert completion.begins_at(TP) == OffsetAndMetadata(7, "", 3)
    finish(completion, 7)
    assert completion.begins_at(TP) == OffsetAndMetadata(9, "", 4)


def test_who_goes_on_begins_where_the_commit_says_behind_what_an_earlier_life_had_finished() -> None:
    """It began behind the last record that had come, in front of its own commit: that looks like a position that was
    sought back, so the map was believed no more, and all that it told of was done again."""
    completion = progress_of(with_map(0, range(1, 4), range(5, 7), epoch=6))
    deliver(completion, [0], epoch=5)
    finish(completion, 0)
    found = commit(completion)
    assert found is not None
    assert found.offset == 4
    begins_at = completion.begins_at(TP)
    assert begins_at is not None
    assert (begins_at.offset, begins_at.leader_epoch) == (found.offset, found.leader_epoch)


def test_behind_all_that_was_delivered_the_epoch_is_that_of_the_map() -> None:
    completion = progress_of(with_map(0, range(1, 4), epoch=6))
    deliver(completion, [0], epoch=5)
    finish(completion, 0)
    assert commit(completion) == OffsetAndMetadata(4, "", 6)


# --- logs that change -------------------------------------------------------------------------------------------------


def test_what_compaction_took_is_not_waited_for() -> None:
    completion = progress_of(None)
    deliver(completion, [0, 5, 9], behind=12)
    finish(completion, 0, 9)
    found = commit(completion)
    assert found is not None
    known = decode(found.offset, found.metadata)
    assert (found.offset, known and known.finished) == (5, (range(9, 12),))
    finish(completion, 5)
    assert commit(completion) == OffsetAndMetadata(12, "", 0)


def test_what_retention_took_in_front_of_the_position_is_not_waited_for() -> None:
    completion = progress_of(OffsetAndMetadata(3, "", 0))
    assert deliver(completion, [50, 51]) == [50, 51]
    finish(completion, 50)
    assert commit(completion) == OffsetAndMetadata(51, "", 0)


def test_a_map_loses_what_retention_took() -> None:
    completion = progress_of(with_map(0, range(2, 4), range(60, 62)))
    assert deliver(completion, [50, 51]) == [50, 51]
    finish(completion, 51)
    found = commit(completion)
    assert found is not None
    known = decode(found.offset, found.metadata)
    assert (found.offset, known and known.finished) == (50, (range(51, 52), range(60, 62)))


def test_a_cut_voids_what_was_done_behind_it() -> None:
    completion = progress_of(None)
    deliver(completion, [0, 1, 2, 3], epoch=1)
    finish(completion, 0, 1, 3)
    assert deliver(completion, [1, 2], epoch=2) == [1, 2]
    assert commit(completion) == OffsetAndMetadata(1, "", 2)
