"""`Consumer`: the Java consumer in Python, for code that blocks. Long, because every call a user has is in it.

Names, promises and exceptions are those of `org.apache.kafka.clients.consumer.KafkaConsumer`; durations are seconds.
What a call does is in `core.py`, how it waits in `waiting.py`, what runs inside it in `callbacks.py`; arguments are
checked and one thread at a time let in.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar, Unpack

from kwire.clock import Deadline
from kwire.config import ConsumerConfig, Settings
from kwire.consumer.access import AccessGuard, ThreadAccessKey
from kwire.consumer.arguments import (
    Timeout,
    Topics,
    checked_offsets,
    checked_partition,
    checked_partitions,
    checked_position,
    checked_reason,
    checked_timestamps,
    checked_topic,
    milliseconds,
    topics_or_pattern,
)
from kwire.consumer.callbacks import CallbackRunner
from kwire.consumer.core import ConsumerCore
from kwire.consumer.forks import disown_in_children
from kwire.consumer.listener import Partitions, RebalanceListener, checked_listener, uncallable_with
from kwire.consumer.waiting import BlockingCalls
from kwire.errors import (
    IllegalStateError,
    InvalidArgumentError,
    KafkaTimeoutError,
)
from kwire.events import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Assign,
    Commit,
    CommitAsync,
    CommitCallback,
    EnforceRebalance,
    GetCatchUp,
    GetCommitted,
    GetLag,
    GetPosition,
    LookUpOffsets,
    LookUpTopics,
    Processed,
    Redeliver,
    Reply,
    ResetPositions,
    ResetTo,
    Seek,
    SetHold,
    Subscribe,
    Unsubscribe,
)
from kwire.fetching.columns import Records
from kwire.holds import Hold
from kwire.metrics import MetricName
from kwire.model import (
    CatchUpProgress,
    ConsumerGroupMetadata,
    Cursor,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    Record,
    SubscriptionPattern,
    TopicPartition,
    V,
)
from kwire.parallel_rebalance.metrics import metrics_of

log = logging.getLogger(__name__)

T = TypeVar("T")

# How long one poll of the iterator waits. It loops, so this only bounds how late a Ctrl-C of another thread is seen.
ITERATOR_POLL_SECONDS = 3600.0
# The same where a revoke was delayed in the loop's body, which may get no record, and so no turn, any more.
DELAYING_POLL_SECONDS = 1.0
# Closing keeps this share of its time for leaving the group, however long the last commit takes.
COMMIT_SHARE_OF_CLOSE = 0.8
# When its time is up the network thread still has sockets to close: a few ms, after which nothing is left behind.
CLOSE_GRACE_MS = 100.0


class Consumer(Generic[K, V]):
    """A Kafka consumer.

    One thread at a time may use it; only `wakeup()` may be called from others, and a callback may have another thread
    or task do its work (`get_thread_access_key`). Close it, best with `with`.

    Args:
        topics: Topics to subscribe to at once; needs a `group_id`.
        config: Settings under Java's dotted or snake_case names.
        settings: Settings in snake_case; `kwire config` lists them.

    Raises:
        ConfigError: A setting is unknown or bad.
    """

    def __init__(self, *topics: str, config: Mapping[str, object] | None = None, **settings: Unpack[Settings]) -> None:
        self._guard = AccessGuard()
        self._core: ConsumerCore[K, V] = ConsumerCore(ConsumerConfig.of(config, **settings))
        self._calls = BlockingCalls(self._core.mailbox, self._core.config.default_api_timeout_ms)
        self._callbacks: CallbackRunner[K, V] = CallbackRunner(self._core, self._calls, self, self._guard)
        self._loan: _Loan | None = None
        self._polled_by: int | None = None  # a thread
        disown_in_children(self._core, self._guard)
        if topics:
            try:
                self.subscribe(topics)
            except BaseException:
                self.close()  # a member of no group yet: this waits for nothing
                raise

    @property
    def config(self) -> ConsumerConfig:
        """The settings it was made with."""
        return self._core.config

    # --- what to consume ------------------------------------------------------------------------------------

    @property
    def rebalance_listener(self) -> RebalanceListener:
        """What `subscribe` was given; another one can take its place, from the next callback on."""
        return self._callbacks.listener

    @rebalance_listener.setter
    def rebalance_listener(self, listener: RebalanceListener) -> None:
        with self._guard:
            self._callbacks.listener = checked_listener(listener)

    def subscribe(self, topics: Topics, *, listener: RebalanceListener | None = None) -> None:
        """Join the group for these topics, or for all topics a pattern finds; replaces what was subscribed before.

        Takes effect with the next poll. No topics at all means `unsubscribe()`.

        Raises:
            IllegalStateError: Partitions were assigned by hand.
            InvalidArgumentError: The listener's methods cannot be called with a consumer and a set of partitions.
            InvalidGroupIdError: There is no `group_id`.
            UnsupportedVersionError: A `SubscriptionPattern` needs `group_protocol="consumer"`.
        """
        with self._guard:
            self._core.check_open()
            self._core.check_not_in_callback("subscribe()")
            names, pattern = topics_or_pattern(topics)
            checked = checked_listener(listener)
            if not names and pattern is None:
                self.unsubscribe()
                return
            self._core.check_group("subscribe")
            if isinstance(pattern, SubscriptionPattern):
                self._core.check_broker_matches()
            if self._core.assigned_by_hand:
                raise IllegalStateError("partitions are assigned by hand; unsubscribe() before subscribing to topics")
            self._callbacks.listener = checked
            self._calls.command("subscribe", lambda reply: Subscribe(topics=names, pattern=pattern, reply=reply))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Consume exactly these partitions, without a group's rebalances; replaces the assignment before."""
        with self._guard:
            self._core.check_open()
            self._core.check_not_in_callback("assign()")
            wanted = checked_partitions(partitions)
            if not wanted:
                self.unsubscribe()
                return
            if self._core.mailbox.view.subscribed and not self._core.assigned_by_hand:
                raise IllegalStateError("topics are subscribed; unsubscribe() before assigning partitions by hand")
            self._core.delivery.interrupt()
            self._core.note_delivered()
            self._calls.command("assign", partial(Assign, wanted))
            self._core.assignment = wanted

    def unsubscribe(self) -> None:
        """Leave the group, or drop the assignment. Runs the revoked (or lost) callback; does not commit."""
        with self._guard:
            self._core.check_open()
            self._core.check_not_in_callback("unsubscribe()")
            if not self._core.mailbox.view.subscribed:
                return
            error = self._callbacks.give_up_partitions()
            self._core.delivery.clear()
            with contextlib.suppress(KafkaTimeoutError):  # left or not, nothing is subscribed any more
                self._calls.command("unsubscribe", Unsubscribe)
            self._callbacks.discard()  # asked for before the network thread heard of it
            self._core.assignment = frozenset()
            self._callbacks.listener = RebalanceListener()
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

    # --- records --------------------------------------------------------------------------------------------

    def poll(self, timeout: Timeout = 1.0) -> Records[K, V]:
        """Records, or an empty `Records` when none came within `timeout` seconds. Runs callbacks, raises errors.

        Calling this says that all records of earlier polls are processed: they may be committed from now on. With
        `enable_async_revocation` it also completes the revoke of `to_be_revoked_partitions()`, and returns at once,
        without records, when there are new ones or some were lost.

        Raises:
            NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError: The reset policy is "none".
            RecordDeserializationError, CorruptRecordError: Records in front of it have been returned before.
            TopicAuthorizationError, GroupAuthorizationError, InvalidTopicError, FencedInstanceIdError: As named.
            BootstrapError: No broker was ever reached, and the timeout is over.
            WakeupError: `wakeup()` was called.
        """
        return self._poll(timeout)

    def _poll(self, timeout: Timeout, *, to_loop: bool = False) -> Records[K, V]:
        """`to_loop`: the records are handed out one by one, by `Delivery.iterate`."""
        if self._loan is not None and not self._guard.is_entered:
            self._take_back()
        has_begun = False
        try:
            with self._guard:
                deadline = _deadline(timeout)
                self._core.check_open()
                self._core.check_not_in_callback("poll()")
                self._polled_by = get_ident()
                self._core.delivery.come_back()
                has_begun = True
                self._core.begin_poll()
                self._callbacks.begin_poll()
                records = self._next_records(deadline, to_loop=to_loop)
                self._core.revocation.end_poll()
                return records
        except BaseException as error:
            if has_begun:
                self._core.undo_poll(error)
            raise

    def _next_records(self, deadline: Deadline, *, to_loop: bool) -> Records[K, V]:
        """Those there are, or nothing: at the deadline, or because there is news of revocation."""
        asked = False
        while True:
            seen = self._core.mailbox.signal()
            self._calls.raise_wakeup()
            self._callbacks.run()
            self._core.check_open()  # a callback may have closed it
            if self._callbacks.has_news:
                return self._core.records()
            records = self._core.collect(to_loop=to_loop)
            if records:
                return records
            asked = asked or self._core.ask_for_work()
            if self._loan is not None and self._loan.has_news():
                return records
            if deadline.expired:
                self._core.check_reachable()
                return records
            self._core.wait_in_poll(seen, self._callbacks.sooner(deadline))

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records one by one, without an end. Commits cover the records up to the one the loop is at.

        The loop polls as often as it likes, so what its body delays with `delay_revoke` is not delayed for long;
        for that, call `poll`.
        """
        while not self._core.closed:
            is_delaying = self._core.revocation.pending
            self._poll(DELAYING_POLL_SECONDS if is_delaying else ITERATOR_POLL_SECONDS, to_loop=True)
            yield from self._core.delivery.iterate()

    # --- asynchronous revocation (KIP-983) ------------------------------------------------------------------

    def to_be_revoked_partitions(self) -> Partitions:
        """The partitions whose revoke the next poll completes, unless `delay_revoke` delays it.

        They give no records any more, but their offsets can be committed. Empty without `enable_async_revocation`: then
        a revoke is completed in the poll that learns of it. `Records.to_be_revoked` says the same.
        """
        with self._guard:
            self._core.check_open()
            return self._core.revocation.look()

    def lost_partitions(self) -> Partitions:
        """The partitions that were lost in the last poll: others may have them already, so nothing more of them is to
        be committed. `Records.lost` says the same."""
        with self._guard:
            self._core.check_open()
            return self._core.revocation.lost

    def delay_revoke(self, partitions: Collection[TopicPartition]) -> bool:
        """Have the revoke of these completed not by the next poll but by the one after it, unless it is delayed again.

        So an application that polls on can finish what is in work of them, while all other partitions go on at full
        speed. That ends with the rebalance timeout (`max_poll_interval_ms`), a little before the group would do without
        this member: what is still delayed then is lost.

        Returns:
            False if some of them are lost, or given up: too late for those. The others are delayed all the same.

        Raises:
            IllegalStateError: There is nothing to delay without `enable_async_revocation`.
        """
        with self._guard:
            self._core.check_open()
            self._core.check_not_in_callback("delay_revoke()")
            if not self._core.config.enable_async_revocation:
                raise IllegalStateError("a revoke can be delayed only with enable_async_revocation=True")
            return self._callbacks.delay(checked_partitions(partitions))

    def wakeup(self) -> None:
        """Make the current or the next blocking call raise WakeupError. Safe from any thread and signal handler."""
        self._guard.note_wakeup()
        self._core.mailbox.wakeup()

    # --- callbacks that work elsewhere (KIP-944) ------------------------------------------------------------

    def get_thread_access_key(self) -> ThreadAccessKey | None:
        """The key of the callback that runs now: with it, another thread or task can use the consumer in its stead.

        While a callback runs, the consumer refuses all other threads. One that was passed the key, and has called
        `set_thread_access_key` with it, may do what the callback may. The callback has to wait for it: when it returns,
        the key is dead. Those who may use the consumer still cannot do so at the same time.

        Like `wakeup()`, this and `set_thread_access_key` may be called from any thread at any time.

        Returns:
            The key of the innermost callback that the caller runs in, or was given the key of; None if there is none.
                Rebalance and commit callbacks have keys, deserializers have not.
        """
        return self._guard.get_thread_access_key()

    def set_thread_access_key(self, key: ThreadAccessKey | None) -> None:
        """Let the calling thread or task use the consumer inside the callback that passed on this key.

        Holds for the caller alone: a task that it starts, or a thread that inherits its context, has to call this too.
        Nothing need be undone, because keys die with their callbacks; None gives a key back early.

        Raises:
            InvalidArgumentError: This is not a key. (One that is dead is accepted, and opens nothing.)
        """
        self._guard.set_thread_access_key(key)

    # --- positions ------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Make this the next offset to be returned; what is buffered is dropped.

        Raises:
            IllegalStateError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        with self._guard:
            tp = self._checked_own(partition)
            position = checked_position(tp, offset)
            self._core.delivery.interrupt()
            self._core.note_delivered()
            if not self._core.seek_in_buffer(tp, position):
                self._calls.command("seek", partial(Seek, tp, position))
                self._core.discard_position_errors()

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go to the first offset of these partitions, or of all. Looked up with the next poll or position."""
        self._reset(partitions, ResetTo.EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go behind the last record of these partitions, or of all. Looked up with the next poll or position."""
        self._reset(partitions, ResetTo.LATEST)

    def _reset(self, partitions: Collection[TopicPartition], to: ResetTo) -> None:
        with self._guard:
            self._core.check_open()
            wanted = checked_partitions(partitions) or self._core.assignment
            self._core.check_assigned(wanted)
            self._core.delivery.interrupt()
            self._core.note_delivered()
            self._calls.command("seek", lambda reply: ResetPositions(wanted, to, reply))
            self._core.discard_position_errors()

    def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int:
        """The offset of the next record that will be returned."""
        with self._guard:
            tp = self._checked_own(partition)
            known = self._core.local_position(tp)
            if known is not None:
                return known
            return self._calls.ask(f"position of {tp}", lambda reply: GetPosition(tp, reply), timeout)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end, as far as fetches have told; never asks a broker."""
        with self._guard:
            tp = self._checked_own(partition)
            position = self._core.local_position(tp)
            return self._calls.command("current_lag", lambda reply: GetLag(tp, position, reply))

    def _checked_own(self, partition: TopicPartition) -> TopicPartition:
        self._core.check_open()
        tp = checked_partition(partition)
        self._core.check_assigned(frozenset((tp,)))
        return tp

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; what is buffered is kept."""
        self._set_paused(partitions, paused=True)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Undo `pause`."""
        self._set_paused(partitions, paused=False)

    def _set_paused(self, partitions: Collection[TopicPartition], *, paused: bool) -> None:
        with self._guard:
            self._core.check_open()
            wanted = checked_partitions(partitions)
            self._core.check_assigned(wanted)
            if paused:
                self._core.delivery.interrupt()
            self._calls.command("pause" if paused else "resume", partial(SetHold, wanted, Hold.USER_PAUSED, paused))

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
            try:
                self._calls.ask("commit_sync", partial(Commit, checked_offsets(offsets)), timeout)
            finally:
                self._callbacks.run_completed_commits()

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting or retrying. `callback(offsets, error)` runs inside a later poll, commit or close."""
        if callback is not None and (problem := uncallable_with(callback, 2)):
            raise InvalidArgumentError(f"the callback {callback!r} {problem}; it is given offsets and an error")
        with self._guard:
            self._core.check_open()
            self._core.check_group("commit_async")
            self._core.note_delivered()
            self._core.mailbox.post(CommitAsync(checked_offsets(offsets), callback))

    def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None for a partition without a commit. Everything in front of it is done: while
        a lag is being caught up with, that is how far the child got."""
        with self._guard:
            self._core.check_open()
            self._core.check_group("committed")
            wanted = checked_partitions(partitions)
            return self._calls.ask("committed", partial(GetCommitted, wanted), timeout) if wanted else {}

    # --- catching up after a crash (parallel rebalance) -----------------------------------------------------

    def child_consumer_is_alive(self) -> bool:
        """Whether a child cursor has been started, to catch up with a lag. It stays on standby when it is done, until
        the consumer is closed. Always False without `enable_parallel_rebalance`."""
        with self._guard:
            return not self._core.closed and bool(self._core.mailbox.view.children)

    def catch_up_progress(self) -> dict[TopicPartition, CatchUpProgress]:
        """How far the catching up is of each partition that has a lag to be caught up with."""
        with self._guard:
            self._core.check_open()
            self._core.note_delivered()
            return self._calls.command("catch_up_progress", GetCatchUp)

    def metrics(self) -> dict[MetricName, float]:
        """Numbers of this moment, named as Java names its own.

        So far they are those of parallel rebalance, for each partition with a lag to be caught up with, in the group
        "consumer-catch-up-metrics": from and up to which offset, how many of them have been returned and how many
        not, how many a second, and how many seconds that takes. Without `enable_parallel_rebalance` there are none.

        Returns:
            By name; "catch-up-seconds-left" is not a number while nothing moves.
        """
        return metrics_of(self.catch_up_progress().values(), self._core.client_id)

    # --- looking things up ----------------------------------------------------------------------------------

    def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]:
        """The partitions of a topic; an empty list when it does not exist."""
        return self._topics("partitions_for", frozenset((checked_topic(topic),)), timeout).get(topic, [])

    def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics this client may see."""
        return self._topics("list_topics", None, timeout)

    def _topics(
        self, what: str, topics: frozenset[str] | None, timeout: Timeout | None
    ) -> dict[str, list[PartitionInfo]]:
        with self._guard:
            self._core.check_open()
            return self._calls.ask(what, partial(LookUpTopics, topics), timeout)

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after the time; None when there is none."""
        return self._offsets("offsets_for_times", checked_timestamps(timestamps_ms), timeout)

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition. Of both cursors, where a lag is being caught up with: not behind what is
        still to be returned."""
        return self._ends("beginning_offsets", partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (under read_committed: the last stable one)."""
        return self._ends("end_offsets", partitions, LATEST_TIMESTAMP, timeout)

    def _ends(
        self, what: str, partitions: Collection[TopicPartition], timestamp: int, timeout: Timeout | None
    ) -> dict[TopicPartition, int]:
        found = self._offsets(what, dict.fromkeys(checked_partitions(partitions), timestamp), timeout)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    def _offsets(
        self, what: str, timestamps: Mapping[TopicPartition, int], timeout: Timeout | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._guard:
            self._core.check_open()
            if timeout == 0:
                return dict.fromkeys(timestamps)  # as Java: nobody can tell in no time, and that is no error here
            return self._calls.ask(what, partial(LookUpOffsets, dict(timestamps)), timeout)

    # --- the group ------------------------------------------------------------------------------------------

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Group, generation, member id and instance id, as a transactional producer needs them."""
        with self._guard:
            self._core.check_open()
            return self._core.group_metadata()

    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group rebalance; with the next poll this consumer rejoins.

        With `group_protocol="consumer"` the broker alone decides: this does nothing but warn.
        """
        with self._guard:
            self._core.check_open()
            self._core.check_group("enforce_rebalance")
            self._core.mailbox.post(EnforceRebalance(checked_reason(reason) or "the application asked for it"))

    # --- for a Processor, which looks after more than its polls ---------------------------------------------

    @contextlib.contextmanager
    def _lent_to(self, has_news: Callable[[], bool], finish: Callable[[], None]) -> Iterator[Callable[[], None]]:
        """Nobody but the calling thread may use this consumer meanwhile.

        Polls return records that cannot be deserialized as well (`PartitionRecords.failures`).

        Args:
            has_news: Whether a poll that finds no records is to return nevertheless.
            finish: Called in the end. If an exception of a signal handler ends it, it is called again before the
                consumer is used for the next poll.

        Yields:
            What makes a poll that waits look. Any thread and signal handler may call it.
        """
        with self._guard:
            self._core.check_open()
            self._take_back()
            self._loan = _Loan(has_news, finish)
            self._core.keep_failures(True)
            try:
                yield self._core.mailbox.notify
            finally:
                self._take_back()

    def _take_back(self) -> None:
        """Have the `Processor` that uses this consumer finish, if there is one."""
        if self._loan is not None:
            self._loan.finish()
            self._fetch_failures_again()
            self._loan = None

    def _fetch_failures_again(self) -> None:
        """What a poll must raise an error over is not handed out."""
        self._core.keep_failures(False)
        for tp, position, epoch in self._core.kept_failures():
            with contextlib.suppress(IllegalStateError):  # it is not ours any more
                self._calls.command("seek", partial(Seek, tp, position, epoch=epoch))

    def _ask_committed(
        self, partitions: Collection[TopicPartition]
    ) -> Reply[dict[TopicPartition, OffsetAndMetadata | None]]:
        """`committed`, without waiting. Asked until there is an answer, or the reply is abandoned."""
        with self._guard:
            self._core.check_open()
            self._core.check_group("committed")
            return self._calls.post(partial(GetCommitted, checked_partitions(partitions)))

    def _ask_partitions(self, topics: Collection[str]) -> Reply[dict[str, list[PartitionInfo]]]:
        """`partitions_for` of several, in the same way. Topics that do not exist are absent."""
        with self._guard:
            self._core.check_open()
            return self._calls.post(partial(LookUpTopics, frozenset(map(checked_topic, topics))))

    def _commit_processed(self, processed: Mapping[TopicPartition, Processed], *, timeout: Timeout) -> None:
        """`commit_sync` of what handlers have finished of both cursors' records (`enable_parallel_rebalance`)."""
        with self._guard:
            self._core.check_open()
            self._core.check_group("commit_sync")
            self._core.note_delivered()
            try:
                self._calls.ask("commit_sync", lambda reply: Commit({}, reply, processed=processed), timeout)
            finally:
                self._callbacks.run_completed_commits()

    def _commit_processed_async(
        self, processed: Mapping[TopicPartition, Processed], *, callback: CommitCallback
    ) -> None:
        """`commit_async` of that."""
        with self._guard:
            self._core.check_open()
            self._core.check_group("commit_async")
            self._core.note_delivered()
            self._core.mailbox.post(CommitAsync({}, callback, processed))

    def _set_backpressure(self, partitions: Collection[TopicPartition], cursor: Cursor, *, is_on: bool) -> None:
        """Fetch and return nothing that one of the cursors reads of these, or go on; unseen by `paused`."""
        with self._guard:
            self._core.check_open()
            wanted = checked_partitions(partitions)
            self._calls.command(
                "pause" if is_on else "resume", partial(SetHold, wanted, Hold.BACKPRESSURE, is_on, cursor=cursor)
            )

    def _redeliver(self, partition: TopicPartition, position: OffsetAndMetadata, stop: int) -> None:
        """Return once more what a child has read from this position on up to `stop`."""
        with self._guard:
            tp = self._checked_own(partition)
            self._core.delivery.interrupt()
            self._core.note_delivered()
            self._calls.command("seek", partial(Redeliver, tp, position, stop))

    # --- the end --------------------------------------------------------------------------------------------

    def close(self, timeout: Timeout | None = None, *, leave_group: bool | None = None) -> None:
        """Commit (with auto-commit), run callbacks, leave the group, and stop; never longer than `timeout`.

        Args:
            timeout: In seconds; None for `close_timeout_ms`.
            leave_group: False keeps the membership until its session times out, for a quick restart. True gives it up,
                also that of a static member (`group_instance_id`), who otherwise keeps its place (KIP-1092).

        Another thread may close a consumer that is being used after it has called `wakeup()`: this waits until the call
        under way has ended. What the last poll returned is then not committed, unless that was done before: nobody
        knows whether it was processed. In a child process that was forked this touches nothing of the parent's.
        """
        if self._core.is_forked:
            self._core.closed = True
            return
        default_ms = self._core.config.close_timeout_ms
        total_ms = float(default_ms) if timeout is None else milliseconds(timeout)
        mailbox = self._core.mailbox
        self._guard.wait_for_woken_call(Deadline.after(total_ms), lambda: mailbox.is_wakeup_pending)
        with self._guard:
            if self._core.closed:
                return
            self._core.check_not_in_callback("close()")
            if self._polled_by not in (None, get_ident()) and self._core.mailbox.take_wakeup():
                self._core.delivery.abandon()
            self._close(Deadline.after(total_ms), total_ms, leave_group=leave_group)

    def _close(self, deadline: Deadline, total_ms: float, *, leave_group: bool | None) -> None:
        """A list of bounded steps: each is tried whatever the one before came to; the first error is raised."""
        first_error: BaseException | None = None
        commit_deadline = Deadline(deadline.at_ms - total_ms * (1 - COMMIT_SHARE_OF_CLOSE))
        self._core.mailbox.take_wakeup()
        post_close = partial(self._core.post_close, deadline.at_ms, leave_group)
        steps: tuple[Callable[[], object], ...] = (
            partial(self._callbacks.auto_commit, commit_deadline),
            self._raise_given_up,
            post_close,
            post_close,  # a Ctrl-C may have ended the first
            partial(self._core.thread.join, Deadline(deadline.at_ms + CLOSE_GRACE_MS)),
            self._callbacks.run_completed_commits,
        )
        for step in steps:
            try:
                step()
            except BaseException as error:  # noqa: BLE001  the steps behind it must not be skipped
                first_error = first_error or error
        self._core.closed = True
        self._core.mailbox.fail(IllegalStateError("this consumer is closed"))  # for whom a callback did not wait
        if first_error is not None:
            raise first_error

    def _raise_given_up(self) -> None:
        if (error := self._callbacks.give_up_partitions()) is not None:
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


class _Loan(NamedTuple):
    """The consumer is used by a `Processor`; see `Consumer._lent_to`."""

    has_news: Callable[[], bool]
    finish: Callable[[], None]


def _deadline(timeout: Timeout) -> Deadline:
    return Deadline.after(milliseconds(timeout))
