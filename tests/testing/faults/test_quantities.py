"""Quantities are read with their units, exactly, and written so that they are read back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.testing.faults.quantities import Quantity

MS, US = Quantity.DURATION_MS, Quantity.DURATION_US


@pytest.mark.parametrize(
    ("quantity", "word", "value"),
    [
        (MS, "100ms", 100),
        (MS, "15s", 15_000),
        (MS, "2.5s", 2_500),
        (MS, "1.5min", 90_000),
        (MS, "0ms", 0),
        (US, "10us", 10),
        (Quantity.CLOCK_STEP_MS, "-1h", -3_600_000),
        (Quantity.BYTES, "64KiB", 65_536),
        (Quantity.KBITS_PER_SECOND, "3Mbit", 3_000),
        (Quantity.PER_SECOND, "500/s", 500),
        (Quantity.PERCENT, "30%", 30),
        (Quantity.COUNT, "3", 3),
    ],
)
def test_a_quantity_is_read_in_its_smallest_unit(quantity: Quantity, word: str, value: int) -> None:
    assert quantity.parse(word) == value


@pytest.mark.parametrize(
    ("quantity", "word", "said"),
    [
        (MS, "15", "a duration is wanted, as in 15s; units: ms, s, min"),
        (MS, "15 s", "a duration is wanted"),
        (MS, "0.5ms", "in whole ms"),
        (MS, "s", "a duration is wanted"),
        (MS, "", "a duration is wanted"),
        (MS, "1e9s", "a duration is wanted"),
        (MS, "٣s", "a duration is wanted"),
        (MS, "9" * 100_000 + "s", "a duration is wanted"),
        (Quantity.PER_SECOND, "500", "a rate is wanted, as in 500/s"),
        (Quantity.COUNT, "1.5", "in whole numbers"),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_is_wanted(quantity: Quantity, word: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        quantity.parse(word)


@pytest.mark.parametrize(
    ("quantity", "value", "word"),
    [
        (MS, 90_000, "90s"),
        (MS, 17_500, "17.5s"),
        (MS, 100_000, "100s"),
        (MS, 999, "999ms"),
        (MS, 0, "0ms"),
        (Quantity.BYTES, 2 << 20, "2MiB"),
        (Quantity.BYTES, 9_534, "9534B"),
        (Quantity.CLOCK_STEP_MS, -500, "-500ms"),
    ],
)
def test_a_quantity_is_written_as_one_would_write_it(quantity: Quantity, value: int, word: str) -> None:
    assert quantity.render(value) == word


@pytest.mark.slow
@given(st.sampled_from(Quantity), st.integers(-(10**12), 10**12))
def test_what_is_written_is_read_back(quantity: Quantity, value: int) -> None:
    assert quantity.parse(quantity.render(value)) == value
