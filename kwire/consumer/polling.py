"""What polls collect: from the buffer that the network thread fills to what the application is handed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, cast

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.config import ConsumerConfig, Deserialize
from kwire.consumer.poll_size import PollSize
from kwire.consumer.state import ConsumerState
from kwire.consumer.steps import GIVE_WAY, Steps, Wait
from kwire.epochs import AssignmentEpoch
from kwire.errors import KafkaError, RecordDeserializationError
from kwire.events import AssignmentView, BufferDrained, PollStarted, RecordsDelivered, Reply, Seek
from kwire.fetching.collector import FetchCollector
from kwire.fetching.columns import Records
from kwire.fetching.cursor_collector import Collected
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.deserializing import Deserializers
from kwire.fetching.loading import DECODING
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import Cursor, K, OffsetAndMetadata, TopicPartition, V

if TYPE_CHECKING:
    from kwire.fetching.open_fetch import OpenFetch

# An event loop's other tasks wait so long at most for records to be decoded, but for a batch that takes longer.
PORTION_MS = 2.5
FIRST_PORTION = 64
MAX_PORTION = 100_000
# A poll stops at this part of what the buffer may hold. While it decodes, the network thread fills the buffer again, so
# large records would come without end.
POLLS_IN_BUFFER = 4
# Nor does it go on once it has this much, which is one portion of decoded records (`open_fetch.PORTION_BYTES`): what is
# larger leaves the processor's cache before it is used. With 16 MiB, polls of 10,000 records of 1,000 B took a third
# longer (measured).
MAX_POLL_BYTES = 3 * 1024 * 1024

IN_PROCESSOR = 'a Processor goes on behind it with on_data_loss="skip"'


class Polling(Generic[K, V]):
    """Collects the records of one poll after the other.

    Attributes:
        size: How many records the present poll returns at most.
        looked_at_ms: When records were last handed out.
        deserializes: Whether keys or values are deserialized.
    """

    def __init__(self, state: ConsumerState[K, V]) -> None:
        self._state = state
        self._portion = FIRST_PORTION
        self._is_at_error = False
        """Whether what is pending ends in front of an error, which is raised once those records are handed out."""
        self._mailbox = state.link.mailbox
        self._delivery = state.delivery
        self.looked_at_ms = 0.0
        self._consumed = state.link.metrics.consumed
        config = state.config
        deserializers: Deserializers[K, V] = _deserializers(config)
        self.deserializes = bool(deserializers)
        self.size = PollSize(config.max_poll_records, grows=not self.deserializes)
        self._collector: FetchCollector[K, V] = FetchCollector(
            state.link.buffer,
            deserializers,
            max_bytes=max(1, min(config.fetch_buffer_bytes // POLLS_IN_BUFFER, MAX_POLL_BYTES)),
            read_committed=config.reads_committed,
            check_crcs=config.check_crcs,
            head_share=config.parallel_rebalance_head_share,
        )

    def wait(self, seen: int, deadline: Deadline) -> Steps[None]:
        """Until there may be something to return. All of that time is spent in the poll; only what user code does
        counts towards `max_poll_interval_ms`."""
        self._mailbox.polls_in_a_row.finds_nothing()
        self.tell_return()
        self._mailbox.polled_at_ms = NEVER_MS
        try:
            DECODING.begin()
            yield Wait(seen, deadline, is_idle=True)
        finally:
            self._mailbox.polled_at_ms = monotonic_ms()

    def ask_for_work(self, asked_in: int) -> int:
        """Nothing can be returned yet: tell the network thread that the application polls, if it waits for that
        (`awaits_poll`). Told each time, it would take a turn for each record, which is most of what a record takes.

        A poll says so once in each round of waiting, for some needs outlast many polls. A need that comes up while the
        poll waits begins another round: a member has left the group because a callback took too long, say.

        Args:
            asked_in: The round that this poll was last told in; 0 for none.

        Returns:
            The same, from now on.
        """
        awaited_in = self._mailbox.poll_round
        if not self._mailbox.awaits_poll or awaited_in == asked_in:
            return asked_in
        self._mailbox.post(PollStarted())
        return awaited_in

    def tell_return(self) -> None:
        """The application comes back for more: wake the network thread, if it waits for that."""
        if self._state.link.buffer.awaits_return:
            self._state.link.buffer.awaits_return = False
            self._mailbox.wake_network()

    def gather(self) -> Steps[None]:
        """As `collect`, on an event loop: in portions, between which other tasks have a turn.

        A portion is as many records as take `PORTION_MS` to decode: twice as many as the last one if that was quick.
        One batch of records is inflated at once, however large it is. What a poll collected that was cancelled comes
        first, alone.
        """
        if self._delivery.has_due(self._mailbox.view):
            return
        began_ms = monotonic_ms()
        missing, left_bytes = self._missing(), self._collector.max_bytes
        while missing > 0 and left_bytes > 0:
            portion_began_ms = monotonic_ms()
            self._mailbox.polls_in_a_row.collects()
            pending = self._delivery.pending
            count = len(pending)
            self._collect(self._mailbox.view, min(missing, self._portion), left_bytes)
            left_bytes -= sum(entry.size_bytes for entry in pending[count:])
            now_ms = monotonic_ms()
            before, missing = missing, self._missing()
            if missing >= before:
                return  # nothing was collected, so there is nothing to measure
            self._portion = _next_portion(self._portion, before - missing, now_ms - portion_began_ms)
            if now_ms - began_ms > PORTION_MS:
                yield GIVE_WAY
                began_ms, missing = monotonic_ms(), self._missing()

    def _missing(self) -> int:
        """How many more records this poll could return."""
        return self.size.max_records - self._delivery.due_count(self._mailbox.view)

    def collect(self, min_records: int = 1) -> None:
        """Collect what a poll may return, and go on until there are this many records, or no more at hand. What a poll
        collected that raised comes first, alone."""
        view, pending = self._mailbox.view, self._delivery.pending
        self._is_at_error = False
        while (due := self._delivery.due_count(view)) < min_records and not self._is_at_error:
            before = len(pending)
            self._mailbox.polls_in_a_row.collects()
            self._collect(view, self.size.max_records - due)
            if len(pending) == before or min_records == 1:
                break

    def at_hand(self, now_ms: float) -> OpenFetch | None:
        """The open fetch whose decoded records fill the next poll; None if there is none, or something comes first."""
        if not self._delivery.is_all_handed_out:
            return None
        return self._collector.at_hand(self._mailbox.view, self.size.max_records, now_ms)

    def take(self, opened: OpenFetch, *, to_loop: bool = False) -> Records[K, V]:
        """Collect and hand out what is `at_hand`. As `collect` and `hand_out` do, less what they would do for nothing:
        no fetch ends here, so none is chosen, and no room is made for others."""
        view = self._mailbox.view
        self._mailbox.polls_in_a_row.collects()
        entry = self._collector.take(opened, view, self._delivery.pending, self.size.max_records)
        self._count((entry,), view)
        self._delivery.hand_out_only(entry.chunk, to_loop=to_loop)
        records = Records((entry.chunk,))
        self._note_hand_out(records)
        return records

    def _holds_back(self, min_records: int) -> bool:
        """Whether what was collected waits for more to come."""
        return min_records > 1 and not self._is_at_error and self._delivery.due_count(self._mailbox.view) < min_records

    def hand_out(self, *, to_loop: bool = False, min_records: int = 1) -> Records[K, V]:
        """Hand out what was collected and may be returned; possibly nothing."""
        view = self._mailbox.view
        if not self._delivery.pending or self._holds_back(min_records):  # as a rule before a poll waits
            self._tell_drained()
            return self.records()
        chunks = self._delivery.hand_out(view, self.size.max_records, to_loop=to_loop)
        records = self.records(chunks)
        self._note_hand_out(records)
        if not chunks:
            self._state.interrupt_loop()  # past records nobody may see: nothing to wait for
        self._tell_drained()
        return records

    def _note_hand_out(self, records: Records[K, V]) -> None:
        self._delivery.records = records
        self.size.returned(len(records))
        self.looked_at_ms = monotonic_ms()
        self._mailbox.polls_in_a_row.returns(self.looked_at_ms)

    def _tell_drained(self) -> None:
        for buffer in self._collector.buffers:
            if (refusal := buffer.drained()) is not None:
                self._mailbox.post(BufferDrained())
                buffer.drain_told(refusal)

    def _collect(self, view: AssignmentView, max_records: int, max_bytes: float | None = None) -> None:
        pending = self._delivery.pending
        before = len(pending)
        try:
            try:
                self._collector.collect(view, pending, max_records, self._mailbox.polled_at_ms, max_bytes)
            finally:  # whatever is raised, a later poll returns what is pending, and does not count it
                self._count(pending[before:], view)
        except CorruptPartitionError as corrupt:
            self._is_at_error = self._delivery.has_due(view)
            if self._is_at_error:
                return  # an earlier portion: those first, the next poll meets the damage again
            # The position stays in front of the damage: the next poll fetches it again, a seek steps over it.
            self._mailbox.post(Seek(corrupt.topic_partition, corrupt.position, Reply(), corrupt.epoch))
            self._collector.note_damage(corrupt)
            error, tp = corrupt.error, corrupt.topic_partition
            behind = error.next_offset or corrupt.position.offset + 1
            advice = IN_PROCESSOR if self._collector.keeps_failures else f"to step over it: seek({tp!r}, {behind})"
            error.args = (f"{error}; {advice}",)
            raise error from error.__cause__
        except KafkaError as error:
            if isinstance(error, RecordDeserializationError):
                self._state.note_unread(error, self._mailbox.polled_at_ms)
            self._is_at_error = self._delivery.has_due(view)
            if not self._is_at_error:
                raise

    def _count(self, collected: Iterable[Collected[K, V]], view: AssignmentView) -> None:
        """For metrics. The poll's time is that of its begin, or of when it stopped waiting."""
        metrics, now_ms = self._consumed, self._mailbox.polled_at_ms
        if view.epochs is not metrics.assigned:
            metrics.keep_only(view.epochs)
            for tp in self._state.registry_waits.keys() - view.epochs.keys():
                del self._state.registry_waits[tp]
        for chunk, count, opened, progress, size_bytes in collected:
            if opened is None or progress is None:
                continue
            fetch, tp = opened.fetch, chunk.topic_partition
            if count and self._state.registry_waits:
                self._state.registry_waits.pop(tp, None)
            metrics.collected(tp, count, size_bytes, fetch.answer, now_ms)
            if chunk.cursor is Cursor.MAIN:
                metrics.moved(tp, chunk.next.offset, fetch.log, now_ms)
            if progress.is_end(progress.row):
                metrics.finished(fetch.answer, now_ms)

    def records(self, chunks: Iterable[PartitionRecords[K, V]] = ()) -> Records[K, V]:
        """What a poll returns: these chunks, and the lists of partitions that are to be revoked or are lost."""
        revocation = self._state.revocation
        passed = self._delivery.passed(self._mailbox.view)
        return Records((*passed, *chunks), to_be_revoked=revocation.revoke_next, lost=revocation.lost)

    def keep_failures(self, keeps: bool) -> None:
        """Whether polls return records that cannot be deserialized (`PartitionRecords.failures`), or raise."""
        self._collector.keeps_failures = keeps

    def kept_failures(self) -> Iterator[tuple[TopicPartition, OffsetAndMetadata, AssignmentEpoch]]:
        """Where records are pending of which some cannot be deserialized: partition, first position, epoch."""
        firsts: dict[int, PartitionRecords[K, V]] = {}
        for chunk, *_ in self._delivery.pending:
            if len(chunk):
                firsts.setdefault(chunk.epoch, chunk)
        for epoch in {chunk.epoch for chunk, *_ in self._delivery.pending if chunk.failures}:
            first = firsts[epoch]
            yield first.topic_partition, first.first_position, epoch

    def seek_in_buffer(self, tp: TopicPartition, position: OffsetAndMetadata) -> bool:
        """Whether the next record to be returned is buffered, and the position has gone there. Any other seek drops the
        buffer, and its first record has to wait for the fetch that is under way: half a second at the log's end."""
        is_pending = any(entry.chunk.topic_partition == tp for entry in self._delivery.pending)
        delivered = None if is_pending else self._collector.seek(tp, position, self._mailbox.view)
        if delivered is None:
            return False
        self._delivery.sought(self._mailbox.view, in_buffer=tp)
        self._mailbox.note(RecordsDelivered((delivered,), is_seek=True, came_back=False))
        return True

    def local_position(self, tp: TopicPartition) -> int | None:
        """The position, if the last poll handed out records of this partition."""
        epoch = self._mailbox.view.epochs.get(tp)
        return None if epoch is None else self._delivery.position(tp, epoch)


def _next_portion(portion: int, records: int, took_ms: float) -> int:
    """How many to decode at a time, after this many took that long."""
    if took_ms > PORTION_MS:
        return max(1, int(records * PORTION_MS / took_ms))
    was_quick = records >= portion and took_ms < PORTION_MS / 2
    return min(2 * portion, MAX_PORTION) if was_quick else portion


def _deserializers(config: ConsumerConfig) -> Deserializers[K, V]:
    # Settings carry no types: Consumer[str, bytes] says what these two return.
    return Deserializers(
        key=cast("Deserialize[K] | None", config.key_deserializer),
        value=cast("Deserialize[V] | None", config.value_deserializer),
    )
