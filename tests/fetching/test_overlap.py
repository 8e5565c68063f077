"""When partitions are asked about in a second request, and when no longer."""

from __future__ import annotations

from kwire.fetching.buffer import CompletedFetch
from kwire.fetching.overlap import GIVEN_UP_MS, LITTLE_BYTES, MUCH_BYTES, STOCK_ANSWERS, Overlap
from kwire.model import TopicPartition

ALL = [TopicPartition("orders", number) for number in range(4)]


def answered(*partitions: int, size_bytes: int = MUCH_BYTES) -> list[CompletedFetch]:
    """So many bytes, about the same of each partition."""
    each = bytes(-(-size_bytes // max(1, len(partitions))))
    return [CompletedFetch(topic_partition=ALL[n], epoch=1, fetch_offset=0, records=each) for n in partitions]


def begun() -> Overlap:
    overlap = Overlap()
    assert set(overlap.heard_first(answered(0, 1, 2, 3), stock_bytes=0, is_alone=True, now_ms=0.0)) == {ALL[1], ALL[3]}
    return overlap


def test_a_large_answer_begins_it_and_a_smaller_one_does_not() -> None:
    overlap = Overlap()
    smaller = answered(0, 1, size_bytes=MUCH_BYTES - 2)
    assert not overlap.heard_first(smaller, stock_bytes=0, is_alone=True, now_ms=0.0)
    assert not overlap.heard_first(answered(0, 1), stock_bytes=0, is_alone=False, now_ms=0.0)
    assert set(overlap.heard_first(answered(0, 1), stock_bytes=0, is_alone=True, now_ms=0.0)) == {ALL[1]}
    assert [overlap.is_second(tp) for tp in ALL] == [False, True, False, False]


def test_it_goes_on_while_the_second_brings_something() -> None:
    overlap = begun()
    overlap.heard_second(answered(1, size_bytes=LITTLE_BYTES), stock_bytes=0)
    assert not overlap.heard_first([], stock_bytes=0, is_alone=False, now_ms=1.0)
    assert overlap.is_second(ALL[1])


def test_it_ends_with_the_first_answer_after_the_second_brought_little() -> None:
    overlap = begun()
    overlap.heard_second(answered(1, size_bytes=LITTLE_BYTES - 1), stock_bytes=0)
    assert overlap.is_second(ALL[1])
    assert set(overlap.heard_first(answered(0, 2), stock_bytes=0, is_alone=False, now_ms=1.0)) == {ALL[1], ALL[3]}
    assert not any(map(overlap.is_second, ALL))


def test_a_second_that_picks_up_again_stays() -> None:
    overlap = begun()
    overlap.heard_second([], stock_bytes=0)
    overlap.heard_second(answered(1, 3), stock_bytes=2 * MUCH_BYTES)
    assert not overlap.heard_first(answered(0, 2), stock_bytes=0, is_alone=False, now_ms=1.0)
    assert overlap.is_second(ALL[3])


def test_a_failure_ends_it_for_a_while() -> None:
    overlap = begun()
    assert set(overlap.failed(5.0)) == {ALL[1], ALL[3]}
    assert not overlap.heard_first(answered(0, 1), stock_bytes=0, is_alone=True, now_ms=5.0 + GIVEN_UP_MS - 1)
    assert overlap.heard_first(answered(0, 1), stock_bytes=0, is_alone=True, now_ms=5.0 + GIVEN_UP_MS)


def test_what_is_not_fetched_any_more_comes_back_to_the_first() -> None:
    overlap = begun()
    overlap.forget(ALL[1])
    assert [overlap.is_second(tp) for tp in ALL] == [False, False, False, True]


def test_an_application_that_has_records_in_stock_needs_no_second_request() -> None:
    assert not Overlap().heard_first(answered(0, 1), stock_bytes=1, is_alone=True, now_ms=0.0)
    overlap = begun()
    overlap.heard_second(answered(1, 3), stock_bytes=STOCK_ANSWERS * MUCH_BYTES + 1)
    assert set(overlap.heard_first([], stock_bytes=0, is_alone=False, now_ms=1.0)) == {ALL[1], ALL[3]}
