"""What is done of a partition that is being caught up with, commit by commit."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.commit_metadata import users_metadata
from kwire.epochs import AssignmentEpoch
from kwire.events import ProcessedOffsets, Unfinished
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.offset_set import NO_OFFSETS
from kwire.parallel_rebalance.recovery import Recovered
from kwire.parallel_rebalance.state import CatchUpState
from kwire.parallel_rebalance.token import decode, decode_mark

TP = TopicPartition("orders", 0)
LAG = range(70, 120)


def at(offset: int, leader_epoch: int | None = None) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, leader_epoch=leader_epoch)


@pytest.fixture
def state() -> CatchUpState:
    """Committed 70, the end of the log is 120."""
    found = Recovered(at(70, 1), NO_OFFSETS, at(70, 1))
    made = CatchUpState(TP, found, incarnation="incarnation", topic_id=UUID(int=1), main_epoch=1, now_ms=0.0)
    made.split(at(120), "incarnation")
    return made


def undone_in(low_water: OffsetAndMetadata) -> tuple[range, ...]:
    token = decode(low_water.metadata)
    return () if token is None else token.undone


def test_the_lag_is_undone_and_the_group_stays_in_front_of_it(state: CatchUpState) -> None:
    assert (state.undone, state.head.offset) == ((LAG,), 120)
    low = state.low_water()
    assert (low.offset, low.leader_epoch, undone_in(low)) == (70, 1, (LAG,))


def test_what_was_returned_is_done_when_it_is_committed(state: CatchUpState) -> None:
    state.note_delivered(LAG, at(100, 2))
    assert (state.low_water().offset, state.unread()) == (70, (range(100, 120),))
    state.commit_delivered()
    low = state.low_water()
    assert (low.offset, low.leader_epoch, undone_in(low)) == (100, 2, (range(100, 120),))


def test_of_what_handlers_have_not_finished_nothing_is_done(state: CatchUpState) -> None:
    """One commit of both cursors; the next one finds the rest done."""
    state.note_delivered(LAG, at(100, 2))
    state.commit_processed(ProcessedOffsets(at(131, 3), (Unfinished(range(80, 100), 2),), "map"))
    low = state.low_water()
    assert (low.offset, low.leader_epoch, undone_in(low)) == (80, 2, (range(80, 120),))
    assert users_metadata(low.metadata) == "map"
    assert state.head == at(131, 3)
    state.note_delivered(LAG, at(120))
    state.commit_processed(ProcessedOffsets(at(140, 3)))
    assert state.low_water() == at(140, 3)


def test_a_map_goes_along_as_long_as_it_tells_of_what_is_behind_the_commit(state: CatchUpState) -> None:
    state.note_delivered(LAG, at(120))
    state.commit_processed(ProcessedOffsets(None, (Unfinished(range(80, 90)),), "map", metadata_end_offset=120))
    assert users_metadata(state.low_water().metadata) == "map"
    state.commit_processed(ProcessedOffsets(None, (), "map", metadata_end_offset=121))
    assert state.low_water() == OffsetAndMetadata(120, "map")
    state.commit_processed(ProcessedOffsets(None, (), "map", metadata_end_offset=120))
    assert state.low_water() == at(120)


def test_a_later_part_may_be_done_in_front_of_which_something_is_not(state: CatchUpState) -> None:
    """Two children, each with a part of the lag."""
    state.note_delivered(range(70, 95), at(90))
    state.note_delivered(range(95, 120), at(120))
    state.commit_processed(ProcessedOffsets(None, (Unfinished(range(75, 90)),)))
    assert state.undone == (range(75, 95),)
    assert state.head == at(120)


def test_what_is_put_back_is_not_done_and_read_again(state: CatchUpState) -> None:
    state.note_delivered(LAG, at(100))
    state.redeliver(range(80, 90))
    state.commit_processed(ProcessedOffsets(None))
    assert state.undone == state.unread() == (range(80, 90), range(100, 120))


def test_a_commit_beyond_what_the_child_has_returned_covers_what_it_has_returned(state: CatchUpState) -> None:
    """Somebody commits `position()`, which is the main cursor's: that must not make the lag done."""
    state.commit_in_range(at(120))
    assert state.undone == (LAG,)
    state.note_delivered(LAG, at(90))
    state.commit_in_range(at(120))
    assert state.undone == (range(90, 120),)


