"""The module in C reads and makes what Python does; what it cannot believe it leaves to Python, or refuses."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import weakref
from array import array
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.fetching.arrow import binary_column
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import Header, OffsetAndMetadata, Record, TimestampType, TopicPartition
from kwire.protocol.record_batch import BATCH_NUMBERS, HEADER_BYTES, LOG_APPEND_TIME_BIT, Batch
from kwire.protocol.record_batch_columns import in_columns
from kwire.protocol.record_boundaries import find_records
from kwire.protocol.record_columns import RecordColumns
from kwire.protocol.record_decoding import decode_columns
from kwire.protocol.record_fields import RecordFields, read_fields
from kwire.protocol.record_headers import HeaderColumns
from kwire.protocol.record_packed import packed_columns
from kwire.protocol.text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.protocol.record_varints import Ints
    from tests.record_batches import batch
else:
    from record_batches import batch

ALSO = [Path(__file__).with_name(name) for name in ("test_batch_columns.py", "test_inflation_in_c.py")]
TOP = Path(__file__).parents[2]
TYPES = {member.value: member for member in TimestampType}
INCLUDE = sysconfig.get_paths()["include"]
CAN_COMPILE = bool(shutil.which(os.environ.get("CC", "cc"))) and Path(INCLUDE, "Python.h").exists()

HEADERS = [each.name for each in fields(HeaderColumns)]
COLUMNS = [each.name for each in fields(RecordColumns) if each.name not in {"buffer", "headers_at", "part_of"}]

Pair = tuple[bytes, bytes | None]
Array: TypeAlias = np.ndarray[Any, Any]
Said: TypeAlias = dict[str, Any]
"""Some of what the header of a batch says."""


@pytest.fixture(scope="module", autouse=True)
def module() -> ModuleType:
    """What is tested. Where it could be compiled, it must be there."""
    if speedups.module is None:
        if CAN_COMPILE and not os.environ.get(speedups.VARIABLE):
            pytest.fail("kwire._speedups was not built, and there is a C compiler: remove .venv and run scripts/setup")
        pytest.skip(f"there is no C compiler with Python's headers, or {speedups.VARIABLE} is set")
    return speedups.module


# --- records as bytes --------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    raw = (number << 1 ^ number >> 63) & (1 << 64) - 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(timestamp: int, offset: int, key: bytes | None, value: bytes | None, headers: Sequence[Pair]) -> bytes:
    body = b"\0" + varint(timestamp) + varint(offset) + field(key) + field(value) + varint(len(headers))
    body += b"".join(field(name) + field(content) for name, content in headers)
    return varint(len(body)) + body


sizes = st.one_of(st.binary(max_size=5), st.integers(60, 70).map(bytes), st.integers(8180, 8200).map(bytes))
nullable = st.one_of(st.none(), sizes)
pairs = st.tuples(st.binary(max_size=3), nullable)
timestamps = st.integers(-(2**63), 2**63 - 1)
headers = st.one_of(st.just([(b"a", b"1"), (b"b", None)]), st.lists(pairs, max_size=20))
records = st.builds(record, timestamps, st.integers(-(2**31), 2**31 - 1), nullable, nullable, headers)
batches = st.lists(st.lists(records, max_size=5), max_size=4)


def laid_out(batches: list[list[bytes]]) -> tuple[bytes, Ints, Ints, Ints]:
    """The bytes, and where each batch starts and ends, with a header in front of it; and how many records it has."""
    buffer, starts, ends = bytearray(), [], []
    for each in batches:
        buffer += b"header"
        starts.append(len(buffer))
        buffer += b"".join(each)
        ends.append(len(buffer))
    begins, behind, counts = (np.array(each, dtype=np.int64) for each in (starts, ends, [*map(len, batches)]))
    return bytes(buffer), begins, behind, counts


def read_in_python(buffer: bytes, starts: Ints, ends: Ints, counts: Ints) -> RecordFields:
    data = np.frombuffer(buffer, dtype=np.uint8)
    return read_fields(buffer, data, *find_records(buffer, data, starts, ends, counts))


# --- reading records ---------------------------------------------------------------------------------------------

offsets = st.lists(st.integers(-(2**31), 2**31 - 1), unique=True, max_size=5).map(sorted)
times = st.sampled_from([0, -1, 1_700_000_000_000, 2**62, -(2**63)])
base_offsets = st.integers(0, 2**40)


@st.composite
def batches_in_order(draw: st.DrawFn) -> list[tuple[list[bytes], Said]]:
    """Records of ascending offsets, and what their batches say."""
    made, base_offset = [], draw(base_offsets)
    for deltas in draw(st.lists(offsets, max_size=4)):
        each = [record(draw(timestamps), delta, draw(nullable), draw(nullable), draw(headers)) for delta in deltas]
        attributes = draw(st.sampled_from([0, LOG_APPEND_TIME_BIT]))
        epoch = draw(st.integers(-1, 2**31 - 1))
        said = {"base_offset": base_offset, "attributes": attributes, "partition_leader_epoch": epoch}
        made.append((each, {**said, "base_timestamp": draw(times), "max_timestamp": draw(times)}))
        base_offset += 2**33
    return made


def with_headers(batches: Sequence[tuple[list[bytes], Said]]) -> list[Batch]:
    """The batches in one buffer, each behind room for its header."""
    data, places = bytearray(), []
    for each, _ in batches:
        places.append(len(data))
        data += bytes(HEADER_BYTES) + b"".join(each)
    sizes, whole = [sum(map(len, each)) for each, _ in batches], bytes(data)
    return [
        Batch(whole, at, 0, HEADER_BYTES - 12 + size, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, len(each))._replace(**said)
        for (each, said), at, size in zip(batches, places, sizes, strict=True)
    ]


def in_c(batches: Sequence[Batch]) -> RecordColumns | None:
    columns = in_columns(batches)
    assert columns is not None
    return packed_columns(columns.data, columns, None)


def in_python(batches: Sequence[Batch]) -> RecordColumns:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speedups, "module", None)
        return decode_columns(batches)


def columns_of(columns: RecordColumns) -> list[object]:
    """What can be compared: arrays as lists, with their kinds."""
    arrays = [*(getattr(columns, name) for name in COLUMNS)]
    headers = columns.headers_at
    if headers is not None:
        arrays += [getattr(headers, name) for name in HEADERS]
    return [(array.dtype, array.tolist()) for array in arrays]


@given(batches_in_order().filter(bool))
def test_all_columns_are_those_that_python_reads(made: list[tuple[list[bytes], Said]]) -> None:
    batches = with_headers(made)
    found, expected = in_c(batches), in_python(batches)
    assert found is not None
    assert columns_of(found) == columns_of(expected)
    numbers = (found.offset_list(), found.epoch_list(), found.size_bytes(), len(found), found.rows_in_order())
    assert numbers == (
        *(expected.offset_list(), expected.epoch_list(), expected.size_bytes()),
        *(len(expected), expected.rows_in_order()),
    )
    assert (found.keys(), found.values(), found.headers()) == (expected.keys(), expected.values(), expected.headers())
    assert [*map(list, found.arrays())] == [*map(list, expected.arrays())]
    assert [found.epoch_at(row) for row in range(len(found))] == expected.epoch_list()


@given(batches_in_order().filter(bool), st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**40))
def test_a_slice_of_packed_columns_has_its_rows(
    made: list[tuple[list[bytes], Said]], start: int, stop: int, offset: int
) -> None:
    batches = with_headers(made)
    found, expected = in_c(batches), in_python(batches)
    assert found is not None
    parts = [columns.slice(start, stop).slice(1, 7) for columns in (found, expected)]
    for part, other in (parts, reversed(parts)):
        assert part.offset_list() == other.offsets.tolist()
        assert part.epoch_list() == other.leader_epochs.tolist()
        assert part.keys() == other.keys()
        assert part.values(1) == other.values()[1:]
        assert part.size_bytes(1) == other.size_bytes() - other.size_bytes(0, 1)
        assert [part.offset_at(row) for row in range(len(part))] == other.offset_list()
        assert part.row_of(offset) == int(other.offsets.searchsorted(offset))


@given(batches_in_order().filter(bool), st.data())
def test_what_is_damaged_is_left_to_python_or_read_as_python_reads_it(
    made: list[tuple[list[bytes], Said]], data: st.DataObject
) -> None:
    batches = with_headers(made)
    damaged = bytearray(batches[0].data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    changes, buffer = st.sampled_from([0, 0, 0, 1, -1]), bytes(damaged)
    batches = [each._replace(data=buffer, record_count=each.record_count + data.draw(changes)) for each in batches]
    found = in_c(batches)
    try:
        expected = in_python(batches)
    except CorruptRecordError:
        assert found is None
    else:
        assert found is None or columns_of(found) == columns_of(expected)


def test_arrays_are_of_the_types_that_numpy_has_for_these_sizes() -> None:
    """An array of a memoryview may have another type of 64 bits, which is none of np.int64's instances."""
    found = in_c(with_headers(ONE))
    assert found is not None
    assert found.headers_at is not None
    assert type(found.offsets[0]) is type(found.headers_at.first[0]) is np.int64
    assert type(found.leader_epochs[0]) is np.int32


