"""Some records of one partition: a slice of columns, and the position behind it.

What the collector makes and `Records` is made of; the rows are made here, in C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from kwire.model import NO_LEADER_EPOCH, K, OffsetAndMetadata, Record, TimestampType, TopicPartition, V

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from kwire.protocol.record_columns import RecordColumns

T = TypeVar("T")


# Not slotted: a frozen slotted generic cannot be made as X[bytes, bytes](...) before Python 3.12 (its __setattr__ looks
# for the class from before the slots were added, and fails with TypeError).
@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionRecords(Generic[K, V]):
    """Some records of one partition, in offset order.

    `next` is the position behind them: what to commit once they are processed (KIP-1094). It may lie beyond the last
    record, and there may be no record at all, when compaction, an aborted transaction or control batches took them.
    Without deserializers keys and values are the bytes in `columns`, K and V are bytes, and both lists are None.
    """

    topic_partition: TopicPartition
    columns: RecordColumns
    next: OffsetAndMetadata
    deserialized_keys: Sequence[K | None] | None = None
    deserialized_values: Sequence[V | None] | None = None

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


def iter_records(chunk: PartitionRecords[K, V]) -> Iterator[Record[K, V]]:
    """The rows as records.

    Columns become lists, `zip` makes tuples of them and `tuple.__new__` records of those: no line of Python runs per
    record. What is the same in all rows, as timestamp type, epoch and the size of null keys are, is not even a list.
    """
    columns = chunk.columns
    fields: tuple[Iterable[object], ...] = (
        repeat(chunk.topic_partition.topic),
        repeat(chunk.topic_partition.partition),
        columns.offsets.tolist(),
        columns.timestamps.tolist(),
        _meanings(columns.timestamp_types, _TIMESTAMP_TYPES.__getitem__),
        chunk.keys(),
        chunk.values(),
        columns.headers(),
        _meanings(columns.leader_epochs, epoch_or_none),
        _meanings(columns.key_lengths, int),
        _meanings(columns.value_lengths, int),
    )
    return cast("Iterator[Record[K, V]]", map(tuple.__new__, repeat(Record), zip(*fields, strict=False)))


def epoch_or_none(epoch: int) -> int | None:
    """A leader epoch as users see it."""
    return None if epoch == NO_LEADER_EPOCH else epoch


def _meanings(
    numbers: NDArray[np.int8] | NDArray[np.int32] | NDArray[np.int64], meaning: Callable[[int], T]
) -> Iterable[T]:
    if not len(numbers) or (numbers == numbers[0]).all():
        return repeat(meaning(int(numbers[0]))) if len(numbers) else ()
    return map(meaning, numbers.tolist())
