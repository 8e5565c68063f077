"""How much a micro-batch takes: as much as Spark's own source would."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import TopicPartition
from kwire.spark.admission import Delay, check_still_there, check_target, rate_limited
from kwire.spark.errors import OffsetsError
from kwire.spark.offsets import Offsets

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))
LONG_MAX = 2**63 - 1


def none_new(partitions: Collection[TopicPartition]) -> Offsets:
    raise AssertionError(f"nothing was to be looked up: {partitions}")


# --- maxOffsetsPerTrigger -------------------------------------------------------------------------------------


def test_the_limit_is_shared_out_by_how_much_there_is() -> None:
    start, latest = {T0: 0, T1: 100, T2: 5}, {T0: 300, T1: 200, T2: 5}
    assert rate_limited(100, start, latest, none_new) == {T0: 75, T1: 125, T2: 5}


def test_a_small_partition_is_not_starved() -> None:
    assert rate_limited(10, {T0: 0, T1: 0}, {T0: 1_000, T1: 1}, none_new) == {T0: 9, T1: 1}


def test_no_more_than_there_is() -> None:
    assert rate_limited(1_000, {T0: 0, T1: 7}, {T0: 10, T1: 9}, none_new) == {T0: 10, T1: 9}


def test_a_limit_beyond_all_numbers_is_no_limit() -> None:  # SPARK-26718
    assert rate_limited(LONG_MAX, {T0: 5, T1: 0}, {T0: 20, T1: 3}, none_new) == {T0: 20, T1: 3}


def test_a_new_partition_is_read_from_its_beginning() -> None:
    def firsts(partitions: Collection[TopicPartition]) -> Offsets:
        assert set(partitions) == {T1}
        return {T1: 50}

    assert rate_limited(20, {T0: 0}, {T0: 50, T1: 100}, firsts) == {T0: 10, T1: 60}


def test_a_new_partition_that_is_gone_again_is_left_to_planning() -> None:
    assert rate_limited(20, {T0: 0}, {T0: 50, T1: 100}, lambda _: {}) == {T0: 20, T1: 100}


counts = st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 10_000)), min_size=1, max_size=6)


@given(counts, st.integers(1, 5_000))
def test_a_batch_takes_about_the_limit_and_always_something(spans: list[tuple[int, int]], most: int) -> None:
    start = {TopicPartition("t", n): begin for n, (begin, _) in enumerate(spans)}
    latest = {tp: start[tp] + size for tp, (_, size) in zip(start, spans, strict=True)}
    end = rate_limited(most, start, latest, none_new)
    assert all(start[tp] <= end[tp] <= latest[tp] for tp in latest)
    assert sum(end.values()) - sum(start.values()) <= most + len(spans)
    assert (end != start) == (latest != start)


# --- minOffsetsPerTrigger and maxTriggerDelay -----------------------------------------------------------------

NOW_MS = 1_700_000_000_000.0


def test_the_first_trigger_takes_whatever_there_is() -> None:
    assert not Delay(100, 60_000).skips({T0: 0}, {T0: 1}, NOW_MS)


def test_too_little_is_waited_for_until_the_delay_is_over() -> None:
    delay = Delay(100, 60_000)
    delay.skips({T0: 0}, {T0: 1}, NOW_MS)
    assert delay.skips({T0: 1}, {T0: 100}, NOW_MS + 59_999)
    assert not delay.skips({T0: 1}, {T0: 100}, NOW_MS + 60_000)
    assert delay.skips({T0: 100}, {T0: 150}, NOW_MS + 60_001)


def test_enough_is_taken_at_once_and_the_delay_begins_anew() -> None:
    delay = Delay(100, 60_000)
    delay.skips({T0: 0}, {T0: 1}, NOW_MS)
    assert not delay.skips({T0: 1, T1: 5}, {T0: 61, T1: 45}, NOW_MS + 50_000)
    assert delay.skips({T0: 61, T1: 45}, {T0: 62, T1: 45}, NOW_MS + 70_000)


def test_without_a_minimum_nothing_is_skipped() -> None:
    delay = Delay(None, 60_000)
    assert not any(delay.skips({T0: 0}, {T0: 0}, NOW_MS) for _ in range(3))


# --- Trigger.AvailableNow -------------------------------------------------------------------------------------


def test_a_batch_stays_in_front_of_what_there_was() -> None:
    check_target({T0: 5, T1: 7}, {T0: 5, T1: 0})
    check_still_there({T0: 5}, {T0: 5, T1: 7})


@pytest.mark.parametrize(
    ("target", "end", "condition"),
    [
        ({T0: 5}, {T0: 5, T1: 0}, "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED"),
        ({T0: 5, T1: 0}, {T0: 5}, "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED"),
        ({T0: 5}, {T0: 6}, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED"),
    ],
)
def test_a_batch_that_goes_beyond_what_there_was_is_refused(target: Offsets, end: Offsets, condition: str) -> None:
    with pytest.raises(OffsetsError, match=condition):
        check_target(target, end)


@pytest.mark.parametrize(
    ("end", "latest", "condition"),
    [
        ({T0: 5, T1: 5}, {T0: 5}, "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"),
        ({T0: 5}, {T0: 4}, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST"),
    ],
)
def test_a_batch_of_what_is_gone_is_refused(end: Offsets, latest: Offsets, condition: str) -> None:
    with pytest.raises(OffsetsError, match=condition):
        check_still_there(end, latest)


def test_offsets_that_went_back_are_told_as_spark_prints_a_map() -> None:
    """Not as its JSON of offsets, which kwire had there."""
    now, wanted = r"Map\(t-0 -> 4, t-1 -> 5\)", r"Map\(t-0 -> 5, t-1 -> 5\)"
    with pytest.raises(OffsetsError, match=f"latest offset: {now}, end offset: {wanted}$"):
        check_still_there({T1: 5, T0: 5}, {T1: 5, T0: 4})
    with pytest.raises(OffsetsError, match=rf"pre-fetched offset: {now}, end offset: {wanted}\.$"):
        check_target({T1: 5, T0: 4}, {T1: 5, T0: 5})
