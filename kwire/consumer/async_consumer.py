"""`AsyncConsumer`: the consumer for asyncio and trio. Long, because every call a user has is in it.

What a call does is in `session.py`, as for `Consumer`; here the calling task awaits until it is done. Nothing runs in a
pool of threads: the one thread beside the loop is the network thread, which every consumer has.

Tasks of one loop never run at the same time, so most calls need no turn: their steps look again after each wait. Those
that run callbacks of a rebalance have one at a time, `_Turn`; a poll that waits for records leaves its turn to others.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, Unpack, cast, overload

from kwire.clock import Deadline, monotonic_ms
from kwire.config import AllSettings, ConsumerConfig, Deserialize, Settings
from kwire.consumer.access import AccessGuard, ThreadAccessKey
from kwire.consumer.arguments import Timeout, Topics, hint_at_seconds, milliseconds, topics_and_config
from kwire.consumer.async_listener import AsyncCommitCallback, AsyncOnPartitions, AsyncRebalanceListener
from kwire.consumer.event_loops import TASKS, EventLoop, run_awaiting, running_loop
from kwire.consumer.forks import disown_in_children, look_for_fork, not_picklable
from kwire.consumer.listener import Partitions, checked_listener, listener_of
from kwire.consumer.polling import PORTION_MS
from kwire.consumer.session import ConsumerSession
from kwire.consumer.steps import GIVE_WAY, Steps, Wait
from kwire.errors import ConcurrentModificationError, IllegalStateError
from kwire.events import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ResetTo
from kwire.fetching.columns import Records
from kwire.mailbox import Mailbox
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
    from kwire.consumer.listener import OnPartitions, RebalanceConsumer, RebalanceListener
    from kwire.description.consumer_description import ConsumerDescription
    from kwire.description.health import Health

T = TypeVar("T")
P = ParamSpec("P")

# How long one poll of the iterator waits. It loops, so this bounds nothing a user would see.
ITERATOR_POLL_SECONDS = 3600.0
# The same where a revoke was delayed in the loop's body, which may get no record, and so no turn, any more.
DELAYING_POLL_SECONDS = 1.0


def _at_once(
    method: Callable[Concatenate[AsyncConsumer[K, V], P], T],
) -> Callable[Concatenate[AsyncConsumer[K, V], P], T]:
    """A call that waits for nothing, of an open consumer, from the event loop it is used on."""

    @functools.wraps(method)
    def call(self: AsyncConsumer[K, V], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._check_here()
        self._session.state.check_open()
        return method(self, *args, **kwargs)

    return call


class _Turn:
    """The right to run callbacks: of one task at a time, and inside a callback of those who may use the consumer in its
    stead (`AccessGuard`). Who does not have it waits; a thread would be refused, but tasks cannot see each other come.
    """

    def __init__(self, guard: AccessGuard, mailbox: Mailbox, longest_wait_ms: float) -> None:
        self._guard = guard
        self._mailbox = mailbox
        self._longest_wait_ms = longest_wait_ms
        self._waiting = 0

    def take(self, longest_wait_ms: float | None = None) -> Steps[None]:
        """Raises ConcurrentModificationError if it is not to be had for long: the one who has it may be waiting for
        the caller."""
        deadline = Deadline.after(self._longest_wait_ms if longest_wait_ms is None else longest_wait_ms)
        while True:
            seen = self._mailbox.signal()
            try:
                self._guard.__enter__()
            except ConcurrentModificationError:
                if deadline.expired:
                    raise
            else:
                return
            self._waiting += 1
            try:
                yield Wait(seen, deadline)
            finally:
                self._waiting -= 1

    def take_at_once(self) -> bool:
        """Whether nobody else has it, so that the caller has it now."""
        try:
            self._guard.__enter__()
        except ConcurrentModificationError:
            return False
        return True

    def leave(self) -> None:
        """Nothing happens if the caller does not have it."""
        if self._guard.is_entered:
            self._guard.__exit__(None, None, None)
            if self._waiting:
                self._mailbox.notify()


class _Processing:
    """The task that was returned records last. It is not the consumer that knows, for its session has to ask, and must
    not hold it: a consumer that nobody holds is gone at once."""

    def __init__(self) -> None:
        self._loop: EventLoop | None = None
        self._task: object = None

    def begin(self, loop: EventLoop, task: object) -> None:
        self._loop, self._task = loop, task

    def is_of_another(self) -> bool:
        """Whether it is another one than the caller: that one may still be at these records."""
        return self._loop is not None and self._task is not self._loop.current_task()

    def is_unfinished(self) -> bool:
        """Whether it is another one, and still at work, or has failed over the records."""
        return self._loop is not None and self.is_of_another() and not self._loop.has_returned(self._task)


class AsyncConsumer(Generic[K, V]):
    """A Kafka consumer for code that awaits, on asyncio (uvloop, too) or trio. Its methods are those of `Consumer`.

        async with AsyncConsumer("orders", group_id="billing") as consumer:
            async for record in consumer:
                await bill(record)

    It belongs to the event loop on which it is used first. One task at a time may poll; others may do everything else
    meanwhile: commit, seek, pause, look things up, change the subscription, close. `wakeup()` and `metrics()` may be
    called from anywhere. Heartbeats come from the network thread: a loop that is blocked misses none.

    A poll that is cancelled loses nothing: the next one returns what it would have. What the last poll returned counts
    as processed when the next one begins, so it has to be awaited in the task that processes the records.

    Args:
        topics: Topics to subscribe to when it is entered, or polls first. Without a `group_id` all their partitions are
            read, new ones too, and nothing is committed. In front of them a dictionary of settings may stand, under
            Java's dotted or snake_case names.
        config: The same dictionary, under its name.
        settings: Settings in snake_case; `kwire config` lists them.

    Raises:
        ConfigError: A setting is unknown, bad, or given twice.
    """

    # Two variants, as of `Consumer`, and for the same reason.
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
        self._topics, config = topics_and_config(topics, config)
        self._guard = AccessGuard(TASKS)
        me = cast("RebalanceConsumer", self)  # whose methods are coroutine functions, for a listener that awaits them
        self._session: ConsumerSession[K, V] = ConsumerSession(
            ConsumerConfig.of(config, **settings), me, self._guard, is_async=True
        )
        self._mailbox = self._session.link.mailbox
        self._turn = _Turn(self._guard, self._mailbox, self.config.default_api_timeout_ms)
        self._loop: EventLoop | None = None
        self._poller: object = None
        """The task that polls now."""
        self._processing = _Processing()
        self._gave_way_ms = monotonic_ms()
        self._session.state.is_processing = self._processing.is_of_another
        disown_in_children(self._session, self._guard)
        if self.config.group_id is None:
            self._session.whole_topics.read(frozenset(self._topics))
            self._topics = ()

    @property
    def config(self) -> ConsumerConfig:
        """The settings it was made with."""
        return self._session.state.config

    # --- how calls are made ---------------------------------------------------------------------------------

    def _check_here(self) -> None:
        look_for_fork()
        if self._loop is not None and not self._loop.is_current():
            raise IllegalStateError(
                "this AsyncConsumer belongs to another event loop than the caller's: use it in tasks of that loop "
                "(from a thread: asyncio.run_coroutine_threadsafe, or trio.from_thread.run)"
            )

    def _own_loop(self) -> EventLoop:
        if self._loop is None:
            self._loop = running_loop()
        self._check_here()
        return self._loop

    async def _run(self, steps: Callable[[], Steps[T]]) -> T:
        """A call that other tasks may make as well while it waits."""
        loop = self._own_loop()
        self._session.state.check_open()
        return await run_awaiting(self._mailbox, steps(), loop)

    async def _run_in_turn(self, steps: Callable[[], Steps[T]]) -> T:
        """A call that may run callbacks."""
        loop = self._own_loop()
        await run_awaiting(self._mailbox, self._turn.take(), loop)
        try:
            self._session.state.check_open()
            return await run_awaiting(self._mailbox, steps(), loop, self._turn)
        finally:
            self._turn.leave()

    def _is_closed(self) -> bool:
        return self._session.state.closed

    async def _begin(self) -> None:
        if self._topics:
            await self.subscribe(self._topics)

    # --- what to consume ------------------------------------------------------------------------------------

    @property
    def rebalance_listener(self) -> AsyncRebalanceListener:
        """What `subscribe` was given; another one can take its place, from the next callback on."""
        return cast("AsyncRebalanceListener", self._session.callbacks.listener)

    @rebalance_listener.setter
    def rebalance_listener(self, listener: AsyncRebalanceListener) -> None:
        self._check_here()
        self._session.callbacks.listener = checked_listener(cast("RebalanceListener", listener), may_await=True)

    async def subscribe(
        self,
        topics: Topics,
        *,
        listener: AsyncRebalanceListener | None = None,
        on_assigned: AsyncOnPartitions | None = None,
        on_revoked: AsyncOnPartitions | None = None,
        on_lost: AsyncOnPartitions | None = None,
    ) -> None:
        """As `Consumer.subscribe`. The listener's methods, or the functions, may be coroutine functions."""
        chosen = listener_of(
            cast("RebalanceListener | None", listener),
            on_assigned=cast("OnPartitions | None", on_assigned),
            on_revoked=cast("OnPartitions | None", on_revoked),
            on_lost=cast("OnPartitions | None", on_lost),
            may_await=True,
        )
        await self._run_in_turn(lambda: self._session.subscribe(topics, chosen))
        self._topics = ()

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """As `Consumer.assign`."""
        await self._run_in_turn(lambda: self._session.assign(partitions))

    async def unsubscribe(self) -> None:
        """As `Consumer.unsubscribe`."""
        await self._run_in_turn(self._session.unsubscribe)

    @_at_once
    def subscription(self) -> frozenset[str]:
        """As `Consumer.subscription`."""
        return self._session.whole_topics.names or self._session.state.view.topics

    @_at_once
    def assignment(self) -> Partitions:
        """As `Consumer.assignment`."""
        return self._session.state.assignment

    # --- records --------------------------------------------------------------------------------------------

    async def poll(self, timeout: Timeout = 1.0) -> Records[K, V]:
        """As `Consumer.poll`. A poll that is cancelled has returned nothing, and the next one returns that.

        Raises:
            ConcurrentModificationError: Another task polls.
        """
        hint_at_seconds(timeout)
        return await self._poll(timeout)

    async def _poll(self, timeout: Timeout, *, to_loop: bool = False) -> Records[K, V]:
        loop = self._own_loop()
        task = loop.current_task()
        if self._poller not in (None, task):
            raise ConcurrentModificationError("another task polls this consumer; one at a time may")
        outer, self._poller = self._poller, task
        deadline: Deadline | None = None
        try:
            await self._begin()
            await self._give_way(loop)
            await run_awaiting(self._mailbox, self._turn.take(), loop)
            self._session.state.check_open()
            deadline = self._session.begin_poll(timeout)
            self._processing.begin(loop, task)
            steps = self._session.poll(deadline, to_loop=to_loop)
            return await run_awaiting(self._mailbox, steps, loop, self._turn)
        except BaseException as error:
            if deadline is not None:
                self._session.undo_poll(error)
            raise
        finally:
            self._poller = outer
            self._turn.leave()

    async def _give_way(self, loop: EventLoop) -> None:
        """Polls that find records wait for nothing: without this the loop's other tasks would have no turn."""
        if monotonic_ms() - self._gave_way_ms > PORTION_MS:
            await loop.wait(self._mailbox, GIVE_WAY)
            self._gave_way_ms = monotonic_ms()

    def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Records one by one, without an end: until `close()`. Commits cover the records up to the one the loop is at.

        As for `Consumer`, what the loop's body delays with `delay_revoke` is not delayed for long.
        """
        return _RecordIterator(self)

    async def _poll_to_loop(self) -> Iterator[Record[K, V]] | None:
        """The records of one more poll; None when the consumer is closed."""
        if self._is_closed():
            return None
        is_delaying = self._session.state.revocation.pending
        try:
            await self._poll(DELAYING_POLL_SECONDS if is_delaying else ITERATOR_POLL_SECONDS, to_loop=True)
        except IllegalStateError:
            if self._is_closed():
                return None
            raise
        return self._session.state.delivery.iterate()

    # --- asynchronous revocation (KIP-983) ------------------------------------------------------------------

    @_at_once
    def to_be_revoked_partitions(self) -> Partitions:
        """As `Consumer.to_be_revoked_partitions`."""
        return self._session.state.revocation.look()

    @_at_once
    def lost_partitions(self) -> Partitions:
        """As `Consumer.lost_partitions`."""
        return self._session.state.revocation.lost

    @_at_once
    def delay_revoke(self, partitions: Collection[TopicPartition]) -> bool:
        """As `Consumer.delay_revoke`."""
        return self._session.delay_revoke(partitions)

    def wakeup(self) -> None:
        """Make the current or the next call that waits raise WakeupError. Safe from any thread and signal handler."""
        self._mailbox.wakeup()

    # --- callbacks that work elsewhere (KIP-944) ------------------------------------------------------------

    def get_thread_access_key(self) -> ThreadAccessKey | None:
        """The key of the callback that runs now, as `Consumer.get_thread_access_key`. A task needs it only to poll,
        subscribe, assign, unsubscribe or close inside the callback of another one; all else any task may do."""
        return self._guard.get_thread_access_key()

    def set_thread_access_key(self, key: ThreadAccessKey | None) -> None:
        """Let the calling task do what the callback may that passed on this key."""
        self._guard.set_thread_access_key(key)

    # --- positions ------------------------------------------------------------------------------------------

    async def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """As `Consumer.seek`."""
        await self._run(lambda: self._session.positions.seek(partition, offset))

    async def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """As `Consumer.seek_to_beginning`."""
        await self._run(lambda: self._session.positions.reset(partitions, ResetTo.EARLIEST))

    async def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """As `Consumer.seek_to_end`."""
        await self._run(lambda: self._session.positions.reset(partitions, ResetTo.LATEST))

    async def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int:
        """As `Consumer.position`."""
        return await self._run(lambda: self._session.positions.position(partition, timeout))

    async def current_lag(self, partition: TopicPartition) -> int | None:
        """As `Consumer.current_lag`."""
        return await self._run(lambda: self._session.positions.current_lag(partition))

    @_at_once
    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """As `Consumer.pause`."""
        self._session.positions.set_paused(partitions, paused=True)

    @_at_once
    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """As `Consumer.resume`."""
        self._session.positions.set_paused(partitions, paused=False)

    async def paused(self) -> Partitions:
        """As `Consumer.paused`."""
        return await self._run(self._session.positions.paused)

    # --- commits --------------------------------------------------------------------------------------------

    async def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """As `Consumer.commit_sync`; what waits is the calling task.

        Callbacks of `commit_async` that are due run before it returns, unless another task runs callbacks now.
        """
        try:
            await self._run(lambda: self._session.commits.commit_sync(offsets, timeout))
        finally:
            if self._turn.take_at_once():
                try:
                    await run_awaiting(
                        self._mailbox, self._session.callbacks.run_completed_commits(), self._own_loop(), self._turn
                    )
                finally:
                    self._turn.leave()

    @_at_once
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: AsyncCommitCallback | None = None,
    ) -> None:
        """As `Consumer.commit_async`: it returns at once, so there is nothing to await. The callback may be a coroutine
        function; it is awaited inside a later poll, commit or close."""
        self._session.commits.commit_async(offsets, callback, may_await=True)

    async def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As `Consumer.committed`."""
        return await self._run(lambda: self._session.commits.committed(partitions, timeout))

    # --- catching up after a crash (parallel rebalance) -----------------------------------------------------

    def child_consumer_is_alive(self) -> bool:
        """As `Consumer.child_consumer_is_alive`."""
        return not self._session.state.closed and bool(self._session.state.view.children)

    async def catch_up_progress(self) -> dict[TopicPartition, CatchUpProgress]:
        """As `Consumer.catch_up_progress`."""
        return await self._run(self._session.catch_up_progress)

    def metrics(self) -> dict[MetricName, float]:
        """As `Consumer.metrics`: waits for nobody, and may be called from anywhere."""
        link = self._session.link
        return link.snapshot() | metrics_of(link.metrics.catch_up, link.client_id)

    async def describe(self) -> ConsumerDescription:
        """As `Consumer.describe`."""
        return await run_awaiting(self._mailbox, self._session.describe(), self._own_loop())

    async def healthy(self, *, max_lag: int | None = None) -> Health:
        """As `Consumer.healthy`."""
        return await run_awaiting(self._mailbox, self._session.health(max_lag), self._own_loop())

    # --- looking things up ----------------------------------------------------------------------------------

    async def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]:
        """As `Consumer.partitions_for`."""
        return await self._run(lambda: self._session.look_ups.partitions_for(topic, timeout))

    async def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]:
        """As `Consumer.list_topics`."""
        return await self._run(lambda: self._session.look_ups.list_topics(timeout))

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int | datetime], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """As `Consumer.offsets_for_times`."""
        return await self._run(lambda: self._session.look_ups.offsets_for_times(timestamps_ms, timeout))

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """As `Consumer.beginning_offsets`."""
        return await self._ends("beginning_offsets", partitions, EARLIEST_TIMESTAMP, timeout)

    async def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """As `Consumer.end_offsets`."""
        return await self._ends("end_offsets", partitions, LATEST_TIMESTAMP, timeout)

    async def _ends(
        self, what: str, partitions: Collection[TopicPartition], timestamp: int, timeout: Timeout | None
    ) -> dict[TopicPartition, int]:
        return await self._run(lambda: self._session.look_ups.ends(what, partitions, timestamp, timeout))

    # --- the group ------------------------------------------------------------------------------------------

    @_at_once
    def group_metadata(self) -> ConsumerGroupMetadata:
        """As `Consumer.group_metadata`."""
        return self._session.group_metadata()

    @_at_once
    def enforce_rebalance(self, reason: str = "") -> None:
        """As `Consumer.enforce_rebalance`."""
        self._session.enforce_rebalance(reason)

    # --- the end --------------------------------------------------------------------------------------------

    async def close(self, timeout: Timeout | None = None, *, leave_group: bool | None = None) -> None:
        """As `Consumer.close`, from any task: a poll of another one that waits for records ends with an
        IllegalStateError, an `async for` without an error.

        What the last poll returned to a task that is still at work, or has failed over it, is not committed, unless
        that was done before. A close that is cancelled still leaves the group.
        """
        session, state = self._session, self._session.state
        if session.link.is_forked:
            state.closed = True
            return
        if self._is_closed():
            return
        total_ms = float(self.config.close_timeout_ms) if timeout is None else milliseconds(timeout)
        deadline = Deadline.after(total_ms)
        loop = self._own_loop()
        await run_awaiting(self._mailbox, self._turn.take(total_ms), loop)
        try:
            if self._is_closed():
                return
            state.check_not_in_callback("close()")
            if self._processing.is_unfinished():
                state.delivery.abandon()
            await run_awaiting(
                self._mailbox, session.close(total_ms, deadline, leave_group=leave_group), loop, self._turn
            )
        finally:
            self._turn.leave()

    async def __aenter__(self) -> Self:
        self._own_loop()
        try:
            await self._begin()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._session.state.closed:
            # The block failed over the records it was handed last: they are not processed, so not to be committed.
            self._session.state.delivery.abandon()
        with self._own_loop().shield():
            await self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(not_picklable(self))

    def __repr__(self) -> str:
        session, state = self._session, self._session.state
        text = "closed" if state.closed else f"{len(state.assignment)} partitions"
        return f"<AsyncConsumer {session.link.client_id} group={state.config.group_id} {text}>"


class _RecordIterator(AsyncIterator[Record[K, V]]):
    """No generator: one that is left in the middle would have to be closed, which a `break` does not do."""

    __slots__ = ("_consumer", "_records")

    def __init__(self, consumer: AsyncConsumer[K, V]) -> None:
        self._consumer = consumer
        self._records: Iterator[Record[K, V]] = iter(())

    async def __anext__(self) -> Record[K, V]:
        consumer = self._consumer
        if monotonic_ms() - consumer._gave_way_ms > PORTION_MS:
            await consumer._give_way(consumer._own_loop())  # first: a record that was taken is not to be lost
        while True:
            for record in self._records:
                return record
            records = await consumer._poll_to_loop()
            if records is None:
                raise StopAsyncIteration
            self._records = records
