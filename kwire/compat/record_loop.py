"""The records of a poll, handed out as other clients do: one at a time, or some.

Commits cover the records that were handed out, and no others. A record that does not reach the program because a
signal handler has raised is handed out again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Generic, TypeVar

from kwire.consumer.delivery import Delivery
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, Record, TopicPartition, V

T = TypeVar("T")


class RecordLoop(Generic[K, V]):
    """The loop of `Consumer.__iter__`, without the polls."""

    def __init__(self, delivery: Delivery[K, V]) -> None:
        self._delivery = delivery
        self._records: Iterator[Record[K, V]] = iter(())

    def begin(self) -> None:
        """Begin with the records of the poll that has returned."""
        self._records = self._delivery.iterate()

    def next(self, made: Callable[[Record[K, V]], T]) -> T | None:
        """What `made` makes of the next record; None if a poll is needed first."""
        record = next(self._records, None)
        if record is None:
            return None
        try:
            return made(record)
        except BaseException:
            self.end()
            self._delivery.not_seen()
            raise

    def end(self) -> None:
        """Drop the records that `next` has not returned."""
        self._records = iter(())

    def take(
        self,
        max_records: int,
        made: Callable[[Sequence[PartitionRecords[K, V]]], T],
        *,
        partitions: Collection[TopicPartition] | None = None,
        goes_on: bool = True,
    ) -> T:
        """What `made` makes of the next records, this many at most; of none if a poll is needed first.

        Args:
            partitions: The partitions to take records of; by default all.
            goes_on: Whether `next` continues behind these records; if not, a poll is needed first.
        """
        begun = self._delivery.mark()
        try:
            found = made(self._delivery.take(max_records, partitions))
            if goes_on:
                self.begin()
            else:
                self.end()
            return found
        except BaseException:
            self.end()
            self._delivery.go_back(begun)
            raise

    def take_by_partition(
        self,
        max_records: int,
        made: Callable[[Record[K, V]], T],
        *,
        partitions: Collection[TopicPartition] | None = None,
        goes_on: bool = True,
    ) -> dict[TopicPartition, list[T]]:
        """As `take`, in lists by partition."""
        return self.take(
            max_records, lambda chunks: _by_partition(chunks, made), partitions=partitions, goes_on=goes_on
        )


def _by_partition(
    chunks: Sequence[PartitionRecords[K, V]], made: Callable[[Record[K, V]], T]
) -> dict[TopicPartition, list[T]]:
    found: dict[TopicPartition, list[T]] = {}
    for chunk in chunks:
        found.setdefault(chunk.topic_partition, []).extend(map(made, chunk))
    return found
