"""Collects from several cursors: what is new, and what is being caught up after a crash, each with its share of bytes.

Stands where `FetchCollector` stands without `enable_parallel_rebalance`. A cursor that has nothing leaves its share to
the others, and saves up none: when something new comes, the main cursor is the first to be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from kwire.errors import KafkaError
from kwire.fetching.damage import CorruptPartitionError
from kwire.model import K, OffsetAndMetadata, TopicPartition, V

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.events import AssignmentView, Delivered
    from kwire.fetching.buffer import FetchBuffer, Refusal
    from kwire.fetching.collector import Collected, FetchCollector, Pending
    from kwire.fetching.partition_records import PartitionRecords

# A poll's records are collected in so many portions: the fewer, the coarser the shares of one poll.
PORTIONS = 4


class FairCollector(Generic[K, V]):
    """One per consumer; used by its application thread only.

    Args:
        main, children: A collector for each cursor.
        head_share: The main cursor's share of the bytes, between 0 and 1, while all have records.
    """

    def __init__(
        self,
        main: FetchCollector[K, V],
        children: Sequence[FetchCollector[K, V]],
        *,
        max_poll_records: int,
        head_share: float,
    ) -> None:
        child_share = (1.0 - head_share) / len(children)
        self._sources = [_Source(main, head_share), *(_Source(child, child_share) for child in children)]
        self._max_poll_records = max_poll_records
        self._portion = -(-max_poll_records // PORTIONS)
        # It met an error behind records of others: those come first, the next call raises it.
        self._first: _Source[K, V] | None = None
        # It raised an error and may do so again: the others come first, or nobody would ever get behind it.
        self._last: _Source[K, V] | None = None

    def get_ready(self) -> None:
        """As `FetchCollector.get_ready`."""
        self._sources[0].collector.get_ready()

    @property
    def keeps_failures(self) -> bool:
        """As `FetchCollector.keeps_failures`."""
        return self._sources[0].collector.keeps_failures

    @keeps_failures.setter
    def keeps_failures(self, keeps: bool) -> None:
        for source in self._sources:
            source.collector.keeps_failures = keeps

    def drained(self) -> list[tuple[FetchBuffer, Refusal]]:
        """As `FetchCollector.drained`, of all buffers."""
        return [each for source in self._sources for each in source.collector.drained()]

    def note_damage(self, corrupt: CorruptPartitionError) -> None:
        """As `FetchCollector.note_damage`. Each epoch is of one cursor, so it concerns one of them."""
        for source in self._sources:
            source.collector.note_damage(corrupt)

    def seek(self, tp: TopicPartition, wanted: OffsetAndMetadata, view: AssignmentView) -> Delivered | None:
        """Nothing is found: a seek concerns what other cursors read as well, so the network thread has to know."""
        del tp, wanted, view
        return None

    def collect(self, view: AssignmentView, into: Pending[K, V]) -> None:
        """Up to `max_poll_records` records of all cursors together; as `FetchCollector.collect`."""
        if not view.children:
            self._sources[0].collector.collect(view, into)
            return
        views = [view, *(child.beside(view) for child in view.children)]
        self._collect(dict(zip(self._sources, views, strict=False)), into)

    def _collect(self, views: dict[_Source[K, V], AssignmentView], into: Pending[K, V]) -> None:
        begin = len(into)
        left, hungry = self._max_poll_records, list(views)
        last, self._last = self._last, None
        while left > 0 and hungry:
            source = self._next(hungry, last)
            before = len(into)
            try:
                # A cursor that is alone takes all: a poll in one piece costs less than one in portions.
                most = min(left, self._portion) if len(hungry) > 1 else left
                source.collector.collect(views[source], into, most)
            except (CorruptPartitionError, KafkaError):
                if len(into) == begin:
                    self._last = source
                    raise
                self._first = source  # it is met again, in front of everything else
                break
            more = into[before:]
            left -= sum(len(entry.chunk) for entry in more)
            source.took(more)
            if not any(len(entry.chunk) for entry in more):
                hungry.remove(source)
        self._level(hungry)

    def _next(self, hungry: list[_Source[K, V]], last: _Source[K, V] | None) -> _Source[K, V]:
        """The source that met an error, so that it is told; else the one furthest behind its share, but for `last`."""
        first, self._first = self._first, None
        if first in hungry:
            return first
        others = [source for source in hungry if source is not last]
        return min(others or hungry, key=lambda source: source.used)

    def _level(self, hungry: list[_Source[K, V]]) -> None:
        """A source that ran out of records starts again beside the others, however little it has had."""
        least = min((source.used for source in hungry), default=0.0)
        for source in self._sources:
            source.used = max(0.0, source.used - least) if source in hungry else 0.0


class _Source(Generic[K, V]):
    """A cursor's collector, and how many bytes it has had, by its share."""

    def __init__(self, collector: FetchCollector[K, V], share: float) -> None:
        self.collector = collector
        self.used = 0.0
        self._share = share

    def took(self, entries: Sequence[Collected[K, V]]) -> None:
        self.used += sum(_size_bytes(entry.chunk) for entry in entries) / self._share


def _size_bytes(chunk: PartitionRecords[K, V]) -> int:
    """What its records take in memory: from the first value to the end of the last one, and as much again for a row."""
    starts, lengths = chunk.columns.value_starts, chunk.columns.value_lengths
    if not len(starts):
        return 0
    return int(starts[-1] - starts[0]) + max(0, int(lengths[-1])) + len(starts)
