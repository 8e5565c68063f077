"""What a poll returned, as other clients hand it out: one record at a time, or some.

Commits cover what was handed out, and nothing else. What an exception of a signal handler keeps from the program is
handed out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Generic, TypeVar

from kwire.consumer.delivery import Delivery
from kwire.model import K, Record, TopicPartition, V

T = TypeVar("T")
_partition_of = itemgetter(0, 1)


class RecordLoop(Generic[K, V]):
    """The loop of `Consumer.__iter__`, without the polls."""

    def __init__(self, delivery: Delivery[K, V]) -> None:
        self._delivery = delivery
        self._records: Iterator[Record[K, V]] = iter(())

    def begin(self, *, to_the_end: bool = False) -> None:
        """A poll has returned; see `Delivery.iterate`."""
        self._records = self._delivery.iterate(to_the_end=to_the_end)

    def next(self, made: Callable[[Record[K, V]], T]) -> T | None:
        """What is made of the next record; None if a poll has to come first."""
        record = next(self._records, None)
        if record is None:
            return None
        try:
            return made(record)
        except BaseException:
            self._records = iter(())
            self._delivery.not_seen()
            raise

    def take(self, most: int, made: Callable[[Iterator[Record[K, V]]], T]) -> T:
        """What is made of the next records, of so many at most, and of none if a poll has to come first."""
        begun = self._delivery.mark()
        try:
            return made(islice(self._records, most))
        except BaseException:
            self._records = iter(())
            self._delivery.go_back(begun)
            raise

    def take_by_partition(self, most: int, made: Callable[[Record[K, V]], T]) -> dict[TopicPartition, list[T]]:
        """As `take`, with what is made of each record in lists by partition."""
        return self.take(most, lambda records: _by_partition(records, made))


def _by_partition(records: Iterable[Record[K, V]], made: Callable[[Record[K, V]], T]) -> dict[TopicPartition, list[T]]:
    found: dict[TopicPartition, list[T]] = {}
    for key, run in groupby(records, _partition_of):
        found.setdefault(TopicPartition(*key), []).extend(map(made, run))
    return found
