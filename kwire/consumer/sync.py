"""`Consumer`: the Java consumer in Python, for code that blocks. Long, because every call a user has is in it.

Names, promises and exceptions are those of `org.apache.kafka.clients.consumer.KafkaConsumer`; durations are seconds.
What a call does is in `session.py`; here one thread at a time is let in, and blocks until it is done.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from threading import get_ident
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from kwire.clock import Deadline
from kwire.config import AllSettings, ConsumerConfig, Deserialize, Settings
from kwire.consumer.access import AccessGuard, ThreadAccessKey
from kwire.consumer.arguments import Timeout, Topics, hint_at_seconds, milliseconds, topics_and_config
from kwire.consumer.forks import disown_in_children, look_for_fork, not_picklable
from kwire.consumer.listener import OnPartitions, Partitions, RebalanceListener, checked_listener, listener_of
from kwire.consumer.session import ConsumerSession
from kwire.consumer.steps import Steps
from kwire.events import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, CommitCallback, ResetTo
from kwire.fetching.columns import Records
from kwire.metrics import MetricName
from kwire.model import (
    CatchUpProgress,
    ConsumerGroupMetadata,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    Record,
    TopicPartition,
    V,
)
from kwire.parallel_rebalance.metrics import metrics_of

if TYPE_CHECKING:
    from kwire.description.consumer_description import ConsumerDescription
    from kwire.description.health import Health

T = TypeVar("T")
P = ParamSpec("P")

# How long one poll of the iterator waits. It loops, so this only bounds how late a Ctrl-C of another thread is seen.
ITERATOR_POLL_SECONDS = 3600.0
# The same where a revoke was delayed in the loop's body, which may get no record, and so no turn, any more.
DELAYING_POLL_SECONDS = 1.0


class _Guarded(Protocol):
    _guard: AccessGuard

    def _check_open(self) -> None: ...


G = TypeVar("G", bound=_Guarded)


def _guarded(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """A call that one thread at a time may make, while the consumer is open."""

    @functools.wraps(method)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        look_for_fork()
        with self._guard:
            self._check_open()
            return method(self, *args, **kwargs)

    return call


class Consumer(Generic[K, V]):
    """A Kafka consumer.

    One thread at a time may use it; only `wakeup()` may be called from others, and a callback may have another thread
    or task do its work (`get_thread_access_key`). Close it, best with `with`.

    Args:
        topics: Topics to subscribe to at once; without a `group_id`, to read all partitions of, new ones too, from
            `auto_offset_reset` on. In front of them a dictionary of settings may stand, under Java's dotted or
            snake_case names.
        config: The same dictionary, under its name.
        settings: Settings in snake_case; `kwire config` lists them.

    Raises:
        ConfigError: A setting is unknown, bad, or given twice.
    """

    # Two variants, though one would do: of a dictionary given as `**settings` type checkers then make one complaint.
    @overload
    def __init__(
        self,
        *topics: str,
        config: Mapping[str, object] | None = None,
        key_deserializer: Deserialize[K] | None = None,
        value_deserializer: Deserialize[V] | None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self,
        config: Mapping[str, object],
        /,
        *topics: str,
        key_deserializer: Deserialize[K] | None = None,
        value_deserializer: Deserialize[V] | None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        config: Mapping[str, object] | None = None,
        **settings: Unpack[AllSettings],
    ) -> None:
        names, config = topics_and_config(topics, config)
        self._guard = AccessGuard()
        self._session: ConsumerSession[K, V] = ConsumerSession(ConsumerConfig.of(config, **settings), self, self._guard)
        self._polled_by: int | None = None  # a thread
        disown_in_children(self._session, self._guard)
        if names and self.config.group_id is None:
            self._session.whole_topics.read(frozenset(names))
        elif names:
            try:
                self.subscribe(names)
            except BaseException:
                self.close()  # a member of no group yet: this waits for nothing
                raise

    @property
    def config(self) -> ConsumerConfig:
        """The settings it was made with."""
        return self._session.state.config

    def _check_open(self) -> None:
        self._session.state.check_open()

    def _run(self, steps: Steps[T]) -> T:
        return self._session.link.run(steps)

    # --- what to consume ------------------------------------------------------------------------------------

    @property
    def rebalance_listener(self) -> RebalanceListener:
        """What `subscribe` was given; another one can take its place, from the next callback on."""
        return self._session.callbacks.listener

    @rebalance_listener.setter
    def rebalance_listener(self, listener: RebalanceListener) -> None:
        with self._guard:
            self._session.callbacks.listener = checked_listener(listener)

    @_guarded
    def subscribe(
        self,
        topics: Topics,
        *,
        listener: RebalanceListener | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Join the group for these topics, or for all topics a pattern finds; replaces what was subscribed before.

        Takes effect with the next poll. No topics at all means `unsubscribe()`. Functions may stand for a listener;
        they are called as its methods are, `on_assigned(consumer, partitions)`.

        Raises:
            IllegalStateError: Partitions were assigned by hand.
            InvalidArgumentError: The listener's methods cannot be called with a consumer and a set of partitions; a
                name is a pattern.
            InvalidGroupIdError: There is no `group_id`.
            UnsupportedVersionError: A `SubscriptionPattern` needs `group_protocol="consumer"`.
        """
        chosen = listener_of(listener, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        self._run(self._session.subscribe(topics, chosen))

    @_guarded
    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Consume exactly these partitions, without a group's rebalances; replaces the assignment before."""
        self._run(self._session.assign(partitions))

    @_guarded
    def unsubscribe(self) -> None:
        """Leave the group, or drop the assignment. Runs the revoked (or lost) callback; does not commit."""
        self._run(self._session.unsubscribe())

    @_guarded
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed, or read as a whole; for a pattern, those it matches now."""
        return self._session.whole_topics.names or self._session.state.view.topics

    @_guarded
    def assignment(self) -> Partitions:
        """The partitions this consumer has. Changes only inside poll, assign, unsubscribe and close."""
        return self._session.state.assignment

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
        hint_at_seconds(timeout)
        return self._poll(timeout)

    def _poll(self, timeout: Timeout, *, to_loop: bool = False) -> Records[K, V]:
        """An exception of a signal handler may strike up to the last line: then the next poll returns these records."""
        look_for_fork()
        if self._session.is_lent and not self._guard.is_entered:
            self._run(self._session.take_back())
        has_begun = False
        try:
            with self._guard:
                self._check_open()
                deadline = self._session.begin_poll(timeout)
                has_begun = True
                self._polled_by = self._session.unclosed.polled_by = get_ident()
                if not self._session.state.assignment:
                    self._session.unclosed.tell_of_rival()
                return self._run(self._session.poll(deadline, to_loop=to_loop))
        except BaseException as error:
            if has_begun:
                self._session.undo_poll(error)
            raise

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records one by one, without an end. Commits cover the records up to the one the loop is at.

        The loop polls as often as it likes, so what its body delays with `delay_revoke` is not delayed for long;
        for that, call `poll`.
        """
        state = self._session.state
        while not state.closed:
            is_delaying = state.revocation.pending
            self._poll(DELAYING_POLL_SECONDS if is_delaying else ITERATOR_POLL_SECONDS, to_loop=True)
            yield from state.delivery.iterate()

    # --- asynchronous revocation (KIP-983) ------------------------------------------------------------------

    @_guarded
    def to_be_revoked_partitions(self) -> Partitions:
        """The partitions whose revoke the next poll completes, unless `delay_revoke` delays it.

        They give no records any more, but their offsets can be committed. Empty without `enable_async_revocation`: then
        a revoke is completed in the poll that learns of it. `Records.to_be_revoked` says the same.
        """
        return self._session.state.revocation.look()

    @_guarded
    def lost_partitions(self) -> Partitions:
        """The partitions that were lost in the last poll: others may have them already, so nothing more of them is to
        be committed. `Records.lost` says the same."""
        return self._session.state.revocation.lost

    @_guarded
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
        return self._session.delay_revoke(partitions)

    def wakeup(self) -> None:
        """Make the current or the next blocking call raise WakeupError. Safe from any thread and signal handler."""
        self._guard.note_wakeup()
        self._session.link.mailbox.wakeup()

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

    @_guarded
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Make this the next offset to be returned; what is buffered is dropped.

        Raises:
            IllegalStateError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        self._run(self._session.positions.seek(partition, offset))

    @_guarded
    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go to the first offset of these partitions, or of all. Looked up with the next poll or position."""
        self._run(self._session.positions.reset(partitions, ResetTo.EARLIEST))

    @_guarded
    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go behind the last record of these partitions, or of all. Looked up with the next poll or position."""
        self._run(self._session.positions.reset(partitions, ResetTo.LATEST))

    @_guarded
    def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int:
        """The offset of the next record that will be returned."""
        return self._run(self._session.positions.position(partition, timeout))

    @_guarded
    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end, as far as fetches have told; never asks a broker."""
        return self._run(self._session.positions.current_lag(partition))

    @_guarded
    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; what is buffered is kept."""
        self._session.positions.set_paused(partitions, paused=True)

    @_guarded
    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Undo `pause`."""
        self._session.positions.set_paused(partitions, paused=False)

    @_guarded
    def paused(self) -> Partitions:
        """The partitions that `pause` holds."""
        return self._run(self._session.positions.paused())

    # --- commits --------------------------------------------------------------------------------------------

    @_guarded
    def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """Commit and wait: everything returned so far, or the offsets given (the *next* offset to read of each).

        Raises:
            CommitFailedError: Not a member any more; the partitions may have a new owner.
            RebalanceInProgressError: Poll to finish the rebalance, then commit again.
            KafkaTimeoutError: Retriable errors went on until the timeout.
        """
        self._run(self._session.commits.commit_sync(offsets, timeout))

    @_guarded
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting or retrying. `callback(offsets, error)` runs inside a later poll, commit or close."""
        self._session.commits.commit_async(offsets, callback)

    @_guarded
    def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None for a partition without a commit. Everything in front of it is done: while
        a lag is being caught up with, that is how far the child got."""
        return self._run(self._session.commits.committed(partitions, timeout))

    # --- catching up after a crash (parallel rebalance) -----------------------------------------------------

    def child_consumer_is_alive(self) -> bool:
        """Whether a child cursor has been started, to catch up with a lag. It stays on standby when it is done, until
        the consumer is closed. Always False without `enable_parallel_rebalance`."""
        with self._guard:
            return not self._session.state.closed and bool(self._session.state.view.children)

    @_guarded
    def catch_up_progress(self) -> dict[TopicPartition, CatchUpProgress]:
        """How far the catching up is of each partition that has a lag to be caught up with."""
        return self._run(self._session.catch_up_progress())

    def metrics(self) -> dict[MetricName, float]:
        """Numbers of this moment: Java's metrics, under Java's names (docs/metrics.md lists them).

        Of lags that parallel rebalance catches up with, "consumer-catch-up-metrics" has for each partition: from and up
        to which offset, how many of them have been returned and how many not, how many a second, and how many seconds
        that takes. This waits for nobody, and any thread may call it, in a callback or not, and when it is closed.

        Returns:
            By name. What there is no number for, as the average of nothing, is not a number (`math.nan`).
        """
        link = self._session.link
        return link.snapshot() | metrics_of(link.metrics.catch_up, link.client_id)

    def describe(self) -> ConsumerDescription:
        """How this consumer stands, and why no records come, if none do: `print(consumer.describe())`.

        Any thread may call this, whatever the others are at, and when it is closed. No broker is waited for;
        the network thread is, a second at most, and if it does not answer the description says so.
        """
        return self._run(self._session.describe())

    def healthy(self, *, max_lag: int | None = None) -> Health:
        """Whether this consumer is alive, for liveness probes: true or false, with reasons. From any thread.

        It is not if its network thread is dead, the group has fenced or refused it, brokers refuse its login, no
        heartbeat was answered for `session_timeout_ms`, or the last poll is longer ago than `max_poll_interval_ms`.
        That there is nothing to do is healthy, and so are outages that are shorter.

        Args:
            max_lag: Not healthy either, if a partition is more offsets behind its end.
        """
        return self._run(self._session.health(max_lag))

    # --- looking things up ----------------------------------------------------------------------------------

    @_guarded
    def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]:
        """The partitions of a topic; an empty list when it does not exist."""
        return self._run(self._session.look_ups.partitions_for(topic, timeout))

    @_guarded
    def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics this client may see."""
        return self._run(self._session.look_ups.list_topics(timeout))

    @_guarded
    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int | datetime], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after the time; None when there is none. Times are milliseconds
        since 1970, or datetimes with a time zone."""
        return self._run(self._session.look_ups.offsets_for_times(timestamps_ms, timeout))

    @_guarded
    def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition. Of both cursors, where a lag is being caught up with: not behind what is
        still to be returned."""
        look_ups = self._session.look_ups
        return self._run(look_ups.ends("beginning_offsets", partitions, EARLIEST_TIMESTAMP, timeout))

    @_guarded
    def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (under read_committed: the last stable one)."""
        return self._run(self._session.look_ups.ends("end_offsets", partitions, LATEST_TIMESTAMP, timeout))

    # --- the group ------------------------------------------------------------------------------------------

    @_guarded
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Group, generation, member id and instance id, as a transactional producer needs them."""
        return self._session.group_metadata()

    @_guarded
    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group rebalance; with the next poll this consumer rejoins.

        With `group_protocol="consumer"` the broker alone decides: this does nothing but warn.
        """
        self._session.enforce_rebalance(reason)

    # --- for a Processor ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _lent_to(self, has_news: Callable[[], bool], finish: Callable[[], None]) -> Iterator[Callable[[], None]]:
        """See `ConsumerSession.lent_to`. Nobody but the calling thread may use this consumer meanwhile."""
        with self._guard:
            self._check_open()
            with self._session.lent_to(has_news, finish) as notify:
                yield notify

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
        session, state, mailbox = self._session, self._session.state, self._session.link.mailbox
        look_for_fork()
        if session.link.is_forked:
            state.closed = True
            return
        total_ms = float(self.config.close_timeout_ms) if timeout is None else milliseconds(timeout)
        self._guard.wait_for_woken_call(Deadline.after(total_ms), lambda: mailbox.is_wakeup_pending)
        with self._guard:
            if state.closed:
                return
            state.check_not_in_callback("close()")
            if self._polled_by not in (None, get_ident()) and mailbox.take_wakeup():
                state.delivery.abandon()
            self._run(session.close(total_ms, Deadline.after(total_ms), leave_group=leave_group))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._session.state.closed:
            # The block failed over the records it was handed last: they are not processed, so not to be committed.
            self._session.state.delivery.abandon()
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(not_picklable(self))

    def __repr__(self) -> str:
        session, state = self._session, self._session.state
        text = "closed" if state.closed else f"{len(state.assignment)} partitions"
        return f"<Consumer {session.link.client_id} group={state.config.group_id} {text}>"
