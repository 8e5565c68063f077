"""What the application was handed: the one record of positions that the application thread owns.

The last poll's records count as delivered when the application comes back: with the next poll, with a commit, or when
it closes. Until then no auto-commit may cover them. A `for` loop is more exact: it counts up to the record it is at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic

from kwire.events import Delivered
from kwire.fetching.columns import Records
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, OffsetAndMetadata, Record, TopicPartition, V


class Delivery(Generic[K, V]):
    """Used by the application thread alone."""

    def __init__(self) -> None:
        self._delivered: Sequence[Delivered] = ()
        self._iterating: Records[K, V] | None = None
        self._current: Record[K, V] | None = None

    def hand_out(self, delivered: Sequence[Delivered]) -> None:
        """A poll is about to return this."""
        self._delivered = delivered
        self._iterating = self._current = None

    def iterate(self, records: Records[K, V]) -> Iterator[Record[K, V]]:
        """The records one by one, keeping track of how far the loop got."""
        self._iterating = records
        for record in records:
            self._current = record
            yield record
        if self._iterating is records:
            self._iterating = self._current = None

    def take(self) -> Sequence[Delivered]:
        """The application came back: what it has been handed since the last time, once."""
        delivered = self._so_far()
        if self._iterating is None:
            self._delivered = ()
        return delivered

    def abandon(self) -> None:
        """The application failed over what it was handed last: that must be handed out again."""
        if self._iterating is None or self._current is None:
            self._delivered = ()
            return
        failed_at = TopicPartition(self._current.topic, self._current.partition), self._current.offset
        self._delivered = [_capped(entry, *failed_at) for entry in self._so_far()]
        self._iterating = self._current = None

    def position(self, tp: TopicPartition, epoch: int) -> int | None:
        """The offset behind what was handed out of this partition last, if it was in this assignment."""
        found = [position.offset for key, at, position in self._so_far() if key == tp and at == epoch]
        return found[-1] if found else None

    def _so_far(self) -> Sequence[Delivered]:
        if self._iterating is None:
            return self._delivered
        current = self._current
        if current is None:
            return ()
        epochs = {tp: epoch for tp, epoch, _ in self._delivered}
        so_far: list[Delivered] = []
        for chunk in self._iterating.chunks():
            tp = chunk.topic_partition
            if (tp.topic, tp.partition) == (current.topic, current.partition) and _is_inside(chunk, current.offset):
                so_far.append((tp, epochs[tp], _behind(chunk, current)))
                break
            so_far.append((tp, epochs[tp], chunk.next))
        return so_far


def _is_inside(chunk: PartitionRecords[K, V], offset: int) -> bool:
    return bool(len(chunk)) and int(chunk.columns.offsets[0]) <= offset <= int(chunk.columns.offsets[-1])


def _behind(chunk: PartitionRecords[K, V], record: Record[K, V]) -> OffsetAndMetadata:
    if record.offset == int(chunk.columns.offsets[-1]):
        return chunk.next
    return OffsetAndMetadata(record.offset + 1, leader_epoch=record.leader_epoch)


def _capped(entry: Delivered, tp: TopicPartition, offset: int) -> Delivered:
    key, epoch, position = entry
    return entry if key != tp else (key, epoch, OffsetAndMetadata(offset, leader_epoch=position.leader_epoch))
