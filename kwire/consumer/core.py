"""The consumer without a colour: everything a facade does except waiting.

`sync.Consumer` waits on the mailbox between two calls of `step`; an async facade awaits there. Used by one thread at a
time, which the facade guards.
"""

from __future__ import annotations

import itertools
import logging
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator
from typing import Generic, TypeVar, cast

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.config import ConsumerConfig, Deserialize, GroupProtocol
from kwire.consumer.delivery import Delivery
from kwire.consumer.host import current_host
from kwire.consumer.revocation import Revocation
from kwire.epochs import AssignmentEpoch
from kwire.errors import (
    ForkedConsumerError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnsupportedVersionError,
)
from kwire.events import (
    AssignmentView,
    BackgroundEvent,
    BufferDrained,
    CallbackCompleted,
    Close,
    CommitAsync,
    CommitCompleted,
    ErrorRaised,
    PollStarted,
    RecordsDelivered,
    Reply,
    RunCallback,
    Seek,
)
from kwire.fetching.buffer import FetchBuffer
from kwire.fetching.collector import FetchCollector
from kwire.fetching.columns import Records
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.deserializing import Deserializers
from kwire.fetching.partition_records import PartitionRecords
from kwire.mailbox import Mailbox
from kwire.model import ConsumerGroupMetadata, K, OffsetAndMetadata, TopicPartition, V, leader_epoch_or_none

log = logging.getLogger(__name__)

IN_PROCESSOR = 'a Processor goes on behind it with on_data_loss="skip"'

T = TypeVar("T")
_numbers = itertools.count(1)


