"""`Records`: lazily made records, partitions and offsets, deserializers, and Arrow in Spark's schema."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pytest

from kwire.errors import CorruptRecordError, RecordDeserializationError
from kwire.fetching.arrow import SCHEMA, to_batches
from kwire.fetching.columns import Records
from kwire.fetching.deserializing import Deserializers, deserialize_chunk
from kwire.fetching.partition_records import _BLOCK_ROWS, PartitionRecords
from kwire.model import Cursor, Header, K, OffsetAndMetadata, Record, TimestampType, TopicPartition, V
from kwire.protocol.record_columns import RecordColumns
from kwire.protocol.record_columns import Row as _Row
from kwire.protocol.record_few import FewColumns
from kwire.protocol.record_headers import HeaderColumns

pytestmark = pytest.mark.usefixtures("in_c_and_in_python")

T = TypeVar("T")
T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)
OTHER = TopicPartition("clicks", 0)

Row = tuple[bytes | None, bytes | None, tuple[Header, ...]]


class _Writer:
    """A buffer that grows, with the place of each piece."""

    def __init__(self) -> None:
        self.data = bytearray(b"....")
        self.spans: dict[str, list[tuple[int, int]]] = {"key": [], "value": [], "name": [], "content": []}

    def add(self, what: str, piece: bytes | None) -> None:
        self.spans[what].append((len(self.data), -1 if piece is None else len(piece)))
        self.data += (piece or b"") + b"."

    def columns(self, what: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]:
        table = np.array(self.spans[what], dtype=np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]


def columns_of(rows: list[Row], *, first_offset: int = 100, epochs: list[int] | None = None) -> RecordColumns:
    """Columns as decoding makes them: spans ascend in the buffer, with gaps between."""
    writer = _Writer()
    for key, value, headers in rows:
        writer.add("key", key)
        writer.add("value", value)
        for name, content in headers:
            writer.add("name", name.encode("latin-1"))
            writer.add("content", content)
    counts = [len(headers) for _, _, headers in rows]
    headers_at = HeaderColumns(
        first=np.cumsum([0, *counts]),
        key_starts=writer.columns("name")[0],
        key_lengths=writer.columns("name")[1],
        value_starts=writer.columns("content")[0],
        value_lengths=writer.columns("content")[1],
    )
    return RecordColumns(
        buffer=bytes(writer.data),
        offsets=np.arange(first_offset, first_offset + len(rows), dtype=np.int64),
        timestamps=np.arange(len(rows), dtype=np.int64) + 1_700_000_000_000,
        timestamp_types=np.zeros(len(rows), dtype=np.int8),
        leader_epochs=np.array([3] * len(rows) if epochs is None else epochs, dtype=np.int32),
        key_starts=writer.columns("key")[0],
        key_lengths=writer.columns("key")[1],
        value_starts=writer.columns("value")[0],
        value_lengths=writer.columns("value")[1],
        headers_at=headers_at if any(counts) else None,
    )


def chunk_of(
    rows: list[Row], partition: TopicPartition = T0, *, first_offset: int = 100
) -> PartitionRecords[bytes, bytes]:
    return PartitionRecords(
        topic_partition=partition,
        columns=columns_of(rows, first_offset=first_offset),
        next=OffsetAndMetadata(first_offset + len(rows), leader_epoch=3),
    )


ROWS: list[Row] = [
    (b"k1", b"value one", ()),
    (None, b"", (Header("trace", b"abc"), Header("trace", None))),
    (b"k3", None, (Header("n", b""),)),
]


def pickled(given: T) -> T:
    return cast("T", pickle.loads(pickle.dumps(given)))


# --- how far an iteration has come -----------------------------------------------------------------------------------


def many(count: int, partition: TopicPartition = T0) -> PartitionRecords[bytes, bytes]:
    return chunk_of([(None, b"%d" % number, ()) for number in range(count)], partition)


def left_after(count: int, *chunks: PartitionRecords[bytes, bytes]) -> Records[bytes, bytes]:
    """Records of which a loop has seen so many."""
    records = Records(chunks)
    assert len(list(islice(records, count))) == count
    return records


def reached(records: Records[bytes, bytes]) -> dict[TopicPartition, int] | None:
    found = records._reached()
    return None if found is None else {tp: position.offset for tp, _epoch, position in found}


@pytest.mark.parametrize("rows", [5, 100, 2 * _BLOCK_ROWS + 1])
def test_an_iteration_that_was_left_tells_how_far_it_came(rows: int) -> None:
    first, second = many(rows), many(rows, T1)
    assert reached(left_after(1, first, second)) == {T0: 101}
    assert reached(left_after(rows - 1, first, second)) == {T0: 100 + rows - 1}
    assert reached(left_after(rows, first, second)) == {T0: 100 + rows}
    assert reached(left_after(rows + 2, first, second)) == {T0: 100 + rows, T1: 102}


def test_few_records_tell_it_as_well() -> None:
    chunk = replace(many(2), columns=FewColumns(b"ab", [row(5), row(6)]))
    assert reached(left_after(1, chunk)) == {T0: 6}


def test_one_that_asked_for_nothing_has_come_nowhere() -> None:
    records = Records([many(3)])
    iter(records)
    assert reached(records) is None, "it was no loop"


def test_after_all_records_were_taken_nothing_is_left() -> None:
    for take in (list, Records.values, Records.chunks, Records.to_arrow, lambda records: records[T0]):
        records = Records([many(3), many(3, T1)])
        take(records)
        assert reached(records) is None
        next(iter(records))
        assert reached(records) is None, "to look at one again changes nothing"
    assert reached(left_after(6, many(3), many(3, T1))) is None, "though it did not ask for a seventh"
    assert reached(Records([many(3)])) is None, "nobody has iterated"


def test_of_several_iterations_the_furthest_counts() -> None:
    records = left_after(1, many(3))
    assert len(list(records)) == 3
    assert reached(records) is None
    records = left_after(2, many(3))
    next(iter(records))
    assert reached(records) == {T0: 102}


def test_looks_at_other_records_within_a_loop_do_not_count() -> None:
    records = Records([many(200)])
    for place, each in enumerate(records):
        assert next(other for other in records if other.value == each.value).offset == each.offset
        if place == 150:
            break
    assert reached(records) == {T0: 251}


def test_whoever_works_on_a_part_or_a_copy_has_taken_all() -> None:
    takes: list[Callable[[Records[bytes, bytes]], Records[bytes, bytes]]]
    takes = [copy.copy, copy.deepcopy, pickled, lambda records: records.of(Cursor.MAIN)]
    for take in takes:
        records = left_after(1, many(3))
        assert len(list(take(records))) == 3
        assert reached(records) is None


def test_a_partition_without_records_at_the_end_is_passed() -> None:
    """An aborted transaction was all that it had."""
    empty = replace(many(0, T1), next=OffsetAndMetadata(11))
    records = Records([many(3), empty])
    assert len(list(zip(range(3), records, strict=False))) == 3
    assert reached(records) is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_records_in_the_middle_of_an_iteration_can_be_copied(
    copied: Callable[[Records[bytes, bytes]], Records[bytes, bytes]],
) -> None:
    records = left_after(2, many(3))
    assert list(copied(records)) == list(records)


# --- records -------------------------------------------------------------------------------------------------


def test_iteration_makes_whole_records() -> None:
    first, second, third = Records([chunk_of(ROWS)])
    assert first == Record(
        topic="orders",
        partition=0,
        offset=100,
        timestamp=1_700_000_000_000,
        timestamp_type=TimestampType.CREATE_TIME,
        key=b"k1",
        value=b"value one",
        headers=(),
        leader_epoch=3,
        serialized_key_size=2,
        serialized_value_size=9,
    )
    assert type(first) is Record
    assert (second.key, second.serialized_key_size, second.headers) == (None, -1, ROWS[1][2])
    assert (third.value, third.serialized_value_size, third.offset) == (None, -1, 102)
    assert first.topic_partition == T0


def test_rows_of_large_values_are_made_few_at_a_time() -> None:
    """Two hundred values of 100,000 bytes: once, all of them were copied out before the first was handed out."""
    chunk = chunk_of([(None, b"%06d" % number + bytes(100_000), ()) for number in range(200)])
    tracemalloc.start()
    try:
        numbers = [int(record.value[:6]) for record in chunk if record.value is not None]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert numbers == list(range(200))
    assert peak_bytes < 2_500_000


def test_timestamp_types_and_epochs_may_differ_between_rows() -> None:
    columns = columns_of(ROWS, epochs=[-1, 4, 4])
    columns.timestamp_types[:] = [-1, 0, 1]
    records = list(PartitionRecords[bytes, bytes](topic_partition=T0, columns=columns, next=OffsetAndMetadata(103)))
    assert [record.leader_epoch for record in records] == [None, 4, 4]
    assert [record.timestamp_type for record in records] == [
        TimestampType.NO_TIMESTAMP_TYPE,
        TimestampType.CREATE_TIME,
        TimestampType.LOG_APPEND_TIME,
    ]


def test_records_know_their_number_and_their_partitions() -> None:
    records = Records([chunk_of(ROWS), chunk_of(ROWS[:1], OTHER), chunk_of([], T1)])
    assert (len(records), records.count(), bool(records), records.is_empty()) == (4, 4, True, False)
    assert records.partitions() == {T0, OTHER}
    assert repr(records) == "<Records: 4 (orders-0: 3, clicks-0: 1, orders-1: 0)>"


def test_no_records_are_falsy_and_still_tell_where_positions_went() -> None:
    records = Records([chunk_of([], T0, first_offset=7)])
    assert (len(records), bool(records), records.is_empty(), list(records)) == (0, False, True, [])
    assert records.next_offsets() == {T0: OffsetAndMetadata(7, leader_epoch=3)}
    assert repr(Records()) == "<Records: none>"
    assert (Records().keys(), Records().values(), Records().partitions()) == ([], [], frozenset())


def test_next_offsets_lie_behind_the_last_chunk_of_each_partition() -> None:
    records = Records([chunk_of(ROWS), chunk_of(ROWS, T1, first_offset=5), chunk_of(ROWS, first_offset=103)])
    assert records.next_offsets() == {
        T0: OffsetAndMetadata(106, leader_epoch=3),
        T1: OffsetAndMetadata(8, leader_epoch=3),
    }


def test_records_are_found_by_partition_and_by_topic() -> None:
    records = Records([chunk_of(ROWS), chunk_of(ROWS, OTHER), chunk_of(ROWS[:1], T1), chunk_of(ROWS, first_offset=103)])
    assert [record.offset for record in records[T0]] == [100, 101, 102, 103, 104, 105]
    assert records.records(T0) == records[T0]
    assert [record.topic_partition for record in records.records("orders")] == [T0] * 3 + [T1] + [T0] * 3
    assert records[TopicPartition("orders", 9)] == records.records("nothing") == []


def test_indexing_with_something_else_says_what_is_wanted() -> None:
    with pytest.raises(TypeError, match="takes a TopicPartition, got 0"):
        Records([chunk_of(ROWS)])[0]  # type: ignore[index]  # the mistake under test


def test_columns_are_there_without_making_records() -> None:
    records = Records([chunk_of(ROWS), chunk_of(ROWS[:1], OTHER), chunk_of(ROWS[:1], first_offset=103)])
    assert records.keys() == [b"k1", None, b"k3", b"k1", b"k1"]
    assert records.values() == [b"value one", b"", None, b"value one", b"value one"]
    assert records.keys(OTHER) == [b"k1"]
    assert records.values(T0) == [b"value one", b"", None, b"value one"]
    assert records.offsets().tolist() == [100, 101, 102, 100, 103]
    assert records.offsets(T0).tolist() == [100, 101, 102, 103]
    assert records.timestamps().tolist()[2:] == [1_700_000_000_002, 1_700_000_000_000, 1_700_000_000_000]
    assert records.timestamps(OTHER).tolist() == [1_700_000_000_000]
    assert records.offsets(T1).tolist() == records.timestamps(T1).tolist() == []
    assert [len(chunk) for chunk in records.chunks()] == [3, 1, 1]


def test_arrays_are_int64_and_read_only_for_the_records_are_made_from_them() -> None:
    for records in (Records([chunk_of(ROWS)]), Records([chunk_of(ROWS), chunk_of(ROWS, T1)]), Records[bytes, bytes]()):
        for array in (records.offsets(), records.timestamps(), records.offsets(T0), records.timestamps(T0)):
            assert (array.dtype.name, array.ndim, array.flags.writeable) == ("int64", 1, False)
    chunk = chunk_of(ROWS)
    Records([chunk]).offsets()
    assert chunk.columns.offsets.flags.writeable


def test_rows_of_many_blocks_are_those_of_one() -> None:
    number = 2 * _BLOCK_ROWS + 1
    rows: list[Row] = [(b"%d" % row, None if row % 7 == 0 else b"v" * (row % 5), ()) for row in range(number)]
    records = list(Records([chunk_of(rows)]))
    assert [(record.key, record.value, record.headers) for record in records] == rows
    assert [record.offset for record in records] == list(range(100, 100 + number))


@pytest.mark.parametrize("most_headers", [1, 5, 12, 40])
def test_rows_with_headers_of_many_blocks_are_those_of_one(most_headers: int) -> None:
    number = _BLOCK_ROWS + 300
    rows: list[Row] = [
        (b"%d" % row, b"", tuple(Header(f"h{nth}", b"%d" % row) for nth in range(row % most_headers)))
        for row in range(number)
    ]
    records = list(Records([chunk_of(rows)]))
    assert [(record.key, record.value, record.headers) for record in records] == rows


def test_deserialized_rows_of_many_blocks_keep_their_place() -> None:
    number = _BLOCK_ROWS + 2
    rows: list[Row] = [(b"%d" % row, b"%d" % (row * 2), ()) for row in range(number)]
    records = make_records(chunk_of(rows), Deserializers(key=int, value=int))
    assert [(record.key, record.value) for record in records] == [(row, row * 2) for row in range(number)]


def test_records_with_the_same_number_of_headers_each_get_their_own() -> None:
    rows: list[Row] = [
        (None, b"", (Header("trace", b"%d" % row), Header("span", None if row == 1 else b"s"))) for row in range(4)
    ]
    assert [record.headers for record in Records([chunk_of(rows)])] == [headers for _, _, headers in rows]
    assert [record.headers for record in Records([chunk_of(rows)])][2][0] == Header("trace", b"2")
    alike: list[Row] = [(None, b"", (Header("trace", b"%d" % row),)) for row in range(4)]
    assert [record.headers for record in Records([chunk_of(alike)])] == [headers for _, _, headers in alike]
    assert all(type(header) is Header for record in Records([chunk_of(alike)]) for header in record.headers)


def test_large_values_of_different_sizes_come_out_of_a_view_whole() -> None:
    rows: list[Row] = [(None, value, ()) for value in (b"a" * 9000, None, b"", b"b" * 12_000)]
    chunk = chunk_of(rows)
    columns = replace(chunk.columns, buffer=memoryview(bytearray(chunk.columns.buffer)))
    assert columns.values() == [value for _, value, _ in rows]
    assert {type(value) for value in columns.values()} == {bytes, type(None)}


def test_records_carry_what_a_rebalance_wants() -> None:
    records = Records[bytes, bytes](to_be_revoked=[T0], lost=[T1])
    assert (records.to_be_revoked, records.lost) == (frozenset({T0}), frozenset({T1}))


# --- deserializers -------------------------------------------------------------------------------------------


class Decoding:
    """A deserializer that writes down what it is given."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[Header, ...], bytes | None]] = []

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> str:
        self.seen.append((topic, headers, data))
        return "none" if data is None else data.decode()


