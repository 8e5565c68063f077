"""`Consumer`: the Java consumer in Python, for code that blocks.

Names, promises and exceptions are those of `org.apache.kafka.clients.consumer.KafkaConsumer`; durations are seconds.
What a call does is in `core.py`; here it is guarded, waited for, and given a deadline.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from re import Pattern
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

from kwire.clock import Deadline
from kwire.config import ConsumerConfig, Settings
from kwire.consumer.access import AccessGuard
from kwire.consumer.core import ConsumerCore, checked_offsets, topics_or_pattern
from kwire.consumer.listener import CallbackView, Partitions, RebalanceListener, Timeout
from kwire.errors import (
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
    WakeupError,
)
from kwire.events import (
    ApplicationEvent,
    Assign,
    CallbackKind,
    Commit,
    CommitAsync,
    CommitCallback,
    CommitCompleted,
    EnforceRebalance,
    ErrorRaised,
    GetCommitted,
    GetLag,
    GetPosition,
    LookUpOffsets,
    LookUpTopics,
    Reply,
    ResetPositions,
    ResetTo,
    RunCallback,
    Seek,
    SetPaused,
    Subscribe,
    Unsubscribe,
)
from kwire.fetching.columns import Records
from kwire.managers.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kwire.model import (
    ConsumerGroupMetadata,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    Record,
    TopicPartition,
    V,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

# How long one poll of the iterator waits. It loops, so this only bounds how late a Ctrl-C of another thread is seen.
ITERATOR_POLL_SECONDS = 3600.0
# Closing keeps this share of its time for leaving the group, however long the last commit takes.
COMMIT_SHARE_OF_CLOSE = 0.8


class Consumer(Generic[K, V]):
    """A Kafka consumer.

    One thread at a time may use it; only `wakeup()` may be called from others. Close it, best with `with`.

    Args:
        topics: Topics to subscribe to at once; needs a `group_id`.
        config: Settings under Java's dotted or snake_case names.
        settings: Settings in snake_case; `kwire config` lists them.

    Raises:
        ConfigError: A setting is unknown or bad.
    """

    def __init__(self, *topics: str, config: Mapping[str, object] | None = None, **settings: Unpack[Settings]) -> None:
        self._guard = AccessGuard()
        self._listener = RebalanceListener()
        self._core: ConsumerCore[K, V] = ConsumerCore(ConsumerConfig.of(config, **settings))
        if topics:
            try:
                self.subscribe(topics)
            except BaseException:
                self.close(timeout=0.0)
                raise

    # --- what to consume ------------------------------------------------------------------------------------

    def subscribe(
        self, topics: str | Iterable[str] | Pattern[str], *, listener: RebalanceListener | None = None
    ) -> None:
        """Join the group for these topics, or for all topics a pattern finds; replaces what was subscribed before.

        Takes effect with the next poll. No topics at all means `unsubscribe()`.

        Raises:
            IllegalStateError: Partitions were assigned by hand.
            InvalidGroupIdError: There is no `group_id`.
        """
        with self._guard:
            self._core.check_open()
            names, pattern = topics_or_pattern(topics)
            if not names and pattern is None:
                self.unsubscribe()
                return
            self._core.check_group("subscribe")
            if self._assigned_by_hand:
                raise IllegalStateError("partitions are assigned by hand; unsubscribe() before subscribing to topics")
            self._listener = listener or RebalanceListener()
            self._command("subscribe", lambda reply: Subscribe(topics=names, pattern=pattern, reply=reply))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Consume exactly these partitions, without a group's rebalances; replaces the assignment before."""
        with self._guard:
            self._core.check_open()
            if not partitions:
                self.unsubscribe()
                return
            if self._core.mailbox.view.subscribed and not self._assigned_by_hand:
                raise IllegalStateError("topics are subscribed; unsubscribe() before assigning partitions by hand")
            for tp in partitions:
                if not tp.topic.strip() or tp.partition < 0:
                    raise InvalidArgumentError(f"there can be no partition {tp!r}")
            self._core.note_delivered()
            wanted = frozenset(TopicPartition(*tp) for tp in partitions)
            self._command("assign", partial(Assign, wanted))
            self._core.assignment = wanted

    def unsubscribe(self) -> None:
        """Leave the group, or drop the assignment. Runs the revoked (or lost) callback; does not commit."""
        with self._guard:
            self._core.check_open()
            if not self._core.mailbox.view.subscribed:
                return
            error = self._give_up_partitions()
            self._core.delivery.hand_out(())
            with contextlib.suppress(KafkaTimeoutError):  # left or not, nothing is subscribed any more
                self._command("unsubscribe", Unsubscribe)
            self._core.assignment = frozenset()
            self._listener = RebalanceListener()
            if error is not None:
                raise error

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed; for a pattern, those it matches now."""
        with self._guard:
            self._core.check_open()
            return self._core.mailbox.view.topics

    def assignment(self) -> Partitions:
        """The partitions this consumer has. Changes only inside poll, assign, unsubscribe and close."""
        with self._guard:
            self._core.check_open()
            return self._core.assignment

    @property
    def _assigned_by_hand(self) -> bool:
        view = self._core.mailbox.view
        return view.subscribed and not view.is_group

    # --- records --------------------------------------------------------------------------------------------

    def poll(self, timeout: Timeout = 1.0) -> Records[K, V]:
        """Records, or an empty `Records` when none came within `timeout` seconds. Runs callbacks, raises errors.

        Calling this says that all records of earlier polls are processed: they may be committed from now on.

        Raises:
            NoOffsetForPartitionError, OffsetOutOfRangeError: The reset policy is "none".
            RecordDeserializationError, CorruptRecordError: Records in front of it have been returned before.
            TopicAuthorizationError, GroupAuthorizationError, InvalidTopicError, FencedInstanceIdError: As named.
            BootstrapError: No broker was ever reached, and the timeout is over.
            WakeupError: `wakeup()` was called.
        """
        with self._guard:
            deadline = _deadline(timeout)
            self._core.check_open()
            self._core.begin_poll()
            asked = False
            while True:
                seen = self._core.mailbox.signal()
                self._raise_wakeup()
                self._core.check_alive()
                self._run_background_events()
                records = self._core.collect()
                if records:
                    return records
                if not asked:
                    self._core.ask_for_work()
                    asked = True
                if deadline.expired:
                    self._raise_unreachable()
                    return records
                self._core.mailbox.wait(seen, deadline)

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records one by one, without an end. Commits cover the records up to the one the loop is at."""
        while not self._core.closed:
            yield from self._core.delivery.iterate(self.poll(ITERATOR_POLL_SECONDS))

    def wakeup(self) -> None:
        """Make the current or the next blocking call raise WakeupError. Safe from any thread and signal handler."""
        self._core.mailbox.wakeup()

    # --- positions ------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Make this the next offset to be returned; what is buffered is dropped.

        Raises:
            IllegalStateError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        position = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        with self._guard:
            self._core.check_open()
            self._core.check_assigned((partition,))
            self._core.note_delivered()
            self._command("seek", partial(Seek, partition, position))

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go to the first offset of these partitions, or of all. Looked up with the next poll or position."""
        self._reset(partitions, ResetTo.EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go behind the last record of these partitions, or of all. Looked up with the next poll or position."""
        self._reset(partitions, ResetTo.LATEST)

    def _reset(self, partitions: Collection[TopicPartition], to: ResetTo) -> None:
        with self._guard:
            self._core.check_open()
            self._core.check_assigned(partitions)
            self._core.note_delivered()
            wanted = frozenset(partitions) or self._core.assignment
            self._command("seek", lambda reply: ResetPositions(wanted, to, reply))

    def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int:
        """The offset of the next record that will be returned."""
        with self._guard:
            self._core.check_open()
            self._core.check_assigned((partition,))
            known = self._core.local_position(partition)
            if known is not None:
                return known
            return self._ask(f"position of {partition}", lambda reply: GetPosition(partition, reply), timeout)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end, as far as fetches have told; never asks a broker."""
        with self._guard:
            self._core.check_open()
            self._core.check_assigned((partition,))
            position = self._core.local_position(partition)
            return self._command("current_lag", lambda reply: GetLag(partition, position, reply))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; what is buffered is kept."""
        self._set_paused(partitions, paused=True)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Undo `pause`."""
        self._set_paused(partitions, paused=False)

    def _set_paused(self, partitions: Collection[TopicPartition], *, paused: bool) -> None:
        with self._guard:
            self._core.check_open()
            self._core.check_assigned(partitions)
            self._command("pause", partial(SetPaused, frozenset(partitions), paused))

    def paused(self) -> Partitions:
        with self._guard:
            self._core.check_open()
            return self._core.mailbox.view.paused & self._core.assignment

    # --- commits --------------------------------------------------------------------------------------------

    def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """Commit and wait: everything returned so far, or the offsets given (the *next* offset to read of each).

        Raises:
            CommitFailedError: Not a member any more; the partitions may have a new owner.
            RebalanceInProgressError: Poll to finish the rebalance, then commit again.
            KafkaTimeoutError: Retriable errors went on until the timeout.
        """
        with self._guard:
            self._core.check_open()
            self._core.check_group("commit_sync")
            self._core.note_delivered()
            self._ask("commit_sync", partial(Commit, checked_offsets(offsets)), timeout)
            self._run_commit_callbacks()

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting or retrying. `callback(offsets, error)` runs inside a later poll, commit or close."""
        with self._guard:
            self._core.check_open()
            self._core.check_group("commit_async")
            self._core.note_delivered()
            self._core.mailbox.post(CommitAsync(checked_offsets(offsets), callback))

    def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None for a partition without a commit."""
        with self._guard:
            self._core.check_open()
            self._core.check_group("committed")
            return self._ask("committed", partial(GetCommitted, frozenset(partitions)), timeout) if partitions else {}

    # --- looking things up ----------------------------------------------------------------------------------

    def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]:
        """The partitions of a topic; an empty list when it does not exist."""
        return self._topics("partitions_for", frozenset((topic,)), timeout).get(topic, [])

    def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics this client may see."""
        return self._topics("list_topics", None, timeout)

    def _topics(
        self, what: str, topics: frozenset[str] | None, timeout: Timeout | None
    ) -> dict[str, list[PartitionInfo]]:
        with self._guard:
            self._core.check_open()
            return self._ask(what, partial(LookUpTopics, topics), timeout)

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after the time; None when there is none."""
        for tp, timestamp in timestamps_ms.items():
            if timestamp < 0:
                raise InvalidArgumentError(f"the timestamp for {tp} cannot be negative: {timestamp}")
        return self._offsets("offsets_for_times", timestamps_ms, timeout)

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._ends("beginning_offsets", partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (under read_committed: the last stable one)."""
        return self._ends("end_offsets", partitions, LATEST_TIMESTAMP, timeout)

    def _ends(
        self, what: str, partitions: Collection[TopicPartition], timestamp: int, timeout: Timeout | None
    ) -> dict[TopicPartition, int]:
        found = self._offsets(what, dict.fromkeys(partitions, timestamp), timeout)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    def _offsets(
        self, what: str, timestamps: Mapping[TopicPartition, int], timeout: Timeout | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._guard:
            self._core.check_open()
            return self._ask(what, partial(LookUpOffsets, dict(timestamps)), timeout)

    # --- the group ------------------------------------------------------------------------------------------

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Group, generation, member id and instance id, as a transactional producer needs them."""
        with self._guard:
            self._core.check_open()
            return self._core.group_metadata()

    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group rebalance; with the next poll this consumer rejoins."""
        with self._guard:
            self._core.check_open()
            self._core.check_group("enforce_rebalance")
            self._core.mailbox.post(EnforceRebalance(reason or "the application asked for it"))

    # --- the end --------------------------------------------------------------------------------------------

    def close(self, timeout: Timeout | None = None, *, leave_group: bool = True) -> None:
        """Commit (with auto-commit), run callbacks, leave the group, and stop; never longer than `timeout`.

        Args:
            timeout: In seconds; None for `close_timeout_ms`.
            leave_group: False keeps the membership until its session times out, for a quick restart.
        """
        with self._guard:
            if self._core.closed:
                return
            default_ms = self._core.config.close_timeout_ms
            total_ms = float(default_ms) if timeout is None else _milliseconds(timeout)
            self._close(Deadline.after(total_ms), total_ms, leave_group=leave_group)

    def _close(self, deadline: Deadline, total_ms: float, *, leave_group: bool) -> None:
        """A list of bounded steps: each is tried whatever the one before came to; the first error is raised."""
        first_error: BaseException | None = None
        commit_deadline = Deadline(deadline.at_ms - total_ms * (1 - COMMIT_SHARE_OF_CLOSE))
        self._core.mailbox.take_wakeup()
        steps: tuple[Callable[[], object], ...] = (
            partial(self._auto_commit, commit_deadline),
            self._raise_given_up,
            partial(self._core.post_close, deadline.at_ms, leave_group),
            partial(self._core.thread.join, deadline),
            self._run_commit_callbacks,
        )
        for step in steps:
            try:
                step()
            except BaseException as error:  # noqa: BLE001  the steps behind it must not be skipped
                first_error = first_error or error
        self._core.closed = True
        if first_error is not None:
            raise first_error

    def _raise_given_up(self) -> None:
        if (error := self._give_up_partitions()) is not None:
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._core.closed:
            # The block failed over the records it was handed last: they are not processed, so not to be committed.
            self._core.delivery.abandon()
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self._core.assignment)} partitions"
        return f"<Consumer {self._core.client_id} group={self._core.config.group_id} {state}>"

    # --- background events ----------------------------------------------------------------------------------

    def _run_background_events(self) -> None:
        while (event := self._core.next_event()) is not None:
            match event:
                case RunCallback():
                    self._run_callback(event)
                case CommitCompleted():
                    event.callback(event.offsets, event.error)
                case ErrorRaised():
                    raise event.error

    def _run_callback(self, event: RunCallback) -> None:
        """One rebalance callback. Its end is reported whatever happens: the group must not wait for ever."""
        self._core.begin_callback(event)
        try:
            if event.kind is CallbackKind.REVOKED:
                self._auto_commit(Deadline.after(self._core.config.default_api_timeout_ms))
            self._call_listener(event.kind, event.partitions)
        finally:
            self._core.end_callback(event)

    def _call_listener(self, kind: CallbackKind, partitions: Partitions) -> None:
        view = CallbackView(self)
        consumer = view.as_consumer()
        try:
            match kind:
                case CallbackKind.ASSIGNED:
                    self._listener.on_partitions_assigned(consumer, partitions)
                case CallbackKind.REVOKED:
                    self._listener.on_partitions_revoked(consumer, partitions)
                case CallbackKind.LOST:
                    self._listener.on_partitions_lost(consumer, partitions)
        finally:
            view.expire()

    def _give_up_partitions(self) -> BaseException | None:
        """Run the callback for what a group gave, because this consumer is leaving; the error it raised."""
        self._core.discard_callbacks()
        if self._assigned_by_hand or not self._core.assignment:
            return None
        group = self._core.mailbox.view.group
        is_member = group is not None and group.generation_id >= 0
        try:
            self._call_listener(CallbackKind.REVOKED if is_member else CallbackKind.LOST, self._core.assignment)
        except BaseException as error:  # noqa: BLE001  raised by the caller, once the leaving is done
            return error
        finally:
            self._core.assignment = frozenset()
        return None

    def _auto_commit(self, deadline: Deadline) -> None:
        """Commit what was returned, before partitions are given up. A failure is logged: they go all the same."""
        if not self._core.config.enable_auto_commit or not self._core.assignment:
            return
        self._core.note_delivered()
        reply: Reply[None] = self._core.reply()
        self._core.mailbox.post(Commit(None, reply))
        try:
            self._wait(reply, "auto-commit", deadline, wakeable=False)
        except KafkaError as error:
            log.warning("auto-commit before giving up partitions failed: %s", error)

    def _run_commit_callbacks(self) -> None:
        """Callbacks of commits that are done; everything else stays for the next poll."""
        for completed in self._core.take_completed_commits():
            completed.callback(completed.offsets, completed.error)

    # --- waiting --------------------------------------------------------------------------------------------

    def _ask(self, what: str, event: Callable[[Reply[T]], ApplicationEvent], timeout: Timeout | None) -> T:
        """Post a question and wait for its answer: for `timeout`, or for `default_api_timeout_ms`."""
        default_ms = self._core.config.default_api_timeout_ms
        deadline = Deadline.after(default_ms) if timeout is None else _deadline(timeout)
        return self._post_and_wait(what, event, deadline, wakeable=True)

    def _command(self, what: str, event: Callable[[Reply[T]], ApplicationEvent]) -> T:
        """Post something that needs no broker: the network thread answers within its next turn."""
        deadline = Deadline.after(self._core.config.default_api_timeout_ms)
        return self._post_and_wait(what, event, deadline, wakeable=False)

    def _post_and_wait(
        self, what: str, event: Callable[[Reply[T]], ApplicationEvent], deadline: Deadline, *, wakeable: bool
    ) -> T:
        reply: Reply[T] = self._core.reply()
        self._core.mailbox.post(event(reply))
        return self._wait(reply, what, deadline, wakeable=wakeable)

    def _wait(self, reply: Reply[T], what: str, deadline: Deadline, *, wakeable: bool) -> T:
        try:
            while True:
                seen = self._core.mailbox.signal()
                if reply.done:
                    return reply.result()
                self._core.check_alive()
                if wakeable:
                    self._raise_wakeup()
                if deadline.expired:
                    raise KafkaTimeoutError(f"{what} took too long; it was still waiting for {reply.waiting_for}")
                self._core.mailbox.wait(seen, deadline)
        finally:
            reply.abandon()

    def _raise_wakeup(self) -> None:
        if self._core.mailbox.take_wakeup():
            raise WakeupError("wakeup() was called")

    def _raise_unreachable(self) -> None:
        if self._core.mailbox.bootstrap_error is not None:
            raise self._core.mailbox.bootstrap_error


def _milliseconds(timeout: Timeout) -> float:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if seconds < 0:
        raise InvalidArgumentError(f"a timeout cannot be negative: {seconds}")
    return seconds * 1000.0


def _deadline(timeout: Timeout) -> Deadline:
    return Deadline.after(_milliseconds(timeout))