def test_an_array_is_made_once_and_what_is_no_column_is_no_attribute() -> None:
    found = in_c(with_headers(ONE))
    assert found is not None
    for each in (found, found.part(0, 1)):
        assert each.offsets is each.offsets
        assert each.headers_at is each.headers_at
        with pytest.raises(AttributeError, match="rows"):
            each.rows  # type: ignore[attr-defined]  # noqa: B018


def test_packed_columns_can_be_read_without_the_module() -> None:
    found = in_c(with_headers(ONE))
    assert found is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speedups, "module", None)
        assert (found.keys(), found.values(), found.size_bytes()) == ([b"k"], [b"x"], 2)


ONE = [([record(0, 0, b"k", b"x", [(b"a", b"b")])], {"base_offset": 5})]


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1, -(2**31)])
def test_no_memory_is_taken_for_a_count_that_cannot_be(count: int) -> None:
    assert in_c([each._replace(record_count=count) for each in with_headers(ONE)]) is None


@pytest.mark.parametrize(
    "said",
    [
        {"position": -100},
        {"position": -1},
        {"position": 1},
        {"position": 2**62},
        {"length_bytes": 2**31 - 1},
        {"length_bytes": -(2**31)},
        {"length_bytes": 0},
        {"base_offset": 2**63 - 1},
    ],
)
def test_a_batch_that_cannot_be_is_not_read(said: Said) -> None:
    assert in_c([each._replace(**said) for each in with_headers(ONE)]) is None


