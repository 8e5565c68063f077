"""Headers of batches one by one: what cannot be one is named at once, and damage can be stepped over."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from kwire.errors import CorruptRecordError
from kwire.protocol.record_batch import Batch, iter_batches, last_batch, next_sound_offset

if TYPE_CHECKING:
    from tests.record_batches import batch, damaged, misframed
else:
    from record_batches import batch, damaged, misframed

GOOD = batch(0, 1, 2)


def message(offset: int, value: bytes, *, magic: int, attributes: int = 0) -> bytes:
    """Of the formats before batches."""
    body = bytes([magic, attributes]) + (struct.pack(">q", 5) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def with_magic(data: bytes, magic: int) -> bytes:
    return data[:16] + bytes([magic]) + data[17:]


def batches(data: bytes) -> list[Batch]:
    return list(iter_batches(data))


# --- what cannot be one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
@pytest.mark.parametrize(
    "data", [batch(7), message(7, b"short", magic=1)], ids=["as long as a batch", "shorter than any batch"]
)
@pytest.mark.parametrize("look", [batches, last_batch])
def test_an_unknown_magic_is_named_with_its_place(look: type, data: bytes, magic: int) -> None:
    with pytest.raises(CorruptRecordError) as refused:
        look(GOOD + with_magic(data, magic))
    assert str(refused.value) == (
        f"record batch at byte {len(GOOD)} (base offset 7): unknown magic {magic}; known are 0, 1 and 2"
    )
    assert refused.value.offset == 7


@pytest.mark.parametrize("behind", [b"", GOOD], ids=["the last one", "with one behind it"])
@pytest.mark.parametrize("look", [batches, last_batch])
def test_a_batch_that_is_shorter_than_its_header_is_named(look: type, behind: bytes) -> None:
    short = struct.pack(">qiib", 7, 48, 0, 2) + bytes(43)
    with pytest.raises(CorruptRecordError, match="its length of 48 bytes is less than the rest of a batch header"):
        look(GOOD + short + behind)


@pytest.mark.parametrize("look", [batches, last_batch])
def test_a_length_that_nothing_can_have_is_named(look: type) -> None:
    with pytest.raises(CorruptRecordError, match="its length of 3 bytes is less than the 14 of the shortest message"):
        look(GOOD + misframed(batch(7)))


def test_what_is_cut_off_is_not_there() -> None:
    data = GOOD + batch(3) + batch(4)
    first, second = len(GOOD), len(GOOD) + len(batch(3))
    for size in range(len(data) + 1):
        expected = [0, 3, 4][: (size >= first) + (size >= second) + (size == len(data))]
        assert [each.base_offset for each in iter_batches(data[:size])] == expected
        last = last_batch(data[:size])
        assert (None if last is None else last.base_offset) == (expected[-1] if expected else None)


def test_messages_say_how_many_records_they_are_as_far_as_that_is_known() -> None:
    plain, compressed = message(5, b"one", magic=1), message(9, zlib.compress(b"more"), magic=1, attributes=1)
    assert [(each.magic, each.base_offset, each.record_count) for each in iter_batches(plain + compressed + GOOD)] == [
        (1, 5, 1),
        (1, 9, -1),
        (2, 0, 3),
    ]


def test_reading_may_begin_anywhere() -> None:
    data = GOOD + batch(3) + batch(4)
    assert [each.base_offset for each in iter_batches(data, start=len(GOOD))] == [3, 4]
    assert list(iter_batches(data, start=len(data))) == []


def test_checksums_are_looked_at_unless_that_is_not_wanted() -> None:
    data = GOOD + damaged(batch(3))
    with pytest.raises(CorruptRecordError, match="wrong checksum"):
        list(iter_batches(data))
    assert [each.base_offset for each in iter_batches(data, check_crcs=False)] == [0, 3]
    assert next(iter_batches(data)).base_offset == 0


# --- behind damage ----------------------------------------------------------------------------------------------------


def test_behind_a_damaged_batch_comes_the_next_sound_one() -> None:
    data = damaged(GOOD) + damaged(batch(3)) + batch(4, 5) + batch(6)
    assert next_sound_offset(data, 0) == 4
    assert next_sound_offset(data, 4) == 6
    assert next_sound_offset(data, 6) is None


def test_a_batch_that_ends_with_the_answer_is_whole() -> None:
    assert next_sound_offset(damaged(GOOD) + batch(3), 1) == 3
    assert next_sound_offset(damaged(GOOD) + batch(3)[:-1], 1) is None


def test_behind_a_length_that_cannot_be_nothing_is_found() -> None:
    assert next_sound_offset(misframed(GOOD) + batch(3), 1) is None
