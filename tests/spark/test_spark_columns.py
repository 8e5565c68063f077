"""Records become Arrow batches of exactly the schema that Spark compares with, whatever is in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from kwire.fetching.partition_records import PartitionRecords
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.record_columns import RecordColumns
from kwire.protocol.record_headers import HeaderColumns
from kwire.spark.columns import MAX_BYTES, ArrowBatches
from kwire.spark.errors import MalformedTimestampError
from kwire.spark.source import spark_schema

TP = TopicPartition("caf\u00e9", 7)
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def spans(pieces: list[bytes | None], data: bytearray) -> tuple[Ints, Ints]:
    """Where the pieces are, once they are in the data."""
    starts, lengths = [], []
    for piece in pieces:
        starts.append(len(data))
        lengths.append(-1 if piece is None else len(piece))
        data += (piece or b"") + b"."
    return np.array(starts, dtype=np.int64), np.array(lengths, dtype=np.int64)


def chunk(
    values: list[bytes | None],
    *,
    keys: list[bytes | None] | None = None,
    headers: list[list[tuple[bytes, bytes | None]]] | None = None,
) -> PartitionRecords[bytes, bytes]:
    data = bytearray(b"....")
    places = []
    for key, value in zip(keys or [None] * len(values), values, strict=True):
        places.append((spans([key], data), spans([value], data)))
    flat = [header for each in headers or [] for header in each]
    names, contents = spans([name for name, _ in flat], data), spans([content for _, content in flat], data)
    columns = RecordColumns(
        buffer=bytes(data),
        offsets=np.arange(100, 100 + len(values), dtype=np.int64),
        timestamps=np.arange(len(values), dtype=np.int64) + 1_700_000_000_000,
        timestamp_types=np.zeros(len(values), dtype=np.int8),
        leader_epochs=np.zeros(len(values), dtype=np.int32),
        key_starts=np.array([key[0][0] for key, _ in places], dtype=np.int64),
        key_lengths=np.array([key[1][0] for key, _ in places], dtype=np.int64),
        value_starts=np.array([value[0][0] for _, value in places], dtype=np.int64),
        value_lengths=np.array([value[1][0] for _, value in places], dtype=np.int64),
        headers_at=None
        if headers is None
        else HeaderColumns(
            first=np.cumsum([0, *map(len, headers)]),
            key_starts=names[0],
            key_lengths=names[1],
            value_starts=contents[0],
            value_lengths=contents[1],
        ),
    )
    next_offset = OffsetAndMetadata(100 + len(values))
    return PartitionRecords(topic_partition=TP, columns=columns, next=next_offset)


def table(records: PartitionRecords[bytes, bytes], *, include_headers: bool = False) -> pa.Table:
    return pa.Table.from_batches(ArrowBatches(TP, include_headers=include_headers).of(records))


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_schema_is_the_one_that_spark_compares_with(include_headers: bool) -> None:
    wanted = to_arrow_schema(spark_schema(include_headers=include_headers), timezone="UTC")
    (batch,) = ArrowBatches(TP, include_headers=include_headers).of(chunk([b"a"]))
    assert batch.schema.equals(wanted)


def test_every_column() -> None:
    rows = table(chunk([b"a", None, b""], keys=[None, b"k", b""])).to_pydict()
    assert rows.pop("timestamp")[0].timestamp() == 1_700_000_000
    assert rows == {
        "key": [None, b"k", b""],
        "value": [b"a", None, b""],
        "topic": ["caf\u00e9"] * 3,
        "partition": [7] * 3,
        "offset": [100, 101, 102],
        "timestampType": [0] * 3,
    }


def test_batches_after_each_other_share_what_is_constant_and_nothing_else() -> None:
    batches = ArrowBatches(TP, include_headers=False)
    small, large = chunk([b"a"]), chunk([b"%d" % n for n in range(5_000)], keys=[b"k"] * 5_000)
    found = [pa.Table.from_batches(batches.of(each)) for each in (small, large, small)]
    assert [len(each) for each in found] == [1, 5_000, 1]
    assert found[0].equals(found[2])
    assert found[1]["key"].null_count == 0
    assert found[1]["topic"].unique().to_pylist() == ["caf\u00e9"]


def test_headers_are_null_where_there_are_none_and_never_empty() -> None:
    headers: list[list[tuple[bytes, bytes | None]]] = [[(b"h", b"1"), (b"h", None)], [], [(b"\xff\xfe", b"")]]
    rows = table(chunk([b"a"] * 3, headers=headers), include_headers=True)
    assert rows["headers"].to_pylist() == [
        [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        None,
        [{"key": "\ufffd\ufffd", "value": b""}],
    ]
    assert table(chunk([b"a"]), include_headers=True)["headers"].to_pylist() == [None]


def test_each_record_keeps_its_kind_of_timestamp() -> None:
    records = chunk([b"a"] * 3)
    mixed = replace(records, columns=replace(records.columns, timestamp_types=np.array([-1, 0, 1], dtype=np.int8)))
    assert table(mixed)["timestampType"].to_pylist() == [-1, 0, 1]


def at_times(*times: int) -> PartitionRecords[bytes, bytes]:
    records = chunk([b"a"] * len(times))
    return replace(records, columns=replace(records.columns, timestamps=np.array(times, dtype=np.int64)))


def test_no_timestamp_is_one_millisecond_before_1970_as_with_spark() -> None:
    assert table(at_times(-1))["timestamp"].cast(pa.int64()).to_pylist() == [-1_000]


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63) + 1, 9_223_372_036_854_776, -(2**63)])
def test_a_timestamp_that_is_in_the_wrong_unit_is_named_with_its_place(time: int) -> None:
    with pytest.raises(MalformedTimestampError, match=f"partition 7 offset 101 has timestamp value {time}"):
        table(at_times(0, time))


def test_large_chunks_come_in_several_batches() -> None:
    records = chunk([bytes(MAX_BYTES // 8)] * 20)
    batches = list(ArrowBatches(TP, include_headers=False).of(records))
    assert len(batches) >= 3
    assert all(batch.nbytes <= 1.1 * MAX_BYTES for batch in batches)
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(100, 120))


def test_no_records_are_no_batch() -> None:
    assert list(ArrowBatches(TP, include_headers=False).of(chunk([]))) == []