def test_offsets_that_do_not_ascend_are_left_to_python() -> None:
    assert in_c(with_headers(ONE * 2)) is None
    behind = [(ONE[0][0], {"base_offset": 6})]
    assert in_c(with_headers(ONE + behind)) is not None


def test_more_headers_than_a_record_may_have_are_left_to_python(module: ModuleType) -> None:
    columns = in_columns(with_headers(ONE))
    assert columns is not None
    assert module.read_records(columns.data, columns.numbers, None, 1) is not None
    assert module.read_records(columns.data, columns.numbers, None, 0) is None


def test_records_that_were_inflated_lie_one_behind_the_other(module: ModuleType) -> None:
    (payload,), said = ONE[0]
    batches = in_columns(with_headers([([payload], said), ([payload], {"base_offset": 9})]))
    assert batches is not None
    behind = array("q", [len(payload), 2 * len(payload)])
    found = packed_columns(payload * 2, batches, behind)
    assert found is not None
    assert (found.offset_list(), found.keys()) == ([5, 9], [b"k", b"k"])
    for ends in ([len(payload)], [len(payload), 1], [-1, 2], [len(payload), 2**62]):
        if len(ends) == 2:
            assert packed_columns(payload * 2, batches, array("q", ends)) is None
            continue
        with pytest.raises(ValueError, match="2 batches, and 8 bytes that say where they end"):
            packed_columns(payload * 2, batches, array("q", ends))
    with pytest.raises(TypeError):
        module.read_records(payload, batches.numbers, "no buffer", 1)


def test_numbers_of_batches_are_added_up_and_united(module: ModuleType) -> None:
    batches = in_columns(with_headers([([], {"base_offset": 6, "attributes": -1}), ([], {"base_offset": 9})]))
    assert batches is not None
    assert batches.sum_and_union("base_offset") == (15, 15)
    assert batches.sum_and_union("attributes") == (-1, -1)
    assert batches[:0].sum_and_union("crc") == (0, 0)
    assert module.sum_and_union(array("q", [1, 2, 4, 2**63 - 1]), 1, 2) == (1 - 2**63, 2**63 - 1)
    assert module.sum_and_union(array("q", [1]), 5, 1) == (0, 0)
    for first, step in ((-1, 1), (0, 0), (0, -1)):
        with pytest.raises(ValueError, match=f"each {step}. number from {first} on"):
            module.sum_and_union(batches.numbers, first, step)


