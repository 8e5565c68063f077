"""What is buffered of each partition, waiting or in work: what a processor goes by when it pauses partitions.

Contract: pure, and of the processor's thread. Nothing is done for each record but in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter

from kwire.model import K, Record, TopicPartition, V
from kwire.processing.rows import Rows

_key_size_of = itemgetter(Record._fields.index("serialized_key_size"))
_value_size_of = itemgetter(Record._fields.index("serialized_value_size"))


@dataclass(slots=True)
class Load:
    """Of one partition."""

    records: int = 0
    size_bytes: int = 0
    """Of keys and values. What is null counts as -1, when it comes and when it goes: nobody minds a byte."""


class Loads(dict[TopicPartition, Load]):
    """Those of partitions of which there is something."""

    def add(self, tp: TopicPartition, records: Sequence[Record[K, V]]) -> None:
        """They were polled."""
        if records:
            load = self.setdefault(tp, Load())
            load.records += len(records)
            load.size_bytes += _size_bytes(records)

    def remove(self, tp: TopicPartition, records: Sequence[Record[K, V]]) -> None:
        """They are done with, or forgotten."""
        if not records:
            return
        load = self[tp]
        load.records -= len(records)
        load.size_bytes -= _size_bytes(records)
        if not load.records:
            del self[tp]

    def remove_all(self, records: Iterable[Record[K, V]]) -> None:
        """The same of records of several partitions."""
        for tp, of_partition in groupby(records, key=attrgetter("topic_partition")):
            self.remove(tp, list(of_partition))


def _size_bytes(records: Sequence[Record[K, V]]) -> int:
    if isinstance(records, Rows):
        return records.size_bytes()
    size_bytes: int = sum(map(_key_size_of, records)) + sum(map(_value_size_of, records))
    return size_bytes