def make_records(chunk: PartitionRecords[bytes, bytes], deserializers: Deserializers[K, V]) -> list[Record[K, V]]:
    """All rows, or the error of the first that cannot be deserialized."""
    good, error = deserialize_chunk(chunk, deserializers)
    if error is not None:
        raise error
    return list(good)


def test_a_callable_is_given_bytes_and_never_null() -> None:
    records = make_records(chunk_of(ROWS), Deserializers(key=bytes.decode, value=len))
    assert [(record.key, record.value) for record in records] == [("k1", 9), (None, 0), ("k3", None)]
    assert [record.serialized_value_size for record in records] == [9, 0, -1]


def test_an_object_is_given_topic_headers_and_null() -> None:
    decoding = Decoding()
    records = make_records(chunk_of(ROWS), Deserializers[str, bytes](key=decoding))
    assert [record.key for record in records] == ["k1", "none", "k3"]
    assert decoding.seen == [("orders", headers, key) for key, _, headers in ROWS]
    assert [record.value for record in records] == [b"value one", b"", None]


def test_deserialized_chunks_answer_deserialized_columns() -> None:
    good, error = deserialize_chunk(chunk_of(ROWS), Deserializers(key=bytes.decode, value=len))
    assert error is None
    records = Records([good])
    assert (records.keys(), records.values()) == (["k1", None, "k3"], [9, 0, None])
    assert records.next_offsets() == {T0: OffsetAndMetadata(103, leader_epoch=3)}