@given(st.lists(nullable, max_size=20))
def test_copies_are_the_fields(fields: list[bytes | None]) -> None:
    module = speedups.module
    assert module is not None
    lengths = array("q", [-1 if each is None else len(each) for each in fields])
    starts = array("q", np.cumsum([0, *(max(0, length) for length in lengths)])[:-1].tolist())
    assert module.copies(b"".join(each or b"" for each in fields), starts, lengths) == fields


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 5), (4, 1), (5, 0), (2**62, 2**62), (1, 2**63 - 1)])
def test_what_lies_elsewhere_is_not_copied(module: ModuleType, start: int, length: int) -> None:
    with pytest.raises(ValueError, match="a field lies outside of the buffer"):
        module.copies(b"1234", array("q", [0, start]), array("q", [4, length]))
    with pytest.raises(ValueError, match="as many starts as lengths are wanted"):
        module.copies(b"1234", array("q", [0]), array("q"))


def test_room_has_the_size_that_was_asked_for(module: ModuleType) -> None:
    for size_bytes in (0, 1, 4 * 1024 * 1024 - 1, 4 * 1024 * 1024, 9 * 1024 * 1024 + 1):
        room = module.room(size_bytes)
        assert (type(room), len(room)) == (bytearray, size_bytes)
        room[:] = bytes(size_bytes)
    with pytest.raises(ValueError, match="room for -1 bytes"):
        module.room(-1)


# --- batches -----------------------------------------------------------------------------------------------------


def test_checksums_of_any_size_are_those_of_the_library(module: ModuleType) -> None:
    """Of a small batch it is computed here, of a large one by who is asked to."""
    asked: list[int] = []

    def checksum(covered: memoryview) -> int:
        asked.append(len(covered))
        return crc32c(covered)

    for size in (*range(40), 400, 429, 430, 431, 432, 433, 500, 5000):
        data = batch(0, values={0: os.urandom(size)})
        for at in range(0, len(data) - 21, max(1, size // 20)):
            assert positions(module.find_batches(data, checksum)) == [0]
            flipped = data[: 21 + at] + bytes([data[21 + at] ^ 1]) + data[22 + at :]
            assert positions(module.find_batches(flipped, checksum)) == []
    assert asked
    assert min(asked) > 400


@given(st.binary(max_size=300), st.integers(0, 16))
def test_whatever_lies_there_no_batch_reaches_beyond_it(noise: bytes, magic_at: int) -> None:
    """Most noise has another magic; what is no batch is the end."""
    module = speedups.module
    assert module is not None
    data = bytearray(noise)
    if len(data) > magic_at:
        data[magic_at] = 2
    good = batch(0)
    for hostile in (bytes(data), good + bytes(data), *(good[:size] for size in range(0, len(good), 7))):
        found = positions(module.find_batches(hostile, None))
        assert found[:1] in ([], [0])
        assert all(at + 61 <= len(hostile) for at in found)


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 48, 2**31 - 1])
def test_a_length_that_cannot_be_ends_the_batches(module: ModuleType, length: int) -> None:
    good = batch(0)
    data = good + good[:8] + length.to_bytes(4, "big", signed=True) + good[12:]
    assert positions(module.find_batches(data, None)) == [0]


def test_an_error_of_who_computes_the_checksum_is_the_callers(module: ModuleType) -> None:
    large = batch(0, values={0: bytes(5000)})

    def fails(_covered: memoryview) -> int:
        raise LookupError("none")

    with pytest.raises(LookupError):
        module.find_batches(large + large, fails)
    with pytest.raises(TypeError):
        module.find_batches(large, lambda _covered: "no number")
    with pytest.raises(OverflowError):
        module.find_batches(large, lambda _covered: -1)
    with pytest.raises(TypeError):
        module.find_batches(large, "not to be called")
    with pytest.raises(TypeError):
        module.find_batches("text", None)
    with pytest.raises(TypeError):
        module.find_batches(large)
    with pytest.raises(BufferError):
        module.find_batches(memoryview(large)[::2], None)


