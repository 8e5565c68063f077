"""PartitionLog: the log of one partition, a list of record batches as bytes, with their metadata.

It stands for the logs of all replicas in sync, so the high watermark is its end. Batches stay the bytes that were
produced, with base offset and leader epoch written into them. Contract: pure; times are arguments. Owned by
`topics.Partition`; a change is told to `ClusterState.changed`, with the partition's key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import InvalidArgumentError
from kwire.protocol.record_batch import Batch, iter_batches
from kwire.protocol.record_control import ControlType, read_control
from kwire.testing.cluster.batches import placed, transaction_marker
from kwire.testing.cluster.compaction import Compaction, compacted
from kwire.testing.cluster.leader_epochs import LeaderEpochs
from kwire.testing.cluster.producers import EndedTransaction, Producers
from kwire.testing.cluster.validation import checked, the_batch

if TYPE_CHECKING:
    from kwire.protocol.record_batch import Buffer
    from kwire.testing.cluster.leader_epochs import EpochEnd
    from kwire.testing.cluster.settings import TopicSettings

NO_TIMESTAMP = -1
LATEST_PRODUCE = 13


class AppendResult(NamedTuple):
    """The result of an append. `log_append_time_ms` is -1 where the producer's times count (KIP-32); for a repetition
    it is the largest time of the batch, as in Kafka."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_repetition: bool = False


