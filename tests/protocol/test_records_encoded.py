"""Records written by the plain encoder below, read back from columns; and what happens when bytes are wrong."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import cramjam
import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import CorruptRecordError
from kwire.model import Header, TimestampType
from kwire.protocol.compression import Codec
from kwire.protocol.record_batch import Batch, last_batch
from kwire.protocol.record_columns import RecordColumns, join_columns
from kwire.protocol.record_packed import empty_columns
from kwire.protocol.records import (
    ControlType,
    decode_available,
    decode_columns,
    iter_batches,
    read_control,
    read_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("in_c_and_in_python")

T = TypeVar("T")

BASE_TIMESTAMP = 1_700_000_000_000


@dataclass(frozen=True)
class Written:
    """What the encoder is given and the decoder has to give back."""

    offset: int
    timestamp: int = BASE_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[tuple[str, bytes | None], ...] = ()


def varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes(out) + bytes([raw])


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: Written, base_offset: int) -> bytes:
    body = b"\0" + varint(record.timestamp - BASE_TIMESTAMP) + varint(record.offset - base_offset)
    body += field(record.key) + field(record.value) + varint(len(record.headers))
    body += b"".join(field(name.encode()) + field(value) for name, value in record.headers)
    return varint(len(body)) + body


def pack(codec: Codec, payload: bytes) -> bytes:
    if codec is Codec.NONE:
        return payload
    if codec is Codec.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(payload))
    codecs = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}
    return bytes(codecs[codec].compress(payload))


def frame(payload: bytes, *, base_offset: int, count: int, codec: int = 0, attributes: int = 0, span: int = 0) -> bytes:
    """A batch around a packed payload, with a right checksum."""
    covered = struct.pack(
        ">hiqqqhii", attributes | codec, span, BASE_TIMESTAMP, BASE_TIMESTAMP + 999, 7, 3, 2**31 - 2, count
    )
    covered += payload
    return struct.pack(">qiibI", base_offset, len(covered) + 9, 5, 2, google_crc32c.value(covered)) + covered


def encode(records: list[Written], codec: Codec = Codec.NONE, attributes: int = 0) -> bytes:
    base_offset = records[0].offset
    payload = b"".join(encode_record(record, base_offset) for record in records)
    return frame(
        pack(codec, payload),
        base_offset=base_offset,
        count=len(records),
        codec=codec,
        attributes=attributes,
        span=records[-1].offset - base_offset,
    )


def attempt(call: Callable[[], T]) -> T | CorruptRecordError:
    """The answer, or the one error that damage may raise."""
    try:
        return call()
    except CorruptRecordError as error:
        return error


def decode(data: bytes | memoryview) -> RecordColumns:
    return decode_columns(list(iter_batches(data)))


def assert_decodes_to(columns: RecordColumns, records: list[Written]) -> None:
    assert columns.offsets.tolist() == [record.offset for record in records]
    assert columns.timestamps.tolist() == [record.timestamp for record in records]
    assert columns.keys() == [record.key for record in records]
    assert columns.values() == [record.value for record in records]
    assert columns.headers() == [record.headers for record in records]
    assert columns.header_counts().tolist() == [len(record.headers) for record in records]


# --- what is written is read ---------------------------------------------------------------------------------

VALUES = st.one_of(st.none(), st.binary(max_size=40))
HEADERS = st.lists(st.tuples(st.text(max_size=8), VALUES), max_size=3).map(tuple)


@st.composite
def record_sets(draw: st.DrawFn) -> tuple[bytes, list[Written]]:
    """A few batches, each with its codec, with gaps between offsets."""
    records: list[Written] = []
    data = b""
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        batch: list[Written] = []
        for _ in range(draw(st.integers(1, 6))):
            timestamp = BASE_TIMESTAMP + draw(st.integers(-(2**40), 2**40))
            batch.append(Written(offset, timestamp, draw(VALUES), draw(VALUES), draw(HEADERS)))
            offset += draw(st.integers(1, 300))
        data += encode(batch, draw(st.sampled_from(Codec)))
        records += batch
    return data, records


@settings(derandomize=True, max_examples=18, deadline=None)
@given(record_sets())
def test_any_record_set_is_read_back(case: tuple[bytes, list[Written]]) -> None:
    data, records = case
    assert_decodes_to(decode(data), records)
    assert_decodes_to(decode(memoryview(bytearray(data))), records)


def sized(sizes: list[int], *, timestamp_step: int = 0) -> list[Written]:
    rng = random.Random(11)
    return [
        Written(offset, BASE_TIMESTAMP + offset * timestamp_step // 10, None, rng.randbytes(size))
        for offset, size in enumerate(sizes)
    ]


SHAPES = {
    "equal": [100] * 1500,
    "tiny": [0] * 1500,
    "random": [random.Random(1).randint(0, 200) for _ in range(1500)],
    "alternating": [50, 60] * 750,
    "runs": [10] * 400 + [100] * 400 + [300] * 400,
    "one outlier": [100] * 700 + [9000] + [100] * 700,
    "three length bytes": [9000] * 30,
    "four length bytes": [1_100_000, 10, 1_100_000],
}


@pytest.mark.parametrize("per_batch", [1, 7, 150, 2000])
@pytest.mark.parametrize("shape", SHAPES)
def test_boundaries_are_found_whatever_the_sizes(shape: str, per_batch: int) -> None:
    records = sized(SHAPES[shape], timestamp_step=7)
    batches = [records[start : start + per_batch] for start in range(0, len(records), per_batch)]
    columns = decode(b"".join(map(encode, batches)))
    assert columns.offsets.tolist() == [record.offset for record in records]
    assert columns.timestamps.tolist() == [record.timestamp for record in records]
    assert columns.values() == [record.value for record in records]


def test_batches_of_different_lengths_are_guessed_together() -> None:
    sizes = [1, 300, 2, 900, 640, 1]
    records = sized([40] * sum(sizes))
    data, start = b"", 0
    for size in sizes:
        data += encode(records[start : start + size])
        start += size
    assert_decodes_to(decode(data), records)


def test_many_records_with_headers_are_walked_together_and_the_last_ones_alone() -> None:
    rng = random.Random(3)
    records = [
        Written(offset, headers=tuple((f"h{n}", rng.randbytes(n) if n % 3 else None) for n in range(count)))
        for offset, count in enumerate(rng.choices([0, 1, 2, 90], weights=[5, 5, 5, 1], k=200))
    ]
    assert_decodes_to(decode(encode(records)), records)


def test_uncompressed_batches_are_decoded_in_place() -> None:
    data = encode(sized([5] * 3)) + encode([Written(3)])
    assert decode(data).buffer is data


def test_a_record_set_that_starts_inside_a_buffer_is_read_at_its_place() -> None:
    records = sized([30, 40])
    answer = memoryview(b"header of the answer" + encode(records) + b"the next partition")
    assert_decodes_to(decode(answer[20:-18]), records)


def test_nothing_decodes_to_nothing() -> None:
    assert len(decode(b"")) == 0
    assert (empty_columns().headers(), empty_columns().values()) == ([], [])


@pytest.mark.parametrize("codec", Codec)
def test_an_empty_batch_has_no_records_whatever_its_payload(codec: Codec) -> None:
    data = frame(b"", base_offset=4, count=0, codec=codec, span=6) + encode([Written(11)])
    batches = list(iter_batches(data))
    assert [batch.next_offset for batch in batches] == [11, 12]
    assert decode_columns(batches).offsets.tolist() == [11]
    assert len(decode_columns(batches[:1])) == 0


def test_log_append_time_replaces_the_timestamps_of_its_batch_only() -> None:
    data = encode([Written(0, BASE_TIMESTAMP + 5)]) + encode([Written(1, BASE_TIMESTAMP + 6)], attributes=0x08)
    columns = decode(data)
    assert columns.timestamps.tolist() == [BASE_TIMESTAMP + 5, BASE_TIMESTAMP + 999]
    assert columns.timestamp_types.tolist() == [
        TimestampType.CREATE_TIME.value,
        TimestampType.LOG_APPEND_TIME.value,
    ]


def test_sequences_wrap_and_batch_facts_reach_each_record() -> None:
    records = read_records(encode(sized([1, 1, 1]), attributes=0x10))
    assert [record.sequence for record in records] == [2**31 - 2, 2**31 - 1, 0]
    assert {(record.producer_id, record.producer_epoch, record.partition_leader_epoch) for record in records} == {
        (7, 3, 5)
    }
    assert all(record.transactional and not record.control for record in records)


# --- slices and joins ----------------------------------------------------------------------------------------


def test_slices_share_the_buffer_and_work_as_list_slices() -> None:
    records = [
        Written(offset, key=b"k" * (offset % 3), value=bytes([offset]), headers=(("h", b"v"),) * (offset % 4))
        for offset in range(20)
    ]
    columns = decode(encode(records))
    for start, stop in [(0, 20), (3, 9), (9, 3), (5, 5), (0, 99), (-4, -1)]:
        part = columns.slice(start, stop)
        assert part.buffer is columns.buffer
        assert_decodes_to(part, records[start:stop])
    assert_decodes_to(columns.slice(2, 18).slice(3, 10), records[5:12])


@pytest.mark.parametrize("has_headers", [True, False])
def test_slices_of_many_rows_are_those_of_lists(has_headers: bool) -> None:
    headers: tuple[tuple[str, bytes | None], ...] = (("a", b"1"), ("b", None)) if has_headers else ()
    records = [Written(offset, value=b"%d" % offset, headers=headers) for offset in range(70)]
    columns = decode(encode(records))
    for start in (0, 1, 2, 69, 70, 71, -3):
        for stop in (0, 1, 68, 69, 70, 71, -1):
            assert_decodes_to(columns.slice(start, stop), records[start:stop])


def test_joined_columns_hold_all_rows_in_order() -> None:
    with_headers = [Written(offset, headers=(("a", b"1"), ("b", None))) for offset in range(3)]
    without = sized([10, 20])
    joined = join_columns([decode(encode(without)), decode(encode(with_headers)).slice(1, 3), empty_columns()])
    assert_decodes_to(joined, without + with_headers[1:])


def test_parts_of_one_buffer_are_joined_without_a_copy_of_it() -> None:
    records = sized([10, 20, 30, 40])
    columns = decode(encode(records[:2]) + encode(records[2:]))
    joined = join_columns([columns.slice(0, 1), columns.slice(1, 4)])
    assert joined.buffer is columns.buffer
    assert_decodes_to(joined, records)


def test_equal_and_unequal_lengths_are_copied_out_alike() -> None:
    for sizes in ([8] * 9, [8, 9] * 5, [0] * 4, [1000] * 300, [2000, 2001] * 3, [5000] * 3):
        records = sized(sizes)
        for data in (encode(records), memoryview(encode(records)), memoryview(bytearray(encode(records)))):
            values = decode(data).values()
            assert values == [record.value for record in records]
            assert all(type(value) is bytes for value in values)


def test_nulls_stay_nulls_between_values() -> None:
    records = [Written(0, value=None), Written(1, value=b"x"), Written(2, value=b""), Written(3, value=None)]
    for data in (encode(records), memoryview(encode(records))):
        assert decode(data).values() == [None, b"x", b"", None]


@pytest.mark.parametrize("each", [1, 3, 16, 17])
@pytest.mark.parametrize("start", [0, 7])
def test_records_of_as_many_headers_each_are_read_column_by_column(each: int, start: int) -> None:
    """Of the nth headers all are the same, or have the same key, or neither; some have no value."""
    headers: list[Callable[[int, int], tuple[str, bytes | None]]] = [
        lambda record, nth: ("source", b"shop-7"),
        lambda record, nth: ("trace", rng.randbytes(16)),
        lambda record, nth: (f"h{record % 3}", rng.randbytes(record % 5)),
        lambda record, nth: ("tombstone", None if record % 2 else b""),
        lambda record, nth: ("none", None),
    ]
    rng = random.Random(1)
    records = [
        Written(offset, headers=tuple(headers[nth % len(headers)](offset, nth) for nth in range(each)))
        for offset in range(40)
    ]
    columns = decode(encode(records)).slice(start, 33)
    assert columns.headers() == [record.headers for record in records[start:33]]


def test_records_without_headers_share_one_empty_tuple() -> None:
    empty = decode(encode(sized([1, 1]))).headers()
    assert empty[0] is empty[1] is ()  # noqa: F632  identity is the point


def test_header_names_that_are_not_utf8_are_replaced() -> None:
    record = encode_record(Written(0, headers=(("abc", b"v"),)), 0).replace(b"abc", b"a\xffc")
    (headers,) = decode(frame(record, base_offset=0, count=1)).headers()
    assert headers == (Header("a\N{REPLACEMENT CHARACTER}c", b"v"),)


# --- damage --------------------------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=30, deadline=None)
@given(case=record_sets(), data=st.data())
def test_mutations_raise_corrupt_record_error_and_nothing_else(
    case: tuple[bytes, list[Written]], data: st.DataObject
) -> None:
    damaged = bytearray(case[0])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    columns = attempt(lambda: decode_columns(list(iter_batches(bytes(damaged), check_crcs=False)), limit_bytes=1 << 20))
    if isinstance(columns, RecordColumns):
        assert len(columns.values()) == len(columns.keys()) == len(columns.headers()) == len(columns)
        assert bool(np.all(columns.value_starts + columns.value_lengths <= len(columns.buffer)))


def test_every_changed_byte_under_the_checksum_is_noticed() -> None:
    data = encode(sized([20, 30]))
    for place in range(17, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x01
        with pytest.raises(CorruptRecordError, match="base offset 0: wrong checksum"):
            list(iter_batches(bytes(damaged)))


def test_a_cut_record_set_gives_its_whole_batches() -> None:
    sets = [encode(sized([20, 30])), encode([Written(2, value=b"abc")])]
    data = b"".join(sets)
    for size in range(len(data)):
        assert len(list(iter_batches(data[:size]))) == (1 if size >= len(sets[0]) else 0)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(record_sets(), st.data())
def test_the_last_batch_is_the_last_of_all_whatever_the_bytes(
    case: tuple[bytes, list[Written]], drawn: st.DataObject
) -> None:
    """Cut off anywhere, with a byte changed, and with a message of an older format among them."""
    old = drawn.draw(st.sampled_from([b"", message(9, b"old", magic=1)]))
    data = bytearray(old + case[0] if drawn.draw(st.booleans()) else case[0] + old)
    place = drawn.draw(st.integers(0, len(data) - 1))
    data[place] = drawn.draw(st.integers(0, 255))
    cut = bytes(data[: drawn.draw(st.integers(0, len(data)))])

    def last_of_all() -> Batch | None:
        return [None, *iter_batches(cut, check_crcs=False)][-1]

    expected, found = attempt(last_of_all), attempt(lambda: last_batch(cut))
    if isinstance(expected, CorruptRecordError):
        assert isinstance(found, CorruptRecordError)
        assert str(found) == str(expected)
    else:
        assert found == expected


def test_batches_in_front_of_a_damaged_one_are_yielded_first() -> None:
    damaged = bytearray(encode([Written(5, value=b"abc")]))
    damaged[-2] ^= 0xFF
    reader = iter_batches(encode([Written(4)]) + bytes(damaged))
    assert next(reader).base_offset == 4
    with pytest.raises(CorruptRecordError) as refused:
        next(reader)
    assert refused.value.offset == 5


@pytest.mark.parametrize("size", range(12, 30))
def test_an_impossible_length_is_refused_as_soon_as_it_can_be_read(size: int) -> None:
    data = struct.pack(">qi", 77, 13) + bytes(18)
    with pytest.raises(CorruptRecordError, match=r"byte 0 \(base offset 77\): its length of 13 bytes"):
        list(iter_batches(data[:size]))


def record_body(body: str, length: int | None = None) -> bytes:
    raw = bytes.fromhex(body)
    return varint(len(raw) if length is None else length) + raw


GOOD = encode_record(Written(0, value=b"good"), 0)
BAD_RECORDS = {
    "a length below zero": (record_body("00 00 00 01 01 00", -6), "a record of -6 bytes"),
    "a length too short for a record": (record_body("00 00 00 01 01"), "a record of 5 bytes|payload has 6 bytes"),
    "a length beyond the payload": (record_body("00 00 00 01 01 00", 1000), "a record of 1000 bytes"),
    "a length varint without end": (bytes.fromhex("ff ff ff ff ff ff ff ff"), "a varint of more than 5 bytes|declared"),
    "a timestamp delta without end": (record_body("00" + "80" * 11 + "00 01 01 00"), "a varint of more than 10 bytes"),
    "a whole payload of varints without end": (b"\x80" * 20, "more than 5 bytes|declared"),
    "an offset delta without end": (record_body("00 00" + "80" * 6 + "01 01 00"), "a varint of more than 5 bytes"),
    "a timestamp delta beyond the record": (record_body("00" + "80" * 6), "it ends inside a field"),
    "a key beyond the record": (record_body("00 00 00 10 01 00"), "a key longer than what is left"),
    "a value beyond the record": (record_body("00 00 00 01 10 00"), "a value longer than what is left"),
    "no header count": (record_body("00 00 00 01 02 61"), "it ends inside a field"),
    "a negative header count": (record_body("00 00 00 01 01 01"), "a negative number of headers"),
    "more headers than bytes": (record_body("00 00 00 01 01 7e 00 00"), "more headers than it has room for"),
    "a header without key": (record_body("00 00 00 01 01 02 01 01 00"), "a header without a key"),
    "a header key beyond the record": (record_body("00 00 00 01 01 02 7e 00 00"), "it ends inside a field"),
    "a header value beyond the record": (record_body("00 00 00 01 01 02 00 7e 00"), "a header value longer"),
    "bytes behind no headers": (record_body("00 00 00 01 01 00 00"), "bytes remain behind its headers"),
    "bytes behind the headers": (record_body("00 00 00 01 01 02 00 00 00"), "its headers do not end where it does"),
}


@pytest.mark.parametrize("in_front", [0, 900], ids=["alone", "behind 900 good ones"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("case", BAD_RECORDS)
def test_a_bad_record_is_refused_and_its_batch_named(case: str, codec: Codec, in_front: int) -> None:
    bad, problem = BAD_RECORDS[case]
    payload = GOOD * in_front + bad
    data = encode(sized([3] * 600)) + frame(pack(codec, payload), base_offset=600, count=in_front + 1, codec=codec)
    batches = list(iter_batches(data))
    with pytest.raises(CorruptRecordError, match=f"base offset 600: .*({problem})") as refused:
        decode_columns(batches)
    assert refused.value.offset == 600
    decoded = decode_available(batches)
    assert (len(decoded.columns), decoded.taken) == (600, 1)
    assert decoded.error is not None
    assert decoded.error.offset == 600


def test_many_bad_headers_are_refused_wherever_they_are() -> None:
    good = Written(0, headers=(("k", b"v"), ("k2", b"v2")))
    payload = encode_record(good, 0)
    for bad, problem in ((b"\x01k", "without a key"), (b"\x7ek", "ends inside a field|longer")):
        broken = payload[:-6] + bad + payload[-4:]
        data = frame(payload * 60 + broken + payload * 60, base_offset=0, count=121)
        with pytest.raises(CorruptRecordError, match=f"record 60 of the batch: .*({problem})"):
            decode(data)


@pytest.mark.parametrize("count", [-1, -(2**31), 2, 4, 1000, 2**31 - 1])
@pytest.mark.parametrize("codec", Codec)
def test_a_wrong_record_count_is_refused_without_allocating_for_it(codec: Codec, count: int) -> None:
    data = frame(pack(codec, GOOD * 3), base_offset=9, count=count, codec=codec)
    tracemalloc.start()
    with pytest.raises(CorruptRecordError, match="base offset 9"):
        decode(data)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize("count", [899, 901])
def test_a_wrong_record_count_of_a_large_batch_is_refused(count: int) -> None:
    with pytest.raises(CorruptRecordError, match=r"remain behind the last declared record|declared"):
        decode(frame(GOOD * 900, base_offset=0, count=count))


def test_a_wrong_record_count_among_many_batches_is_refused() -> None:
    data = b"".join(frame(GOOD * 60, base_offset=60 * nth, count=59 if nth == 7 else 60) for nth in range(12))
    with pytest.raises(CorruptRecordError, match=f"base offset 420: {len(GOOD)} bytes remain behind"):
        decode(data)


def test_the_earliest_of_several_damaged_batches_is_the_one_reported() -> None:
    late, _ = BAD_RECORDS["bytes behind no headers"]  # found in the last check
    early, _ = BAD_RECORDS["a length below zero"]  # found in the first
    data = encode(sized([1, 1])) + frame(late, base_offset=2, count=1) + frame(early, base_offset=3, count=1)
    decoded = decode_available(list(iter_batches(data)))
    assert decoded.columns.offsets.tolist() == [0, 1]
    assert decoded.error is not None
    assert decoded.error.offset == 2


@pytest.mark.parametrize("in_front", [0, 1, 39])
def test_a_bad_record_is_named_by_its_number_in_its_batch(in_front: int) -> None:
    """Of many records, which are decoded together."""
    longer_than_it_is = bytes.fromhex("00 00 00 01 0a 61 00")  # a value of 5 bytes, of which there is one
    records = [encode_record(Written(offset, value=b"good"), 0) for offset in range(40)]
    records[in_front] = varint(len(longer_than_it_is)) + longer_than_it_is
    data = encode(sized([4] * 30)) + frame(b"".join(records), base_offset=30, count=40)
    with pytest.raises(CorruptRecordError, match=rf"base offset 30: record {in_front} of the batch: a value longer"):
        decode(data)


def test_batches_with_one_base_offset_are_told_apart() -> None:
    bad, _ = BAD_RECORDS["a length below zero"]
    data = encode([Written(7)]) + frame(bad, base_offset=7, count=1)
    decoded = decode_available(list(iter_batches(data)))
    assert (decoded.taken, decoded.columns.offsets.tolist()) == (1, [7])


def test_a_payload_beyond_the_limit_is_refused() -> None:
    (batch,) = iter_batches(encode([Written(0, value=bytes(50_000))], Codec.ZSTD))
    with pytest.raises(
        CorruptRecordError, match="base offset 0: zstd payload inflates beyond the limit of 10000 bytes"
    ):
        decode_columns([batch], limit_bytes=10_000)


def test_a_budget_takes_compressed_batches_in_portions() -> None:
    data = b"".join(encode([Written(offset, value=bytes(1000))], Codec.LZ4) for offset in range(10))
    batches = list(iter_batches(data))
    offsets: list[int] = []
    portions: list[int] = []
    while batches:
        columns, taken, error, _ = decode_available(batches, budget_bytes=2500)
        assert error is None
        offsets += columns.offsets.tolist()
        portions.append(taken)
        batches = batches[taken:]
    assert offsets == list(range(10))
    assert portions == [3, 3, 3, 1]


def test_damage_behind_the_budget_waits_for_its_portion() -> None:
    bad = frame(pack(Codec.LZ4, b"\x01"), base_offset=1, count=1, codec=Codec.LZ4)
    batches = list(iter_batches(encode([Written(0, value=bytes(1000))], Codec.LZ4) + bad))
    assert decode_available(batches, budget_bytes=10)[1:3] == (1, None)
    assert decode_available(batches[1:], budget_bytes=10).error is not None


# --- control records -----------------------------------------------------------------------------------------


def control(key: bytes | None, value: bytes | None = bytes(6), codec: Codec = Codec.NONE) -> bytes:
    return encode([Written(3, BASE_TIMESTAMP - 2**40, key, value)], codec, attributes=0x30)


@pytest.mark.parametrize("codec", Codec)
def test_a_marker_is_read_alone(codec: Codec) -> None:
    (batch,) = iter_batches(control(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 12), codec))
    assert batch.is_control
    assert read_control(batch) == (ControlType.COMMIT, 0, 12)


def test_a_marker_that_compaction_took_is_none() -> None:
    (batch,) = iter_batches(frame(b"", base_offset=0, count=0, attributes=0x30))
    assert read_control(batch) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_key_that_is_no_marker_is_refused(key: bytes | None) -> None:
    (batch,) = iter_batches(control(key))
    with pytest.raises(CorruptRecordError, match="base offset 3: control record: its key"):
        read_control(batch)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.data())
def test_damaged_markers_raise_corrupt_record_error_and_nothing_else(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(Codec))
    damaged = bytearray(control(bytes(4), codec=codec))
    damaged[data.draw(st.integers(61, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    (batch,) = iter_batches(bytes(damaged), check_crcs=False)
    marker = attempt(lambda: read_control(batch))
    if isinstance(marker, CorruptRecordError):
        assert marker.offset == 3
    else:
        assert marker is not None
        assert isinstance(marker.type, ControlType)


# --- magic 0 and 1 -------------------------------------------------------------------------------------------


def message(offset: int, value: bytes, *, magic: int, attributes: int = 0, timestamp: int = 5) -> bytes:
    body = bytes([magic, attributes]) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_a_damaged_inner_message_names_its_wrapper(magic: int) -> None:
    inner = bytearray(message(0, b"one", magic=magic) + message(1, b"two", magic=magic))
    inner[-1] ^= 0xFF
    data = encode([Written(39)]) + message(41, pack(Codec.GZIP, bytes(inner)), magic=magic, attributes=Codec.GZIP)
    decoded = decode_available(list(iter_batches(data)))
    assert decoded.columns.offsets.tolist() == [39]
    assert decoded.error is not None
    assert decoded.error.offset == 41
    assert "inner message at offset 1" in decoded.error.problem
    unchecked = decode_available(list(iter_batches(data)), check_crcs=False)
    assert unchecked.columns.values() == [b"", b"one", b"tw\x90"]


@pytest.mark.parametrize(
    ("inner", "problem"),
    [
        (struct.pack(">qi", 0, 13) + bytes(13), "an inner message of 13 bytes"),
        (struct.pack(">qiIb", 0, 14, 0, 2) + bytes(9), "an inner message of magic 2"),
        (struct.pack(">qiIb", 0, 14, 0, 1) + bytes(9), "it ends inside a field"),
        (struct.pack(">qi", 0, 14) + bytes(3), "without messages"),
        (message(2**63 - 1, b"", magic=1) + message(0, b"", magic=1), "relative offset 9223372036854775807"),
    ],
)
def test_an_impossible_inner_message_is_refused(inner: bytes, problem: str) -> None:
    (batch,) = iter_batches(message(8, pack(Codec.GZIP, inner), magic=1, attributes=Codec.GZIP))
    with pytest.raises(CorruptRecordError, match=f"base offset 8: .*{problem}"):
        decode_columns([batch], check_crcs=False)


@pytest.mark.parametrize("magic", [0, 1])
def test_any_negative_size_of_an_old_message_is_null(magic: int) -> None:
    body = bytes([magic, 0]) + (bytes(8) if magic else b"") + struct.pack(">ii", -2, -7)
    columns = decode(struct.pack(">qiI", 3, len(body) + 4, zlib.crc32(body)) + body)
    assert columns.key_lengths.tolist() == columns.value_lengths.tolist() == [-1]


def test_the_checksums_of_old_inner_messages_are_looked_at_unless_that_is_not_wanted() -> None:
    inner = bytearray(message(0, b"one", magic=1))
    inner[-1] ^= 1
    batches = list(iter_batches(message(0, pack(Codec.GZIP, bytes(inner)), magic=1, attributes=Codec.GZIP)))
    assert decode_columns(batches, check_crcs=False).values() == [b"ond"]
    with pytest.raises(CorruptRecordError, match="wrong checksum"):
        decode_columns(batches)


@pytest.mark.parametrize("order", ["new old new", "old new old", "new old old new"])
def test_formats_may_come_in_any_order(order: str) -> None:
    written = [
        message(offset, b"%d" % offset, magic=1) if kind == "old" else encode([Written(offset, value=b"%d" % offset)])
        for offset, kind in enumerate(order.split())
    ]
    columns = decode(b"".join(written))
    assert columns.values() == [b"%d" % offset for offset in range(len(written))]
    assert columns.last_position[0] == len(written) - 1


def test_all_formats_in_one_set_come_out_in_order() -> None:
    inner = message(0, b"two", magic=1) + message(1, b"three", magic=1)
    data = (
        message(0, b"zero", magic=0)
        + message(1, b"one", magic=1)
        + message(3, pack(Codec.LZ4, inner), magic=1, attributes=Codec.LZ4)
        + encode([replace(Written(4), value=b"four")], Codec.ZSTD)
    )
    columns = decode(data)
    assert columns.offsets.tolist() == [0, 1, 2, 3, 4]
    assert columns.values() == [b"zero", b"one", b"two", b"three", b"four"]
    assert columns.timestamps.tolist() == [-1, 5, 5, 5, BASE_TIMESTAMP]
    assert columns.timestamp_types.tolist() == [-1, 0, 0, 0, 0]
    assert columns.leader_epochs.tolist() == [-1, -1, -1, -1, 5]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.data())
def test_damaged_messages_raise_corrupt_record_error_and_nothing_else(data: st.DataObject) -> None:
    magic = data.draw(st.sampled_from([0, 1]))
    inner = message(0, b"one", magic=magic) + message(1, b"two", magic=magic)
    codec = data.draw(st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
    damaged = bytearray(message(1, pack(codec, inner), magic=magic, attributes=codec))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    columns = attempt(lambda: decode_columns(list(iter_batches(bytes(damaged), check_crcs=False)), check_crcs=False))
    if isinstance(columns, CorruptRecordError):
        assert columns.offset is not None
    else:
        assert len(columns.values()) == len(columns)