def test_bytes_that_are_looked_at_cannot_be_taken_away(module: ModuleType) -> None:
    data = bytearray(batch(0, values={0: bytes(5000)}))

    def shrinks(covered: memoryview) -> int:
        with pytest.raises(BufferError):
            data.clear()
        return crc32c(covered)

    assert positions(module.find_batches(data, shrinks)) == [0]
    data.clear()


def crc32c(covered: memoryview) -> int:
    checksum: int = google_crc32c.value(bytes(covered))
    return checksum


def positions(found: bytes) -> list[int]:
    return memoryview(found).cast("q")[::BATCH_NUMBERS].tolist()


# --- copies ------------------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.none(), st.binary(max_size=70))), st.binary(max_size=3))
def test_fields_are_copied_one_behind_the_other(fields: list[bytes | None], gap: bytes) -> None:
    lengths = [-1 if each is None else len(each) for each in fields]
    places = np.cumsum([0, *(max(0, length) + len(gap) for length in lengths)])
    buffer = b"".join((each or b"") + gap for each in fields)
    column = binary_column(buffer, places[:-1], np.array(lengths, dtype=np.int64))
    column.validate(full=True)
    assert column.to_pylist() == fields


@pytest.mark.parametrize(
    ("starts", "lengths", "edges", "size"),
    [
        ([0], [4], 2, 3),
        ([0], [4], 2, 5),
        ([0], [4], 1, 4),
        ([0], [4], 3, 4),
        ([0], [2, 2], 2, 4),
        ([7], [4], 2, 4),
        ([-1], [4], 2, 4),
        ([2**62], [4], 2, 4),
        ([0], [2**62], 2, 4),
        ([], [], 1, 1),
        ([], [], 0, 0),
    ],
)
def test_fields_that_have_no_room_or_lie_elsewhere_are_not_copied(
    module: ModuleType, starts: list[int], lengths: list[int], edges: int, size: int
) -> None:
    data = bytearray(size)
    numbers = (np.array(each, dtype=np.int64) for each in (starts, lengths))
    with pytest.raises(ValueError, match="or are not as large as their room"):
        module.gather(b"0123456789", *numbers, np.zeros(edges, dtype=np.int32), data)


# --- records as objects ------------------------------------------------------------------------------------------

PARTITION = TopicPartition("orders", 3)


def chunk_of(batches: list[list[bytes]]) -> PartitionRecords[Any, Any]:
    buffer, starts, ends, counts = laid_out(batches)
    found = read_in_python(buffer, starts, ends, counts)
    rows = len(found.key_starts)
    columns = RecordColumns(
        buffer=buffer,
        offsets=np.arange(rows) * 3 + 2**40,
        timestamps=found.timestamp_deltas,
        timestamp_types=np.arange(rows, dtype=np.int8) % 2,
        leader_epochs=(np.arange(rows, dtype=np.int32) // 2) - 1,
        key_starts=found.key_starts,
        key_lengths=found.key_lengths,
        value_starts=found.value_starts,
        value_lengths=found.value_lengths,
        headers_at=found.headers,
    )
    return PartitionRecords(topic_partition=PARTITION, columns=columns, next=OffsetAndMetadata(1))


def made_in_python(chunk: PartitionRecords[Any, Any]) -> list[Record[Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speedups, "module", None)
        return list(chunk)


def types_of(made: object) -> object:
    return (type(made), [types_of(each) for each in made]) if isinstance(made, tuple) else type(made)


def hashes_of(made: Record[Any, Any]) -> list[int]:
    """From Python 3.14 on a tuple keeps its hash, and one that was made in C had 0 for it."""
    return [hash(made), *map(hash, made.headers)]


@given(batches)
def test_all_records_are_those_that_python_makes(batches: list[list[bytes]]) -> None:
    chunk = chunk_of(batches)
    made, expected = list(chunk), made_in_python(chunk)
    assert made == expected
    assert [types_of(each) for each in made] == [types_of(each) for each in expected]
    assert [hashes_of(each) for each in made] == [hashes_of(each) for each in expected]


@given(batches, st.integers(0, 20), st.integers(0, 20))
def test_a_slice_has_the_records_of_its_rows(batches: list[list[bytes]], start: int, stop: int) -> None:
    whole = chunk_of(batches)
    part: PartitionRecords[Any, Any] = PartitionRecords(
        topic_partition=PARTITION, columns=whole.columns.slice(start, stop), next=whole.next
    )
    assert list(part) == list(whole)[start:stop]


def test_the_collector_does_not_look_at_records_of_bytes_again_and_again() -> None:
    """A program that keeps a million of them would wait for it four times as long as for the records. Objects that a
    deserializer made may refer to anything."""
    chunk = chunk_of([[record(0, 0, b"k", b"v", [(b"a", b"b")])]])
    (made,) = chunk
    assert not any(map(gc.is_tracked, (made, made.headers, made.headers[0])))
    (made,) = replace(chunk, deserialized_values=[[]])
    assert gc.is_tracked(made)


@pytest.mark.parametrize("kind", [list, tuple])
def test_deserialized_keys_and_values_come_in_place_of_the_bytes(
    kind: type[list[object]] | type[tuple[object, ...]],
) -> None:
    batches = [[record(0, 0, b"k", b"value", []), record(0, 1, None, None, [])]]
    keys, values = kind(["one", None]), kind([1.5, {}])
    chunk = replace(chunk_of(batches), deserialized_keys=keys, deserialized_values=values)
    assert [(each.key, each.value, each.serialized_value_size) for each in chunk] == [("one", 1.5, 5), (None, {}, -1)]
    assert list(chunk) == made_in_python(chunk)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 40])