class ConsumerCore(Generic[K, V]):
    """One consumer's application side. Making one starts its network thread."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        host = current_host()
        self.mailbox = Mailbox(host.new_waiter)
        self.client_id = config.client_id or f"consumer-{config.group_id or 'kwire'}-{next(_numbers)}"
        self.delivery: Delivery[K, V] = Delivery()
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.revocation = Revocation()
        self.closed = self._is_close_posted = False
        self.in_callback = False
        children = config.parallel_rebalance_children if config.enable_parallel_rebalance else 0
        self._buffer = FetchBuffer(children)
        self._collector: FetchCollector[K, V] = FetchCollector(
            self._buffer,
            _deserializers(config),
            max_poll_records=config.max_poll_records,
            read_committed=bool(config.isolation_level.value),
            check_crcs=config.check_crcs,
            head_share=config.parallel_rebalance_head_share,
        )
        from kwire.assignors import resolve  # like all that serves the network thread, not before it is needed

        assignors = resolve(config.partition_assignment_strategy)
        self.thread = host.new_network_side(config, assignors, self.mailbox, self._buffer, client_id=self.client_id)
        # The network thread knows nothing of this object, so it is collected with the consumer that holds it.
        self._unclosed = weakref.finalize(self, _end_unclosed, self.mailbox, config, self.client_id)
        self._unclosed.atexit = False  # the process takes the thread along
        try:
            self.thread.start()
        except BaseException:
            self.post_close(0.0, leave_group=False)  # a Ctrl-C, perhaps: nobody will hold what would close the thread
            raise

    # --- polling --------------------------------------------------------------------------------------------

    def begin_poll(self) -> None:
        """Note that the application came back for more: what it was handed may be committed now."""
        if not self.mailbox.view.subscribed:
            raise IllegalStateError("nothing to poll: subscribe to topics or assign partitions first")
        self.mailbox.polled_at_ms = monotonic_ms()
        self.delivery.interrupt()
        self.note_delivered()

    def note_delivered(self) -> None:
        if delivered := self.delivery.so_far():
            self.mailbox.note(RecordsDelivered(delivered))  # first: to be told twice does no harm
            self.delivery.told()

    def undo_poll(self, error: BaseException) -> None:
        """The poll raises, so the application gets nothing of what it was about to return."""
        self.in_callback = False
        self.delivery.put_back()
        raised = self.mailbox.find(lambda event: isinstance(event, ErrorRaised) and event.error is error)
        if raised is not None:
            self.mailbox.remove(raised)

    def wait_in_poll(self, seen: int, deadline: Deadline) -> None:
        """Sleep until there may be something to return. All of that time is spent in the poll; only what user code
        does counts towards `max_poll_interval_ms`."""
        self.mailbox.polled_at_ms = NEVER_MS
        try:
            self._collector.get_ready()  # the application has nothing else to do now
            self.mailbox.wait(seen, deadline)
        finally:
            self.mailbox.polled_at_ms = monotonic_ms()

    def ask_for_work(self) -> bool:
        """There is nothing to return yet: let the network thread know that somebody polls, if that matters to it. A
        turn of its for each record would be most of what the record takes. Whether it was told."""
        if not self.mailbox.awaits_poll:
            return False
        self.mailbox.post(PollStarted())
        return True

    def collect(self, *, to_loop: bool = False) -> Records[K, V]:
        """Records, as many as one poll may return; possibly none. What a poll collected that raised comes first."""
        view = self.mailbox.view
        if not self.delivery.has_due(view):
            self._collect(view)
        chunks = self.delivery.hand_out(view, to_loop=to_loop)
        records = self.records(chunk for chunk in chunks if len(chunk))
        if chunks and not records:
            self.delivery.interrupt()
            self.note_delivered()  # past records nobody may see: nothing to wait for
        for buffer, refusal in self._collector.drained():
            self.mailbox.post(BufferDrained())
            buffer.drain_told(refusal)
        return records

    def _collect(self, view: AssignmentView) -> None:
        try:
            self._collector.collect(view, self.delivery.pending)
        except CorruptPartitionError as corrupt:
            # The position stays in front of the damage: the next poll fetches it again, a seek steps over it.
            self.mailbox.post(Seek(corrupt.topic_partition, corrupt.position, Reply(), corrupt.epoch))
            self._collector.note_damage(corrupt)
            error, tp = corrupt.error, corrupt.topic_partition
            behind = error.next_offset or corrupt.position.offset + 1
            advice = IN_PROCESSOR if self._collector.keeps_failures else f"to step over it: seek({tp!r}, {behind})"
            error.args = (f"{error}; {advice}",)
            raise error from error.__cause__

    def keep_failures(self, keeps: bool) -> None:
        """Whether polls return records that cannot be deserialized (`PartitionRecords.failures`), or raise."""
        self._collector.keeps_failures = keeps

    def kept_failures(self) -> Iterator[tuple[TopicPartition, OffsetAndMetadata, AssignmentEpoch]]:
        """Where records are pending of which some cannot be deserialized: partition, first position, epoch."""
        firsts: dict[int, PartitionRecords[K, V]] = {}
        for chunk, *_ in self.delivery.pending:
            if len(chunk):
                firsts.setdefault(chunk.epoch, chunk)
        for epoch in {chunk.epoch for chunk, *_ in self.delivery.pending if chunk.failures}:
            first = firsts[epoch]
            leader_epoch = leader_epoch_or_none(int(first.columns.leader_epochs[0]))
            position = OffsetAndMetadata(int(first.columns.offsets[0]), leader_epoch=leader_epoch)
            yield first.topic_partition, position, epoch

    def records(self, chunks: Iterable[PartitionRecords[K, V]] = ()) -> Records[K, V]:
        """What a poll returns: these, and how revocation stands."""
        return Records(chunks, to_be_revoked=self.revocation.revoke_next, lost=self.revocation.lost)

    def seek_in_buffer(self, tp: TopicPartition, position: OffsetAndMetadata) -> bool:
        """Whether the next record to be returned is buffered, and the position has gone there. Any other seek drops the
        buffer, and its first record has to wait for the fetch that is under way: half a second at the log's end."""
        is_pending = any(entry.chunk.topic_partition == tp for entry in self.delivery.pending)
        delivered = None if is_pending else self._collector.seek(tp, position, self.mailbox.view)
        if delivered is None:
            return False
        self.mailbox.note(RecordsDelivered((delivered,)))
        return True

    # --- background events ----------------------------------------------------------------------------------

    def next_event(
        self, *, but: Collection[BackgroundEvent] = (), but_callbacks: bool = False
    ) -> BackgroundEvent | None:
        """The oldest background event, or the oldest that is no callback of a rebalance. It stays in the queue until
        what it asks for is done (`mailbox.remove`). Errors of an older subscription are dropped on the way."""

        def is_wanted(event: BackgroundEvent) -> bool:
            return not _is_one_of(event, but) and not (but_callbacks and isinstance(event, RunCallback))

        while (event := self.mailbox.find(is_wanted)) is not None:
            stale = isinstance(event, ErrorRaised) and event.generation not in (None, self.mailbox.view.generation)
            if not stale:
                return event
            self.mailbox.remove(event)
        return None

    def check_not_in_callback(self, what: str) -> None:
        """The consumer itself is within reach of a callback, and would be changed under the rebalance's feet."""
        if self.in_callback:
            raise IllegalStateError(f"{what} cannot be called inside a rebalance callback")

    def end_callback(self, event: RunCallback) -> None:
        """The callback has run, one way or the other; the rebalance goes on."""
        self.mailbox.post(CallbackCompleted(event.attempt))  # first: to be told twice does no harm
        self.mailbox.remove(event)

    def discard_position_errors(self) -> None:
        """Errors that only the user could do something about, who has just done so: with `assign` and then `seek`,
        the network thread may have missed a position in between. What is still true the next poll finds again."""
        decided = (NoOffsetForPartitionError, OffsetOutOfRangeError)
        self.mailbox.discard_background(
            lambda event: isinstance(event, ErrorRaised) and isinstance(event.error, decided)
        )

    def discard_callbacks(self) -> None:
        """Callbacks of a rebalance that an unsubscribe has overtaken."""
        self.mailbox.discard_background(lambda event: isinstance(event, RunCallback))

    @property
    def must_commit(self) -> bool:
        """Whether giving up partitions has to be preceded by a commit."""
        return self.config.enable_auto_commit and bool(self.assignment)

    @property
    def is_member(self) -> bool:
        """Whether the group still counts this consumer as its member, as far as is known."""
        return self.mailbox.view.is_member

    @property
    def assigned_by_hand(self) -> bool:
        return self.mailbox.view.subscribed and not self.mailbox.view.is_group

    # --- checks ---------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("this consumer is closed")
        if self.mailbox.failure is not None:
            raise self.mailbox.failure

    @property
    def is_forked(self) -> bool:
        """Whether this is the copy of a consumer in a process that its own process has forked."""
        return isinstance(self.mailbox.failure, ForkedConsumerError)

    def disown(self, error: KafkaError) -> None:
        """This is such a copy: the network thread, the sockets and the membership are the other process's."""
        self._unclosed.detach()
        self._is_close_posted = True
        self._buffer.forget_other_threads()
        self.mailbox.forget_other_threads(error)

    def check_reachable(self) -> None:
        """Raise why no broker was ever reached, if that is so."""
        if self.mailbox.bootstrap_error is not None:
            raise self.mailbox.bootstrap_error

    def check_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        if missing := partitions - self.assignment:
            names = ", ".join(map(str, sorted(missing)))
            raise IllegalStateError(f"not assigned to this consumer: {names}")

    def check_group(self, what: str) -> str:
        if self.config.group_id is None:
            raise InvalidGroupIdError(f"{what} needs a group: set group_id")
        return self.config.group_id

    def check_broker_matches(self) -> None:
        """Whether there is somebody to match a `SubscriptionPattern`."""
        if self.config.group_protocol is not GroupProtocol.CONSUMER:
            raise UnsupportedVersionError(
                'a SubscriptionPattern is matched by the broker, which needs group_protocol="consumer"; '
                "subscribe with re.compile(...) to have kwire match it"
            )

    def group_metadata(self) -> ConsumerGroupMetadata:
        group_id = self.check_group("group_metadata")
        if self.config.enable_parallel_rebalance:
            raise IllegalStateError(
                "with enable_parallel_rebalance=True a transactional producer must not commit for this consumer: it "
                "would write over the record of what is still to be caught up"
            )
        known = self.mailbox.view.group
        return known or ConsumerGroupMetadata(group_id=group_id, group_instance_id=self.config.group_instance_id)

    # --- commands -------------------------------------------------------------------------------------------

    def completed_commit(self, *, but: Collection[BackgroundEvent] = ()) -> CommitCompleted | None:
        """The oldest commit that is done and has a callback to run."""
        event = self.mailbox.find(lambda each: isinstance(each, CommitCompleted) and not _is_one_of(each, but))
        return event if isinstance(event, CommitCompleted) else None

    def local_position(self, tp: TopicPartition) -> int | None:
        """The position, if the last poll handed out records of this partition."""
        epoch = self.mailbox.view.epochs.get(tp)
        return None if epoch is None else self.delivery.position(tp, epoch)

    def post_close(self, deadline_ms: float, leave_group: bool | None) -> None:
        """Have the network thread end. Nothing happens the second time."""
        if not self._is_close_posted:
            self.mailbox.post(Close(deadline_ms, leave_group))
            self._is_close_posted = True
            self._unclosed.detach()


def _is_one_of(event: BackgroundEvent, events: Collection[BackgroundEvent]) -> bool:
    return any(event is each for each in events)


def _end_unclosed(mailbox: Mailbox, config: ConsumerConfig, client_id: str) -> None:
    """Nobody holds this consumer any more, and nobody closed it: its member must not stay in the group for ever.

    Commits what the application had come back from; what it was handed last it may never have processed. Runs wherever
    the garbage collector does, so it must not wait.
    """
    if config.enable_auto_commit:
        mailbox.post(CommitAsync(None, None))
    mailbox.post(Close(monotonic_ms() + config.close_timeout_ms, leave_group=None))
    warnings.warn(f"unclosed consumer {client_id}: close() it, or use `with`", ResourceWarning, stacklevel=2)


def _deserializers(config: ConsumerConfig) -> Deserializers[K, V]:
    # Settings carry no types: Consumer[str, bytes] says what these two return.
    return Deserializers(
        key=cast("Deserialize[K] | None", config.key_deserializer),
        value=cast("Deserialize[V] | None", config.value_deserializer),
    )
