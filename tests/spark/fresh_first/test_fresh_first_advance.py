"""Queries that were behind: the newest records come with the next batch, everything comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.offset_set import OffsetSet
from kwire.spark.fresh_first.advance import MAX_GAPS, BatchLimits, LostOffsets, advance, lost, share
from kwire.spark.fresh_first.coverage import Coverage
from kwire.spark.fresh_first.tasks import tasks

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))
LIMITS = BatchLimits(fresh=100, backfill=300)


def read(start: Mapping[TopicPartition, Coverage], end: Mapping[TopicPartition, Coverage]) -> Counter[tuple[int, int]]:
    """Partition and offset of all that a batch reads."""
    return Counter((task.partition.partition, offset) for task in tasks(start, end) for offset in task.offsets)


def test_after_an_outage_the_newest_records_come_with_the_first_batch_and_a_slice_of_the_rest() -> None:
    assert advance({P0: Coverage(1_000)}, {P0: range(6_000)}, LIMITS) == {
        P0: Coverage(6_000, gaps=OffsetSet((range(1_300, 5_900),)))
    }


def test_meanwhile_new_records_are_read_and_the_gap_is_worked_off_from_its_oldest_offset() -> None:
    start = {P0: Coverage(6_000, gaps=OffsetSet((range(1_300, 5_900),)))}
    assert advance(start, {P0: range(6_040)}, LIMITS) == {P0: Coverage(6_040, gaps=OffsetSet((range(1_600, 5_900),)))}


def test_a_query_that_keeps_up_has_plain_offsets() -> None:
    assert advance({P0: Coverage(500)}, {P0: range(560)}, LIMITS) == {P0: Coverage(560)}


def test_what_a_slice_of_backfill_can_hold_makes_no_gap() -> None:
    assert advance({P0: Coverage(500)}, {P0: range(900)}, LIMITS) == {P0: Coverage(900)}


def test_the_last_slice_closes_the_gap() -> None:
    start = {P0: Coverage(6_000, gaps=OffsetSet((range(5_700, 5_900),)))}
    assert advance(start, {P0: range(6_000)}, LIMITS) == {P0: Coverage(6_000)}


def test_nothing_new_and_nothing_left_is_the_same_offset() -> None:
    start = {P0: Coverage(6_000)}
    assert advance(start, {P0: range(6_000)}, LIMITS) == start


def test_a_second_outage_makes_a_second_gap() -> None:
    start = {P0: Coverage(6_000, gaps=OffsetSet((range(1_300, 5_900),)))}
    assert advance(start, {P0: range(9_000)}, LIMITS) == {
        P0: Coverage(9_000, gaps=OffsetSet((range(1_600, 5_900), range(6_000, 8_900))))
    }


def test_a_query_that_never_catches_up_keeps_a_bounded_number_of_gaps() -> None:
    covered, end = {P0: Coverage(0)}, 0
    sizes = []
    for _ in range(3 * MAX_GAPS):
        end += 10_000
        covered = advance(covered, {P0: range(end)}, LIMITS)
        sizes.append(len(covered[P0].gaps))
    assert max(sizes) == MAX_GAPS
    assert covered[P0].head < end  # from there on in order


def test_small_partitions_get_all_they_want_and_large_ones_share_the_rest() -> None:
    assert share(100, {P0: 5, P1: 1_000, P2: 1_000}) == {P0: 5, P1: 47, P2: 48}
    assert share(100, {P0: 5, P1: 0, P2: -7}) == {P0: 5, P1: 0, P2: 0}


def test_the_newest_record_of_no_partition_waits_though_there_are_more_of_them_than_the_limit() -> None:
    assert share(2, {P0: 9, P1: 9, P2: 9}) == {P0: 1, P1: 1, P2: 1}


def test_a_new_partition_is_read_from_the_begin_of_its_log_and_says_so_once() -> None:
    start = {P0: Coverage(500)}
    logs = {P0: range(500), P1: range(70, 90)}
    end = advance(start, logs, LIMITS)
    assert end == {P0: Coverage(500), P1: Coverage(90, begin=70)}
    assert read(start, end) == Counter((1, offset) for offset in range(70, 90))
    assert advance(end, logs, LIMITS) == {P0: Coverage(500), P1: Coverage(90)}


def test_a_partition_that_nothing_is_known_of_stays_as_it_is() -> None:
    start = {P0: Coverage(500), P1: Coverage(70, gaps=OffsetSet((range(10),)))}
    assert advance(start, {P0: range(510)}, LIMITS) == {P0: Coverage(510), P1: start[P1]}


def test_what_retention_took_is_no_part_of_the_limits_and_is_told() -> None:
    start = {P0: Coverage(6_000, gaps=OffsetSet((range(1_300, 5_900),)))}
    logs = {P0: range(2_000, 6_000)}
    assert lost(start, logs) == [LostOffsets(P0, range(1_300, 2_000))]
    assert advance(start, logs, LIMITS) == {P0: Coverage(6_000, gaps=OffsetSet((range(2_300, 5_900),)))}


def test_a_log_that_was_emptied_past_the_head_is_lost_up_to_its_begin() -> None:
    start = {P0: Coverage(100)}
    logs = {P0: range(900, 900)}
    assert lost(start, logs) == [LostOffsets(P0, range(100, 900))]
    assert advance(start, logs, LIMITS) == {P0: Coverage(900)}


def test_a_log_that_was_cut_off_is_told_and_reading_goes_on_at_its_end() -> None:
    start = {P0: Coverage(500, gaps=OffsetSet((range(100, 450),)))}
    logs = {P0: range(300)}
    assert lost(start, logs) == [LostOffsets(P0, range(300, 500))]
    end = advance(start, logs, BatchLimits(fresh=10, backfill=20))
    assert end == {P0: Coverage(300, gaps=OffsetSet((range(120, 300),)))}
    assert read(start, end) == Counter((0, offset) for offset in range(100, 120))


def test_nothing_is_lost_of_a_log_that_holds_all_that_is_left() -> None:
    assert lost({P0: Coverage(500, gaps=OffsetSet((range(300, 400),)))}, {P0: range(300, 800)}) == []


@pytest.mark.parametrize("limits", [BatchLimits(0, 5), BatchLimits(5, 0)])
def test_limits_that_would_stand_still_are_refused(limits: BatchLimits) -> None:
    with pytest.raises(InvalidArgumentError, match="at least one"):
        advance({}, {}, limits)


# --- properties ---------------------------------------------------------------------------------------------------

GROWTH = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)
SMALL_LIMITS = st.builds(BatchLimits, fresh=st.integers(1, 20), backfill=st.integers(1, 20))


@given(GROWTH, SMALL_LIMITS, st.integers(0, 40))
def test_every_record_is_read_once_however_logs_grow(
    growth: list[tuple[int, int]], limits: BatchLimits, initial: int
) -> None:
    covered = {P0: Coverage(initial), P1: Coverage(0)}
    ends = {P0: initial, P1: 0}
    seen: Counter[tuple[int, int]] = Counter()
    still = 0
    for grown in [*growth, *[(0, 0)] * 2_000]:
        ends = {tp: end + more for (tp, end), more in zip(ends.items(), grown, strict=True)}
        after = advance(covered, {tp: range(end) for tp, end in ends.items()}, limits)
        seen += read(covered, after)
        still = still + 1 if after == covered else 0
        covered = after
        if still > 1:
            break
    assert covered == {tp: Coverage(end) for tp, end in ends.items()}
    expected = [(0, offset) for offset in range(initial, ends[P0])] + [(1, offset) for offset in range(ends[P1])]
    assert seen == Counter(expected)


@given(GROWTH, SMALL_LIMITS)
def test_each_batch_is_bounded_and_has_the_newest_record_of_every_partition(
    growth: list[tuple[int, int]], limits: BatchLimits
) -> None:
    covered = {P0: Coverage(0), P1: Coverage(0)}
    ends = {P0: 0, P1: 0}
    for grown in growth:
        ends = {tp: end + more for (tp, end), more in zip(ends.items(), grown, strict=True)}
        after = advance(covered, {tp: range(end) for tp, end in ends.items()}, limits)
        seen = read(covered, after)
        assert seen.total() <= limits.fresh + limits.backfill + len(ends)
        assert all(
            (tp.partition, end - 1) in seen for tp, end, more in zip(ends, ends.values(), grown, strict=True) if more
        )
        covered = after
