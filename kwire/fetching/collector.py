"""Collects what all cursors of a consumer have fetched: mostly one, with parallel rebalance each its share of bytes.

A cursor that has nothing leaves its share to the others, and saves up none: when something new comes, the main cursor
is the first to be asked.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic

from kwire.errors import KafkaError
from kwire.fetching.cursor_collector import CursorCollector
from kwire.fetching.damage import CorruptPartitionError
from kwire.model import K, OffsetAndMetadata, TopicPartition, V

if TYPE_CHECKING:
    from kwire.events import AssignmentView, Delivered
    from kwire.fetching.buffer import FetchBuffer
    from kwire.fetching.cursor_collector import Collected, Pending
    from kwire.fetching.deserializing import Deserializers
    from kwire.fetching.open_fetch import OpenFetch

# A poll's records are collected in this many portions: the fewer, the coarser the shares of one poll.
PORTIONS = 4


class FetchCollector(Generic[K, V]):
    """One per consumer; used by its application thread only.

    Args:
        buffer: The main cursor's, with those of its children.
        head_share: The main cursor's share of the bytes, between 0 and 1, while all have records.

    Attributes:
        buffers: One for each cursor.
        max_bytes: A poll takes no more records once those it has take this many bytes.
        keeps_failures: Whether records that cannot be deserialized are collected with their error beside them, instead
            of raising it.
    """

    def __init__(
        self,
        buffer: FetchBuffer,
        deserializers: Deserializers[K, V],
        *,
        max_bytes: float = math.inf,
        read_committed: bool,
        check_crcs: bool,
        head_share: float = 1.0,
    ) -> None:
        self.keeps_failures = False
        self.buffers = (buffer, *buffer.children)
        child_share = (1.0 - head_share) / max(1, len(buffer.children))
        self._sources: list[_CursorShare[K, V]] = [
            _CursorShare(
                CursorCollector(each, deserializers, read_committed=read_committed, check_crcs=check_crcs),
                head_share if each is buffer else child_share,
            )
            for each in self.buffers
        ]
        self._main = self._sources[0].collector
        self.max_bytes = max_bytes
        # The source that met an error behind records of others: those come first, and the next call raises the error.
        self._first: _CursorShare[K, V] | None = None
        # The source that raised an error and may do so again: the others come first, or they would never have a turn.
        self._last: _CursorShare[K, V] | None = None

    def note_damage(self, corrupt: CorruptPartitionError) -> None:
        """As `CursorCollector.note_damage`. Each epoch is of one cursor, so it concerns one of them."""
        for source in self._sources:
            source.collector.note_damage(corrupt)

    def seek(self, tp: TopicPartition, wanted: OffsetAndMetadata, view: AssignmentView) -> Delivered | None:
        """As `CursorCollector.seek`. Where there are several cursors nothing is found: a seek concerns what others read
        as well, so the network thread has to know."""
        return self._main.seek(tp, wanted, view) if len(self._sources) == 1 else None

    def at_hand(self, view: AssignmentView, max_records: int, now_ms: float) -> OpenFetch | None:
        """The fetch that has more records decoded than these; see `CursorCollector.at_hand`. None where several cursors
        share a poll."""
        return None if view.children else self._main.at_hand(view, max_records, now_ms)

    def take(self, at_hand: OpenFetch, view: AssignmentView, into: Pending[K, V], max_records: int) -> Collected[K, V]:
        """Add up to `max_records` records of that fetch to what is pending."""
        return self._main.collect_from(at_hand, view, into, max_records, keep_failures=self.keeps_failures)

    def collect(
        self,
        view: AssignmentView,
        into: Pending[K, V],
        max_records: int,
        now_ms: float,
        max_bytes: float | None = None,
    ) -> None:
        """Add up to `max_records` records and `max_bytes` of all cursors together, by default as many bytes as a poll
        takes; see `CursorCollector.collect`."""
        max_bytes = self.max_bytes if max_bytes is None else max_bytes
        if not view.children:
            self._main.collect(view, into, max_records, max_bytes, now_ms, keep_failures=self.keeps_failures)
            return
        views = [view, *(child.beside(view) for child in view.children)]
        self._share(dict(zip(self._sources, views, strict=False)), into, max_records, max_bytes, now_ms)

    def _share(
        self,
        views: dict[_CursorShare[K, V], AssignmentView],
        into: Pending[K, V],
        left: int,
        left_bytes: float,
        now_ms: float,
    ) -> None:
        begin, portion = len(into), -(-left // PORTIONS)
        hungry = list(views)
        last, self._last = self._last, None
        while left > 0 and left_bytes > 0 and hungry:
            source = self._next(hungry, last)
            before = len(into)
            try:
                # A cursor that is alone takes all: a poll in one piece costs less than one in portions.
                max_records = min(left, portion) if len(hungry) > 1 else left
                source.collector.collect(
                    views[source], into, max_records, left_bytes, now_ms, keep_failures=self.keeps_failures
                )
            except (CorruptPartitionError, KafkaError):
                if not any(entry.records for entry in into[begin:]):
                    self._last = source
                    raise
                self._first = source  # it is met again, in front of everything else
                break
            more = into[before:]
            count, size_bytes = sum(entry.records for entry in more), sum(entry.size_bytes for entry in more)
            left -= count
            left_bytes -= size_bytes
            source.took(size_bytes)
            if not count:
                hungry.remove(source)
        self._level(hungry)

    def _next(self, hungry: list[_CursorShare[K, V]], last: _CursorShare[K, V] | None) -> _CursorShare[K, V]:
        """The source that met an error, so that it is told; else the one furthest behind its share, but for `last`."""
        first, self._first = self._first, None
        if first in hungry:
            return first
        others = [source for source in hungry if source is not last]
        return min(others or hungry, key=lambda source: source.used)

    def _level(self, hungry: list[_CursorShare[K, V]]) -> None:
        """A source that ran out of records starts again beside the others, however little it has had."""
        least = min((source.used for source in hungry), default=0.0)
        for source in self._sources:
            source.used = max(0.0, source.used - least) if source in hungry else 0.0


class _CursorShare(Generic[K, V]):
    """A cursor's collector, and how many bytes it has had, by its share."""

    def __init__(self, collector: CursorCollector[K, V], share: float) -> None:
        self.collector = collector
        self.used = 0.0
        self._share = share

    def took(self, size_bytes: float) -> None:
        self.used += size_bytes / self._share