def test_without_deserializers_nothing_is_touched() -> None:
    chunk = chunk_of(ROWS)
    good, error = deserialize_chunk(chunk, Deserializers[bytes, bytes]())
    assert error is None
    assert good.columns is chunk.columns
    assert good.deserialized_keys is good.deserialized_values is None
    assert not Deserializers[bytes, bytes]()
    assert Deserializers(value=len)


JSON_ROWS: list[Row] = [(b"1", b"{}", ()), (b"2", b"[]", (Header("h", b"v"),)), (b"3", b"{", ()), (b"4", b"{}", ())]


def test_rows_in_front_of_a_failure_come_with_its_error() -> None:
    good, error = deserialize_chunk(chunk_of(JSON_ROWS), Deserializers(key=int, value=json.loads))
    assert [(record.key, record.value) for record in good] == [(1, {}), (2, [])]
    assert good.next == OffsetAndMetadata(102, leader_epoch=3)
    assert error is not None
    assert (error.partition, error.offset, error.origin) == (T0, 102, "value")
    assert (error.key_data, error.value_data, error.headers) == (b"3", b"{", ())
    assert error.timestamp == 1_700_000_000_002
    assert isinstance(error.__cause__, json.JSONDecodeError)
    assert "cannot deserialize the value of orders-0 at offset 102: JSONDecodeError" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_failure_in_the_first_row_leaves_the_position_in_front_of_it() -> None:
    good, error = deserialize_chunk(chunk_of([(b"x", b"1", ())]), Deserializers(key=int, value=int))
    assert (len(good), good.next) == (0, OffsetAndMetadata(100))
    assert error is not None
    assert error.origin == "key"


