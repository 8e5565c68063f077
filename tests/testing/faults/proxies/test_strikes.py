"""A strike changes what it says, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.errors import InvalidArgumentError
from kwire.protocol.compiler import encode_message
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.headers import ResponseHeader
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.testing.faults.proxies.strikes import UNKNOWN_CODE, Asked, Struck, find_batch, strike
from kwire.testing.faults.proxies.tamperings import (
    AnnounceLength,
    BitPlace,
    ChaosDialer,
    CutAnswer,
    FlipBit,
    UnknownCode,
)

if TYPE_CHECKING:
    from kwire.protocol.schema import Response
    from tests.testing.faults.proxies.kafka_like import answer, frame, record_batch
else:
    from kafka_like import answer, frame, record_batch

BEFORE = b"\x02\x00" * 40  # has magic bytes, and is no batch
BATCH = record_batch(b"r" * 30)
FETCHED = answer(77, BEFORE + BATCH + b"after")
BATCH_AT = 8 + len(BEFORE)
RANGES = {
    BitPlace.HEADER: range(4, 8),
    BitPlace.CRC: range(BATCH_AT + 17, BATCH_AT + 21),
    BitPlace.BATCH_HEADER: range(BATCH_AT + 21, BATCH_AT + 61),
    BitPlace.PAYLOAD: range(BATCH_AT + 61, BATCH_AT + len(BATCH)),
}


@pytest.mark.parametrize("place", BitPlace)
@pytest.mark.parametrize("seed", range(5))
def test_one_bit_is_flipped_where_it_was_wanted(place: BitPlace, seed: int) -> None:
    struck = strike(FlipBit(place=place, seed=seed), FETCHED)
    assert struck is not None
    changed = [i for i, (old, new) in enumerate(zip(FETCHED, struck.data, strict=True)) if old != new]
    assert len(changed) == 1
    assert changed[0] in RANGES[place]
    assert (FETCHED[changed[0]] ^ struck.data[changed[0]]).bit_count() == 1
    assert not struck.is_last


def test_the_seed_decides_which_bit() -> None:
    flipped = {strike(FlipBit(place=BitPlace.PAYLOAD, seed=seed), FETCHED) for seed in (1, 1, 2, 3)}
    assert len(flipped) == 3


def test_a_batch_is_found_by_its_checksum() -> None:
    assert find_batch(FETCHED) == range(BATCH_AT, BATCH_AT + len(BATCH))
    damaged = strike(FlipBit(place=BitPlace.CRC), FETCHED)
    assert damaged is not None
    assert find_batch(damaged.data) is None


@pytest.mark.parametrize("place", [BitPlace.CRC, BitPlace.BATCH_HEADER, BitPlace.PAYLOAD])
def test_an_answer_without_a_batch_is_not_what_was_meant(place: BitPlace) -> None:
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


def answered(response: Response, version: int) -> bytes:
    header = encode_message(ResponseHeader(correlation_id=77), response.header_version(version))
    return frame(header + encode_message(response, version))


COMMITTED = OffsetCommitResponsePartition(partition_index=3)
FETCHED_PARTITION = PartitionData(partition_index=3, high_watermark=9, records=b"records")


@pytest.mark.parametrize("version", [2, 8, 9])
def test_an_error_that_nobody_knows_stands_wherever_there_is_one(version: int) -> None:
    sound = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[COMMITTED, COMMITTED])])
    struck = strike(UnknownCode(), answered(sound, version), Asked(OffsetCommitRequest.api_key, version))
    for partition in sound.topics[0].partitions:
        partition.error_code = UNKNOWN_CODE
    assert struck == Struck(answered(sound, version))


@pytest.mark.parametrize("version", [6, 12])
def test_an_error_leaves_the_rest_of_an_answer_as_it_is(version: int) -> None:
    sound = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[FETCHED_PARTITION])])
    struck = strike(UnknownCode(), answered(sound, version), Asked(FetchRequest.api_key, version))
    sound.responses[0].partitions[0].error_code = UNKNOWN_CODE
    sound.error_code = UNKNOWN_CODE if version >= 7 else 0
    assert struck == Struck(answered(sound, version))


@pytest.mark.parametrize("asked", [None, Asked(9_999, 0), Asked(OffsetCommitRequest.api_key, 99)])
def test_what_cannot_be_read_is_made_no_error(asked: Asked | None) -> None:
    assert strike(UnknownCode(), FETCHED, asked) is None


def test_an_answer_without_a_place_for_errors_is_not_what_was_meant() -> None:
    nothing = answered(OffsetCommitResponse(), 8)
    assert strike(UnknownCode(), nothing, Asked(OffsetCommitRequest.api_key, 8)) is None


def test_orders_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="number 0"):
        FlipBit(place=BitPlace.CRC, nth=0)
    with pytest.raises(InvalidArgumentError, match="int32"):
        AnnounceLength(length_bytes=2**31)
    with pytest.raises(InvalidArgumentError, match="after -1 bytes"):
        CutAnswer(after_bytes=-1)
    with pytest.raises(InvalidArgumentError, match="no span"):
        ChaosDialer(shortest_ms=2, longest_ms=1)
