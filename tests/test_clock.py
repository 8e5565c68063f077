"""Time, deadlines and back-off."""

from __future__ import annotations

import random
import time
from uuid import UUID

import pytest

from kwire.clock import (
    Backoff,
    Deadline,
    TimeSource,
    chance,
    install,
    monotonic_ms,
    new_uuid,
    secure_random_bytes,
    wall_clock_ms,
)


def no_jitter() -> float:
    return 0.5


def test_the_clocks_count_milliseconds() -> None:
    assert abs(monotonic_ms() - time.monotonic() * 1_000) < 1_000
    assert abs(wall_clock_ms() - time.time() * 1_000) < 1_000


def test_a_deadline_is_a_point_in_time() -> None:
    assert Deadline.after(50, now_ms=100).at_ms == 150
    assert Deadline(0.0).expired
    assert Deadline(0.0).remaining_ms() == 0.0
    far = Deadline.after(60_000)
    assert not far.expired
    assert 59_000 < far.remaining_ms() <= 60_000


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(100, 1_000, no_jitter)
    assert [backoff.delay_ms(failures) for failures in range(7)] == [0, 100, 200, 400, 800, 1_000, 1_000]


def test_any_number_of_failures_has_a_pause() -> None:
    assert Backoff(100, 1_000, no_jitter).delay_ms(10**9) == 1_000


@pytest.mark.parametrize(("draw", "expected_ms"), [(0.0, 80), (0.5, 100), (1.0, 120)])
def test_jitter_is_a_fifth_to_either_side(draw: float, expected_ms: float) -> None:
    assert Backoff(100, 1_000, lambda: draw).delay_ms(1) == pytest.approx(expected_ms)


def test_a_pause_of_zero_is_still_a_pause() -> None:
    assert Backoff(0, 0, no_jitter).delay_ms(1) == Backoff.FLOOR_MS
    assert Backoff(0, 0, no_jitter).delay_ms(0) == 0


def test_a_first_pause_above_the_longest_is_kept() -> None:
    assert Backoff(500, 100, no_jitter).delay_ms(3) == 500


def test_chance_lies_between_zero_and_one_and_varies() -> None:
    draws = {chance() for _ in range(20)}
    assert all(0 <= draw < 1 for draw in draws)
    assert len(draws) > 1


def test_what_nobody_can_guess_is_new_each_time_and_as_long_as_asked_for() -> None:
    drawn = {secure_random_bytes(24) for _ in range(20)}
    assert len(drawn) == 20
    assert {len(each) for each in drawn} == {24}


def test_time_and_chance_can_be_anothers_and_are_given_back() -> None:
    fixed = UUID(int=7)
    source = TimeSource(
        monotonic_seconds=lambda: 2.5,
        wall_clock_ns=lambda: 3_000_000,
        chance=lambda: 0.25,
        new_uuid=lambda: fixed,
        secure_random_bytes=bytes,
    )
    before = install(source)
    try:
        assert (monotonic_ms(), wall_clock_ms(), chance(), new_uuid()) == (2_500.0, 3, 0.25, fixed)
        assert secure_random_bytes(3) == b"\0\0\0"
        assert Deadline.after(100).remaining_ms() == 100.0
        assert Backoff(100, 1_000).delay_ms(1) == pytest.approx(90.0)
    finally:
        assert install(before) is source
    assert abs(monotonic_ms() - time.monotonic() * 1_000) < 1_000


def test_chance_is_not_drawn_from_the_applications_random_numbers() -> None:
    """A program that seeds `random` got other numbers, as a network thread drew some of them for its back-off."""
    random.seed(1)
    before = random.getstate()
    drawn = {chance() for _ in range(10)}
    assert random.getstate() == before
    assert len(drawn) == 10
    assert all(0 <= each < 1 for each in drawn)