class ReadResult(NamedTuple):
    """Batches of a log, and its offsets. `aborted` is None unless only committed records were asked for."""

    records: bytes
    aborted: list[EndedTransaction] | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class Found(NamedTuple):
    """A record that was found by its timestamp."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class PartitionLog:
    """The log of one partition.

    Args:
        settings: The topic's.
    """

    def __init__(self, settings: TopicSettings) -> None:
        self.settings = settings
        self.producers = Producers()
        self.epochs = LeaderEpochs()
        self.epochs.begin(0, 0)
        self._batches: list[Batch] = []
        self._last_offsets: list[int] = []
        self._ended: list[EndedTransaction] = []
        self._start = 0
        self._end = 0

    # --- offsets ---------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self._start

    @property
    def log_end_offset(self) -> int:
        return self._end

    @property
    def high_watermark(self) -> int:
        return self._end

    @property
    def last_stable_offset(self) -> int:
        """Where the oldest open transaction begins, or the high watermark (KIP-98)."""
        first_open = self.producers.first_open_offset
        return self._end if first_open is None else max(first_open, self._start)

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.data) for batch in self._batches)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """All batches, in order."""
        return tuple(self._batches)

    # --- writing ---------------------------------------------------------------------------------------------

    def append(
        self, records: Buffer | Batch, leader_epoch: int, now_ms: int, *, version: int = LATEST_PRODUCE
    ) -> AppendResult:
        """Append one batch that a client made.

        Args:
            records: The batch.
            leader_epoch: The epoch of the leader.
            now_ms: The wall clock.
            version: The version of the Produce request.

        Raises:
            RecordsRefusedError: Nothing was appended.
        """
        batch = records if isinstance(records, Batch) else the_batch(records, version)
        data = checked(batch, self.settings, now_ms)
        if batch.producer_id >= 0:
            if repeated := self.producers.repeated(batch):
                where = (repeated.first_offset, repeated.last_offset)
                return AppendResult(*where, repeated.timestamp_ms, self._start, is_repetition=True)
            self.producers.check(batch)
        stored = self._place(data, leader_epoch)
        if stored.producer_id >= 0:
            self.producers.note(stored)
        return AppendResult(
            stored.base_offset, stored.last_offset, now_ms if self._stamps else NO_TIMESTAMP, self._start
        )

    def leave_gap(self, offsets: int) -> None:
        """Leave this many offsets without records, as if compaction had removed their batches."""
        self._end += offsets

    def end_transaction(
        self, producer_id: int, producer_epoch: int, leader_epoch: int, now_ms: int, *, committed: bool
    ) -> int:
        """Write the marker that ends the producer's transaction in this log. Returns its offset.

        Raises:
            RecordsRefusedError: A later epoch of the producer has written since.
        """
        self.producers.check_marker(producer_id, producer_epoch)
        data = transaction_marker(
            producer_id, producer_epoch, committed=committed, coordinator_epoch=0, timestamp_ms=now_ms
        )
        marker = self._place(data, leader_epoch)
        self._note_marker(marker)
        return marker.base_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """Begin a leader epoch at the end of the log."""
        self.epochs.begin(leader_epoch, self._end)

    @property
    def _stamps(self) -> bool:
        return self.settings.message_timestamp_type == "LogAppendTime"

    def _place(self, data: bytes, leader_epoch: int) -> Batch:
        self.epochs.begin(leader_epoch, self._end)
        stored = next(iter_batches(placed(data, self._end, leader_epoch), check_crcs=False))
        self._batches.append(stored)
        self._last_offsets.append(stored.last_offset)
        self._end = stored.next_offset
        return stored

    def _note_marker(self, marker: Batch) -> None:
        control = read_control(marker)
        if control is not None and control.type in (ControlType.ABORT, ControlType.COMMIT):
            committed = control.type is ControlType.COMMIT
            epoch = control.coordinator_epoch or 0
            ended = self.producers.note_marker(marker, committed=committed, coordinator_epoch=epoch)
            if ended is not None:
                self._ended.append(ended)

    # --- reading ---------------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, committed_only: bool = False, whole_first: bool = True
    ) -> ReadResult:
        """The batches from the one that holds `offset` on.

        As Kafka does, the last batch is cut off where the limit is, and the first is whole in spite of it (KIP-74).

        Args:
            offset: Within the log; the caller has compared it with the marks.
            max_bytes: The limit.
            committed_only: Whether to read only up to the last stable offset, with a list of aborted transactions.
            whole_first: Whether the first batch is returned even if it exceeds the limit; False if the answer has
                records of another partition already.
        """
        limit = self.last_stable_offset if committed_only else self.high_watermark
        nth = bisect_left(self._last_offsets, offset)
        parts: list[Buffer] = []
        room_bytes = max_bytes
        end = offset
        while nth < len(self._batches) and self._last_offsets[nth] < limit:  # in a batch with deleted records
            batch = self._batches[nth]
            if not parts and len(batch.data) > max_bytes:
                if whole_first:
                    parts.append(batch.data)
                    end = batch.next_offset
                break
            if room_bytes <= 0:
                break
            parts.append(batch.data[:room_bytes])
            room_bytes -= len(batch.data)
            end = batch.next_offset
            nth += 1
        aborted = self.aborted_between(offset, end) if committed_only else None
        return ReadResult(b"".join(parts), aborted, self._end, self.last_stable_offset, self._start)

    def aborted_between(self, start: int, end: int) -> list[EndedTransaction]:
        """The aborted transactions with records in that range, in the order of their markers."""
        return [one for one in self._ended if not one.committed and one.last_offset >= start and one.first_offset < end]

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where that leader epoch ended (KIP-320)."""
        return self.epochs.end(epoch, self._end)

    def offset_for_timestamp(self, timestamp_ms: int) -> Found | None:
        """The first record with this timestamp or a later one, in batches whose largest timestamp is not earlier."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp_ms and batch.last_offset >= self._start:
                for time_ms, offset in self._times(batch):
                    if time_ms >= timestamp_ms and offset >= self._start:
                        return Found(time_ms, offset, batch.partition_leader_epoch)
        return None

    def largest_timestamp(self) -> Found | None:
        """The record with the largest timestamp, the first of several (KIP-734)."""
        there = [batch for batch in self._batches if batch.record_count > 0 and batch.last_offset >= self._start]
        if not there:
            return None
        batch = max(there, key=lambda one: one.max_timestamp)
        for time_ms, offset in self._times(batch):
            if time_ms == batch.max_timestamp:
                return Found(time_ms, offset, batch.partition_leader_epoch)
        return None

    def _times(self, batch: Batch) -> list[tuple[int, int]]:
        from kwire.protocol.record_decoding import decode_columns

        columns = decode_columns([batch])
        return list(zip(columns.timestamps.tolist(), columns.offsets.tolist(), strict=True))

    # --- shortening ------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Delete the records before `offset` (KIP-107). Returns where the log begins now, which may be later.

        Raises:
            InvalidArgumentError: The log ends before `offset`.
        """
        if offset > self.high_watermark:
            raise InvalidArgumentError(f"the log ends at {self.high_watermark}, in front of {offset}")
        if offset > self._start:
            self._start = offset
            gone = bisect_left(self._last_offsets, offset)
            del self._batches[:gone], self._last_offsets[:gone]
            self._ended = [one for one in self._ended if one.last_offset >= offset]
            self.epochs.truncate_start(offset)
        return self._start

    def truncate_to(self, offset: int) -> None:
        """Truncate the log at `offset`, or at the start of the batch that holds it."""
        kept = bisect_right(self._last_offsets, offset - 1)
        if kept < len(self._batches) and self._batches[kept].base_offset < offset:
            offset = self._batches[kept].base_offset
        self._end = max(min(offset, self._end), self._start)
        del self._batches[kept:], self._last_offsets[kept:]
        self.epochs.truncate_end(self._end)
        self._replay()

    def compact(self, now_ms: int) -> None:
        """Keep only the last record of each key, up to the first open transaction (cleanup.policy=compact).

        Args:
            now_ms: The wall clock, which decides about deletions that were met before.
        """
        clean_to = bisect_left(self._last_offsets, self.last_stable_offset)
        rules = Compaction(
            self._is_aborted, self._has_data, self._keeps_producer, self.settings.delete_retention_ms, now_ms
        )
        kept = compacted(self._batches[:clean_to], rules)
        self._batches[:clean_to] = kept
        self._last_offsets[:clean_to] = [batch.last_offset for batch in kept]
        # As in Kafka's index: told of a transaction whose marker is gone, readers would take the next one for aborted.
        self._ended = [one for one in self._ended if one.committed or self._has_data(one.producer_id, one.last_offset)]

    def retain(self, now_ms: int) -> int:
        """Delete batches that exceed retention.ms or retention.bytes. Returns where the log begins now."""
        start, size_bytes, kept_bytes = self._start, self.size_bytes, self.settings.retention_bytes
        for batch in self._batches if self.settings.is_retained else ():
            aged = 0 <= self.settings.retention_ms < now_ms - batch.max_timestamp
            over = 0 <= kept_bytes <= size_bytes - len(batch.data)  # at least that much stays
            if not aged and not over:
                break
            start, size_bytes = batch.next_offset, size_bytes - len(batch.data)
        return self.delete_records_before(start)

    def _is_aborted(self, producer_id: int, offset: int) -> bool:
        return any(
            one.producer_id == producer_id and one.first_offset <= offset < one.last_offset and not one.committed
            for one in self._ended
        )

    def _has_data(self, producer_id: int, marker_offset: int) -> bool:
        """Whether batches of the transaction that ends at the marker are in the log. Empty ones count: without the
        marker, a broker that starts with this log would take them for an open transaction."""
        ended = next((one for one in self._ended if one.last_offset == marker_offset), None)
        return ended is not None and any(
            batch.producer_id == producer_id and ended.first_offset <= batch.base_offset < marker_offset
            for batch in self._batches
        )

    def _keeps_producer(self, batch: Batch) -> bool:
        """Whether this is the producer's last batch of data, with its sequence number, or, where there is none in its
        epoch, the marker that brought the epoch."""
        known = self.producers.find(batch.producer_id)
        if known is None:
            return False
        if known.batches:
            return known.batches[-1].last_offset == batch.last_offset
        return batch.is_control and batch.producer_epoch == known.epoch

    def _replay(self) -> None:
        """Rebuild producers and transactions from the log, as a broker does when it starts."""
        self.producers = Producers()
        self._ended = []
        for batch in self._batches:
            if batch.is_control:
                self._note_marker(batch)
            elif batch.producer_id >= 0:
                self.producers.note(batch)
