"""Records of one partition that nobody has made yet: a worker makes each when it is its turn, and it is gone with it.

With a handler that takes no time, most of the cost is making records and keeping them: records that wait grow old, and
collecting garbage then costs more than the handler. Contract: immutable; everything but records comes from columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, Record, TopicPartition, V

# For fewer, slicing columns takes longer than making all records at once.
FEW_ROWS = 64


class LazyRecords(Sequence[Record[K, V]]):
    """A sequence of records that are made when they are looked at.

    Args:
        chunks: In order; each has at least one record.
        offsets: Theirs, if somebody has them.
    """

    __slots__ = ("_chunks", "_count", "_offsets", "_size_bytes")

    def __init__(self, chunks: Iterable[PartitionRecords[K, V]], offsets: list[int] | None = None) -> None:
        self._chunks = tuple(chunks)
        self._count = sum(map(len, self._chunks))
        self._offsets = offsets
        self._size_bytes: int | None = None  # asked for when they come, and when they are done with

    @property
    def topic_partition(self) -> TopicPartition:
        return self._chunks[0].topic_partition

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Makes them, each time anew."""
        return chain.from_iterable(self._chunks)

    @overload
    def __getitem__(self, at: int) -> Record[K, V]: ...
    @overload
    def __getitem__(self, at: slice) -> LazyRecords[K, V]: ...
    def __getitem__(self, at: int | slice) -> Record[K, V] | LazyRecords[K, V]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._count)
            assert step == 1
            return self if stop - start == self._count else LazyRecords(self._between(start, stop))
        start = range(self._count)[at]
        return next(iter(LazyRecords(self._between(start, start + 1))))

    def _between(self, start: int, stop: int) -> Iterator[PartitionRecords[K, V]]:
        for chunk in self._chunks:
            count = len(chunk)
            first, end = max(start, 0), min(stop, count)
            if first < end:
                yield chunk if end - first == count else _sliced(chunk, first, end)
            start, stop = start - count, stop - count

    def __add__(self, others: LazyRecords[K, V]) -> LazyRecords[K, V]:
        """These records, and others that follow them."""
        are_known = self._offsets is not None and others._offsets is not None
        both = LazyRecords(
            (*self._chunks, *others._chunks), [*self.offsets(), *others.offsets()] if are_known else None
        )
        if self._size_bytes is not None and others._size_bytes is not None:
            both._size_bytes = self._size_bytes + others._size_bytes
        return both

    def offsets(self) -> list[int]:
        if self._offsets is None:
            self._offsets = list(chain.from_iterable(chunk.columns.offset_list() for chunk in self._chunks))
        return self._offsets

    def keys(self) -> Sequence[K | None]:
        if len(self._chunks) == 1:
            return self._chunks[0].keys()
        return list(chain.from_iterable(chunk.keys() for chunk in self._chunks))

    def size_bytes(self) -> int:
        """The bytes of keys and values, as the records would say: -1 for a null."""
        if self._size_bytes is None:
            self._size_bytes = sum(chunk.columns.size_bytes() for chunk in self._chunks)
        return self._size_bytes


def with_keys(chunk: PartitionRecords[K, V]) -> PartitionRecords[K, V]:
    """The chunk with its keys deserialized: they are made once, for the queues and for the records."""
    if chunk.deserialized_keys is not None:
        return chunk
    return PartitionRecords(  # `replace` takes longer than all else that is done with a chunk
        topic_partition=chunk.topic_partition,
        columns=chunk.columns,
        next=chunk.next,
        deserialized_keys=chunk.keys(),
        deserialized_values=chunk.deserialized_values,
    )


def _sliced(chunk: PartitionRecords[K, V], start: int, stop: int) -> PartitionRecords[K, V]:
    keys, values = chunk.deserialized_keys, chunk.deserialized_values
    return PartitionRecords(
        topic_partition=chunk.topic_partition,
        columns=chunk.columns.slice(start, stop),
        next=chunk.next,
        deserialized_keys=None if keys is None else keys[start:stop],
        deserialized_values=None if values is None else values[start:stop],
    )