def test_headers_that_come_again_are_the_same_objects_and_others_are_not(count: int) -> None:
    def headers(number: int) -> list[Pair]:
        return [(b"name%d" % nth, b"v%d" % (number if nth == count - 1 else 0)) for nth in range(count)]

    first, again, other = list(chunk_of([[record(0, 0, None, b"", headers(n)) for n in (1, 1, 2)]]))
    assert again.headers == first.headers
    assert other.headers[:-1] == first.headers[:-1]
    assert other.headers[-1] == Header(f"name{count - 1}", b"v2")
    assert (again.headers is first.headers) == (count <= 16)


@pytest.mark.parametrize("name", [b"", b"\xff\xfe", b"\xed\xa0\x80!", "naïve".encode(), b"a\0b"])
def test_names_that_are_no_text_become_what_java_makes_of_them(name: bytes) -> None:
    (made,) = chunk_of([[record(0, 0, None, b"", [(name, b"x")])]])
    assert made.headers == (Header(text_of(name), b"x"),)


def test_columns_may_be_strided() -> None:
    chunk = chunk_of([[record(n, n, b"k%d" % n, b"v%d" % n, [(b"h", b"%d" % n)]) for n in range(5)]])
    columns = chunk.columns
    assert columns.headers_at is not None

    def strided(array: Array) -> Array:
        return np.repeat(array, 3)[::3]

    headers = replace(columns.headers_at, **{name: strided(getattr(columns.headers_at, name)) for name in HEADERS})
    spread: dict[str, Any] = {name: strided(getattr(columns, name)) for name in COLUMNS}
    other = replace(columns, headers_at=headers, **spread)
    assert not other.offsets.flags.c_contiguous
    made = PartitionRecords[Any, Any](topic_partition=PARTITION, columns=other, next=chunk.next)
    assert list(made) == list(chunk)


# --- what it refuses ---------------------------------------------------------------------------------------------


def iterator(module: ModuleType, chunk: PartitionRecords[Any, Any], **other: object) -> Iterator[Record[Any, Any]]:
    arguments = {
        "record_type": Record,
        "header_type": Header,
        "type_of": TYPES,
        "text_of": text_of,
        "topic": "orders",
        "partition": 3,
        "keys": None,
        "values": None,
        "start": 0,
        "stop": len(chunk),
        "columns": chunk.columns.arrays(),
    }
    made: Iterator[Record[Any, Any]] = module.RecordIterator(*{**arguments, **other}.values())
    return made


def two_records() -> PartitionRecords[Any, Any]:
    return chunk_of([[record(0, n, b"key", b"value", [(b"\xffname", b"content")]) for n in range(2)]])


