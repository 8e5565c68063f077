"""What is buffered of each partition, waiting or in work: what a processor goes by when it pauses partitions.

Contract: pure, and of the processor's thread. Nothing is done for each record but in C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from kwire.model import K, Record, V
from kwire.processing.lazy_records import LazyRecords
from kwire.processing.sources import Source

_key_size_of = itemgetter(Record._fields.index("serialized_key_size"))
_value_size_of = itemgetter(Record._fields.index("serialized_value_size"))


@dataclass(slots=True)
class Usage:
    """What is buffered of one partition, or of a part of its lag."""

    records: int = 0
    size_bytes: int = 0
    """Of keys and values. A null counts as -1, both when it comes and when it goes; a byte does not matter."""


class BufferUsage(dict[Source, Usage]):
    """The sources of which something is buffered."""

    def add(self, source: Source, records: Sequence[Record[K, V]]) -> None:
        """Count these records, which were polled."""
        if records:
            used = self.setdefault(source, Usage())
            used.records += len(records)
            used.size_bytes += _size_bytes(records)

    def remove(self, source: Source, records: Sequence[Record[K, V]]) -> None:
        """Count these records no more: they are done, or dropped."""
        if not records:
            return
        used = self[source]
        used.records -= len(records)
        used.size_bytes -= _size_bytes(records)
        if not used.records:
            del self[source]


def _size_bytes(records: Sequence[Record[K, V]]) -> int:
    if isinstance(records, LazyRecords):
        return records.size_bytes()
    size_bytes: int = sum(map(_key_size_of, records)) + sum(map(_value_size_of, records))
    return size_bytes
