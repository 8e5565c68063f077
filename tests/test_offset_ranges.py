"""Sets of offsets as ranges, against Python's own sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kwire.offset_ranges import Ranges, count, first, normal, within, without

RANGE = st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda drawn: range(drawn[0], sum(drawn)))
RANGES = st.lists(RANGE, max_size=6)


def members(ranges: Ranges | list[range]) -> set[int]:
    return {offset for each in ranges for offset in each}


def is_normal(ranges: Ranges) -> bool:
    return all(ranges) and all(a.stop < b.start for a, b in pairwise(ranges))


@given(RANGES)
def test_ranges_that_overlap_or_touch_become_one(ranges: list[range]) -> None:
    assert members(normal(ranges)) == members(ranges)
    assert is_normal(normal(ranges))
    assert count(normal(ranges)) == len(members(ranges))


@given(RANGES, RANGES)
def test_what_is_taken_out_is_gone_and_all_else_is_there(ranges: list[range], taken: list[range]) -> None:
    left = without(normal(ranges), normal(taken))
    assert members(left) == members(ranges) - members(taken)
    assert is_normal(left)


@given(RANGES, RANGE)
def test_bounds_cut_off_what_lies_outside(ranges: list[range], bounds: range) -> None:
    inside = within(normal(ranges), bounds)
    assert members(inside) == members(ranges) & set(bounds)
    assert is_normal(inside)


@given(RANGES, st.integers(0, 40))
def test_the_first_are_the_lowest(ranges: list[range], many: int) -> None:
    found = first(normal(ranges), many)
    assert sorted(members(found)) == sorted(members(ranges))[:many]
    assert is_normal(found)
