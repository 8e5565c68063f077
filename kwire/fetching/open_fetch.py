"""One fetch while it is being collected: what it holds becomes batches, and those become columns, portion by portion.

Contract: everything in front of damage is handed out first; used by one thread. Made by the fetch collector, which
loads this module when somebody waits for records: it brings numpy and the codecs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.errors import CorruptRecordError
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.partition_records import epoch_or_none
from kwire.fetching.transactions import visible_batches
from kwire.model import NO_LEADER_EPOCH, OffsetAndMetadata
from kwire.protocol.record_batch import Batch, iter_batches
from kwire.protocol.record_columns import RecordColumns, empty_columns
from kwire.protocol.records import decode_available

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.fetching.buffer import CompletedFetch

# A well compressed fetch is inflated in portions of about this size, so that it does not multiply in memory.
PORTION_BYTES = 4 * 1024 * 1024
_NOTHING_DECODED = empty_columns()


class OpenFetch:
    """A fetch that is being collected: its batches, the decoded portion, and how far it was handed out."""

    def __init__(self, fetch: CompletedFetch, *, read_committed: bool, check_crcs: bool) -> None:
        self.fetch = fetch
        self.position = OffsetAndMetadata(fetch.fetch_offset, leader_epoch=fetch.fetch_epoch)
        self._check_crcs = check_crcs
        self._error: CorruptRecordError | None = None
        # Numbers until somebody asks: of large records a fetch has many batches, and only the last one's count.
        self._end_offset = fetch.fetch_offset
        self._end_epoch = NO_LEADER_EPOCH if fetch.fetch_epoch is None else fetch.fetch_epoch
        self._batches: list[Batch] = []
        try:
            # One by one: what lies in front of a damaged batch is good.
            for batch in visible_batches(self._scan(), fetch.aborted, read_committed=read_committed):
                self._batches.append(batch)
        except CorruptRecordError as error:
            self._error = error
        self._columns = _NOTHING_DECODED
        self._count = self._row = 0

    def _scan(self) -> Iterator[Batch]:
        """All whole, sound batches that reach beyond the fetch offset. The first of a fetch may begin before it."""
        fetch_offset, stop = self.fetch.fetch_offset, self.fetch.stop_offset
        for batch in iter_batches(self.fetch.records, check_crcs=self._check_crcs):
            # An old compressed message shows its last offset for its first, until it is inflated.
            if stop is not None and batch.base_offset >= stop and batch.record_count >= 0:
                self._end_offset = stop  # somebody else reads what lies behind
                return
            if batch.next_offset > fetch_offset:
                self._end_offset = batch.next_offset if stop is None else min(batch.next_offset, stop)
                self._end_epoch = batch.partition_leader_epoch
                yield batch

    @property
    def _end(self) -> OffsetAndMetadata:
        """The position behind all that is whole and sound."""
        return OffsetAndMetadata(self._end_offset, leader_epoch=epoch_or_none(self._end_epoch))

    @property
    def is_finished(self) -> bool:
        """Whether all has been handed out, and there is no damage left to tell of."""
        return self._is_end(self._row)

    def next_rows(self, max_records: int) -> tuple[RecordColumns, OffsetAndMetadata]:
        """Up to so many records, and the position behind them. No rows: the fetch is finished.

        Raises:
            CorruptPartitionError: everything in front of the damage has been handed out.
        """
        while self._row >= self._count and self._batches:
            self._decode_portion()
        rows = self._columns.slice(self._row, self._row + max_records)
        if count := len(rows):
            return rows, self._behind(rows, count)
        if self._error is not None:
            raise CorruptPartitionError(self.fetch.topic_partition, self._error, self.position, self.fetch.epoch)
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
        stop = self.fetch.stop_offset
        self._columns = decoded.columns if stop is None else _in_front_of(decoded.columns, stop)
        self._count = len(self._columns)
        # Batches are stored whole: the first may begin before the position. Looking first saves a call that lets go of
        # the interpreter, which the network thread then takes.
        offsets, position = self._columns.offsets, self.position.offset
        self._row = int(offsets.searchsorted(position)) if self._count and offsets[0] < position else 0

    def _behind(self, rows: RecordColumns, count: int) -> OffsetAndMetadata:
        if self._is_end(self._row + count):
            return self._end
        return OffsetAndMetadata(int(rows.offsets[-1]) + 1, leader_epoch=epoch_or_none(int(rows.leader_epochs[-1])))

    def _is_end(self, row: int) -> bool:
        """Whether nothing comes from that row on, neither records nor damage."""
        return row >= self._count and not self._batches and self._error is None


def _in_front_of(columns: RecordColumns, stop: int) -> RecordColumns:
    """A batch is stored whole, and may reach beyond the stop."""
    offsets = columns.offsets
    if not len(offsets) or offsets[-1] < stop:
        return columns
    return columns.slice(0, int(offsets.searchsorted(stop)))
