"""Which partitions are paused when two cursors read each of them: each cursor for itself, so that neither a lag that
takes its time holds up what is new, nor the other way round.

Contract: as `Valve`, whose place this takes. What it holds up users do not see as paused, and can pause beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Generic

from kwire.consumer.sync import Consumer
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import Cursor, K, OffsetAndMetadata, TopicPartition, V
from kwire.processing.loads import Load, Loads
from kwire.processing.plan import Plan
from kwire.processing.sources import LagOf, partition_of
from kwire.processing.valve import RESUMED_AT
from kwire.subscription.partition import leader_epoch_or_none


class DoubleValve(Generic[K, V]):
    """Args:
    loads: What is buffered of each source.
    """

    def __init__(self, plan: Plan[K, V], consumer: Consumer[K, V], loads: Loads) -> None:
        self._plan = plan
        self._consumer = consumer
        self._loads = loads
        self._full: dict[Cursor, frozenset[TopicPartition]] = dict.fromkeys(Cursor, frozenset())

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Those of which one cursor at least is held up."""
        return frozenset().union(*self._full.values())

    def regulate(self, closed: frozenset[TopicPartition]) -> None:
        """As `Valve.regulate`."""
        assigned = self._assigned()
        for cursor, full in self._full.items():
            self._set(cursor, closed & full | self._plenty(cursor, len(assigned)))

    def shut(self) -> None:
        """Hold up everything."""
        assigned = self._assigned()
        for cursor in Cursor:
            self._set(cursor, assigned)

    def put_off(self, chunks: Iterable[PartitionRecords[K, V]]) -> None:
        """As `Valve.put_off`; each cursor goes back by itself."""
        runs: dict[tuple[TopicPartition, int | None], list[PartitionRecords[K, V]]] = {}
        for chunk in chunks:
            if len(chunk):
                runs.setdefault((chunk.topic_partition, chunk.epoch), []).append(chunk)
        for (tp, _), run in runs.items():
            cursor, columns = run[0].cursor, run[0].columns
            self._set(cursor, self._full[cursor] | {tp})
            epoch = leader_epoch_or_none(int(columns.leader_epochs[0]))
            position = OffsetAndMetadata(int(columns.offsets[0]), leader_epoch=epoch)
            if cursor is Cursor.MAIN:
                self._consumer.seek(tp, position)
            else:
                self._consumer._give_again(tp, position, run[-1].next.offset)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """As `Valve.forget`."""
        for cursor in Cursor:
            self._full[cursor] -= frozenset(partitions)

    def open(self) -> None:
        """Leave nothing held up."""
        self._assigned()
        for cursor in Cursor:
            self._set(cursor, frozenset())

    def _assigned(self) -> frozenset[TopicPartition]:
        assigned = self._consumer.assignment()
        for cursor in Cursor:
            self._full[cursor] &= assigned
        return assigned

    def _set(self, cursor: Cursor, wanted: frozenset[TopicPartition]) -> None:
        if begin := wanted - self._full[cursor]:
            self._consumer._set_full(begin, cursor, full=True)
        if end := self._full[cursor] - wanted:
            self._consumer._set_full(end, cursor, full=False)
        self._full[cursor] = wanted

    def _plenty(self, cursor: Cursor, assigned: int) -> frozenset[TopicPartition]:
        """As in `Valve`: each cursor of a partition has a share, as far as it has anything."""
        loads, plan = self._loads_of(cursor), self._plan
        shares = assigned + len({partition_of(source) for source in self._loads if isinstance(source, LagOf)})
        return frozenset(
            tp
            for tp, load in loads.items()
            if max(load.records / plan.max_buffered_records, load.size_bytes / plan.max_buffered_bytes) * shares
            > (RESUMED_AT if tp in self._full[cursor] else 1.0)
        )

    def _loads_of(self, cursor: Cursor) -> dict[TopicPartition, Load]:
        """A partition's children together."""
        records, sizes = Counter[TopicPartition](), Counter[TopicPartition]()
        for source, load in self._loads.items():
            if isinstance(source, LagOf) == (cursor is Cursor.CHILD):
                records[partition_of(source)] += load.records
                sizes[partition_of(source)] += load.size_bytes
        return {tp: Load(records[tp], sizes[tp]) for tp in records}
