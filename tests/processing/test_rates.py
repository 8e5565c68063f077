"""A bound for records per second, and what was seen of them."""

from __future__ import annotations

import pytest

from kwire.clock import NEVER_MS
from kwire.processing.rates import Meter, Times, TokenBucket


def went(bucket: TokenBucket, until_ms: int) -> int:
    """How many records go when somebody looks each millisecond."""
    gone = 0
    for now_ms in range(until_ms):
        count = int(bucket.available(float(now_ms)))
        bucket.take(count)
        gone += count
    return gone


@pytest.mark.parametrize("per_second", [10, 1_000, 2_500])
def test_no_more_go_than_the_rate_and_what_was_saved_up(per_second: int) -> None:
    saved_up = max(1, per_second // 10)
    assert went(TokenBucket(per_second, 0.0), 10_000) in range(10 * per_second, 10 * per_second + saved_up + 1)


def test_a_tenth_of_a_second_is_saved_up_and_no_more() -> None:
    bucket = TokenBucket(100.0, 0.0)
    assert bucket.available(60_000.0) == 10


def test_it_says_when_the_next_one_may_go() -> None:
    bucket = TokenBucket(10.0, 0.0)
    assert bucket.available(0.0) == 1
    assert bucket.ready_ms == NEVER_MS, "it may go now: it is not the rate that anybody waits for"
    bucket.take(1)
    assert bucket.ready_ms == pytest.approx(100.0)
    assert bucket.available(99.0) < 1
    assert bucket.available(100.0) >= 1


def test_what_a_batch_took_too_many_the_next_ones_wait_for() -> None:
    bucket = TokenBucket(10.0, 0.0)
    bucket.take(11)
    assert bucket.ready_ms == pytest.approx(1_100.0)


def test_without_a_bound_all_may_go() -> None:
    bucket = TokenBucket(None, 0.0)
    bucket.take(1_000_000)
    assert bucket.available(0.0) == NEVER_MS
    assert bucket.ready_ms == NEVER_MS


def test_a_meter_forgets_what_was_ten_seconds_ago() -> None:
    meter = Meter(0.0)
    for second in range(100):
        meter.add(1_000 if second < 50 else 10, second * 1000.0)
    assert meter.per_second(49_999.0) == pytest.approx(10, rel=0.01)
    assert meter.per_second(99_999.0) == pytest.approx(10, rel=0.01)
    assert meter.per_second(200_000.0) == 0


def test_a_young_meter_divides_by_its_age() -> None:
    meter = Meter(5_000.0)
    meter.add(300, 6_000.0)
    assert meter.per_second(8_000.0) == pytest.approx(100)


def test_quantiles_of_times_are_right_to_a_fifth() -> None:
    times = Times()
    assert times.quantile_ms(0.5) == 0
    for took_ms in range(1, 1_001):
        times.add(float(took_ms), 1)
    assert 500 <= times.quantile_ms(0.5) <= 500 * 1.2
    assert 990 <= times.quantile_ms(0.99) <= 990 * 1.2
    assert times.quantile_ms(1.0) >= 1_000


@pytest.mark.parametrize("took_ms", [0.0, 1e-9, 1e12])
def test_any_time_finds_a_bucket(took_ms: float) -> None:
    times = Times()
    times.add(took_ms, 3)
    assert times.quantile_ms(0.5) > 0
