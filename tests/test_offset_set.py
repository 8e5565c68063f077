"""Sets of offsets, against Python's own sets."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kwire.offset_set import NO_OFFSETS, OffsetSet

if TYPE_CHECKING:
    from tests.instruction_counts import instructions_of
else:
    from instruction_counts import instructions_of

RANGE = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda drawn: range(drawn[0], sum(drawn)))
RANGES = st.lists(RANGE, max_size=6)
OFFSET = st.integers(0, 60)


def members(ranges: OffsetSet | list[range]) -> set[int]:
    return {offset for each in ranges for offset in each}


def is_the_set(found: OffsetSet, wanted: set[int]) -> bool:
    is_in_order = all(found) and all(one.stop < other.start for one, other in pairwise(found))
    return is_in_order and members(found) == wanted and found.size == len(wanted)


@given(RANGES)
def test_ranges_that_overlap_or_touch_become_one(ranges: list[range]) -> None:
    assert is_the_set(OffsetSet(ranges), members(ranges))
    assert OffsetSet(ranges) == OffsetSet(reversed(ranges))


@given(RANGES, RANGES)
def test_union_and_difference_are_those_of_sets(ranges: list[range], others: list[range]) -> None:
    offsets = OffsetSet(ranges)
    assert is_the_set(offsets | others, members(ranges) | members(others))
    assert is_the_set(offsets - others, members(ranges) - members(others))
    assert is_the_set(offsets - OffsetSet(others), members(ranges) - members(others))


@given(RANGES, RANGE, OFFSET)
def test_bounds_cut_off_what_lies_outside(ranges: list[range], bounds: range, offset: int) -> None:
    offsets = OffsetSet(ranges)
    assert is_the_set(offsets.within(bounds), members(ranges) & set(bounds))
    assert is_the_set(offsets.below(offset), {each for each in members(ranges) if each < offset})
    assert offsets.covers(offset) is (offset in members(ranges))


@given(RANGES, OFFSET)
def test_the_first_are_the_lowest(ranges: list[range], many: int) -> None:
    assert is_the_set(OffsetSet(ranges).first(many), set(sorted(members(ranges))[:many]))


def test_a_commit_speaks_of_the_range_it_ends_in_or_behind() -> None:
    lags = OffsetSet((range(10, 20), range(40, 50)))
    found = [lags.range_before(offset) for offset in (10, 11, 20, 30, 40, 41, 50)]
    assert found == [None, lags[0], lags[0], lags[0], lags[0], lags[1], lags[1]]


def test_a_set_is_the_tuple_of_its_ranges_also_when_it_was_pickled() -> None:
    """Spark sends it to its tasks."""
    lags = OffsetSet((range(40, 50), range(10, 20), range(12)))
    assert lags == (range(20), range(40, 50))
    again = pickle.loads(pickle.dumps(lags))
    assert again == lags
    assert isinstance(again, OffsetSet)
    assert NO_OFFSETS == ()


def pairs(count: int) -> OffsetSet:
    """So many ranges of two offsets, with gaps of two."""
    return OffsetSet(range(4 * number, 4 * number + 2) for number in range(count))


def test_to_take_many_ranges_away_from_many_is_one_walk_along_both() -> None:
    """With 60,000 ranges left of an earlier life, a poll of 500 records took a second: each was compared with each."""
    many, few = pairs(1_000), pairs(100)
    assert instructions_of(lambda: many - many) < 11 * instructions_of(lambda: few - few)


def test_to_look_at_one_place_costs_no_more_in_a_large_set_than_in_a_small_one() -> None:
    large, small, bounds = pairs(1_000), pairs(50), range(81, 99)
    assert instructions_of(lambda: large.within(bounds)) == instructions_of(lambda: small.within(bounds))
    assert instructions_of(lambda: large - (bounds,)) == instructions_of(lambda: small - (bounds,))
