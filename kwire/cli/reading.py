"""The loop of `kwire consume`: poll, encode, write, until enough.

Contract: a record counts as read once the operating system has its bytes. If polled records are not written, because of
`--count`, of `--exit-at-end` or of an output that failed, the reader seeks back to them, so that auto-commits, also on
close, never cover them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import cast

from kwire.cli.catching_up import CatchingUp
from kwire.cli.formats import Encode
from kwire.cli.output import Output
from kwire.cli.reading_consumer import PolledRecords, ReadingConsumer
from kwire.cli.record_text import UnreadableRecordError
from kwire.cli.shown_values import BytesRecord
from kwire.clock import NEVER_MS, monotonic_ms
from kwire.errors import CorruptRecordError, IllegalStateError, KafkaTimeoutError, OffsetOutOfRangeError
from kwire.fetching.columns import Records
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.processing.data_loss import LossSkipper, SeekingConsumer

# How soon a signal, or a closed pipe, is noticed when no records arrive.
POLL_SECONDS = 0.2


class Reader:
    """Reads the assigned partitions of a consumer.

    Args:
        consumer: a consumer that is subscribed, or has partitions assigned.
        encode: encodes records as bytes.
        output: where the bytes are written.
        count: how many records to read, None for no limit.
        timeout_ms: how long to wait for the next record, None for ever.
        find_ends: answers where to stop in each partition, None while there is no end.
        skips_losses: whether to continue after damaged batches, and after positions that the log has lost.
        catching_up: watches the lags of a consumer with `enable_parallel_rebalance`.
    """

    def __init__(
        self,
        consumer: ReadingConsumer,
        encode: Encode,
        output: Output,
        *,
        count: int | None = None,
        timeout_ms: int | None = None,
        find_ends: Callable[[], Mapping[TopicPartition, int] | None] = lambda: None,
        catching_up: CatchingUp | None = None,
        skips_losses: bool = False,
    ) -> None:
        self._skipper = LossSkipper(cast("SeekingConsumer", consumer)) if skips_losses else None
        self._catching_up = catching_up
        self._consumer = consumer
        self._encode = encode
        self._output = output
        self._count = count
        self._timeout_ms = NEVER_MS if timeout_ms is None else timeout_ms
        self._waited_since_ms = monotonic_ms()
        self._find_ends = find_ends
        self._ends: Mapping[TopicPartition, int] | None = None
        self._at_end: set[TopicPartition] = set()
        self._unwritten: dict[TopicPartition, int] = {}

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Read until there is enough, or until told to stop.

        Raises:
            BrokenPipeError, OutputError: the output cannot be written any more.
            KafkaError: what the consumer raised.
        """
        try:
            while not is_stopped() and not self._has_enough():
                self._ends = self._ends or self._find_ends()
                records = self._poll()
                if records:
                    self._write_each(records)
                    self._waited_since_ms = monotonic_ms()
                else:
                    self._output.check_reader()
                    self._look_at_positions()
                self._leave_ended(records.next_offsets())
                if self._catching_up is not None:
                    self._catching_up.tell()
        finally:
            self._give_back()

    def _poll(self) -> PolledRecords:
        try:
            return self._consumer.poll(POLL_SECONDS)
        except (CorruptRecordError, OffsetOutOfRangeError) as error:
            if self._skipper is None or not self._skipper.skip(error):
                raise
            return Records()

    def _has_enough(self) -> bool:
        if self._count == 0 or monotonic_ms() - self._waited_since_ms >= self._timeout_ms:
            return True
        if self._ends is None:
            return False
        assigned = self._consumer.assignment()
        return bool(assigned) and self._at_end.issuperset(assigned)

    def _write_each(self, records: PolledRecords) -> None:
        if self._catching_up is None:
            self._write(records)
        else:
            for cursor in (Cursor.CHILD, Cursor.MAIN):  # of each, a partition's records are in order
                self._write(records.of(cursor))

    def _write(self, records: PolledRecords) -> None:
        batches = [(partition, records[partition]) for partition in sorted(records.partitions())]
        self._unwritten = {partition: batch[0].offset for partition, batch in batches}
        given_back = dict(self._unwritten)
        encoded: list[bytes] = []
        unreadable: UnreadableRecordError | None = None
        for partition, batch in batches:
            wanted = batch[: self._wanted(partition, batch)]
            wanted, unreadable = self._encode_readable(wanted, encoded)
            del given_back[partition]
            if len(wanted) < len(batch):
                given_back[partition] = batch[len(wanted)].offset
            if self._count is not None:
                self._count -= len(wanted)
            if unreadable is not None:
                break
        self._output.write(b"".join(encoded))
        self._unwritten = given_back
        self._give_back()
        if unreadable is not None:
            raise unreadable

    def _encode_readable(
        self, batch: Sequence[BytesRecord], encoded: list[bytes]
    ) -> tuple[Sequence[BytesRecord], UnreadableRecordError | None]:
        """The batch up to the first record that cannot be encoded, and the error of that record."""
        try:
            encoded.append(self._encode(batch))
        except UnreadableRecordError as error:
            readable = batch[: bisect_left(batch, error.offset, key=attrgetter("offset"))]
            encoded.append(self._encode(readable))
            return readable, error
        return batch, None

    def _wanted(self, partition: TopicPartition, batch: Sequence[BytesRecord]) -> int:
        """The number of records of the batch to write."""
        wanted = len(batch) if self._count is None else min(self._count, len(batch))
        if self._ends is not None:
            wanted = min(wanted, bisect_left(batch, self._end_of(partition), key=attrgetter("offset")))
        return wanted

    def _end_of(self, partition: TopicPartition) -> int:
        """A partition that has been made since the start, and come to this member of a group, had nothing in it."""
        return 0 if self._ends is None else self._ends.get(partition, 0)

    def _give_back(self) -> None:
        for partition, offset in self._unwritten.items():
            # Revoked meanwhile: its next owner begins at the last commit, which does not cover the record either.
            with suppress(IllegalStateError):
                self._consumer.seek(partition, offset)
        self._unwritten = {}

    def _leave_ended(self, next_offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for partition, reached in next_offsets.items():
            self._check_end(partition, reached.offset)

    def _look_at_positions(self) -> None:
        """A log may end in batches without records (compaction, transactions), which only move the position."""
        if self._ends is None:
            return
        for partition in self._consumer.assignment():
            if partition not in self._at_end:
                with suppress(KafkaTimeoutError):
                    self._check_end(partition, self._consumer.position(partition, timeout=POLL_SECONDS))

    def _check_end(self, partition: TopicPartition, position: int) -> None:
        if self._ends is None or position < self._end_of(partition):
            return
        if self._catching_up is not None and self._catching_up.has_lag(partition):
            return
        self._at_end.add(partition)
        with suppress(IllegalStateError):
            self._consumer.pause([partition])
