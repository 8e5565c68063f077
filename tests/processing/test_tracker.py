"""Records that finish in any order: what may be committed, what runs again, and what comes of logs that change."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import InvalidArgumentError
from kwire.processing.tracker import Committable, Tracker


def acknowledge(tracker: Tracker) -> Committable | None:
    offer = tracker.offer()
    if offer is not None:
        tracker.acknowledged(offer)
    return offer


def is_clean(tracker: Tracker) -> bool:
    return tracker.is_clean


def test_finished_in_order_the_base_follows() -> None:
    tracker = Tracker(5)
    tracker.deliver([5, 6, 7], 8)
    assert tracker.finish(5)
    assert tracker.offer() == Committable(6)
    assert tracker.finish(6)
    assert tracker.finish(7)
    assert tracker.offer() == Committable(8)
    assert tracker.unfinished == 0


def test_what_finishes_early_is_told_beyond_the_base() -> None:
    tracker = Tracker(0)
    tracker.deliver(list(range(10)), 10)
    for offset in (3, 4, 8):
        tracker.finish(offset)
    assert tracker.offer() == Committable(0, (range(3, 5), range(8, 9)))
    assert tracker.unfinished == 7


def test_what_does_not_exist_is_nobody_s_work() -> None:
    """Compaction and transactions leave holes; a hole between two finished records is finished."""
    tracker = Tracker(0)
    tracker.deliver([2, 5, 9], 12)
    assert tracker.base == 2
    tracker.finish(9)
    assert tracker.offer() == Committable(2, (range(9, 12),))
    tracker.finish(2)
    tracker.finish(5)
    assert tracker.offer() == Committable(12)


def test_a_poll_without_records_moves_the_base() -> None:
    tracker = Tracker(0)
    tracker.deliver([], 7)
    assert tracker.offer() == Committable(7)


def test_finishing_twice_or_what_is_not_in_work_changes_nothing() -> None:
    tracker = Tracker(0)
    tracker.deliver([0, 2], 3)
    assert not tracker.finish(1)
    assert not tracker.finish(3)
    assert tracker.finish(2)
    assert not tracker.finish(2)
    assert tracker.unfinished == 1


@pytest.mark.parametrize(("offsets", "behind"), [([4], 6), ([5, 5], 6), ([6, 5], 7), ([5], 5), ([], 4)])
def test_records_out_of_order_are_refused(offsets: list[int], behind: int) -> None:
    with pytest.raises(InvalidArgumentError, match="not in order"):
        Tracker(5).deliver(offsets, behind)


# --- commits ----------------------------------------------------------------------------------------------------------


def test_nothing_is_clean_before_the_broker_has_said_so() -> None:
    tracker = Tracker(0)
    assert is_clean(tracker)
    tracker.deliver([0, 1], 2)
    tracker.finish(0)
    offer = tracker.offer()
    assert offer == Committable(1)
    assert not is_clean(tracker)
    assert tracker.offer() == offer  # the commit failed, or was lost: once more
    tracker.acknowledged(offer)
    assert is_clean(tracker)
    assert tracker.offer() is None


def test_an_acknowledgement_of_an_older_offer_makes_nothing_clean() -> None:
    tracker = Tracker(0)
    tracker.deliver([0, 1], 2)
    tracker.finish(0)
    older = tracker.offer()
    tracker.finish(1)
    newer = tracker.offer()
    assert older is not None
    tracker.acknowledged(older)
    assert not is_clean(tracker)
    assert tracker.offer() == newer


def test_what_finishes_while_a_commit_is_under_way_is_offered_next() -> None:
    tracker = Tracker(0)
    tracker.deliver([0, 1], 2)
    tracker.finish(0)
    offer = tracker.offer()
    tracker.finish(1)
    assert offer is not None
    tracker.acknowledged(offer)
    assert tracker.offer() == Committable(2)


# --- logs that change -------------------------------------------------------------------------------------------------


def test_truncation_voids_what_was_finished_behind_it() -> None:
    tracker = Tracker(0)
    tracker.deliver([0, 1, 2, 3], 4)
    tracker.finish(3)
    tracker.truncate(2)
    assert (tracker.position, tracker.unfinished) == (2, 2)
    assert tracker.offer() == Committable(0)
    tracker.deliver([2, 3], 4)
    assert tracker.unfinished == 4


def test_what_the_group_knows_of_a_log_that_was_cut_is_corrected() -> None:
    tracker = Tracker(0)
    tracker.deliver([0, 1, 2], 3)
    for offset in (0, 1, 2):
        tracker.finish(offset)
    acknowledge(tracker)
    tracker.truncate(1)
    assert tracker.offer() == Committable(1)


# --- any order, any life ----------------------------------------------------------------------------------------------


class SummingUp(Tracker):
    """Does soon what others do when there are many deliveries."""

    FEW_DELIVERIES = 0


@pytest.mark.slow
def test_one_record_that_takes_its_time_does_not_keep_all_that_come_after_it() -> None:
    tracker = Tracker(0)
    tracker.deliver([0], 1)
    tracemalloc.start()
    try:
        for first in range(1, 150_001, 500):
            tracker.deliver(range(first, first + 500), first + 500)
            tracker.finish_all(range(first, first + 500))
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size_bytes < 150_000 * 40 / 2, "some of three hundred deliveries; each offset takes 40 bytes in a list"
    assert tracker.offer() == Committable(0, (range(1, 150_001),))


@given(st.sets(st.integers(0, 99)), st.integers(0, 100))
def test_a_log_that_is_cut_within_what_was_summed_up(done: set[int], cut: int) -> None:
    plain, summed = Tracker(0), SummingUp(0)
    for tracker in (plain, summed):
        for first in range(0, 100, 10):
            tracker.deliver(list(range(first, first + 10)), first + 10)
            tracker.finish_all(done)
        tracker.deliver([100], 101)
        tracker.truncate(cut)
    assert (summed.offer(), summed.base, summed.unfinished) == (plain.offer(), plain.base, plain.unfinished)


@given(st.permutations(range(12)))
def test_whatever_the_order_all_is_committed_in_the_end(order: list[int]) -> None:
    tracker = Tracker(0)
    tracker.deliver(list(range(12)), 12)
    bases = []
    for offset in order:
        tracker.finish(offset)
        offer = acknowledge(tracker)
        assert offer is not None
        bases.append(offer.base)
    assert bases == sorted(bases)
    assert tracker.offer() is None
    assert tracker.base == 12
