"""Where records start and end: the same places whichever way finds them, whatever their lengths look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.protocol import record_boundaries
from kwire.protocol.record_boundaries import DamagedBatchError, find_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.protocol.record_boundaries import _OpenBatches
    from kwire.protocol.record_varints import Ints, Octets

# Around the sizes at which the length needs another byte (64, 8192) and the smallest record.
LENGTHS = st.sampled_from([6, 7, 40, 63, 64, 65, 100, 8191, 8192, 9000])


class Payload(NamedTuple):
    """Encoded records, and where the body of each starts and ends."""

    data: bytes
    bodies: list[int]
    ends: list[int]


def varint(number: int, *, padding_bytes: int = 0) -> bytes:
    """Zigzag; padding makes it longer than it needs to be, which Java's reader takes."""
    raw = (number << 1) ^ (number >> 31)
    out = bytearray()
    while raw >= 0x80 or padding_bytes > 0:
        if raw < 0x80:
            padding_bytes -= 1
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def payload(lengths: Sequence[int], *, padded: frozenset[int] = frozenset()) -> Payload:
    data = bytearray(b"....")
    bodies: list[int] = []
    ends: list[int] = []
    for nth, length in enumerate(lengths):
        data += varint(length, padding_bytes=1 if nth in padded else 0)
        bodies.append(len(data))
        data += b"\xff" * length
        ends.append(len(data))
    return Payload(bytes(data), bodies, ends)


def find(data: bytes | memoryview, count: int, *, start: int = 4) -> tuple[list[int], list[int]]:
    bodies, ends = find_records(
        data, np.frombuffer(data, dtype=np.uint8), np.array([start]), np.array([len(data)]), np.array([count])
    )
    return bodies.tolist(), ends.tolist()


@settings(derandomize=True, max_examples=60, deadline=None)
@given(lengths=st.lists(LENGTHS, max_size=30), padded=st.frozensets(st.integers(0, 29), max_size=3))
def test_few_records_of_any_lengths_are_found(lengths: list[int], padded: frozenset[int]) -> None:
    data, bodies, ends = payload(lengths, padded=padded)
    assert find(data, len(lengths)) == (bodies, ends)
    assert find(memoryview(bytearray(data)), len(lengths)) == (bodies, ends)


@pytest.mark.parametrize("pattern", [[100], [100, 101], [10, 70, 9000], [63] * 900 + [64] * 900])
def test_many_records_are_found_by_guessing_and_by_looping(pattern: list[int]) -> None:
    data, bodies, ends = payload(pattern * (1800 // len(pattern)))
    assert find(data, len(bodies)) == (bodies, ends)


@pytest.mark.parametrize(
    ("pattern", "is_guessed"),
    [
        pytest.param([100], True, id="all alike"),
        pytest.param([99] + [100] * 599, True, id="only the first another"),
        pytest.param([100, 101, 102, 103], False, id="no two alike"),
    ],
)
def test_sizes_that_vary_are_not_guessed(pattern: list[int], is_guessed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    guess_round = record_boundaries._guess_round

    def counted(data: Octets, todo: _OpenBatches, longest: int, *found: Ints) -> tuple[_OpenBatches, int]:
        rounds.append(longest)
        return guess_round(data, todo, longest, *found)

    monkeypatch.setattr(record_boundaries, "_guess_round", counted)
    data, bodies, ends = payload(pattern * (600 // len(pattern)))
    assert find(data, len(bodies)) == (bodies, ends)
    assert bool(rounds) == is_guessed


@pytest.mark.parametrize(
    ("lengths", "extra", "problem"),
    [
        ([10, 5, 10], b"", "a record of 5 bytes where"),
        ([10, -3, 10], b"", "a record of -3 bytes where"),
        ([70, 6], b"\x00", "1 bytes remain behind the last declared record"),
        ([70, 6], b"\xff", "1 bytes remain behind the last declared record"),
    ],
)
def test_what_no_record_can_be_is_named(lengths: list[int], extra: bytes, problem: str) -> None:
    data = b"...." + b"".join(varint(length) + bytes(max(0, length)) for length in lengths) + extra
    with pytest.raises(DamagedBatchError, match=problem):
        find(data, len(lengths))


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        (varint(200) + bytes(50), "a record of 200 bytes where 50 are left"),
        (b"\xff", "a record of|the payload ends|ends inside"),
        (b"\xff\xff\xff\xff\xff\xff" + bytes(9), "a varint of more than 5 bytes"),
        (b"", "the payload ends with 3 more records declared"),
    ],
)
def test_a_payload_that_ends_early_is_noticed(tail: bytes, problem: str) -> None:
    data = payload([70, 80]).data + tail
    with pytest.raises(DamagedBatchError, match=problem):
        find(data, 3)


def test_a_padded_length_of_too_small_a_record_is_no_way_around_the_check() -> None:
    data = b"...." + varint(10) + bytes(10) + varint(5, padding_bytes=1) + bytes(5)
    with pytest.raises(DamagedBatchError, match="a record of 5 bytes where 5 are left"):
        find(data, 2)