NAMES = ["buffer", *COLUMNS, *(f"header_{name}" for name in HEADERS)]


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("change", ["short", "wider", "flat"])
def test_a_column_that_is_none_is_refused(module: ModuleType, name: str, change: str) -> None:
    chunk = two_records()
    columns = list(chunk.columns.arrays())
    place = NAMES.index(name)
    array: Any = columns[place]
    columns[place] = {
        "short": array[:1],
        "wider": array.astype(np.int16),
        "flat": array.reshape(1, -1),
    }[change]
    with pytest.raises(ValueError, match=rf"column {place} has to have|has headers that there are not"):
        list(iterator(module, chunk, columns=tuple(columns)))


@pytest.mark.parametrize("name", ["key", "value", "header_key", "header_value"])
@pytest.mark.parametrize(("start", "length"), [(-1, 1), (10_000, 1), (0, 10_000), (2**62, 2**62), (-(2**62), 0)])
def test_no_byte_outside_of_the_buffer_is_copied(module: ModuleType, name: str, start: int, length: int) -> None:
    chunk = two_records()
    columns = [np.array(column) if isinstance(column, np.ndarray) else column for column in chunk.columns.arrays()]
    for what, number in (("starts", start), ("lengths", length)):
        column: Any = columns[NAMES.index(f"{name}_{what}")]
        column[1] = number
    made = iterator(module, chunk, columns=tuple(columns))
    assert next(made).offset == 2**40
    for _ in range(2):
        with pytest.raises(ValueError, match="a field lies outside of the buffer"):
            next(made)