@pytest.mark.parametrize(
    ("rows", "origin", "offset"),
    [
        ([(b"1", b"x", ()), (b"x", b"1", ())], "value", 100),
        ([(b"x", b"1", ()), (b"1", b"x", ())], "key", 100),
        ([(b"1", b"1", ()), (b"x", b"x", ())], "key", 101),
    ],
)
def test_the_earlier_failure_counts_and_the_key_comes_first(rows: list[Row], origin: str, offset: int) -> None:
    error = deserialize_chunk(chunk_of(rows), Deserializers(key=int, value=int))[1]
    assert error is not None
    assert (error.origin, error.offset) == (origin, offset)


def test_the_error_names_the_record_and_an_object_may_fail_too() -> None:
    rows: list[Row] = [(b"ok", None, ()), (b"\xff", None, (Header("h", b"v"),))]
    with pytest.raises(
        RecordDeserializationError, match="the key of orders-0 at offset 101: UnicodeDecodeError"
    ) as bad:
        make_records(chunk_of(rows), Deserializers(key=Decoding()))
    assert bad.value.headers == (Header("h", b"v"),)
    assert isinstance(bad.value.__cause__, UnicodeDecodeError)


# --- Arrow ---------------------------------------------------------------------------------------------------


def test_the_table_has_sparks_schema_and_every_field() -> None:
    table = Records([chunk_of(ROWS), chunk_of(ROWS[:1], OTHER)]).to_arrow()
    table.validate(full=True)
    assert table.schema.equals(SCHEMA)
    assert [str(field.type) for field in SCHEMA] == [
        "binary",
        "binary",
        "string",
        "int32",
        "int64",
        "timestamp[us, tz=UTC]",
        "int32",
        "list<element: struct<key: string, value: binary>>",
    ]
    assert table["key"].to_pylist() == [b"k1", None, b"k3", b"k1"]
    assert table["value"].to_pylist() == [b"value one", b"", None, b"value one"]
    assert table["topic"].to_pylist() == ["orders"] * 3 + ["clicks"]
    assert table["partition"].to_pylist() == [0, 0, 0, 0]
    assert table["offset"].to_pylist() == [100, 101, 102, 100]
    assert table["timestamp"].cast(pa.int64()).to_pylist()[:2] == [1_700_000_000_000_000, 1_700_000_000_001_000]
    assert table["timestampType"].to_pylist() == [0, 0, 0, 0]
    assert table["headers"].to_pylist() == [
        None,
        [{"key": "trace", "value": b"abc"}, {"key": "trace", "value": None}],
        [{"key": "n", "value": b""}],
        None,
    ]


