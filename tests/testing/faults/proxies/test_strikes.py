"""A strike changes what it says, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.errors import InvalidArgumentError
from kwire.testing.faults.proxies.strikes import find_batch, strike
from kwire.testing.faults.proxies.tamperings import AnnounceLength, ChaosDialer, CutAnswer, FlipBit, Place

if TYPE_CHECKING:
    from tests.testing.faults.proxies.kafka_like import answer, record_batch
else:
    from kafka_like import answer, record_batch

BEFORE = b"\x02\x00" * 40  # has magic bytes, and is no batch
BATCH = record_batch(b"r" * 30)
FETCHED = answer(77, BEFORE + BATCH + b"after")
BATCH_AT = 8 + len(BEFORE)
RANGES = {
    Place.HEADER: range(4, 8),
    Place.CRC: range(BATCH_AT + 17, BATCH_AT + 21),
    Place.BATCH_HEADER: range(BATCH_AT + 21, BATCH_AT + 61),
    Place.PAYLOAD: range(BATCH_AT + 61, BATCH_AT + len(BATCH)),
}


@pytest.mark.parametrize("place", Place)
@pytest.mark.parametrize("seed", range(5))
def test_one_bit_is_flipped_where_it_was_wanted(place: Place, seed: int) -> None:
    struck = strike(FlipBit(place=place, seed=seed), FETCHED)
    assert struck is not None
    changed = [i for i, (old, new) in enumerate(zip(FETCHED, struck.data, strict=True)) if old != new]
    assert len(changed) == 1
    assert changed[0] in RANGES[place]
    assert (FETCHED[changed[0]] ^ struck.data[changed[0]]).bit_count() == 1
    assert not struck.is_last


def test_the_seed_decides_which_bit() -> None:
    flipped = {strike(FlipBit(place=Place.PAYLOAD, seed=seed), FETCHED) for seed in (1, 1, 2, 3)}
    assert len(flipped) == 3


def test_a_batch_is_found_by_its_checksum() -> None:
    assert find_batch(FETCHED) == range(BATCH_AT, BATCH_AT + len(BATCH))
    damaged = strike(FlipBit(place=Place.CRC), FETCHED)
    assert damaged is not None
    assert find_batch(damaged.data) is None


@pytest.mark.parametrize("place", [Place.CRC, Place.BATCH_HEADER, Place.PAYLOAD])
def test_an_answer_without_a_batch_is_not_what_was_meant(place: Place) -> None:
    assert strike(FlipBit(place=place), answer(77, BEFORE)) is None


@pytest.mark.parametrize("length_bytes", [0, -1, 3, 2**31 - 1, -(2**31)])
def test_another_length_is_announced(length_bytes: int) -> None:
    struck = strike(AnnounceLength(length_bytes=length_bytes), FETCHED)
    assert struck is not None
    assert int.from_bytes(struck.data[:4], signed=True) == length_bytes
    assert struck.data[4:] == FETCHED[4:]


@pytest.mark.parametrize("after_bytes", [0, 1, 4, 100])
def test_an_answer_is_cut(after_bytes: int) -> None:
    struck = strike(CutAnswer(after_bytes=after_bytes), FETCHED)
    assert struck is not None
    assert struck.data == FETCHED[:after_bytes]
    assert struck.is_last


def test_orders_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="number 0"):
        FlipBit(place=Place.CRC, nth=0)
    with pytest.raises(InvalidArgumentError, match="int32"):
        AnnounceLength(length_bytes=2**31)
    with pytest.raises(InvalidArgumentError, match="after -1 bytes"):
        CutAnswer(after_bytes=-1)
    with pytest.raises(InvalidArgumentError, match="no span"):
        ChaosDialer(shortest_ms=2, longest_ms=1)
