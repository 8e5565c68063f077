"""What lies between two states: all of it, once, fresh first, in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.model import TopicPartition
from kwire.offset_set import OffsetSet
from kwire.spark.fresh_first.coverage import Coverage, Read, between, left
from kwire.spark.fresh_first.tasks import Task, cut, tasks

P0, P1 = (TopicPartition("orders", number) for number in range(2))


def test_a_batch_reads_up_to_its_head_and_what_it_closes_of_a_gap() -> None:
    start = Coverage(600, gaps=OffsetSet((range(100, 500),)))
    end = Coverage(700, gaps=OffsetSet((range(200, 500), range(600, 690))))
    assert between(start, end) == Read(range(690, 700), OffsetSet((range(100, 200),)))


def test_with_nothing_new_there_is_backfill_alone() -> None:
    start, end = (Coverage(600, gaps=OffsetSet((range(first, 500),))) for first in (100, 200))
    assert between(start, end) == Read(range(600, 600), OffsetSet((range(100, 200),)))


def test_a_gap_that_ends_at_the_head_is_no_fresh_range() -> None:
    gaps = OffsetSet((range(100, 600),))
    assert between(Coverage(600, gaps=gaps), Coverage(600)) == Read(range(600, 600), gaps)


def test_fresh_ranges_of_all_partitions_come_before_any_backfill() -> None:
    start = {P0: Coverage(600, gaps=OffsetSet((range(500),))), P1: Coverage(0)}
    end = {P0: Coverage(700, gaps=OffsetSet((range(200, 500),))), P1: Coverage(50)}
    assert tasks(start, end, records_per_task=100) == [
        Task(P0, range(600, 700)),
        Task(P1, range(50)),
        Task(P0, range(100)),
        Task(P0, range(100, 200)),
    ]


def test_few_records_are_shared_out_among_the_partitions_that_are_asked_for() -> None:
    assert [each.offsets for each in tasks({P0: Coverage(0)}, {P0: Coverage(10)}, min_partitions=4)] == [
        range(2),
        range(2, 5),
        range(5, 7),
        range(7, 10),
    ]


def test_there_is_no_task_for_nothing() -> None:
    assert tasks({P0: Coverage(5)}, {P0: Coverage(5)}, min_partitions=4) == []


def test_what_is_left_is_the_gaps_and_what_lies_behind_the_head() -> None:
    assert left({P0: Coverage(600, gaps=OffsetSet((range(100, 500),))), P1: Coverage(5)}, {P0: 650, P1: 3}) == 450


@given(st.integers(0, 500), st.integers(0, 200), st.integers(1, 50))
def test_pieces_are_even_and_lose_nothing(start: int, length: int, size: int) -> None:
    pieces = cut(range(start, start + length), size)
    assert OffsetSet(pieces) == OffsetSet([range(start, start + length)])
    assert sum(map(len, pieces)) == length
    assert all(0 < len(each) <= size for each in pieces)
    assert not pieces or max(map(len, pieces)) - min(map(len, pieces)) <= 1


GAPS = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 9)), max_size=5)


@st.composite
def coverage(draw: st.DrawFn) -> Coverage:
    gaps = OffsetSet(range(start, start + length) for start, length in draw(GAPS))
    return Coverage(draw(st.integers(gaps[-1].stop if gaps else 0, 100)), gaps)


def offsets(covered: Coverage) -> set[int]:
    return set(range(covered.head)).difference(*covered.gaps)


@given(coverage(), coverage(), st.integers(1, 20))
def test_the_tasks_between_two_states_read_exactly_what_the_later_one_has_more(
    start: Coverage, end: Coverage, size: int
) -> None:
    found = tasks({P0: start}, {P0: end}, records_per_task=size)
    read = [offset for task in found for offset in task.offsets]
    assert set(read) == offsets(end) - offsets(start)
    assert len(read) == len(set(read))
    assert tasks({P0: start}, {P0: end}, records_per_task=size) == found  # Spark asks again after a crash
