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
    from collections.abc import Callable, Sequence

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


# 100 and 164 have the same first byte of two, 64 and 8256 the same first of two and of three.
@pytest.mark.parametrize("lengths", [[100] * 900 + [164] * 900, [164] * 5 + [100] * 1800, [64] * 900 + [8256] * 20])
def test_a_guess_looks_at_all_bytes_of_a_length(lengths: list[int]) -> None:
    data, bodies, ends = payload(lengths)
    assert find(data, len(bodies)) == (bodies, ends)


def test_guesses_look_at_all_bytes_of_each_batch_though_their_lengths_differ() -> None:
    of_batches = [[20] * 300, [100] * 150 + [164] * 150, [20] * 150 + [21] * 150, [9000] * 40]
    payloads = [payload(lengths).data[4:] for lengths in of_batches]
    bodies, ends = find_in_batches(payloads, list(map(len, of_batches)))
    assert [end - body for body, end in zip(bodies, ends, strict=True)] == [each for of in of_batches for each in of]


@pytest.mark.parametrize("length", [20, 100, 9000])
def test_records_of_one_length_are_found_by_guessing_alone(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_boundaries, "_scan", None)
    counts = [64] * 20 + [0] + [60] * 5  # as many as the first round guesses
    bodies, ends = find_in_batches([payload([length] * count).data[4:] for count in counts], counts)
    assert [end - body for body, end in zip(bodies, ends, strict=True)] == [length] * sum(counts)


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


# --- batches that lie one behind the other, as inflated ones do ----------------------------------------------------

BATCHES = [[70, 9000, 64], [6], [9000, 9000], [100, 101, 102, 103], [8191, 6, 63]]


def find_in_batches(payloads: Sequence[bytes], counts: Sequence[int], gap: bytes = b"") -> tuple[list[int], list[int]]:
    data, starts, ends = bytearray(b"...."), [], []
    for each in payloads:
        starts.append(len(data))
        data += each
        ends.append(len(data))
        data += gap
    whole = bytes(data)
    places = np.array(starts), np.array(ends), np.array(counts)
    bodies, record_ends = find_records(whole, np.frombuffer(whole, dtype=np.uint8), *places)
    return bodies.tolist(), record_ends.tolist()


@pytest.mark.parametrize("gap", [b"", b"a header"], ids=["together", "apart"])
def test_records_of_batches_are_found_whether_they_lie_together_or_apart(gap: bytes) -> None:
    payloads = [payload(lengths).data[4:] for lengths in BATCHES]
    bodies: list[int] = []
    ends: list[int] = []
    start = 4
    for each, lengths in zip(payloads, BATCHES, strict=True):
        of_batch = payload(lengths)
        bodies += [start - 4 + body for body in of_batch.bodies]
        ends += [start - 4 + end for end in of_batch.ends]
        start += len(each) + len(gap)
    assert find_in_batches(payloads, list(map(len, BATCHES)), gap) == (bodies, ends)


SINGLE = [[70], [6], [9000], [63], [8191], [100]]


@pytest.mark.parametrize("gap", [b"", b"a header"], ids=["together", "apart"])
def test_the_only_record_of_each_batch_is_found_without_a_walk(gap: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_boundaries, "_scan", None)
    found = find_in_batches([payload(lengths).data[4:] for lengths in SINGLE], [1] * len(SINGLE), gap)
    sizes = [len(varint(length)) for (length,) in SINGLE]
    starts = [4]
    for (length,), size in zip(SINGLE, sizes, strict=True):
        starts.append(starts[-1] + size + length + len(gap))
    assert found == (
        [start + size for start, size in zip(starts, sizes, strict=False)],
        [start - len(gap) for start in starts[1:]],
    )


@pytest.mark.parametrize("index", range(len(SINGLE)))
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data + b"\0", "1 bytes remain behind the last declared record"),
        (lambda data: data[:-1], "a record of .* bytes where .* are left"),
        (lambda data: varint(5) + data[1:], "a record of 5 bytes where"),
        (lambda data: varint(-1) + data[1:], "a record of -1 bytes where"),
        (lambda data: b"\xff" * len(data), "more records declared"),
    ],
    ids=["surplus", "cut off", "too small", "negative", "no length"],
)
def test_the_damaged_one_of_batches_with_one_record_each_is_named(
    index: int, damage: Callable[[bytes], bytes], problem: str
) -> None:
    payloads = [payload(lengths).data[4:] for lengths in SINGLE]
    payloads[index] = damage(payloads[index] if index != 1 else payload([7]).data[4:])
    with pytest.raises(DamagedBatchError, match=problem) as raised:
        find_in_batches(payloads, [1] * len(SINGLE))
    assert raised.value.index == index


@pytest.mark.parametrize("gap", [b"", b"a header"], ids=["together", "apart"])
@pytest.mark.parametrize("index", [2, 3])
def test_a_record_that_a_batch_lends_to_the_next_one_is_noticed(index: int, gap: bytes) -> None:
    """All records are there, and the counts add up: only the edges of the batches are wrong."""
    counts = [len(lengths) for lengths in BATCHES]
    counts[index] -= 1
    counts[index + 1] += 1
    payloads = [payload(lengths).data[4:] for lengths in BATCHES]
    with pytest.raises(DamagedBatchError, match="bytes remain behind the last declared record") as raised:
        find_in_batches(payloads, counts, gap)
    assert raised.value.index == index


@pytest.mark.parametrize("index", range(len(BATCHES)))
def test_the_batch_that_is_damaged_is_named_among_those_that_lie_together(index: int) -> None:
    payloads = [payload(lengths).data[4:] for lengths in BATCHES]
    payloads[index] = varint(30) + payloads[index][1:] if len(BATCHES[index]) > 1 else varint(60) + bytes(7)
    with pytest.raises(DamagedBatchError) as raised:
        find_in_batches(payloads, list(map(len, BATCHES)))
    assert raised.value.index == index
