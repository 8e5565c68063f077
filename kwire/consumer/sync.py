"""`Consumer`: the Java consumer in Python, for code that blocks: one thread at a time is let in, and waits.

Long, because every call that waits is in it; the others are in `facade.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from uuid import UUID

from kwire.clock import Deadline
from kwire.config import ConsumerConfig
from kwire.consumer.access import CLOSED, AccessGuard
from kwire.consumer.arguments import Timeout, Topics
from kwire.consumer.facade import Facade, admitted
from kwire.consumer.foreign_calls import answers_foreign_calls
from kwire.consumer.forks import disown_in_children, look_for_fork
from kwire.consumer.listener import OnPartitions, RebalanceListener, checked_listener, listener_of
from kwire.consumer.session import ConsumerSession
from kwire.consumer.steps import Steps
from kwire.errors import IllegalStateError
from kwire.events import ResetTo
from kwire.fetching.columns import Records
from kwire.model import (
    CatchUpProgress,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    Partitions,
    Record,
    TopicPartition,
    V,
)

if TYPE_CHECKING:
    from kwire.description.consumer_description import ConsumerDescription
    from kwire.description.health import Health

T = TypeVar("T")


@answers_foreign_calls
class Consumer(Facade[K, V]):
    """A Kafka consumer.

    One thread at a time may use it. Any thread may call `wakeup()`, `metrics()`, `describe()` and `healthy()`. A
    callback may let another thread or task use the consumer in its place (`get_thread_access_key`). Close the consumer,
    best with a `with` statement.

    Args:
        topics: Topics to subscribe to at once. Without a `group_id` all their partitions are read, new ones too,
            beginning where `auto_offset_reset` says. A dictionary of settings may come before them, with Java's dotted
            names or in snake_case.
        config: The dictionary of settings, as a keyword argument.
        settings: Settings in snake_case; `kwire config` lists them.

    Raises:
        ConfigError: A setting is unknown, bad, or given twice.
    """

    def _begin(self, config: ConsumerConfig, topics: tuple[str, ...]) -> None:
        self._guard = AccessGuard()
        self._session = ConsumerSession(config, self, self._guard)
        # Not on an event loop: tasks may share a loop's iterator, and which of its records they have processed nobody
        # can tell.
        self._session.link.mailbox.in_front_of_loop = self._session.state.delivery.in_front_of_loop
        self._polled_by: int | None = None  # a thread
        self._has_failed = False
        """Whether the block of a `with` statement has raised: the records it was handed last are not processed, so they
        are not committed."""
        disown_in_children(self._session)
        if topics and config.group_id is None:
            self._session.whole_topics.read(frozenset(topics))
        elif topics:
            try:
                self.subscribe(topics)
            except BaseException:
                self.close()  # a member of no group yet: this waits for nothing
                raise

    def _access(self) -> AccessGuard:
        return self._guard

    def _run(self, steps: Steps[T]) -> T:
        return self._session.link.run(steps)

    # --- what to consume ------------------------------------------------------------------------------------

    @property
    def rebalance_listener(self) -> RebalanceListener:
        """The listener that `subscribe` was given. Another one may be set; it is called from the next callback on."""
        return self._session.callbacks.listener

    @rebalance_listener.setter
    def rebalance_listener(self, listener: RebalanceListener) -> None:
        with self._guard:
            self._session.callbacks.listener = checked_listener(listener)

    @admitted
    def subscribe(
        self,
        topics: Topics,
        *,
        listener: RebalanceListener | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics that a pattern matches; replaces the subscription before.

        The consumer joins the group with the next poll. Without any topic this is `unsubscribe()`. Functions may take
        the place of a listener; they are called as its methods are, `on_assigned(consumer, partitions)`.

        Args:
            topics: Names; or a compiled pattern, which may match anywhere in a name unless it has "^" and "$"; or a
                `SubscriptionPattern`, which the broker matches with whole names.
            listener: Called when partitions are assigned, revoked or lost.
            on_assigned: A function in the place of `on_partitions_assigned`.
            on_revoked: A function in the place of `on_partitions_revoked`.
            on_lost: A function in the place of `on_partitions_lost`; without it `on_revoked` is called.

        Raises:
            IllegalStateError: Partitions were assigned by hand.
            InvalidArgumentError: The listener's methods cannot be called with a consumer and a set of partitions; or a
                topic's name has characters of a pattern.
            InvalidGroupIdError: There is no `group_id`.
            UnsupportedVersionError: A `SubscriptionPattern` needs `group_protocol="consumer"`.
        """
        chosen = listener_of(listener, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        self._run(self._session.subscribe(topics, chosen))

    @admitted
    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Consume exactly these partitions, without a group's rebalances; replaces the assignment before.

        With a `group_id` it begins where the group has committed, and commits work, unless the group has members: then
        only they can commit. The commits are looked up with the next `poll` or `position`.

        Args:
            partitions: The partitions; an empty collection means `unsubscribe()`.

        Raises:
            IllegalStateError: Topics are subscribed.
            InvalidArgumentError: One of them is no `TopicPartition`.
        """
        self._run(self._session.assign(partitions))

    @admitted
    def unsubscribe(self) -> None:
        """Leave the group, or drop the assignment. Runs the revoked (or lost) callback; does not commit.

        Raises:
            RebalanceListenerError: The callback has raised; the group is left all the same.
        """
        self._run(self._session.unsubscribe())

    # --- records --------------------------------------------------------------------------------------------

    def poll(self, timeout: Timeout = 1.0, *, max_records: int | None = None) -> Records[K, V]:
        """Wait for records, and return them; an empty `Records` if none came in time. Runs callbacks, raises errors.

        A poll tells kwire that the records of all earlier polls are processed: from now on they may be committed. At
        `close()` those of the last poll count as processed, too, but not behind the record where a loop over them was
        left. With `enable_async_revocation` a poll also gives up the partitions of `to_be_revoked_partitions()`. If the
        group asks for further partitions, or some are lost, it returns at once, without records.

        Args:
            timeout: Seconds, or a timedelta; with 0 it returns what is there.
            max_records: How many records to return at most; by default `max_poll_records`.

        Returns:
            Up to `max_records` records. Once they take 3 MiB (or a quarter of `fetch_buffer_bytes`, if that is less),
                no more are added.

        Raises:
            NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError: The reset policy is "none".
            RecordDeserializationError, CorruptRecordError: A record or a batch cannot be read. The records in front of
                it were returned before.
            TopicAuthorizationError, GroupAuthorizationError, InvalidTopicError, FencedInstanceIdError: A broker refuses
                what the name says.
            BootstrapError: No broker was ever reached, and the timeout is over.
            WakeupError: `wakeup()` was called.
        """
        return self._poll(timeout, max_records)

    def _poll(
        self, timeout: Timeout, max_records: int | None = None, *, to_loop: bool = False, min_records: int = 1
    ) -> Records[K, V]:
        """A signal handler may raise up to the last line: then the next poll returns these records."""
        look_for_fork()
        if self._session.is_used_by_processor and not self._guard.is_entered:
            with self._guard:  # which refuses this while a Processor runs
                self._run(self._session.take_back())
        has_begun = False
        try:
            with self._guard:
                timeout_ms = self._session.begin_poll(timeout, max_records, to_loop=to_loop)
                has_begun = True
                self._polled_by = self._session.unclosed.polled_by = get_ident()
                if not self._session.state.assignment:
                    self._session.unclosed.tell_of_rival()
                if min_records == 1 and (records := self._session.fast_poll(to_loop=to_loop)) is not None:
                    return records
                return self._run(self._session.poll(timeout_ms, to_loop=to_loop, min_records=min_records))
        except BaseException as error:
            if has_begun:
                self._session.undo_poll(error)
            raise

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records one by one, without an end. Commits cover the records up to the one the loop is at.

        The loop polls at times of its own, so a revoke that its body delays with `delay_revoke` is soon completed. To
        delay one for long, call `poll`.

        Raises:
            BootstrapError: No broker was ever reached, for `default_api_timeout_ms`.
            KafkaError: What else `poll` raises.
        """
        while not self._is_closed():
            try:
                self._poll(self._loop_poll_seconds, to_loop=True)
            except IllegalStateError:
                if self._is_closed():  # since then
                    return
                raise
            yield from self._session.state.delivery.iterate()

    def _is_closed(self) -> bool:
        """Whether it is closed, or a thread is in `close()`."""
        return self._guard.is_closing or self._session.state.closed

    # --- positions ------------------------------------------------------------------------------------------

    @admitted
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go to this offset: the partition's next record is the one that has it, or the first one behind it.

        Args:
            partition: An assigned one.
            offset: The offset; or an `OffsetAndMetadata` with a leader epoch, so that a truncated log is noticed.

        Raises:
            IllegalStateError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        self._run(self._session.positions.seek(partition, offset))

    @admitted
    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go to the first offset of these partitions. It is looked up with the next `poll` or `position`.

        Args:
            partitions: Assigned ones; an empty collection stands for all assigned ones.

        Raises:
            IllegalStateError: One of them is not assigned.
        """
        self._run(self._session.positions.reset(partitions, ResetTo.EARLIEST))

    @admitted
    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go behind the last record of these partitions. The offset is looked up with the next `poll` or `position`.

        Args:
            partitions: Assigned ones; an empty collection stands for all assigned ones.

        Raises:
            IllegalStateError: One of them is not assigned.
        """
        self._run(self._session.positions.reset(partitions, ResetTo.LATEST))

    @admitted
    def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int:
        """The offset of the next record that will be returned.

        Args:
            partition: An assigned one.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            The position as far as it is known; else the group's committed offset, or that of the reset policy.

        Raises:
            IllegalStateError: The partition is not assigned.
            NoOffsetForPartitionError: Nothing is committed, and the reset policy is "none".
            KafkaTimeoutError: Brokers did not answer in time.
        """
        return self._run(self._session.positions.position(partition, timeout))

    @admitted
    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end of the log, as of the last fetch or the last `end_offsets`;
        never asks a broker.

        Args:
            partition: An assigned one.

        Returns:
            None before the first fetch, or a call of `end_offsets`, has been answered.

        Raises:
            IllegalStateError: The partition is not assigned.
        """
        return self._run(self._session.positions.current_lag(partition))

    @admitted
    def paused(self) -> Partitions:
        """The partitions that `pause` holds.

        Returns:
            Some of `assignment()`.
        """
        return self._run(self._session.positions.paused())

    # --- commits --------------------------------------------------------------------------------------------

    @admitted
    def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """Commit and wait: everything returned so far, or the offsets given.

        Args:
            offsets: The *next* offset to read, of each partition; None for everything returned so far.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Raises:
            CommitFailedError: Not a member any more; the partitions may have a new owner.
            RebalanceInProgressError: Poll to finish the rebalance, then commit again.
            KafkaTimeoutError: Retriable errors went on until the timeout.
        """
        self._run(self._session.commits.commit_sync(offsets, timeout))

    @admitted
    def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed: everything in front of these offsets is done.

        While parallel rebalance catches up with a lag, this is where the rest of the lag begins.

        Args:
            partitions: Any; they need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            The *next* offset to read, with metadata, of each; None for a partition without a commit.

        Raises:
            InvalidGroupIdError: There is no `group_id`.
            GroupAuthorizationError: The client may not read the group.
            KafkaTimeoutError: The coordinator did not answer in time.
        """
        return self._run(self._session.commits.committed(partitions, timeout))

    # --- catching up after a crash (parallel rebalance) -----------------------------------------------------

    @admitted
    def catch_up_progress(self) -> dict[TopicPartition, CatchUpProgress]:
        """How far parallel rebalance is with each partition that has a lag to catch up with.

        Returns:
            Progress by partition; empty when there is no lag, and without `enable_parallel_rebalance`.
        """
        return self._run(self._session.catch_up_progress())

    @admitted
    def client_instance_id(self, *, timeout: Timeout | None = None) -> UUID:
        """The id under which brokers file the metrics of this consumer (KIP-714).

        Args:
            timeout: Seconds; None for `default_api_timeout_ms`. Only the first call waits, until a broker has given the
                id. Brokers that take no metrics give none.

        Returns:
            The same one as long as the consumer lives.

        Raises:
            IllegalStateError: Metrics are not pushed: `enable_metrics_push=False`.
            KafkaTimeoutError: No broker has given an id in time; the message says why.
        """
        return self._run(self._session.client_instance_id(timeout))

    def describe(self) -> ConsumerDescription:
        """How this consumer stands, and why no records come, if none do: `print(consumer.describe())`.

        Any thread may call this at any time, also when the consumer is closed. It asks no broker. It waits for the
        network thread, for a second at most; if that does not answer, the description says so.

        Returns:
            A page for people when printed; `as_dict()` has the same as data.
        """
        return self._run(self._session.describe())

    def healthy(self, *, max_lag: int | None = None) -> Health:
        """Whether this consumer is alive, for liveness probes: true or false, with reasons. From any thread.

        It is not alive if it is closed or its network thread is dead; if the group has fenced or refused it, or brokers
        refuse its login; if no heartbeat was answered, or no coordinator reached, for `session_timeout_ms`; or if the
        last poll is longer ago than `max_poll_interval_ms`. A consumer that has nothing to do is healthy, and so is one
        in a shorter outage.

        Args:
            max_lag: It is not healthy either if a partition is more offsets than this behind the end of its log.

        Returns:
            An object that is true or false as a condition, and prints the reasons.
        """
        return self._run(self._session.health(max_lag))

    # --- looking things up ----------------------------------------------------------------------------------

    @admitted
    def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]:
        """The partitions of a topic.

        Args:
            topic: Its name.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            In their order, with leaders and replicas; an empty list when the topic does not exist.

        Raises:
            TopicAuthorizationError: The client may not see it.
            InvalidTopicError: No topic can have this name.
            KafkaTimeoutError: Brokers did not answer in time.
        """
        return self._run(self._session.look_ups.partitions_for(topic, timeout))

    @admitted
    def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics this client may see.

        Args:
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            The partitions of each, by its name.

        Raises:
            KafkaTimeoutError: Brokers did not answer in time.
        """
        return self._run(self._session.look_ups.list_topics(timeout))

    @admitted
    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int | datetime], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after the time.

        Args:
            timestamps_ms: Milliseconds since 1970, or datetimes with a time zone, by partition.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            Offset and time of that record; None when there is none.

        Raises:
            InvalidArgumentError: A time is negative, without a zone, or in seconds.
            KafkaTimeoutError: Brokers did not answer in time, or there is no such partition; the message says which.
        """
        return self._run(self._session.look_ups.offsets_for_times(timestamps_ms, timeout))

    @admitted
    def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition.

        While parallel rebalance catches up with a lag, the offset is not behind a record that is still to be returned.

        Args:
            partitions: Any; they need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            By partition. Retention and `delete-records` raise it.

        Raises:
            KafkaTimeoutError: Brokers did not answer in time, or there is no such partition; the message says which.
        """
        return self._run(self._session.look_ups.beginning_offsets(partitions, timeout))

    @admitted
    def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (under read_committed: the last stable one).

        Args:
            partitions: Any; they need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            By partition: the offset that the next record will have.

        Raises:
            KafkaTimeoutError: Brokers did not answer in time, or there is no such partition; the message says which.
        """
        return self._run(self._session.look_ups.end_offsets(partitions, timeout))

    # --- for a Processor ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _used_by_processor(
        self, must_return: Callable[[], bool], finish: Callable[[], None]
    ) -> Iterator[Callable[[], None]]:
        """See `ConsumerSession.used_by_processor`. Nobody but the calling thread may use this consumer meanwhile."""
        with self._guard:
            self._check_open()
            usual = self._guard.advice
            self._guard.advice = "a Processor uses it: stop() that, and wait until it has ended"
            try:
                with self._session.used_by_processor(must_return, finish) as notify:
                    yield notify
            finally:
                self._guard.advice = usual

    # --- the end --------------------------------------------------------------------------------------------

    def close(self, timeout: Timeout | None = None, *, leave_group: bool | None = None) -> None:
        """Commit (with auto-commit), run callbacks, leave the group, and stop.

        Waits for brokers until `timeout` at most, and no longer than `request_timeout_ms` for those that do not answer.
        The calls that callbacks make are given up in time, too.

        Another thread may close a consumer that is in use: it calls `wakeup()`, and then this, which waits until the
        call under way has ended. The records of the last poll are then not committed, unless they were before: nobody
        knows whether they are processed. If the thread that polls calls this in the `except` or the `finally` of a
        failure, the records that it has failed over are not committed either. In a forked child process this touches
        nothing of the parent's.

        Args:
            timeout: Seconds; None for `close_timeout_ms`.
            leave_group: False keeps the membership until its session times out, for a quick restart. True ends it, also
                that of a static member (`group_instance_id`), who keeps it otherwise (KIP-1092).
        """
        if self._is_of_another_process():
            return
        session, state, mailbox = self._session, self._session.state, self._session.link.mailbox
        total_ms = self._close_ms(timeout)
        deadline = Deadline.after(total_ms)
        self._guard.wait_for_ending_call(deadline, lambda: mailbox.is_wakeup_pending)
        if self._guard.is_closing and self._guard.is_used_elsewhere:
            return  # that other close() may take longer
        with self._guard:
            if state.closed:
                return
            state.check_not_in_callback("close()")
            polled_by = self._polled_by or get_ident()
            is_left_in_work = polled_by != get_ident() and mailbox.take_wakeup()
            if is_left_in_work or self._has_failed or state.is_failing(polled_by):
                state.delivery.abandon()
            else:
                state.delivery.leave()
            self._guard.is_closing = True
            self._run(session.close(total_ms, deadline, leave_group=leave_group))

    def __enter__(self) -> Self:
        if self._session.state.closed:
            raise IllegalStateError(CLOSED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_failed = error is not None
        self.close()