@pytest.mark.parametrize("values", [[b"one", b"two", b"end"], [b"x"] * 3, [b"", b"", b""], [b"a", None, b"b"]])
def test_values_of_one_length_and_of_several_come_out_whole(values: list[bytes | None]) -> None:
    chunk = chunk_of([(value, value, (Header("name", value),)) for value in values])
    table = Records([chunk]).to_arrow()
    table.validate(full=True)
    assert table["key"].to_pylist() == table["value"].to_pylist() == values
    assert [header["value"] for headers in table["headers"].to_pylist() for header in headers] == values


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_copies_have_the_same_records(copied: Callable[[Any], Any], few: bool) -> None:
    """Those of a slice had no length, and those of few records no rows: both make their arrays when they are asked."""
    chunk = chunk_of(ROWS)
    columns = FewColumns(b"ab", [row(5), row(6)]) if few else chunk.columns.slice(1, 3)
    part = replace(chunk, columns=columns)
    records = copied(Records([part]))
    assert (len(records), list(records)) == (2, list(part))
    assert len(copied(part).columns) == len(copied(part.columns)) == 2


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (1, 3), (1, 2), (2, 3), (0, 1), (1, 1)])
def test_another_process_gets_the_same_records(start: int, stop: int) -> None:
    records = Records([replace(chunk_of(ROWS), columns=chunk_of(ROWS).columns.slice(start, stop))], lost=[T1])
    found = pickled(records)
    assert (list(found), found.lost, found.next_offsets()) == (list(records), records.lost, records.next_offsets())
    assert found.to_arrow().equals(records.to_arrow())
    assert list(pickled(found)) == list(records)


