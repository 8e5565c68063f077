"""Batches that hold more than may be decoded at once are decoded portion by portion, and nothing is lost or refused."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import cramjam
import google_crc32c
import numpy as np
import pytest

from kwire.errors import CorruptRecordError
from kwire.protocol import record_headers, record_portions
from kwire.protocol.records import Codec, decode_available, decode_columns, iter_batches
from kwire.protocol.records_legacy import decode_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.protocol.records import Batch, RecordColumns
    from tests.record_batches import batch
else:
    from record_batches import batch

pytestmark = pytest.mark.usefixtures("in_c_and_in_python")

BUDGET_BYTES = 4 * 1024 * 1024
MANY = 40


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_portions, "MAX_PORTION_RECORDS", 10)
    monkeypatch.setattr(record_portions, "MAX_PORTION_BYTES", 400)
    monkeypatch.setattr(record_portions, "FRONT_RECORDS", 7)
    monkeypatch.setattr(record_portions, "FRONT_BYTES", 200)


def portions(data: bytes) -> Iterator[RecordColumns]:
    """All portions of a record set, as a fetch is collected. Raises the damage behind the last."""
    left: list[Batch] = list(iter_batches(data))
    while left:
        decoded = decode_available(left, budget_bytes=BUDGET_BYTES)
        yield decoded.columns
        if decoded.error is not None:
            raise decoded.error
        left = [*([] if decoded.rest is None else [decoded.rest]), *left[decoded.taken :]]


def packed(plain: bytes, codec: Codec) -> bytes:
    """The same batch, compressed: its header with another codec, length and checksum."""
    pack = {Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd, Codec.GZIP: cramjam.gzip}[codec].compress
    attributes = int.from_bytes(plain[21:23], "big") | codec
    covered = attributes.to_bytes(2, "big") + plain[23:61] + bytes(pack(plain[61:]))
    checksum: int = google_crc32c.value(covered)
    return b"".join(
        (plain[:8], (len(covered) + 9).to_bytes(4, "big"), plain[12:17], checksum.to_bytes(4, "big"), covered)
    )


@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize("codec", [None, Codec.LZ4, Codec.ZSTD, Codec.GZIP])
def test_a_batch_of_many_records_is_decoded_in_portions(codec: Codec | None) -> None:
    plain = batch(*range(100, 100 + MANY)) + batch(500, 501)
    data = plain if codec is None else packed(batch(*range(100, 100 + MANY)), codec) + packed(batch(500, 501), codec)
    parts = list(portions(data))
    assert len(parts) > MANY // 10
    assert max(map(len, parts)) <= 10
    whole = decode_columns(list(iter_batches(plain)))
    assert [value for part in parts for value in part.values()] == whole.values()
    for name in ("offsets", "timestamps", "timestamp_types", "leader_epochs"):
        assert np.concatenate([getattr(part, name) for part in parts]).tolist() == getattr(whole, name).tolist()


@pytest.mark.usefixtures("small_portions")
def test_many_batches_are_decoded_in_portions_of_whole_ones() -> None:
    parts = list(portions(b"".join(batch(*range(at, at + 4)) for at in range(0, MANY, 4))))
    assert [part.offsets.tolist() for part in parts] == [list(range(at, at + 8)) for at in range(0, MANY, 8)]


@pytest.mark.usefixtures("small_portions")
def test_records_with_much_in_them_make_smaller_portions() -> None:
    parts = list(portions(batch(*range(8), values={offset: bytes(150) for offset in range(8)})))
    assert [len(part) for part in parts] == [2, 2, 2, 2]


@pytest.mark.usefixtures("small_portions")
def test_damage_in_the_rest_of_a_batch_comes_behind_its_front() -> None:
    plain = batch(*range(MANY))
    count_too_many = plain[:57] + (MANY + 1).to_bytes(4, "big") + plain[61:]
    data = packed(count_too_many, Codec.LZ4)
    taken: list[int] = []
    with pytest.raises(CorruptRecordError, match="base offset 0: the payload ends with 6 more records"):
        taken.extend(offset for part in portions(data) for offset in part.offsets.tolist())
    assert taken == list(range(MANY - 5))


@pytest.mark.usefixtures("small_portions")
def test_a_count_that_the_bytes_have_no_room_for_is_damage_at_once() -> None:
    plain = batch(*range(MANY))
    bad = bytearray(plain[:57] + (1_000_000).to_bytes(4, "big") + plain[61:])
    bad[17:21] = google_crc32c.value(bytes(bad[21:])).to_bytes(4, "big")
    reading = portions(batch(100) + bytes(bad))
    assert next(reading).offsets.tolist() == [100]
    with pytest.raises(CorruptRecordError, match="base offset 0: "):
        next(reading)


@pytest.mark.usefixtures("small_portions")
def test_damage_behind_a_batch_waits_until_all_of_that_is_decoded() -> None:
    """The damaged one has good framing and a good checksum, but a record too few."""
    large, bad = batch(*range(MANY)), bytearray(batch(MANY, MANY + 1))
    bad[60] = 3
    bad[17:21] = google_crc32c.value(bytes(bad[21:])).to_bytes(4, "big")
    reading = portions(large + bytes(bad))
    found: list[int] = []
    while len(found) < MANY:
        found += next(reading).offsets.tolist()
    with pytest.raises(CorruptRecordError, match=f"base offset {MANY}: "):
        next(reading)
    assert found == list(range(MANY))


@pytest.mark.usefixtures("small_portions")
def test_a_payload_that_does_not_inflate_waits_until_all_in_front_of_it_is_decoded() -> None:
    large, bad = packed(batch(*range(MANY)), Codec.LZ4), bytearray(packed(batch(MANY), Codec.LZ4))
    bad[61:65] = b"no magic"[:4]
    bad[17:21] = google_crc32c.value(bytes(bad[21:])).to_bytes(4, "big")
    first = decode_available(list(iter_batches(large + bytes(bad))), budget_bytes=BUDGET_BYTES)
    assert first.rest is not None
    assert first.error is None
    reading = portions(large + bytes(bad))
    found: list[int] = []
    while len(found) < MANY:
        found += next(reading).offsets.tolist()
    assert found == list(range(MANY))


@pytest.mark.usefixtures("small_portions")
def test_a_large_batch_whose_front_is_all_of_it_leaves_no_rest() -> None:
    """Few records of many bytes: more than may be decoded at once, and no more than a front has."""
    data = batch(*range(3), values={number: bytes(150) for number in range(3)}) + batch(3)
    first = decode_available(list(iter_batches(data)), budget_bytes=BUDGET_BYTES)
    assert (len(first.columns), first.taken, first.rest is None) == (2, 1, False)
    assert [offset for columns in portions(data) for offset in columns.offsets] == [0, 1, 2, 3]
    whole = batch(0, 1, values={0: bytes(150), 1: bytes(350)}) + batch(2)
    first = decode_available(list(iter_batches(whole)), budget_bytes=BUDGET_BYTES)
    assert (len(first.columns), first.taken, first.rest) == (3, 2, None)


@pytest.mark.usefixtures("small_portions")
def test_a_record_longer_than_its_batch_is_damage_of_the_front() -> None:
    plain = bytearray(batch(*range(MANY)))
    plain[61] = 0x7E  # the first record's length: 63
    with pytest.raises(CorruptRecordError, match="base offset 0: "):
        list(portions(packed(bytes(plain[:61]) + b"\x7f" + bytes(plain[62:]), Codec.LZ4)))


@pytest.mark.slow
def test_millions_of_records_from_some_bytes_take_little_memory() -> None:
    """The bomb: 1 KB of zstd that is 14 MiB and two million records."""
    count = 2_000_000
    plain = batch(0)
    header = plain[:57] + count.to_bytes(4, "big")
    bomb = packed(header + b"\x0c\0\0\0\x01\x01\0" * count, Codec.ZSTD)
    assert len(bomb) < 4096
    tracemalloc.start()
    first = next(portions(bomb))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(first) == record_portions.FRONT_RECORDS
    assert peak_bytes < 64 * 1024 * 1024


def test_a_record_with_headers_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_headers, "MAX_HEADERS", 63)
    body = b"\0\0\0\x01\x01\x80\x01" + b"\0\x01" * 64
    plain = batch(0)
    data = packed(plain[:61] + bytes([2 * len(body) & 0x7F | 0x80, len(body) >> 6]) + body, Codec.LZ4)
    with pytest.raises(CorruptRecordError, match="record 0 of the batch: more than 63 headers"):
        decode_columns(list(iter_batches(data)))


def test_many_headers_of_one_record_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_headers, "_READ_AT_ONCE", 3)
    headers = b"".join(b"\x02" + bytes([name]) + b"\x01" for name in b"abcdefgh")
    body = b"\0\0\0\x01\x01\x10" + headers
    plain = batch(0)
    data = packed(plain[:61] + bytes([2 * len(body) & 0x7F | 0x80, len(body) >> 6]) + body, Codec.LZ4)
    (read,) = decode_columns(list(iter_batches(data))).headers()
    assert [(header.key, header.value) for header in read] == [(name, None) for name in "abcdefgh"]


def test_an_old_set_of_messages_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.protocol.records_legacy._MAX_MESSAGES", 2)
    inner = (bytes(8) + (14).to_bytes(4, "big") + bytes(4) + b"\0\0" + b"\xff" * 8) * 3
    value = bytes(cramjam.gzip.compress(inner))
    wrapper = bytes(4) + b"\0\x01" + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    (message,) = iter_batches(bytes(8) + len(wrapper).to_bytes(4, "big") + wrapper, check_crcs=False)
    with pytest.raises(CorruptRecordError, match="a compressed message set of more than 2 messages"):
        decode_message(message, check_crcs=False, limit_bytes=1 << 20)
