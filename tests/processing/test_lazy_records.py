"""Records that are made when it is their turn: the same records, whatever is cut off in front or behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import OffsetAndMetadata, TopicPartition
from kwire.fetching.partition_records import PartitionRecords
from kwire.processing.lazy_records import LazyRecords, with_keys
from kwire.protocol.record_columns import RecordColumns

TP = TopicPartition("orders", 3)
LETTERS = b"abcdefghij"


def chunk(first: int, count: int) -> PartitionRecords[bytes, bytes]:
    """Keys of one letter, values of two; each third has neither."""
    is_null = np.arange(first, first + count) % 3 == 2
    places = np.arange(first, first + count, dtype=np.int64) % (len(LETTERS) - 1)
    columns = RecordColumns(
        buffer=LETTERS,
        offsets=np.arange(first, first + count, dtype=np.int64),
        timestamps=np.full(count, 5, dtype=np.int64),
        timestamp_types=np.zeros(count, dtype=np.int8),
        leader_epochs=np.full(count, 7, dtype=np.int32),
        key_starts=places,
        key_lengths=np.where(is_null, -1, 1),
        value_starts=places,
        value_lengths=np.where(is_null, -1, 2),
    )
    return PartitionRecords(topic_partition=TP, columns=columns, next=OffsetAndMetadata(first + count))


def rows_of(*counts: int) -> LazyRecords[bytes, bytes]:
    chunks, first = [], 10
    for count in counts:
        chunks.append(chunk(first, count))
        first += count
    return LazyRecords(chunks)


def test_they_are_made_each_time_anew() -> None:
    rows = rows_of(3)
    assert list(rows) == list(rows)
    assert next(iter(rows)) is not next(iter(rows))
    assert (rows[1].topic, rows[1].partition, rows[1].offset, rows[1].leader_epoch) == ("orders", 3, 11, 7)
    assert rows.topic_partition == TP


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=4), data=st.data())
def test_a_part_of_them_is_that_part(counts: list[int], data: st.DataObject) -> None:
    rows = rows_of(*counts)
    records = list(rows)
    start = data.draw(st.integers(0, len(records)))
    stop = data.draw(st.integers(0, len(records)))
    part = rows[start:stop]
    wanted = records[start:stop]
    assert list(part) == wanted
    assert len(part) == len(wanted)
    assert part.offsets() == [record.offset for record in wanted]
    assert part.keys() == [record.key for record in wanted]
    assert part.size_bytes() == sum(each.serialized_key_size + each.serialized_value_size for each in wanted)
    assert [rows[at] for at in range(-len(records), len(records))] == records * 2


def test_those_behind_them_go_on() -> None:
    first, second = rows_of(4), LazyRecords([chunk(14, 3)])
    assert list(first + second) == [*first, *second]


def test_there_is_none_behind_the_last() -> None:
    with pytest.raises(IndexError):
        rows_of(2)[2]


def test_keys_that_somebody_has_looked_at_are_those_of_the_records() -> None:
    looked_at = with_keys(chunk(0, 4))
    rows = LazyRecords([looked_at])
    assert with_keys(looked_at) is looked_at
    assert all(record.key is key for record, key in zip(rows, rows.keys(), strict=True))
    assert list(rows[1:3]) == list(LazyRecords([chunk(0, 4)]))[1:3]