@pytest.mark.parametrize("first", [[0, 1, 3], [0, 1, 2**62], [-5, 1, 2], [0, 2, 1], [0, 1, -(2**63)]])
def test_headers_that_there_are_not_are_refused(module: ModuleType, first: list[int]) -> None:
    chunk = two_records()
    columns = list(chunk.columns.arrays())
    columns[NAMES.index("header_first")] = np.array(first)
    with pytest.raises(ValueError, match="a record has headers that there are not"):
        list(iterator(module, chunk, columns=tuple(columns)))


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"record_type": dict}, TypeError),
        ({"header_type": object}, TypeError),
        ({"record_type": "Record"}, TypeError),
        ({"type_of": {}}, KeyError),
        ({"text_of": None}, TypeError),
        ({"keys": ["one"]}, IndexError),
        ({"values": 5}, TypeError),
        ({"start": -1}, ValueError),
        ({"start": 3}, ValueError),
        ({"stop": 3}, ValueError),
        ({"stop": sys.maxsize}, ValueError),
        ({"columns": ()}, ValueError),
        ({"columns": [1]}, TypeError),
        ({"columns": (b"",) * 9}, ValueError),
        ({"columns": ("text",) * 9}, TypeError),
    ],
)
def test_wrong_arguments_are_an_error(module: ModuleType, other: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        list(iterator(module, two_records(), **other))


def test_who_makes_a_record_cannot_ask_for_another_one(module: ModuleType) -> None:
    """As with a generator: what is called meanwhile may be Python code, and so may let another thread run."""
    errors: list[ValueError] = []

    def text(data: bytes) -> str:
        with pytest.raises(ValueError, match="a record is being made already") as refused:
            next(made)
        errors.append(refused.value)
        return data.decode("latin-1")

    made = iterator(module, two_records(), text_of=text)
    assert [each.headers[0].key for each in made] == ["ÿname", "ÿname"]
    assert len(errors) == 1


def test_nobody_is_shown_a_record_before_it_is_whole(module: ModuleType) -> None:
    """Who looks for leaks asks the collector for all objects, and the interpreter ends where one has an empty place."""

    def shown() -> int:
        return sum(type(each) in {Record, Header} for each in gc.get_objects())

    def text(data: bytes) -> str:
        counts.append(shown())
        return data.decode("latin-1")

    counts = [shown()]
    list(iterator(module, two_records(), text_of=text))
    assert counts == [counts[0]] * 2


def test_an_error_in_python_code_goes_to_who_asked_and_the_record_is_made_when_asked_again(module: ModuleType) -> None:
    answers = ["yes", ""]

    def text(_data: bytes) -> str:
        if answer := answers.pop():
            return answer
        raise KeyError("no")

    made = iterator(module, two_records(), text_of=text)
    with pytest.raises(KeyError, match="no"):
        next(made)
    assert [(each.offset, each.headers[0].key) for each in made] == [(2**40, "yes"), (2**40 + 3, "yes")]


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_the_bytes_are_let_go_with_the_last_record_or_the_iterator(module: ModuleType, taken: int) -> None:
    chunk = two_records()
    buffer = bytearray(chunk.columns.arrays()[0])
    made = iterator(module, chunk, columns=(buffer, *chunk.columns.arrays()[1:]))
    for _ in range(taken):
        next(made, None)
    if taken < 3:
        with pytest.raises(BufferError):
            buffer.clear()
        del made
    buffer.clear()


def test_a_cycle_through_the_iterator_is_collected(module: ModuleType) -> None:
    class Values(list[object]):
        """A list that a weak reference can refer to."""

    values = Values(["a", "b"])
    values.append(iterator(module, two_records(), values=values))
    watched = weakref.ref(values)
    del values
    gc.collect()
    assert watched() is None


def test_no_format_has_a_length() -> None:
    """The headers of Python 3.13 let such a call fail in 3.12, and pip keeps what it has compiled for all versions."""
    assert not re.search(r'"[^"\n]*#[^"\n]*"', (TOP / "kwire/_speedups.c").read_text(encoding="utf-8"))


def test_nothing_is_left_behind(module: ModuleType) -> None:
    """All that making records refers to is given back, errors included."""
    chunk = two_records()

    def run() -> None:
        list(iterator(module, chunk))
        next(iterator(module, chunk))
        wrong: tuple[dict[str, object], ...] = ({"keys": ["one"]}, {"columns": (b"",) * 9}, {"type_of": {}})
        for other in wrong:
            with pytest.raises((ValueError, IndexError, KeyError)):
                list(iterator(module, chunk, **other))

    run()
    shared = (Record, Header, TYPES, text_of, "orders", chunk.columns.buffer, chunk.columns.offsets)
    gc.collect()
    before = [sys.getrefcount(each) for each in shared], len(gc.get_objects())
    for _ in range(100):
        run()
    gc.collect()
    after = [sys.getrefcount(each) for each in shared], len(gc.get_objects())
    assert all(abs(now - then) < 50 for now, then in zip(after[0], before[0], strict=True))
    assert after[1] - before[1] < 50


# --- how it comes, and how it is left alone ----------------------------------------------------------------------


@pytest.mark.parametrize(("value", "is_there"), [("1", False), ("", True)])
def test_a_variable_of_the_environment_leaves_it_alone(value: str, is_there: bool) -> None:
    code = "from kwire import speedups; print(speedups.module is not None)"
    environment = {**os.environ, speedups.VARIABLE: value}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{is_there}\n"


def test_a_binary_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Of a clone that was brought up to date: it may take or answer something else."""
    monkeypatch.delenv(speedups.VARIABLE, raising=False)
    assert speedups._loaded() is module
    monkeypatch.setattr(speedups, "FORM", speedups.FORM + 1)
    assert speedups._loaded() is None


@pytest.mark.skipif(not CAN_COMPILE, reason="needs a C compiler, and Python's headers")
@pytest.mark.slow
def test_no_sanitizer_has_anything_to_say(tmp_path: Path) -> None:
    """All of this file again, with a module that is told of each byte it touches outside of what it was given."""
    compiler = os.environ.get("CC", "cc")
    libraries = [sanitizer(compiler, name) for name in ("libasan.so", "libubsan.so")]
    built = tmp_path / "_speedups.abi3.so"
    flags = ["-O1", "-g", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        flags.append("-DPy_LIMITED_API=0x030B0000")
    subprocess.run([compiler, *flags, f"-I{INCLUDE}", str(TOP / "kwire/_speedups.c"), "-o", str(built)], check=True)
    code = (
        "import sys; from importlib import util; from importlib.machinery import ExtensionFileLoader\n"
        f"spec = util.spec_from_loader('kwire._speedups', ExtensionFileLoader('kwire._speedups', {str(built)!r}))\n"
        "module = sys.modules['kwire._speedups'] = util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        f"tests = {[__file__, *map(str, ALSO)]}\n"
        "import pytest; sys.exit(pytest.main(['-q', '-s', '-p', 'no:cacheprovider', '-k', 'not sanitizer', *tests]))"
    )
    # What the interpreter itself never frees is not asked for. Its allocator would hide that freed memory is used.
    environment = {"LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=TOP, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def sanitizer(compiler: str, library: str) -> str:
    command = [compiler, f"-print-file-name={library}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip(f"the C compiler has no {library}")
    return path
