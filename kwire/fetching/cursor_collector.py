"""Turns the buffered fetches of one cursor into chunks of records, on the application thread.

Checks every fetch against the newest assignment view: one of another epoch is dropped, one of a withheld partition is
put aside. What lies in front of an error is collected first; the error is raised by the next call.

An exception of a signal handler may strike between any two lines. So a chunk and how far its fetch is collected then
go into the caller's list as one entry, and the fetch follows the entry: what is in the list is not collected again,
and what is not in the list is.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias

from kwire.clock import NEVER_MS
from kwire.errors import KafkaError
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.deserializing import Deserializers, deserialize_chunk
from kwire.fetching.loading import loaded_open_fetch
from kwire.fetching.open_ahead import MAX_FETCHES, OpenAhead
from kwire.fetching.partition_records import PartitionRecords
from kwire.interpreter_lock import is_free_threaded
from kwire.model import K, OffsetAndMetadata, TopicPartition, V

if TYPE_CHECKING:
    from kwire.events import AssignmentView, Delivered
    from kwire.fetching.buffer import FetchBuffer
    from kwire.fetching.completed_fetch import CompletedFetch
    from kwire.fetching.decode_ahead import DecodeAhead
    from kwire.fetching.open_fetch import CollectProgress, OpenFetch


TURN_MS = 100.0
"""How long a partition has the application to itself while others have records. An application that is fast enough to
handle a whole fetch in this time changes the partition after each fetch alone."""
MAX_PARTLY_HANDED_OUT = 8
"""This many fetches may wait in the middle of what is decoded of them, for that takes memory. With more, a partition's
turn goes on to the end of the decoded portion."""


class Collected(NamedTuple, Generic[K, V]):
    """Records that were collected and not yet returned to the application: how many, how far their fetch is collected,
    and what they take."""

    chunk: PartitionRecords[K, V]
    records: int
    fetch: OpenFetch | None = None
    progress: CollectProgress | None = None
    size_bytes: float = 0.0

    @classmethod
    def of(cls, chunk: PartitionRecords[K, V]) -> Collected[K, V]:
        """Records that an earlier poll has collected, whose fetch is behind them already."""
        return cls(chunk, len(chunk))

    def settle(self) -> None:
        """Have the fetch go on behind these records."""
        if self.fetch is not None and self.progress is not None:
            self.fetch.progress = self.progress


Pending: TypeAlias = MutableSequence[Collected[K, V]]


def settle_last(pending: Pending[K, V]) -> None:
    """Have the fetch of the last entry follow it, in case an exception struck before it could."""
    if pending:
        pending[-1].settle()


class CursorCollector(Generic[K, V]):
    """Collects what one cursor has fetched. Used by the consumer's application thread only."""

    def __init__(
        self, buffer: FetchBuffer, deserializers: Deserializers[K, V], *, read_committed: bool, check_crcs: bool
    ) -> None:
        self._buffer = buffer
        self._deserializers = deserializers
        self._read_committed = read_committed
        self._check_crcs = check_crcs
        self._decodes_ahead = is_free_threaded()
        self._ahead = self._decode_ahead() if self._decodes_ahead else OpenAhead(self._made)
        self._open: OpenFetch | None = None
        self._turn_ends_ms = NEVER_MS
        # All that were taken and opened: the open one, and those that wait for their turn, or are withheld.
        self._opened: dict[CompletedFetch, OpenFetch] = {}
        # The assignment epochs whose records are damaged: what was fetched behind the damage must not be delivered.
        self._damaged: dict[TopicPartition, int] = {}

    def collect(
        self,
        view: AssignmentView,
        into: Pending[K, V],
        max_records: int,
        max_bytes: float,
        now_ms: float,
        *,
        keep_failures: bool,
    ) -> None:
        """Add up to `max_records` records to what is pending, and no more once they take `max_bytes`. With
        `keep_failures` those that cannot be deserialized are among them, with their error beside them.

        A partition may advance without a record (compaction, transactions that were aborted): its chunk is empty then.

        Raises:
            CorruptPartitionError, RecordDeserializationError: at the front of what is left to collect. Raised again by
                each call, until the partition has another epoch, or `note_damage` was called.
        """
        settle_last(into)
        left, left_bytes, has_records = max_records, max_bytes, False
        while left > 0 and left_bytes > 0 and (current := self._current(view, now_ms)) is not None:
            try:
                entry = self.collect_from(current, view, into, left, keep_failures=keep_failures)
            except (CorruptPartitionError, KafkaError):
                if has_records:
                    break  # the records first; the next call meets the error again
                raise
            if entry.records:
                has_records = True
                left -= entry.records
                left_bytes -= entry.size_bytes
            if current.is_finished:
                self._close(current)

    def at_hand(self, view: AssignmentView, count: int, now_ms: float) -> OpenFetch | None:
        """The fetch that was collected from last, if more records than these are decoded of it, and may be collected;
        None if its turn may be over. One of a partition that was paused until now comes when those are through."""
        current = self._open
        if current is None or current.progress.rows - current.progress.row <= count or now_ms >= self._turn_ends_ms:
            return None
        return current if self._may_go_on(current, view) else None

    def collect_from(
        self, current: OpenFetch, view: AssignmentView, into: Pending[K, V], max_records: int, *, keep_failures: bool
    ) -> Collected[K, V]:
        """Add up to this many of this fetch's records to what is pending; see `collect`. An error keeps its turn, for
        each poll raises it again; a turn that had one may end at any time."""
        try:
            entry = self._next_entry(current, max_records, keep_failures=keep_failures)
        except (CorruptPartitionError, KafkaError):
            self._turn_ends_ms = NEVER_MS
            raise
        into.append(entry)
        if self._turn_ends_ms == NEVER_MS:
            self._turn_ends_ms = -NEVER_MS
        entry.settle()
        if self._decodes_ahead or current.inflate_ahead(self._opened.values()):
            self._ahead.begin(self._buffer.first(MAX_FETCHES, view.withheld))
        return entry

    def seek(self, tp: TopicPartition, wanted: OffsetAndMetadata, view: AssignmentView) -> Delivered | None:
        """Go on at another record of a fetch that is open: that costs no request, and nothing buffered is lost. How far
        the partition is delivered by that; None, and nothing has changed, if the record is not there."""
        for opened in () if tp in view.withheld else self._opened.values():
            if opened.fetch.topic_partition == tp and self._is_current(opened.fetch, view):
                position = opened.seek(wanted)
                return None if position is None else (tp, opened.fetch.epoch, position)
        return None

    def note_damage(self, corrupt: CorruptPartitionError) -> None:
        """The position goes back in front of this damage. If the last `collect` met it here, nothing more of its epoch
        is delivered."""
        tp, met = corrupt.topic_partition, self._open
        if met is not None and (met.fetch.topic_partition, met.fetch.epoch) == (tp, corrupt.epoch):
            self._damaged[tp] = corrupt.epoch

    def _next_entry(self, current: OpenFetch, max_records: int, *, keep_failures: bool) -> Collected[K, V]:
        rows, behind = current.next_rows(max_records)
        fetch = current.fetch
        raw: PartitionRecords[bytes, bytes] = PartitionRecords(
            topic_partition=fetch.topic_partition, columns=rows, next=behind, cursor=fetch.cursor, epoch=fetch.epoch
        )
        chunk, error = deserialize_chunk(raw, self._deserializers, keep_failures=keep_failures)
        count = len(chunk)
        if error is not None and not count:
            raise error
        progress = current.behind(count, chunk.next)
        return Collected(chunk, count, current, progress, progress.size_of(count))

    def _current(self, view: AssignmentView, now_ms: float) -> OpenFetch | None:
        """The fetch to go on with, after a look at what the view says of it."""
        current = self._open
        if current is None or not self._has_turn(current, view) or self._ends_turn(current, view, now_ms):
            current = self._open = self._choose(view)
            self._turn_ends_ms = now_ms + TURN_MS
        return current

    def _has_turn(self, current: OpenFetch, view: AssignmentView) -> bool:
        """Whether it may go on, and stands in front. A partition that was paused in its turn has kept its place."""
        is_first = len(self._buffer.taken) < 2 or self._buffer.front(view.withheld) is current.fetch
        return is_first and self._may_go_on(current, view)

    def _ends_turn(self, current: OpenFetch, view: AssignmentView, now_ms: float) -> bool:
        if now_ms < self._turn_ends_ms:
            return False
        tp = current.fetch.topic_partition
        if not self._buffer.has_others(tp, view.withheld):
            self._turn_ends_ms = now_ms + TURN_MS
            return False
        decoded = sum(each.progress.row < each.progress.rows for each in self._opened.values())
        if current.progress.row < current.progress.rows and decoded >= MAX_PARTLY_HANDED_OUT:
            return False
        current.let_go()
        self._buffer.end_turn(tp)
        return True

    def _may_go_on(self, opened: OpenFetch, view: AssignmentView) -> bool:
        fetch = opened.fetch
        return self._is_current(fetch, view) and fetch.topic_partition not in view.withheld and not opened.is_finished

    def _choose(self, view: AssignmentView) -> OpenFetch | None:
        """The fetch whose partition has its turn, of those that may be collected."""
        self._release_stale(view)
        while (fetch := self._buffer.front(view.withheld)) is not None:
            if self._is_current(fetch, view):
                return self._opened.get(fetch) or self._opened_now(fetch)
            self._release(fetch)
        self._ahead.begin(())
        return None

    def _release_stale(self, view: AssignmentView) -> None:
        """Let go of what is taken and can have no turn any more, also of partitions that are paused."""
        for released in self._opened.keys() - self._buffer.taken:
            del self._opened[released]
        for fetch in list(self._buffer.taken):
            opened = self._opened.get(fetch)
            if not self._is_current(fetch, view) or (opened is not None and opened.is_finished):
                self._release(fetch)

    def _opened_now(self, fetch: CompletedFetch) -> OpenFetch:
        ahead = self._ahead.take(fetch)
        opened = self._opened[fetch] = self._made(fetch) if ahead is None else ahead
        return opened

    def _made(self, fetch: CompletedFetch) -> OpenFetch:
        open_fetch = loaded_open_fetch()
        return open_fetch(fetch, read_committed=self._read_committed, check_crcs=self._check_crcs)

    def _decode_ahead(self) -> DecodeAhead:
        from kwire.fetching.decode_ahead import DecodeAhead  # with the lock, `import kwire` does without it

        return DecodeAhead(self._decoded)

    def _decoded(self, fetch: CompletedFetch) -> OpenFetch:
        made = self._made(fetch)
        made.decode()
        return made

    def _close(self, opened: OpenFetch) -> None:
        self._release(opened.fetch)
        self._open = None

    def _release(self, fetch: CompletedFetch) -> None:
        self._buffer.release(fetch)  # first: what is taken and finished is released again
        self._opened.pop(fetch, None)

    def _is_current(self, fetch: CompletedFetch, view: AssignmentView) -> bool:
        """Whether its records may be delivered. After damage the epoch is over, though the view may not show it yet:
        the seek back to the damage is on its way to the network thread."""
        tp = fetch.topic_partition
        return view.epochs.get(tp) == fetch.epoch != self._damaged.get(tp)