def test_a_commit_of_one_range_leaves_the_others(state: CatchUpState) -> None:
    """Two children: what the second one was given may be committed first."""
    state.note_delivered(range(70, 95), at(80))
    state.note_delivered(range(95, 120), at(110))
    state.commit_delivered()
    assert state.undone == (range(80, 95), range(110, 120))
    assert state.low_water().offset == 80
    state.note_delivered(range(80, 95), at(95))
    state.note_delivered(range(110, 120), at(115))
    state.commit_in_range(at(115))
    assert state.undone == (range(80, 95), range(115, 120))


def test_with_nothing_left_the_group_has_the_heads_offset_and_no_token(state: CatchUpState) -> None:
    state.note_delivered(LAG, at(120))
    state.commit_head(at(135, 4))
    state.commit_delivered()
    assert state.low_water() == OffsetAndMetadata(135, "", 4)


def test_a_main_cursor_that_goes_back_reads_everything_from_there_on(state: CatchUpState) -> None:
    state.note_delivered(LAG, at(80))
    state.main_moved(at(100), epoch=AssignmentEpoch(2), incarnation="another incarnation")
    assert (state.undone, state.unread(), state.head.offset) == ((range(70, 100),), (range(80, 100),), 100)


def test_what_was_claimed_before_the_lag_was_known_does_not_count_behind_it(state: CatchUpState) -> None:
    """The token of then has nothing of the lag: together with the head's log it would make the lag done."""
    state.claimed = True
    before = state.incarnation
    state.split(at(200), "another incarnation")
    assert (state.claimed, state.incarnation == before) == (False, False)


def test_a_head_that_went_back_is_claimed_anew(state: CatchUpState) -> None:
    """What the head's log has is too much: it must not be believed any more."""
    state.commit_head(at(150))
    state.claimed = True
    state.main_moved(at(140), epoch=AssignmentEpoch(2), incarnation="another incarnation")
    assert (state.claimed, state.incarnation) == (False, "another incarnation")


def test_a_main_cursor_that_goes_on_leaves_the_lag(state: CatchUpState) -> None:
    state.main_moved(at(500), epoch=AssignmentEpoch(2), incarnation="another incarnation")
    assert (state.undone, state.head.offset) == ((LAG,), 120)


def test_a_log_that_was_cut_is_read_again_from_the_cut_on(state: CatchUpState) -> None:
    state.note_delivered(LAG, at(100))
    state.read_again(60, 100)
    assert (state.undone, state.unread()) == ((range(60, 120),), (range(60, 120),))


def test_what_the_log_has_lost_is_not_waited_for(state: CatchUpState) -> None:
    state.lose(range(70, 90))
    assert (state.undone, state.progress(0.0).done, state.progress(0.0).left) == ((range(90, 120),), 20, 30)


def test_the_heads_log_says_whose_progress_it_is(state: CatchUpState) -> None:
    state.commit_head(at(140, 5))
    mark = decode_mark(state.head_mark("a note").metadata)
    assert mark is not None
    assert (mark.incarnation, mark.metadata, state.head_mark().offset, state.head_mark().leader_epoch) == (
        "incarnation",
        "a note",
        140,
        5,
    )


def test_progress_is_what_was_returned_and_how_fast(state: CatchUpState) -> None:
    state.note_delivered(LAG, at(90))
    progress = state.progress(2_000.0)
    assert (progress.done, progress.left, progress.rate_per_s, progress.left_s) == (20, 30, 10.0, 3.0)
    assert progress.share == 0.4
    state.commit_delivered()
    state.note_delivered(LAG, at(100))
    assert (state.progress(2_000.0).done, state.progress(2_000.0).left) == (30, 20)
