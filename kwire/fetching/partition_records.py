"""Some records of one partition: a slice of columns, and the position behind it.

What the collector makes and `Records` is made of; the rows are made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from operator import length_hint
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from kwire import speedups
from kwire.epochs import AssignmentEpoch
from kwire.model import (
    Cursor,
    Header,
    K,
    OffsetAndMetadata,
    Record,
    TimestampType,
    TopicPartition,
    V,
    leader_epoch_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    from kwire.errors import RecordDeserializationError
    from kwire.events import Delivered
    from kwire.protocol.record_columns import RecordColumns, Row

T = TypeVar("T")
NO_EPOCH = AssignmentEpoch(-1)


# Not slotted: a frozen slotted generic cannot be made as X[bytes, bytes](...) before Python 3.12 (its __setattr__ looks
# for the class from before the slots were added, and fails with TypeError).
@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionRecords(Generic[K, V]):
    """Some records of one partition, in offset order.

    `next` is the position behind them: what to commit once they are processed (KIP-1094). It may lie beyond the last
    record, and there may be no record at all, when compaction, an aborted transaction or control batches took them.
    Without deserializers keys and values are the bytes in `columns`, K and V are bytes, and both lists are None.
    `cursor` has read them, in the assignment epoch `epoch`, which names the cursor as well: no two have the same.
    `failures` has, by row, why a key or value could not be deserialized, where a `Processor` asked for such records as
    well: they have the raw bytes in its place. Nobody else gets them.
    """

    topic_partition: TopicPartition
    columns: RecordColumns
    next: OffsetAndMetadata
    deserialized_keys: Sequence[K | None] | None = None
    deserialized_values: Sequence[V | None] | None = None
    cursor: Cursor = Cursor.MAIN
    epoch: AssignmentEpoch = NO_EPOCH
    failures: Mapping[int, RecordDeserializationError] | None = None

    @property
    def delivered(self) -> Delivered:
        """What is told of these records once the application is through with them."""
        return self.topic_partition, self.epoch, self.next

    @property
    def first_position(self) -> OffsetAndMetadata:
        """Where the first record is. There must be one."""
        return OffsetAndMetadata(self.columns.first_offset, leader_epoch=leader_epoch_or_none(self.columns.epoch_at(0)))

    def position_behind(self, row: int) -> OffsetAndMetadata:
        """What to commit once the record in this row is processed."""
        if row + 1 == len(self):
            return self.next
        epoch = leader_epoch_or_none(self.columns.epoch_at(row))
        return OffsetAndMetadata(self.columns.offset_at(row) + 1, leader_epoch=epoch)

    def behind(self, row: int) -> PartitionRecords[K, V]:
        """The records behind the one in this row."""
        keys, values = self.deserialized_keys, self.deserialized_values
        return replace(
            self,
            columns=self.columns.slice(row + 1, len(self)),
            deserialized_keys=None if keys is None else keys[row + 1 :],
            deserialized_values=None if values is None else values[row + 1 :],
            failures={at - row - 1: error for at, error in (self.failures or {}).items() if at > row} or None,
        )

    def up_to(self, row: int) -> PartitionRecords[K, V]:
        """The records up to the one in this row, which is one of them."""
        keys, values, end = self.deserialized_keys, self.deserialized_values, row + 1
        return replace(
            self,
            columns=self.columns.slice(0, end),
            next=self.position_behind(row),
            deserialized_keys=None if keys is None else keys[:end],
            deserialized_values=None if values is None else values[:end],
            failures={at: error for at, error in (self.failures or {}).items() if at < end} or None,
        )

    def __len__(self) -> int:
        return len(self.columns)

    def keys(self) -> Sequence[K | None]:
        """All keys."""
        if self.deserialized_keys is not None:
            return self.deserialized_keys
        return cast("list[K | None]", self.columns.keys())

    def values(self) -> Sequence[V | None]:
        """All values."""
        if self.deserialized_values is not None:
            return self.deserialized_values
        return cast("list[V | None]", self.columns.values())

    def __iter__(self) -> Iterator[Record[K, V]]:
        return iter_records(self)


_TIMESTAMP_TYPES = {member.value: member for member in TimestampType}


# Rows are made in blocks: what one takes still lies in the processor's cache when it is used, and is free for the next
# when it is not kept. A block of many objects is looked through by Python's collector again and again while it is made:
# measured, rows with ten headers take half as long again with 450 or more as with 370. Others are slower below 1,024.
_BLOCK_ROWS = 2048
_MIN_BLOCK_ROWS = 256
_BLOCK_OBJECTS = 4096


def iter_records(chunk: PartitionRecords[K, V]) -> Iterator[Record[K, V]]:
    """The rows as records, made one by one, or block by block, as they are asked for. `length_hint` says how many are
    left."""
    few = chunk.columns.few_rows
    if few is not None:
        return iter(_records_of_few(chunk, few))
    if speedups.module is not None:
        return _records_in_c(chunk, speedups.module)
    each = _rows_of_block(chunk.columns)
    blocks = map(partial(_block, chunk, each), range(0, len(chunk), each))
    rows = chain.from_iterable(chain.from_iterable(blocks))
    return cast("Iterator[Record[K, V]]", _CountedRows(rows, len(chunk)))


class _CountedRows(map):  # type: ignore[type-arg]
    """A `map` that makes records of rows, and can tell how many are left."""

    _types: Iterator[object]

    def __new__(cls, rows: Iterator[tuple[object, ...]], count: int) -> _CountedRows:
        types = repeat(Record, count)
        made = super().__new__(cls, tuple.__new__, types, rows)
        made._types = types
        return made

    def __length_hint__(self) -> int:
        return length_hint(self._types)


def _records_in_c(chunk: PartitionRecords[K, V], module: ModuleType) -> Iterator[Record[K, V]]:
    from kwire.protocol.text import text_of  # `import kwire` does without the protocol

    topic, partition = chunk.topic_partition
    whole, start = chunk.columns.part_of or (chunk.columns, 0)
    records: Iterator[Record[K, V]] = module.RecordIterator(
        Record,
        Header,
        _TIMESTAMP_TYPES,
        text_of,
        topic,
        partition,
        chunk.deserialized_keys,
        chunk.deserialized_values,
        start,
        start + len(chunk),
        whole.arrays(),
    )
    return records


def _rows_of_block(columns: RecordColumns) -> int:
    at = columns.headers_at
    if at is None:
        return _BLOCK_ROWS
    objects_of_each = 1 + int(at.first[-1] - at.first[0]) // max(1, len(columns))
    return max(_MIN_BLOCK_ROWS, min(_BLOCK_ROWS, _BLOCK_OBJECTS // objects_of_each))


def _records_of_few(chunk: PartitionRecords[K, V], rows: Sequence[Row]) -> list[Record[K, V]]:
    topic, partition = chunk.topic_partition
    each = zip(rows, chunk.keys(), chunk.values(), chunk.columns.headers(), strict=True)
    return [
        Record(
            topic,
            partition,
            row.offset,
            row.timestamp,
            _TIMESTAMP_TYPES[row.timestamp_type],
            key,
            value,
            headers,
            leader_epoch_or_none(row.leader_epoch),
            row.key_length,
            row.value_length,
        )
        for row, key, value, headers in each
    ]


def _block(chunk: PartitionRecords[K, V], rows: int, start: int) -> Iterator[Iterator[tuple[object, ...]]]:
    """The fields of the records of a block, some hundred at a time.

    Columns become lists and `zip` makes tuples of them: no line of Python runs per record. What is the same in all
    rows, as timestamp type, epoch and the size of null keys are, is not even a list.
    """
    columns = chunk.columns.slice(start, start + rows)
    same = columns.constants()
    topic, partition = chunk.topic_partition
    before = (repeat(partition), *map(iter, (columns.offsets.tolist(), columns.timestamps.tolist())))
    types = _each(same.timestamp_type, columns.timestamp_types, _TIMESTAMP_TYPES.__getitem__)
    behind = (
        iter(columns.headers()),
        _each(same.leader_epoch, columns.leader_epochs, leader_epoch_or_none),
        _each(same.key_length, columns.key_lengths),
        _each(same.value_length, columns.value_lengths),
    )
    for keys, values in _keys_and_values(chunk, columns, start):
        # `zip` asks for the topic first, which comes as often as there are keys. So when they are used up, it takes
        # nothing from the iterators that go on with the next ones.
        yield zip(repeat(topic, len(keys)), *before, types, keys, values, *behind, strict=False)


def _keys_and_values(
    chunk: PartitionRecords[K, V], columns: RecordColumns, start: int
) -> Iterator[Sequence[Sequence[object]]]:
    """Keys and values of a block, which has rows, some hundred at a time."""
    keys, values, stop = chunk.deserialized_keys, chunk.deserialized_values, start + len(columns)
    if keys is None and values is None:
        return columns.keys_and_values()
    whole = (
        columns.keys() if keys is None else keys[start:stop],
        columns.values() if values is None else values[start:stop],
    )
    return iter([whole])


def _each(
    same: int | None, numbers: NDArray[np.integer], meaning: Callable[[int], object] | None = None
) -> Iterator[object]:
    """What each of these numbers means."""
    if same is not None:
        return repeat(same if meaning is None else meaning(same))
    each: list[int] = numbers.tolist()
    return iter(each) if meaning is None else map(meaning, each)
