"""Turns buffered fetches into chunks of records, on the application thread.

Checks every fetch against the newest assignment view: one of another epoch is dropped, one of a withheld partition is
put aside. Whatever lies in front of an error is handed out first; the error is raised by the next call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from kwire.errors import CorruptRecordError, KafkaError
from kwire.fetching.deserializing import Deserializers, deserialize_chunk
from kwire.fetching.partition_records import PartitionRecords, epoch_or_none
from kwire.fetching.transactions import visible_batches
from kwire.model import K, OffsetAndMetadata, TopicPartition, V
from kwire.protocol.record_batch import Batch, iter_batches
from kwire.protocol.record_columns import RecordColumns, empty_columns
from kwire.protocol.records import decode_available

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.events import AssignmentView, Delivered
    from kwire.fetching.buffer import CompletedFetch, FetchBuffer

# A well compressed fetch is inflated in portions of about this size, so that it does not multiply in memory.
PORTION_BYTES = 16 * 1024 * 1024


class CorruptPartitionError(Exception):
    """Carries the public error to the caller, with the position in front of the damage; never leaves the package."""

    def __init__(self, tp: TopicPartition, error: CorruptRecordError, position: OffsetAndMetadata) -> None:
        super().__init__(str(error))
        self.topic_partition = tp
        self.error = error.at(tp.topic, tp.partition, position.offset)
        self.error.__cause__ = error
        self.position = position


class _OpenFetch:
    """A fetch that is being collected: its batches, the decoded portion, and how far it was handed out."""

    def __init__(self, fetch: CompletedFetch, *, read_committed: bool, check_crcs: bool) -> None:
        self.fetch = fetch
        self.position = OffsetAndMetadata(fetch.fetch_offset)
        self._check_crcs = check_crcs
        self._error: CorruptRecordError | None = None
        self._end = self.position
        self._batches: list[Batch] = []
        try:
            # One by one: what lies in front of a damaged batch is good.
            for batch in visible_batches(self._scan(), fetch.aborted, read_committed=read_committed):
                self._batches.append(batch)
        except CorruptRecordError as error:
            self._error = error
        self._columns = empty_columns()
        self._row = 0

    def _scan(self) -> Iterator[Batch]:
        """All whole, sound batches that reach beyond the fetch offset. The first of a fetch may begin before it."""
        for batch in iter_batches(self.fetch.records, check_crcs=self._check_crcs):
            if batch.next_offset > self.fetch.fetch_offset:
                epoch = epoch_or_none(batch.partition_leader_epoch)
                self._end = OffsetAndMetadata(batch.next_offset, leader_epoch=epoch)
                yield batch

    def next_rows(self, max_records: int) -> tuple[RecordColumns, OffsetAndMetadata]:
        """Up to so many records, and the position behind them. No rows: the fetch is finished.

        Raises:
            CorruptPartitionError: everything in front of the damage has been handed out.
        """
        while self._row >= len(self._columns) and self._batches:
            self._decode_portion()
        rows = self._columns.slice(self._row, self._row + max_records)
        if len(rows):
            return rows, self._behind(rows)
        if self._error is not None:
            raise CorruptPartitionError(self.fetch.topic_partition, self._error, self.position)
        return rows, self._end

    def advance(self, rows: int, position: OffsetAndMetadata) -> None:
        self._row += rows
        self.position = position

    def _decode_portion(self) -> None:
        decoded = decode_available(self._batches, check_crcs=self._check_crcs, budget_bytes=PORTION_BYTES)
        if decoded.error is not None:
            self._error = decoded.error
            self._batches = []
        else:
            self._batches = self._batches[decoded.taken :]
        self._columns = decoded.columns
        # Batches are stored whole: the first may begin before the position.
        self._row = int(decoded.columns.offsets.searchsorted(self.position.offset))

    def _behind(self, rows: RecordColumns) -> OffsetAndMetadata:
        is_last = self._row + len(rows) == len(self._columns) and not self._batches and self._error is None
        if is_last:
            return self._end
        return OffsetAndMetadata(int(rows.offsets[-1]) + 1, leader_epoch=epoch_or_none(int(rows.leader_epochs[-1])))


class FetchCollector(Generic[K, V]):
    """One per consumer; used by its application thread only."""

    def __init__(
        self,
        buffer: FetchBuffer,
        deserializers: Deserializers[K, V],
        *,
        max_poll_records: int,
        read_committed: bool,
        check_crcs: bool,
    ) -> None:
        self._buffer = buffer
        self._deserializers = deserializers
        self._max_poll_records = max_poll_records
        self._read_committed = read_committed
        self._check_crcs = check_crcs
        self._open: _OpenFetch | None = None
        self._aside: list[_OpenFetch] = []
        # How far partitions got in front of an error that was raised instead of being told; the next call tells it.
        self._untold: list[Delivered] = []
        # The assignment epochs whose records are damaged: what was fetched behind the damage must not be delivered.
        self._damaged: dict[TopicPartition, int] = {}

    def collect(self, view: AssignmentView) -> tuple[list[PartitionRecords[K, V]], list[Delivered]]:
        """Up to `max_poll_records` records.

        Returns:
            The chunks, and how far each partition got; a partition may advance without a record (compaction,
            transactions that were aborted).

        Raises:
            CorruptPartitionError, RecordDeserializationError: at the front of what is left to collect.
        """
        chunks: list[PartitionRecords[K, V]] = []
        delivered, self._untold = self._untold, []
        left = self._max_poll_records
        while left > 0 and (current := self._current(view)) is not None:
            try:
                chunk = self._next_chunk(current, left)
            except (CorruptPartitionError, KafkaError) as error:
                if chunks:
                    break  # the records first; the next call meets the error again
                if isinstance(error, CorruptPartitionError):
                    self._damaged[current.fetch.topic_partition] = current.fetch.epoch
                    self._close(current)
                self._untold = delivered
                raise
            delivered.append((chunk.topic_partition, current.fetch.epoch, chunk.next))
            if len(chunk):
                chunks.append(chunk)
                left -= len(chunk)
            else:
                self._close(current)
        return chunks, delivered

    def _next_chunk(self, current: _OpenFetch, max_records: int) -> PartitionRecords[K, V]:
        rows, behind = current.next_rows(max_records)
        raw: PartitionRecords[bytes, bytes] = PartitionRecords(
            topic_partition=current.fetch.topic_partition, columns=rows, next=behind
        )
        chunk, error = deserialize_chunk(raw, self._deserializers)
        if error is not None and not len(chunk):
            raise error
        current.advance(len(chunk), chunk.next)
        return chunk

    def _current(self, view: AssignmentView) -> _OpenFetch | None:
        """The fetch to go on with, after a look at what the view says of it."""
        for waiting in self._aside.copy():
            if not self._is_current(waiting.fetch, view):
                self._aside.remove(waiting)
                self._buffer.release(waiting.fetch)
            elif waiting.fetch.topic_partition not in view.withheld:
                self._aside.remove(waiting)
                self._put_aside_open()
                self._open = waiting
        while True:
            if self._open is None:
                fetch = self._buffer.take(view.withheld)
                if fetch is None:
                    return None
                if not self._is_current(fetch, view):
                    self._buffer.release(fetch)
                    continue
                self._open = _OpenFetch(fetch, read_committed=self._read_committed, check_crcs=self._check_crcs)
            if not self._is_current(self._open.fetch, view):
                self._close(self._open)
            elif self._open.fetch.topic_partition in view.withheld:
                self._put_aside_open()
            else:
                return self._open

    def _put_aside_open(self) -> None:
        if self._open is not None:
            self._aside.append(self._open)
            self._open = None

    def _close(self, fetch: _OpenFetch) -> None:
        self._buffer.release(fetch.fetch)
        self._open = None

    def _is_current(self, fetch: CompletedFetch, view: AssignmentView) -> bool:
        """Whether its records may be delivered. After damage the epoch is over, though the view may not show it yet:
        the seek back to the damage is on its way to the network thread."""
        tp = fetch.topic_partition
        return view.epochs.get(tp) == fetch.epoch != self._damaged.get(tp)
