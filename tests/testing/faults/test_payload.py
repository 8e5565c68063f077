"""Values are unique, of the size that is asked for, and known by their first part, unless they were damaged."""

from __future__ import annotations

import pytest

from kwire.testing.faults.payload import identity, value_of


@pytest.mark.parametrize("size_bytes", [14, 15, 100, 2 * 1024 * 1024])
def test_a_value_has_its_size_and_a_short_identity(size_bytes: int) -> None:
    value = value_of(42, size_bytes)
    assert len(value.encode()) == size_bytes
    assert identity(value) == f"0000000042:{size_bytes}"


def test_a_value_is_never_shorter_than_its_number() -> None:
    assert value_of(7, 1) == "0000000007:1"
    assert identity(value_of(7, 1)) == "0000000007:1"


def test_values_of_different_numbers_differ() -> None:
    assert len({identity(value_of(number, 100)) for number in range(1_000)}) == 1_000


@pytest.mark.parametrize(
    "damaged",
    [
        value_of(42, 100)[:-1],
        value_of(42, 100) + ".",
        value_of(42, 100)[:-1] + ",",
        "0000000042:100",
        "0000000042:1x0|",
        "",
    ],
)
def test_a_damaged_value_is_no_value_that_was_sent(damaged: str) -> None:
    assert identity(damaged) == f"{damaged[:60]!r} ({len(damaged)} characters)"
