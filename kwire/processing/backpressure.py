"""Backpressure: a partition of which enough is buffered is not fetched. Each is held by itself, so that a slow one does
not stop the others. With parallel rebalance each cursor is held by itself, too: with one hold for both, the backlog of
a lag would hold up new records.

Contract: used by the processor's thread alone. What the user has paused is none of its business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Generic

from kwire.consumer.position_calls import PositionCalls
from kwire.consumer.sync import Consumer
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import Cursor, K, TopicPartition, V
from kwire.processing.buffer_usage import BufferUsage, Usage
from kwire.processing.options import ProcessorOptions
from kwire.processing.sources import LagOf, Source, partition_of

# A partition that is held goes on when no more than this part of its share is buffered.
RESUMED_AT = 0.5


class Backpressure(Generic[K, V]):
    """Holds partitions back for each of the consumer's cursors.

    Args:
        usage: What is buffered of each source.
        cursors: Those that the consumer reads with: what one of them brings too fast does not stop the other.
    """

    def __init__(
        self,
        options: ProcessorOptions[K, V],
        consumer: Consumer[K, V],
        positions: PositionCalls[K, V],
        usage: BufferUsage,
        cursors: Collection[Cursor] = (Cursor.MAIN,),
    ) -> None:
        self._options = options
        self._consumer = consumer
        self._positions = positions
        self._usage = usage
        self._held: dict[Cursor, frozenset[TopicPartition]] = dict.fromkeys(cursors, frozenset())

    @property
    def held(self) -> frozenset[TopicPartition]:
        """Partitions that are held back for one cursor at least."""
        return frozenset().union(*self._held.values())

    def regulate(self, closed: frozenset[TopicPartition]) -> None:
        """Hold the partitions of which enough is buffered, and let the others go.

        Of the `closed` ones only those stay held that `put_off` has held: as a rule a partition is open before its
        first records come, and one that was held has to wait for the fetch under way. A partition that is not assigned
        any more may count as full, while a handler is still at its records; it is left out.
        """
        assigned = self._assigned()
        for cursor, held in self._held.items():
            self._hold(cursor, (closed & held | self._full(cursor, len(assigned))) & assigned)

    def hold_all(self) -> None:
        """Nothing more is wanted."""
        assigned = self._assigned()
        for cursor in self._held:
            self._hold(cursor, assigned)

    def put_off(self, chunks: Iterable[PartitionRecords[K, V]]) -> None:
        """These chunks came too soon. Hold their partitions, and go back: the records come again when the partition is
        let go, or to the next one who uses the consumer. Each cursor goes back by itself."""
        runs: dict[tuple[TopicPartition, int | None], list[PartitionRecords[K, V]]] = {}
        for chunk in chunks:
            runs.setdefault((chunk.topic_partition, chunk.epoch), []).append(chunk)
        for cursor, held in self._held.items():
            self._hold(cursor, held | {tp for (tp, _), run in runs.items() if run[0].cursor is cursor})
        for (tp, _), run in runs.items():
            first = next(filter(len, run), None)
            if first is None:  # only a position, behind what nobody may see
                self._positions.pass_again(run[-1])
                continue
            if first.cursor is Cursor.MAIN:
                self._consumer.seek(tp, first.first_position)
            else:
                self._positions.redeliver(tp, first.first_position, run[-1].next.offset)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the holds of these, which are not assigned any more."""
        for cursor in self._held:
            self._held[cursor] -= frozenset(partitions)

    def end(self) -> None:
        """Hold nothing back."""
        self._assigned()
        for cursor in self._held:
            self._hold(cursor, frozenset())

    def _assigned(self) -> frozenset[TopicPartition]:
        assigned = self._consumer.assignment()
        for cursor in self._held:
            self._held[cursor] &= assigned
        return assigned

    def _hold(self, cursor: Cursor, wanted: frozenset[TopicPartition]) -> None:
        if begin := wanted - self._held[cursor]:
            self._positions.set_backpressure(begin, cursor, is_on=True)
        if end := self._held[cursor] - wanted:
            self._positions.set_backpressure(end, cursor, is_on=False)
        self._held[cursor] = wanted

    def _full(self, cursor: Cursor, assigned: int) -> frozenset[TopicPartition]:
        """Partitions with more than their share of what may be buffered; once held, with more than half of it. Each
        cursor of a partition has a share, as far as it has anything."""
        options, held = self._options, self._held[cursor]
        shares = assigned + len({partition_of(source) for source in self._usage if isinstance(source, LagOf)})
        return frozenset(
            partition_of(tp)
            for tp, used in self._loads_of(cursor).items()
            if max(used.records / options.max_buffered_records, used.size_bytes / options.max_buffered_bytes) * shares
            > (RESUMED_AT if tp in held else 1.0)
        )

    def _loads_of(self, cursor: Cursor) -> Mapping[Source, Usage]:
        """A partition's children together."""
        if len(self._held) == 1:
            return self._usage
        records, sizes = Counter[TopicPartition](), Counter[TopicPartition]()
        for source, used in self._usage.items():
            if isinstance(source, LagOf) == (cursor is Cursor.CHILD):
                records[partition_of(source)] += used.records
                sizes[partition_of(source)] += used.size_bytes
        return {tp: Usage(records[tp], sizes[tp]) for tp in records}
