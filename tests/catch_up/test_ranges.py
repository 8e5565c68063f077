"""Sets of offsets, held against Python's own sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kwire.catch_up.ranges import NOTHING, add, below, cut, holding
from kwire.offset_ranges import Ranges, count, normal, within, without

some_range = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda each: range(each[0], sum(each)))
some_ranges = st.lists(some_range, max_size=6).map(normal)


def offsets(ranges: Ranges) -> set[int]:
    return {offset for each in ranges for offset in each}


def is_canonical(ranges: Ranges) -> bool:
    return all(len(each) for each in ranges) and all(one.stop < other.start for one, other in pairwise(ranges))


@given(some_ranges, some_range)
def test_adding_and_cutting_are_those_of_sets(ranges: Ranges, other: range) -> None:
    assert offsets(add(ranges, other)) == offsets(ranges) | set(other)
    assert offsets(cut(ranges, other)) == offsets(ranges) - set(other)
    assert offsets(within(ranges, other)) == offsets(ranges) & set(other)
    assert is_canonical(add(ranges, other))
    assert is_canonical(cut(ranges, other))
    assert is_canonical(within(ranges, other))


@given(some_ranges, some_ranges, st.integers(0, 60))
def test_differences_and_bounds_are_those_of_sets(ranges: Ranges, others: Ranges, offset: int) -> None:
    assert offsets(without(ranges, others)) == offsets(ranges) - offsets(others)
    assert offsets(below(ranges, offset)) == {each for each in offsets(ranges) if each < offset}
    assert count(ranges) == len(offsets(ranges))


def test_ranges_that_touch_become_one() -> None:
    assert normal([range(5, 9), range(5), range(12, 12)]) == (range(9),)
    assert normal([]) == NOTHING


def test_a_commit_speaks_of_the_range_it_ends_in_or_behind() -> None:
    lags = (range(10, 20), range(40, 50))
    assert [holding(lags, offset) for offset in (10, 11, 20, 30, 40, 41, 50)] == [
        None,
        lags[0],
        lags[0],
        lags[0],
        lags[0],
        lags[1],
        lags[1],
    ]