def test_another_process_gets_what_was_deserialized() -> None:
    chunk, _ = deserialize_chunk(chunk_of(ROWS), Deserializers(key=bytes.upper, value=len))
    records = pickled(Records([chunk]))
    assert [(record.key, record.value) for record in records] == [(b"K1", 9), (None, 0), (b"K3", None)]


def test_of_a_large_buffer_only_its_own_rows_go_to_another_process() -> None:
    rows: list[Row] = [(b"key", b"v" * 1000, (Header("n", b"h" * 100),)) for _ in range(1000)]
    columns = chunk_of(rows).columns
    for few in (columns.slice(500, 510), columns.slice(0, 0)):
        assert len(pickle.dumps(few)) < 20_000
        assert pickled(few).values() == few.values()
    assert pickled(columns.slice(500, 510)).headers() == columns.slice(500, 510).headers()


def row(offset: int) -> _Row:
    return _Row(offset, 1, 0, -1, 0, 1, 1, 1)


def test_a_slice_becomes_the_rows_of_the_slice() -> None:
    chunk = chunk_of(ROWS)
    part = PartitionRecords[bytes, bytes](topic_partition=T0, columns=chunk.columns.slice(1, 3), next=chunk.next)
    table = Records([part]).to_arrow()
    table.validate(full=True)
    assert table.to_pylist() == Records([chunk]).to_arrow().to_pylist()[1:]


