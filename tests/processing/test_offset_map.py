"""What is finished beyond a commit, as text: the same comes back, near the least that is possible, from anybody."""

from __future__ import annotations

import random
import zlib
from base64 import b85encode
from itertools import pairwise
from math import log2
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.commit_metadata import MAP_PREFIX
from kwire.errors import InvalidArgumentError
from kwire.processing.offset_codings import CODERS, Coding, Runs
from kwire.processing.offset_map import LIMIT_CHARS, OffsetMap, decode, encode, is_offset_map

TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")
HEADER_CHARS = len(MAP_PREFIX) + (4 + 16 + 4 + 8 + 1) * 5 // 4 + 1

all_runs = st.lists(st.integers(1, 400), min_size=2, max_size=60).map(lambda runs: runs[: len(runs) // 2 * 2])
bases = st.integers(0, 2**62)


def known(base: int, runs: Runs, leader_epoch: int | None = 7) -> OffsetMap:
    """What these runs say, from the base on."""
    edges = [base]
    for length in runs:
        edges.append(edges[-1] + length)
    stretches = [range(start, stop) for start, stop in pairwise(edges)]
    return OffsetMap(TOPIC_ID, leader_epoch, tuple(stretches[1::2]))


def by_chance(share_unfinished: float, count: int) -> list[range]:
    """Each offset is unfinished by that chance; the first is, the last is not."""
    dice = random.Random(1)
    finished = [False, *(dice.random() >= share_unfinished for _ in range(count - 2)), True]
    edges = [at for at, (one, two) in enumerate(pairwise(finished), start=1) if one != two]
    return [range(start, stop) for start, stop in pairwise([*edges, count])][::2]


# --- the same comes back ----------------------------------------------------------------------------------------------


@given(runs=all_runs, base=bases, leader_epoch=st.none() | st.integers(0, 2**31 - 1))
def test_what_was_written_is_read(runs: Runs, base: int, leader_epoch: int | None) -> None:
    wanted = known(base, runs, leader_epoch)
    text = encode(base, wanted, limit_chars=1 << 20)
    assert is_offset_map(text)
    assert decode(base, text) == wanted


@given(runs=all_runs, coding=st.sampled_from(Coding))
def test_each_coding_reads_what_it_wrote(runs: Runs, coding: Coding) -> None:
    written = CODERS[coding].write(runs)
    assert written is not None
    assert list(CODERS[coding].read(written)) == list(runs)


def test_nothing_finished_beyond_takes_no_metadata() -> None:
    assert encode(5, OffsetMap(TOPIC_ID, None, ())) == ""


def test_gigantic_stretches_take_no_more_than_small_ones() -> None:
    wanted = OffsetMap(TOPIC_ID, 1, (range(10**6, 10**12), range(10**15, 10**16)))
    text = encode(5, wanted)
    assert len(text) < HEADER_CHARS + 40
    assert decode(5, text) == wanted


# --- room -------------------------------------------------------------------------------------------------------------


@given(runs=all_runs, limit_chars=st.integers(0, 200))
def test_what_does_not_fit_is_left_out_from_the_far_end(runs: Runs, limit_chars: int) -> None:
    wanted = known(100, runs)
    text = encode(100, wanted, limit_chars=limit_chars)
    assert len(text) <= limit_chars
    if text:
        read = decode(100, text)
        assert read is not None
        assert read.finished == wanted.finished[: len(read.finished)]


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
def test_a_full_map_says_nearly_as_much_as_so_many_bits_can(share: float) -> None:
    """The bound is the entropy of one choice for each offset, in what the header leaves of the room."""
    bits_each = -(share * log2(share) + (1 - share) * log2(1 - share))
    room_bits = (LIMIT_CHARS - HEADER_CHARS) * 4 / 5 * 8
    finished = by_chance(share, int(1.2 * room_bits / bits_each))
    text = encode(0, OffsetMap(TOPIC_ID, 7, tuple(finished)))
    read = decode(0, text)
    assert read is not None
    assert read.finished[-1].stop * bits_each > 0.95 * room_bits


def test_a_pattern_takes_next_to_nothing() -> None:
    """One key of a hundred stands still."""
    every_hundredth = tuple(range(start + 1, start + 100) for start in range(0, 100_000, 100))
    assert len(encode(0, OffsetMap(TOPIC_ID, 7, every_hundredth))) < HEADER_CHARS + 30


def test_a_map_speaks_of_its_own_offsets_whatever_commit_it_is_found_with() -> None:
    """A consumer that catches up with a lag keeps the metadata of the commit it began with, and commits further on."""
    text = encode(70, OffsetMap(TOPIC_ID, 7, (range(75, 80), range(100, 104))))
    read = decode(90, text)
    assert read is not None
    assert read.finished == (range(100, 104),)
    read = decode(77, text)
    assert read is not None
    assert read.finished == (range(77, 80), range(100, 104))


# --- from anybody -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", ["", "mine", "kwire3:" + "0" * 60, '{"processed": [1, 2]}'])
def test_somebody_elses_metadata_is_no_map(metadata: str) -> None:
    assert not is_offset_map(metadata)
    assert decode(0, metadata) is None


@given(st.binary(max_size=80), st.sampled_from([*range(6), 255]))
def test_bytes_that_nobody_wrote_are_no_map_or_a_sound_one(data: bytes, coding: int) -> None:
    payload = TOPIC_ID.bytes + (7).to_bytes(4, "big") + (10).to_bytes(8, "big") + bytes([coding]) + data
    text = MAP_PREFIX + b85encode(zlib.crc32(payload).to_bytes(4, "big") + payload).decode()
    if (read := decode(10, text)) is not None:
        assert all(one.stop < two.start for one, two in pairwise([range(10, 10), *read.finished]))


@given(at=st.integers(0, 200), by=st.integers(1, 80))
def test_a_damaged_map_is_none(at: int, by: int) -> None:
    alphabet = b85encode(bytes(range(256))).decode()
    text = encode(0, known(0, [1, 2, 3, 4, 50, 60, 7, 800]))
    at = len(MAP_PREFIX) + at % (len(text) - len(MAP_PREFIX))
    other = alphabet[(alphabet.index(text[at]) + by) % len(alphabet)] if text[at] in alphabet else "0"
    if other != text[at]:
        assert decode(0, text[:at] + other + text[at + 1 :]) is None
    assert decode(0, text[:at]) is None


@pytest.mark.parametrize("runs", [[2, 2**62], [2**62, 2]])
def test_a_map_of_offsets_that_no_log_has_is_none(runs: list[int]) -> None:
    """It was taken, and ended the processor later, with an OverflowError."""
    text = encode(2**62, known(2**62, runs))
    assert text
    assert decode(2**62, text) is None


def test_a_bomb_is_none() -> None:
    bomb = zlib.compress(bytes(100_000_000), 9, wbits=-15)
    payload = TOPIC_ID.bytes + bytes(4) + bytes([Coding.RUNS]) + bomb
    assert decode(0, MAP_PREFIX + b85encode(zlib.crc32(payload).to_bytes(4, "big") + payload).decode()) is None


@pytest.mark.parametrize("finished", [[range(5, 9)], [range(7, 7)], [range(7, 9), range(9, 10)], [range(7, 12, 2)]])
def test_ranges_that_say_nothing_or_touch_are_refused(finished: list[range]) -> None:
    with pytest.raises(InvalidArgumentError, match="do not lie behind"):
        encode(5, OffsetMap(TOPIC_ID, 7, tuple(finished)))
