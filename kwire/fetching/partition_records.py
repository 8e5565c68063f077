"""Some records of one partition: a slice of columns, and the position behind it.

What the collector makes and `Records` is made of; the rows are made here, in C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from kwire.epochs import AssignmentEpoch
from kwire.model import (
    Cursor,
    K,
    OffsetAndMetadata,
    Record,
    TimestampType,
    TopicPartition,
    V,
    leader_epoch_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from kwire.errors import RecordDeserializationError
    from kwire.events import Delivered
    from kwire.protocol.record_columns import RecordColumns

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

    def __len__(self) -> int:
        return len(self.columns.offsets)

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
# when it is not kept. Measured: rows with headers take a third longer with 4,096 than with 1,024; others the same. Rows
# of 1,000 bytes take a tenth less by half a MiB at a time than by 2,048. Making a block costs as much as copying out
# some large values, so it has a few at least.
_BLOCK_ROWS = 2048
_BLOCK_BYTES = 512 * 1024
_LEAST_BLOCK_ROWS = 8
# Comparing takes numpy as long as so many calls.
_FEW_ROWS = 16


def iter_records(chunk: PartitionRecords[K, V]) -> Iterator[Record[K, V]]:
    """The rows as records, made block by block as they are asked for."""
    rows = _block_rows(chunk)
    return chain.from_iterable(map(partial(_block, chunk, rows), range(0, len(chunk), rows)))


def _block_rows(chunk: PartitionRecords[K, V]) -> int:
    """How many rows make a block."""
    starts = chunk.columns.value_starts
    stretch_bytes = int(starts[-1] - starts[0]) if len(starts) else 0
    rows = len(starts) * _BLOCK_BYTES // max(1, stretch_bytes)
    return max(_LEAST_BLOCK_ROWS, min(_BLOCK_ROWS, rows))


def _block(chunk: PartitionRecords[K, V], rows: int, start: int) -> Iterator[Record[K, V]]:
    """The records of a block.

    Columns become lists, `zip` makes tuples of them and `tuple.__new__` records of those: no line of Python runs per
    record. What is the same in all rows, as timestamp type, epoch and the size of null keys are, is not even a list.
    """
    stop = start + rows
    columns = chunk.columns.slice(start, stop)
    keys, values = chunk.deserialized_keys, chunk.deserialized_values
    fields: tuple[Iterable[object], ...] = (
        repeat(chunk.topic_partition.topic),
        repeat(chunk.topic_partition.partition),
        columns.offsets.tolist(),
        columns.timestamps.tolist(),
        _meanings(columns.timestamp_types, _TIMESTAMP_TYPES.__getitem__),
        columns.keys() if keys is None else keys[start:stop],
        columns.values() if values is None else values[start:stop],
        columns.headers(),
        _meanings(columns.leader_epochs, leader_epoch_or_none),
        _meanings(columns.key_lengths, int),
        _meanings(columns.value_lengths, int),
    )
    return cast("Iterator[Record[K, V]]", map(tuple.__new__, repeat(Record), zip(*fields, strict=False)))


def _meanings(
    numbers: NDArray[np.int8] | NDArray[np.int32] | NDArray[np.int64], meaning: Callable[[int], T]
) -> Iterable[T]:
    if len(numbers) > _FEW_ROWS and (numbers == numbers[0]).all():
        return repeat(meaning(int(numbers[0])))
    return map(meaning, numbers.tolist())