def parts_of(chunk: PartitionRecords[bytes, bytes], size: int) -> list[PartitionRecords[bytes, bytes]]:
    """What several polls return of it."""
    return [
        replace(chunk, columns=chunk.columns.slice(start, start + size)) for start in range(0, len(chunk.columns), size)
    ]


def test_small_polls_share_the_conversion_of_what_was_decoded_together() -> None:
    rows: list[Row] = [(b"k%d" % number, b"v" * number, (Header("n", b"%d" % number),)) for number in range(40)]
    chunk = chunk_of(rows)
    polls = [Records([part]).to_arrow() for part in parts_of(chunk, 8)]
    for table in polls:
        table.validate(full=True)
    assert pa.concat_tables(polls).equals(Records([chunk]).to_arrow())
    places = {table["value"].chunk(0).buffers()[2].address for table in polls}
    assert len(places) == 1


def test_what_small_polls_share_is_gone_with_the_last_of_them() -> None:
    chunk = chunk_of([(None, b"value", ()) for _ in range(40)])
    polls = parts_of(chunk, 10)
    tables = [Records([part]).to_arrow() for part in polls]
    shared = weakref.ref(chunk.columns)
    del chunk
    assert shared() is not None
    del polls
    assert shared() is None
    assert pa.concat_tables(tables)["value"].to_pylist() == [b"value"] * 40


def test_a_timestamp_that_arrow_cannot_hold_fails_only_the_poll_that_has_it() -> None:
    chunk = chunk_of([(None, b"v%d" % number, ()) for number in range(40)])
    chunk.columns.timestamps[25] = 2**62
    first, second, third, *_ = parts_of(chunk, 10)
    assert Records([first, second]).to_arrow()["value"].to_pylist() == [b"v%d" % number for number in range(20)]
    with pytest.raises(CorruptRecordError, match="orders-0 at offset 125"):
        Records([third]).to_arrow()


def test_a_slice_without_headers_of_a_chunk_with_some_has_none() -> None:
    part = PartitionRecords[bytes, bytes](
        topic_partition=T0, columns=chunk_of(ROWS).columns.slice(0, 1), next=OffsetAndMetadata(101)
    )
    assert part.columns.headers() == [()]
    assert Records([part]).to_arrow()["headers"].to_pylist() == [None]


def test_no_records_are_an_empty_table_of_the_schema() -> None:
    table = Records([chunk_of([])]).to_arrow()
    assert (table.num_rows, table.schema) == (0, SCHEMA)


def test_a_chunk_that_spans_too_much_is_split() -> None:
    rows: list[Row] = [(b"k", bytes([number]) * 40, ()) for number in range(9)]
    batches = list(to_batches(chunk_of(rows), max_span_bytes=100))
    assert len(batches) > 3
    assert pa.Table.from_batches(batches)["value"].to_pylist() == [value for _, value, _ in rows]


def test_header_names_that_are_not_utf8_are_replaced_in_arrow_as_in_records() -> None:
    rows: list[Row] = [(None, b"v", (Header("a\xffb", b"x"), Header("plain", None)))]
    records = Records([chunk_of(rows)])
    (headers,) = records.to_arrow()["headers"].to_pylist()
    assert [header["key"] for header in headers] == ["a\N{REPLACEMENT CHARACTER}b", "plain"]
    assert [header.key for header in next(iter(records)).headers] == ["a\N{REPLACEMENT CHARACTER}b", "plain"]


