"""Windows under virtual time: what Java's sensors say of the same numbers (metrics.num.samples, sample.window.ms)."""

from __future__ import annotations

import math

import pytest

from kwire.metrics.window import Window, WindowSetting

S = 1000.0


def window(*numbers: tuple[float, float], samples: int = 2, sample_ms: float = 30 * S) -> Window:
    """One that these were recorded in: pairs of a time and a number."""
    made = Window(WindowSetting(samples, sample_ms))
    for at_ms, number in numbers:
        made.record(number, at_ms)
    return made


def test_of_no_number_there_is_neither_average_nor_extreme_and_the_rate_is_0() -> None:
    measured = window().measure(0.0)
    assert (measured.ever, measured.total, measured.count_per_s, measured.total_per_s) == (0, 0, 0, 0)
    assert math.isnan(measured.average)
    assert math.isnan(measured.greatest)
    assert math.isnan(measured.least)


def test_average_and_extremes_are_of_all_that_is_of_late() -> None:
    measured = window((0, 4), (1 * S, 10), (31 * S, 1)).measure(31 * S)
    assert (measured.average, measured.greatest, measured.least) == (5, 10, 1)


def test_a_rate_is_of_at_least_one_whole_sample_however_young_the_window() -> None:
    """Java: a first event makes 1/30 a second, not 1000 a second."""
    assert window((0, 5)).measure(0.0).count_per_s == pytest.approx(1 / 30)
    assert window((0, 5)).measure(10 * S).total_per_s == pytest.approx(5 / 40)
    assert window((0, 5)).measure(30 * S).total_per_s == pytest.approx(5 / 30)
    assert window((0, 5)).measure(45 * S).total_per_s == pytest.approx(5 / 45)


def test_a_sample_begins_with_the_first_number_after_the_one_before() -> None:
    """Not on a grid: the second begins at 50 s, so at 70 s the window reaches back to 0."""
    assert window((0, 1), (50 * S, 1)).measure(59 * S).count_per_s == pytest.approx(2 / 59)


def test_a_sample_counts_until_nothing_was_added_for_all_of_the_window() -> None:
    """Java keeps one that reaches into the window, though it began before it."""
    numbers = window((0, 9), (29 * S, 1), (40 * S, 2))
    assert numbers.measure(88 * S).greatest == 9
    assert numbers.measure(89 * S).greatest == 2
    assert numbers.measure(89 * S).count_per_s == pytest.approx(1 / 49)
    assert numbers.measure(100 * S).count_per_s == 0


def test_totals_are_for_ever() -> None:
    measured = window((0, 9), (500 * S, 1)).measure(9000 * S)
    assert (measured.ever, measured.total) == (2, 10)
    assert math.isnan(measured.average)


def test_samples_and_their_length_can_be_set() -> None:
    numbers = window((0, 8), (1 * S, 4), (2 * S, 2), samples=3, sample_ms=1 * S)
    assert numbers.measure(2 * S).average == pytest.approx(14 / 3)
    assert numbers.measure(3 * S).average == 3
    assert numbers.measure(4 * S).average == 2
    assert numbers.measure(2 * S).total_per_s == pytest.approx(14 / 2)


def test_without_a_length_each_number_is_a_sample() -> None:
    assert window((0, 8), (1, 4), sample_ms=0).measure(1.0).ever == 2


def test_many_samples_leave_no_more_behind_than_are_kept() -> None:
    numbers = window(*((n * 30 * S, n) for n in range(1_000)))
    assert len(numbers._samples) == 3
    assert numbers.measure(999 * 30 * S).average == pytest.approx(998.5)


def test_a_rate_may_be_of_longer_samples_than_what_is_counted() -> None:
    """Java's rebalances an hour, since Kafka 4.3: a single one is 1 an hour, and not 120."""
    hour = 3600 * S
    rebalances = window((0, 5))
    assert rebalances.measure(0.0, hour).count_per_s * 3600 == pytest.approx(1)
    assert rebalances.measure(59 * S, hour).count_per_s * 3600 == pytest.approx(1, rel=0.02)
    assert rebalances.measure(60 * S, hour).count_per_s == 0
