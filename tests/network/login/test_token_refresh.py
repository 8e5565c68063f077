"""When a token is renewed, beside what the Java client's ExpiringCredentialRefreshingLogin does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.network.login.refresh import MIN_PAUSE_MS, RefreshRules

NOW_MS = 1_800_000_000_000.0
MINUTE_MS = 60_000.0
DEFAULTS = RefreshRules(window_factor=0.8, window_jitter=0.05, min_period_ms=MINUTE_MS, buffer_ms=5 * MINUTE_MS)


@pytest.mark.parametrize(
    ("life_minutes", "renewed_after_minutes", "why"),
    [
        (60, 48, "0.8 of its life"),
        (10, 5, "the buffer of 5 minutes before its end comes first"),
        (6, 1, "the least period and the buffer fit just"),
        (5, 4, "they do not fit: 0.8 of what is left"),
        (0.5, 0.4, "they do not fit"),
    ],
)
def test_a_token_without_jitter(life_minutes: float, renewed_after_minutes: float, why: str) -> None:
    at_ms = DEFAULTS.renew_at_ms(None, NOW_MS + life_minutes * MINUTE_MS, NOW_MS, chance=0.0)

    assert (at_ms - NOW_MS) / MINUTE_MS == pytest.approx(renewed_after_minutes), why


def test_jitter_is_added_to_the_share_of_its_life() -> None:
    assert DEFAULTS.renew_at_ms(None, NOW_MS + 60 * MINUTE_MS, NOW_MS, chance=1.0) == NOW_MS + 51 * MINUTE_MS


def test_the_life_of_a_token_begins_when_it_says() -> None:
    """An agent beside the process hands out a token of an hour that is 20 minutes old."""
    at_ms = DEFAULTS.renew_at_ms(NOW_MS - 20 * MINUTE_MS, NOW_MS + 40 * MINUTE_MS, NOW_MS, chance=0.0)

    assert at_ms == NOW_MS + 28 * MINUTE_MS


def test_a_token_that_should_have_been_renewed_already_is_used_for_the_least_period() -> None:
    at_ms = DEFAULTS.renew_at_ms(NOW_MS - 60 * MINUTE_MS, NOW_MS + 7 * MINUTE_MS, NOW_MS, chance=0.0)

    assert at_ms == NOW_MS + MINUTE_MS


@given(
    factor=st.floats(0.5, 1.0),
    jitter=st.floats(0.0, 0.25),
    min_period_s=st.integers(0, 900),
    buffer_s=st.integers(0, 3600),
    life_ms=st.floats(1.0, 1e11),
    age_ms=st.one_of(st.none(), st.floats(0.0, 1e10)),
    chance=st.floats(0.0, 1.0, exclude_max=True),
)
def test_whatever_the_settings_there_is_no_storm_and_no_renewal_before_the_least_period(
    factor: float, jitter: float, min_period_s: int, buffer_s: int, life_ms: float, age_ms: float | None, chance: float
) -> None:
    rules = RefreshRules(
        window_factor=factor, window_jitter=jitter, min_period_ms=min_period_s * 1e3, buffer_ms=buffer_s * 1e3
    )
    end_ms = NOW_MS + life_ms

    at_ms = rules.renew_at_ms(None if age_ms is None else NOW_MS - age_ms, end_ms, NOW_MS, chance)

    assert at_ms >= NOW_MS + MIN_PAUSE_MS
    if NOW_MS + rules.min_period_ms + rules.buffer_ms <= end_ms:
        assert at_ms >= NOW_MS + rules.min_period_ms
        assert at_ms <= max(end_ms - rules.buffer_ms, NOW_MS + MIN_PAUSE_MS)