def test_a_timestamp_beyond_arrows_microseconds_is_named() -> None:
    chunk = chunk_of(ROWS)
    chunk.columns.timestamps[1] = 2**62
    with pytest.raises(CorruptRecordError, match=r"orders-0 at offset 101: its timestamp 4611686018427387904 ms"):
        Records([chunk]).to_arrow()


def test_deserialized_records_still_give_the_bytes_of_the_log() -> None:
    good, _ = deserialize_chunk(chunk_of(ROWS), Deserializers[bytes, int](value=len))
    assert Records([good]).to_arrow()["value"].to_pylist() == [b"value one", b"", None]


def test_missing_pyarrow_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "kwire.fetching.arrow")
    with pytest.raises(ImportError, match=r"kwire\[arrow\]"):
        Records([chunk_of(ROWS)]).to_arrow()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_data_frame_library_is_an_error_that_names_the_extra(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    records = Records([chunk_of(ROWS)])
    convert = records.to_pandas if library == "pandas" else records.to_polars
    with pytest.raises(ImportError, match=rf"needs {library}; install it with: pip install 'kwire\[{library}\]'"):
        convert()


def test_a_column_of_nulls_is_typed_all_the_same() -> None:
    rows: list[Row] = [(None, b"v", ()), (None, b"w", ())]
    table = Records([chunk_of(rows)]).to_arrow()
    table.validate(full=True)
    assert table["key"].to_pylist() == [None, None]
    assert table["key"].type == pa.binary()


# --- data frames: loading pandas or polars for the first time takes its time ----------------------------------


@pytest.mark.slow
def test_a_pandas_frame_has_a_row_for_each_record() -> None:
    frame = Records([chunk_of(ROWS), chunk_of(ROWS[:1], OTHER)]).to_pandas()
    assert list(frame.columns) == SCHEMA.names
    assert frame.index.tolist() == [0, 1, 2, 3]
    assert frame["key"].tolist() == [b"k1", None, b"k3", b"k1"]
    assert frame["value"].tolist() == [b"value one", b"", None, b"value one"]
    assert frame["topic"].tolist() == ["orders"] * 3 + ["clicks"]
    assert [str(frame[name].dtype) for name in ("partition", "offset", "timestampType")] == ["int32", "int64", "int32"]
    assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"
    assert frame["timestamp"][1].timestamp() == 1_700_000_000.001
    assert frame["headers"][0] is None
    assert list(frame["headers"][1]) == [{"key": "trace", "value": b"abc"}, {"key": "trace", "value": None}]


@pytest.mark.slow
def test_a_polars_frame_has_a_row_for_each_record() -> None:
    import polars as pl

    frame = Records([chunk_of(ROWS), chunk_of(ROWS[:1], OTHER)]).to_polars()
    assert dict(frame.schema) == {
        "key": pl.Binary(),
        "value": pl.Binary(),
        "topic": pl.String(),
        "partition": pl.Int32(),
        "offset": pl.Int64(),
        "timestamp": pl.Datetime("us", "UTC"),
        "timestampType": pl.Int32(),
        "headers": pl.List(pl.Struct({"key": pl.String(), "value": pl.Binary()})),
    }
    assert frame["value"].to_list() == [b"value one", b"", None, b"value one"]
    assert frame["offset"].to_list() == [100, 101, 102, 100]
    assert frame["headers"].to_list()[1] == [{"key": "trace", "value": b"abc"}, {"key": "trace", "value": None}]


@pytest.mark.slow
def test_no_records_are_empty_frames_with_every_column() -> None:
    records = Records[bytes, bytes]()
    pandas_frame, polars_frame = records.to_pandas(), records.to_polars()
    assert (len(pandas_frame), list(pandas_frame.columns)) == (0, SCHEMA.names)
    assert (len(polars_frame), polars_frame.columns) == (0, SCHEMA.names)
