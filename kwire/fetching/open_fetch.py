"""One fetch while it is being collected: what it holds becomes batches, and those become columns, portion by portion.

Contract: everything in front of damage is handed out first; used by one thread at a time. Made by the fetch collector,
which loads this module when somebody waits for records: it brings the codecs.

How far a fetch is collected is one immutable value, replaced as a whole: an exception of a signal handler, which may
strike between any two lines, never leaves it half changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import CorruptRecordError
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.transactions import visible_batches
from kwire.model import NO_LEADER_EPOCH, OffsetAndMetadata, leader_epoch_or_none
from kwire.protocol.record_batch import Batch, next_sound_offset
from kwire.protocol.record_batch_columns import numbers_of, payload_bytes, read_batches
from kwire.protocol.record_columns import RecordColumns
from kwire.protocol.record_packed import empty_columns
from kwire.protocol.record_payloads import can_be_ahead, inflation_of
from kwire.protocol.records import decode_available

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kwire.fetching.completed_fetch import CompletedFetch
    from kwire.protocol.record_decoding import Decoded
    from kwire.protocol.record_payloads import Inflation

# A well compressed fetch is inflated in portions of about this size, so that it does not multiply in memory. While one
# is handled, a thread inflates the next. Of 1 MiB, or of 4, that takes a tenth longer, or more: a thread takes time to
# start, and what it has inflated is handed from its processor's cache to another one's (measured).
PORTION_BYTES = 3 * 1024 * 1024
# What is packed in less is the last portion, as a rule.
LAST_BYTES = PORTION_BYTES // 2
# This many open fetches have their next portion inflated ahead.
MAX_AHEAD = 4
_NOTHING_DECODED = empty_columns()


class CollectProgress(NamedTuple):
    """How far a fetch is collected.

    Attributes:
        position: The offset of the next record to be collected.
        batches: Those that are not decoded yet.
        columns: The records that are, `rows` of them, of which those from `row` on are not collected.
        error: The damage behind the last of the batches.
        size_bytes: What the decoded records take, inflated, without the headers of batches.
    """

    position: OffsetAndMetadata
    batches: Sequence[Batch]
    error: CorruptRecordError | None = None
    columns: RecordColumns = _NOTHING_DECODED
    rows: int = 0
    row: int = 0
    size_bytes: int = 0

    def size_of(self, rows: int) -> float:
        """The average size of this many decoded rows; the sizes of all rows add up to the whole."""
        return self.size_bytes * rows / self.rows if rows else 0.0

    def is_end(self, row: int) -> bool:
        """Whether nothing comes from that row on, neither records nor damage."""
        return row >= self.rows and not self.batches and self.error is None


class _Next(NamedTuple):
    """What is decoded next: `batches`, or the first of them; whether these are, as a rule, the last of the fetch."""

    batches: Sequence[Batch]
    inflation: Inflation | None
    is_last: bool


class OpenFetch:
    """A fetch that is being collected: its batches, the decoded portion, and how far it was handed out."""

    def __init__(self, fetch: CompletedFetch, *, read_committed: bool, check_crcs: bool) -> None:
        self.fetch = fetch
        self._check_crcs = check_crcs
        # The position behind all sound batches, as numbers: `_end` makes an object of them when somebody asks.
        self._end_offset = fetch.fetch_offset
        self._end_epoch = NO_LEADER_EPOCH if fetch.fetch_epoch is None else fetch.fetch_epoch
        sound, behind_sound = self._sound_batches()
        batches, in_marker = visible_batches(sound, fetch.aborted, read_committed=read_committed)
        position = OffsetAndMetadata(fetch.fetch_offset, leader_epoch=fetch.fetch_epoch)
        self.progress = CollectProgress(position, batches, in_marker or behind_sound)
        self._can_be_ahead = can_be_ahead(fetch.records)
        self._next: _Next | None = None

    def _sound_batches(self) -> tuple[Sequence[Batch], CorruptRecordError | None]:
        """All whole, sound batches that reach beyond the fetch offset, and the damage behind them, if any."""
        batches, damage = read_batches(self.fetch.records, check_crcs=self._check_crcs)
        stop = self.fetch.stop_offset
        behind = len(batches) if stop is None else _first_from(batches, stop)
        is_stopped = behind < len(batches)
        if is_stopped:
            batches, damage = batches[:behind], None  # somebody else reads what lies behind
        # The first of a fetch may begin before it.
        start = 0
        while start < len(batches) and batches[start].next_offset <= self.fetch.fetch_offset:
            start += 1
        batches = batches[start:] if start else batches
        if batches:
            last = batches[-1]
            self._end_offset, self._end_epoch = last.next_offset, last.partition_leader_epoch
        if stop is not None and (is_stopped or self._end_offset > stop):
            self._end_offset = stop
        return batches, damage

    @property
    def _end(self) -> OffsetAndMetadata:
        """The position behind all that is whole and sound."""
        return OffsetAndMetadata(self._end_offset, leader_epoch=leader_epoch_or_none(self._end_epoch))

    @property
    def is_finished(self) -> bool:
        """Whether all has been handed out, and there is no damage left to tell of."""
        return self.progress.is_end(self.progress.row)

    def next_rows(self, max_records: int) -> tuple[RecordColumns, OffsetAndMetadata]:
        """Up to this many records, and the position behind them; the same again, until `progress` is set behind them.
        No rows: the fetch is finished.

        Raises:
            CorruptPartitionError: everything in front of the damage has been handed out.
        """
        at = self.progress
        if at.row >= at.rows:
            self.decode()
            at = self.progress
        stop = at.row + max_records
        rows = at.columns.part(at.row, max_records) if stop < at.rows else at.columns.slice(at.row, stop)
        if at.row < at.rows:
            return rows, self._behind(at, rows, stop)
        if at.error is not None:
            raise self._damage(at.error, at.position)
        return rows, self._end

    def _damage(self, error: CorruptRecordError, position: OffsetAndMetadata) -> CorruptPartitionError:
        behind = next_sound_offset(self.fetch.records, position.offset)
        return CorruptPartitionError(self.fetch.topic_partition, error, position, self.fetch.epoch, behind)

    def decode(self) -> None:
        """Decode the next portion, if nothing is left of this one: as `next_rows` does."""
        while (at := self.progress).row >= at.rows and at.batches:
            self.progress = self._decoded(at)

    def let_go(self) -> None:
        """Keep nothing of a portion that was handed out: others have their turn before the next one is decoded."""
        at = self.progress
        if at.row >= at.rows:
            self.progress = CollectProgress(at.position, at.batches, at.error)

    def inflate_ahead(self, beside: Collection[OpenFetch] = ()) -> bool:
        """Have a thread begin to inflate what is decoded next, if that has not begun, and pays.

        Args:
            beside: All that are open. When many of them wait for their turn, paused perhaps, no more is begun: each
                keeps what was inflated for it.

        Returns:
            Whether this is, as a rule, the last portion of the fetch, so that the next fetch may be begun as well.
            False if no thread can inflate this fetch: the next one will be like it.
        """
        if not self._can_be_ahead:
            return False
        batches = self.progress.batches
        if self._next is None or self._next.batches is not batches:
            inflation = inflation_of(batches, budget_bytes=PORTION_BYTES)
            if inflation is not None and sum(each.is_inflated_ahead for each in beside) < MAX_AHEAD:
                inflation.begin()
            is_last = inflation is None or inflation.packed_bytes < LAST_BYTES
            self._next = _Next(batches, inflation, is_last)
        return self._next.is_last

    @property
    def is_inflated_ahead(self) -> bool:
        """Whether a thread has begun with what is decoded next."""
        return self._next is not None and self._next.inflation is not None and self._next.inflation.has_begun

    def _take_inflation(self, batches: Sequence[Batch]) -> Inflation | None:
        """What was made for these batches. It can be used once."""
        found, self._next = self._next, None
        return found.inflation if found is not None and found.batches is batches else None

    def behind(self, rows: int, position: OffsetAndMetadata) -> CollectProgress:
        """How far it is collected once this many of the next rows are; `position` is behind them."""
        _, batches, error, columns, decoded, row, size_bytes = self.progress
        return CollectProgress(position, batches, error, columns, decoded, row + rows, size_bytes)

    def seek(self, wanted: OffsetAndMetadata) -> OffsetAndMetadata | None:
        """Go on at another record that is decoded, be it one that was collected; the position there. None, and nothing
        has changed, if that offset is not among those that are decoded, or may be of another log (KIP-320)."""
        _, batches, error, columns, decoded, _, size_bytes = self.progress
        if not len(columns) or not columns.first_offset <= wanted.offset <= columns.last_position[0] + 1:
            return None
        row = columns.row_of(wanted.offset)
        epoch = leader_epoch_or_none(columns.epoch_at(row - 1)) if row else None
        if wanted.leader_epoch not in {None, epoch}:
            return None
        position = OffsetAndMetadata(wanted.offset, leader_epoch=epoch)
        self.progress = CollectProgress(position, batches, error, columns, decoded, row, size_bytes)
        return position

    def _decoded(self, at: CollectProgress) -> CollectProgress:
        decoded = _in_order(
            decode_available(
                at.batches,
                check_crcs=self._check_crcs,
                budget_bytes=PORTION_BYTES,
                inflation=self._take_inflation(at.batches),
            )
        )
        stop = self.fetch.stop_offset
        columns = decoded.columns if stop is None else _in_front_of(decoded.columns, stop)
        # Batches are stored whole: the first may begin before the position.
        row = columns.row_of(at.position.offset)
        size_bytes = _size_bytes(at.batches, decoded)
        if decoded.error is not None:
            return CollectProgress(at.position, (), decoded.error, columns, len(columns), row, size_bytes)
        batches = at.batches[decoded.taken :]
        if decoded.rest is not None:
            batches = (decoded.rest, *batches)
        return CollectProgress(at.position, batches, at.error, columns, len(columns), row, size_bytes)

    def _behind(self, at: CollectProgress, rows: RecordColumns, stop: int) -> OffsetAndMetadata:
        if at.is_end(stop):
            return self._end
        offset, epoch = rows.last_position
        return OffsetAndMetadata(offset + 1, leader_epoch=leader_epoch_or_none(epoch))


def _in_order(decoded: Decoded) -> Decoded:
    """Cut off in front of the first record whose offset does not ascend, as in batches that overlap: damage."""
    columns = decoded.columns
    good = columns.rows_in_order()
    if good == len(columns):
        return decoded
    last, first = columns.offset_at(good - 1), columns.offset_at(good)
    error = CorruptRecordError(f"a record of offset {first} stands behind one of offset {last}", offset=last)
    return decoded._replace(columns=columns.slice(0, good), error=error, rest=None)


def _size_bytes(batches: Sequence[Batch], decoded: Decoded) -> int:
    """What the records take that were decoded: where they lay, or where they were inflated to."""
    if not decoded.taken:
        return 0
    buffer = decoded.columns.buffer
    taken = batches[: decoded.taken]
    is_plain = buffer is taken[0].data
    size_bytes = payload_bytes(taken) if is_plain else len(buffer)
    return size_bytes if decoded.rest is None else size_bytes - payload_bytes([decoded.rest])


def _in_front_of(columns: RecordColumns, stop: int) -> RecordColumns:
    """A batch is stored whole, and may reach beyond the stop."""
    return columns.slice(0, columns.row_of(stop))


def _first_from(batches: Sequence[Batch], stop: int) -> int:
    """Which is the first batch that begins there or behind; as many as there are if none does."""
    # An old compressed message shows its last offset for its first, until it is inflated: it counts no records.
    firsts = zip(numbers_of(batches, "base_offset"), numbers_of(batches, "record_count"), strict=True)
    are_behind = (nth for nth, (base_offset, count) in enumerate(firsts) if base_offset >= stop and count >= 0)
    return next(are_behind, len(batches))
