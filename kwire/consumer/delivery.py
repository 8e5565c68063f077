"""What the application was handed: the one record of positions that the application thread owns.

The last poll's records count as delivered when the application comes back: with the next poll, with a commit, or when
it closes. Until then no auto-commit may cover them. A `for` loop is more exact: it counts up to the record it is at,
and what it has not seen when it is left is not lost: the next poll hands that out first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from kwire.events import AssignmentView, Delivered
from kwire.fetching.columns import Records
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, OffsetAndMetadata, Record, TopicPartition, V


@dataclass(frozen=True)
class _Stretch(Generic[K, V]):
    """Records that a loop walks through, their assignment epoch, and the position behind them."""

    epoch: int
    chunk: PartitionRecords[K, V]
    behind: OffsetAndMetadata

    def delivered(self) -> Delivered:
        return self.chunk.topic_partition, self.epoch, self.behind

    def row_of(self, record: Record[K, V]) -> int | None:
        """Where the record is in here."""
        offsets = self.chunk.columns.offsets
        if self.chunk.topic_partition != (record.topic, record.partition) or not len(offsets):
            return None
        return int(offsets.searchsorted(record.offset)) if offsets[0] <= record.offset <= offsets[-1] else None

    def delivered_up_to(self, record: Record[K, V], row: int) -> Delivered:
        if row + 1 == len(self.chunk):
            return self.delivered()
        position = OffsetAndMetadata(record.offset + 1, leader_epoch=record.leader_epoch)
        return self.chunk.topic_partition, self.epoch, position

    def after(self, row: int) -> _Stretch[K, V]:
        chunk = self.chunk
        rest = PartitionRecords(
            topic_partition=chunk.topic_partition,
            columns=chunk.columns.slice(row + 1, len(chunk)),
            next=self.behind,
            deserialized_keys=None if chunk.deserialized_keys is None else chunk.deserialized_keys[row + 1 :],
            deserialized_values=None if chunk.deserialized_values is None else chunk.deserialized_values[row + 1 :],
            cursor=chunk.cursor,
            epoch=chunk.epoch,
        )
        return _Stretch(self.epoch, rest, self.behind)


class _Loop(Generic[K, V]):
    """A `for` loop over what one poll returned."""

    def __init__(self, records: Records[K, V], delivered: Sequence[Delivered]) -> None:
        self.current: Record[K, V] | None = None
        epochs = {tp: epoch for tp, epoch, _ in delivered}
        chunks = [(_cursor(chunk, epochs), chunk) for chunk in records.chunks() if len(chunk)]
        last = dict(chunks)
        # Behind the last records of a partition there may be more to skip: transaction markers, aborted records.
        ends = {(tp, epoch): position for tp, epoch, position in delivered}
        self._stretches = [
            _Stretch(cursor[1], chunk, ends[cursor] if chunk is last[cursor] else chunk.next)
            for cursor, chunk in chunks
        ]
        self._nothing_to_see = [entry for entry in delivered if entry[:2] not in last]

    def epoch_of(self, record: Record[K, V]) -> int | None:
        """The assignment epoch of the stretch that the record is in."""
        return next((stretch.epoch for stretch in self._stretches if stretch.row_of(record) is not None), None)

    def split(self) -> tuple[list[Delivered], list[_Stretch[K, V]]]:
        """What the loop has seen, the current record included, and what it has not."""
        seen = list(self._nothing_to_see)
        if self.current is None:
            return seen, list(self._stretches)
        for index, stretch in enumerate(self._stretches):
            row = stretch.row_of(self.current)
            if row is None:
                seen.append(stretch.delivered())
                continue
            seen.append(stretch.delivered_up_to(self.current, row))
            rest = self._stretches[index + 1 :]
            return seen, [stretch.after(row), *rest] if row + 1 < len(stretch.chunk) else rest
        return seen, []


class Delivery(Generic[K, V]):
    """Used by the application thread alone."""

    def __init__(self) -> None:
        self._delivered: Sequence[Delivered] = ()
        self._loop: _Loop[K, V] | None = None
        self._unseen: list[_Stretch[K, V]] = []

    def hand_out(self, delivered: Sequence[Delivered]) -> None:
        """A poll is about to return this."""
        self._delivered = delivered
        self._loop = None

    def iterate(self, records: Records[K, V]) -> Iterator[Record[K, V]]:
        """The records one by one, keeping track of how far the loop got. Ends early when it is interrupted."""
        loop = self._loop = _Loop(records, self._delivered)
        for record in records:
            loop.current = record
            yield record
            if self._loop is not loop:
                return
        self._loop = None

    def interrupt(self) -> None:
        """The loop was left, or goes on elsewhere (a seek, a pause): what it has not seen is for the next poll."""
        if self._loop is not None:
            self._delivered, unseen = self._loop.split()
            self._unseen = unseen + self._unseen
            self._loop = None

    def take_unseen(self, view: AssignmentView) -> tuple[list[PartitionRecords[K, V]], list[Delivered]]:
        """What loops that were left have not seen, as far as it is still to be had: to be handed out again.

        A seek or a rebalance since then has made it stale; that of a paused partition waits until it is resumed.
        """
        if not self._unseen:  # almost always, and every poll asks
            return [], []
        current = [stretch for stretch in self._unseen if view.is_current(_partition(stretch), stretch.epoch)]
        self._unseen = [stretch for stretch in current if _partition(stretch) in view.withheld]
        due = [stretch for stretch in current if _partition(stretch) not in view.withheld]
        return [stretch.chunk for stretch in due], [stretch.delivered() for stretch in due]

    def take(self) -> Sequence[Delivered]:
        """The application came back: what it has been handed since the last time, once."""
        delivered = self._so_far()
        if self._loop is None:
            self._delivered = ()
        return delivered

    def abandon(self) -> None:
        """The application failed over what it was handed last: that must be handed out again."""
        if self._loop is None or self._loop.current is None:
            self._delivered = ()
            return
        current = self._loop.current
        failed_at = TopicPartition(current.topic, current.partition), self._loop.epoch_of(current), current.offset
        self._delivered = [_capped(entry, *failed_at) for entry in self._so_far()]
        self._loop = None

    def position(self, tp: TopicPartition, epoch: int) -> int | None:
        """The offset behind what was handed out of this partition last, if it was in this assignment."""
        found = [position.offset for key, at, position in self._so_far() if key == tp and at == epoch]
        return found[-1] if found else None

    def _so_far(self) -> Sequence[Delivered]:
        return self._delivered if self._loop is None else self._loop.split()[0]


def _partition(stretch: _Stretch[K, V]) -> TopicPartition:
    return stretch.chunk.topic_partition


def _cursor(chunk: PartitionRecords[K, V], epochs: Mapping[TopicPartition, int]) -> tuple[TopicPartition, int]:
    """Who has read it: an assignment epoch names the cursor, where a partition has several."""
    tp = chunk.topic_partition
    return tp, epochs[tp] if chunk.epoch is None else chunk.epoch


def _capped(entry: Delivered, tp: TopicPartition, failed_in: int | None, offset: int) -> Delivered:
    key, epoch, position = entry
    return (
        entry
        if (key, epoch) != (tp, failed_in)
        else (key, epoch, OffsetAndMetadata(offset, leader_epoch=position.leader_epoch))
    )
