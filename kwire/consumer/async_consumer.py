"""`AsyncConsumer`: the consumer for asyncio and trio. Long, because every call that waits is in it; the others are in
`facade.py`.

What a call does is in `session.py`, as for `Consumer`; here the calling task awaits until it is done. Nothing runs in a
pool of threads: the one thread beside the loop is the network thread, which every consumer has.

Tasks of one loop never run at the same time, so most calls need no lock: their steps look again after each wait. Calls
that run rebalance callbacks exclude each other: each takes the `_Turn`. A poll that waits for records leaves its turn
to other calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast
from uuid import UUID
from weakref import WeakMethod

from kwire.clock import Deadline, monotonic_ms
from kwire.config import ConsumerConfig
from kwire.consumer.access import CLOSED, NOBODY, AccessGuard, Callers
from kwire.consumer.arguments import Timeout, Topics
from kwire.consumer.async_listener import AsyncOnPartitions, AsyncRebalanceListener
from kwire.consumer.event_loops import EventLoop, run_awaiting, running_loop
from kwire.consumer.facade import Facade
from kwire.consumer.foreign_calls import answers_foreign_calls
from kwire.consumer.forks import disown_in_children, look_for_fork
from kwire.consumer.listener import checked_listener, listener_of
from kwire.consumer.polling import PORTION_MS
from kwire.consumer.session import ConsumerSession
from kwire.consumer.steps import GIVE_WAY, Steps, Wait
from kwire.errors import ConcurrentModificationError, ForkedConsumerError, IllegalStateError
from kwire.events import ResetTo
from kwire.fetching.columns import Records
from kwire.mailbox import Mailbox
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
    from kwire.consumer.listener import OnPartitions, RebalanceConsumer, RebalanceListener
    from kwire.description.consumer_description import ConsumerDescription
    from kwire.description.health import Health

T = TypeVar("T")

NOT_GUARDED = nullcontext()


class _Turn:
    """The right to run callbacks. One task at a time has it; inside a callback, those who may use the consumer in its
    place have it too (`AccessGuard`). A task that does not get the turn waits for it, where a thread would be refused.

    A poll lets all other calls go first. Else they would starve, since polls follow each other: the next poll would
    take the turn before the task that was woken for it has run.
    """

    def __init__(self, guard: AccessGuard, mailbox: Mailbox, longest_wait_ms: float) -> None:
        self._guard = guard
        self._mailbox = mailbox
        self._longest_wait_ms = longest_wait_ms
        self._waiting = 0
        self._going_first = 0  # how many of those go before polls

    def take(self, longest_wait_ms: float | None = None, *, goes_first: bool = False) -> Steps[None]:
        """Wait for the turn, and take it. Raises ConcurrentModificationError after too long: the task that has the turn
        may be waiting for the caller."""
        wait_ms = self._longest_wait_ms if longest_wait_ms is None else longest_wait_ms
        deadline = Deadline.after(wait_ms)
        self._waiting += 1
        self._going_first += goes_first
        try:
            while True:
                seen = self._mailbox.signal()
                if deadline.expired:
                    self._enter(wait_ms)
                    return
                if self.take_at_once(goes_first=goes_first):
                    return
                yield Wait(seen, deadline)
        finally:
            self._waiting -= 1
            self._going_first -= goes_first
            self._wake_waiting()

    def take_at_once(self, *, goes_first: bool = False) -> bool:
        """Take the turn, if nobody else has it or goes first; whether the caller has it now. Calls inside a callback
        let nobody go first: the others wait for the callback's end."""
        if self._going_first and not goes_first and not self._guard.is_in_callback:
            return False
        try:
            self._guard.__enter__()
        except ConcurrentModificationError:
            return False
        return True

    def _enter(self, waited_ms: float) -> None:
        try:
            self._guard.__enter__()
        except ConcurrentModificationError:
            if not self._guard.is_in_callback:
                raise
            raise ConcurrentModificationError(
                f"another task is in a callback of this consumer, which has not ended in {waited_ms / 1000:.1f} s: "
                "cancel that task, or give this call more time"
            ) from None

    def leave(self) -> None:
        """Leave the turn, if the caller has it."""
        if self._guard.is_entered:
            self._guard.__exit__(None, None, None)
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        if self._waiting:
            self._mailbox.notify()


def _while_there(ask: Callable[[], bool]) -> Callable[[], bool]:
    """Calls the method; False once its object is gone. What outlives the consumer must not hold its tasks' frames."""
    method = WeakMethod(ask)
    return lambda: (found := method()) is not None and found()


class _Tasks:
    """The event loop that a consumer belongs to since its first use, and which of the loop's tasks polls or processes.

    Guard and session hold this object, and not the consumer, so that a consumer that nobody else holds is gone at once.

    Attributes:
        poller: The task that polls now.
        processor: The task that was returned records last.
        cancellations: How often that task had been told to end when it polled for them.
        mailbox: The consumer's; it says when its process has been forked.
    """

    mailbox: Mailbox

    def __init__(self) -> None:
        self._loop: EventLoop | None = None
        self.poller: object = None
        self.processor: object = None
        self.cancellations = 0

    def own_loop(self) -> EventLoop:
        """The loop that the caller runs on, and the consumer from now on.

        Raises:
            IllegalStateError: The consumer has another one, or the caller none.
        """
        look_for_fork()
        if self._loop is None:
            self._loop = running_loop()
        self.check_here()
        return self._loop

    def check_here(self) -> None:
        """Raise unless the caller runs on the consumer's loop, if it has one."""
        if self._loop is not None and not self._loop.is_current():
            if isinstance(failure := self.mailbox.failure, ForkedConsumerError):
                raise failure
            if self._loop.is_over():
                raise IllegalStateError(
                    "this AsyncConsumer belongs to an event loop that has been closed: close() it, and make one here"
                )
            raise IllegalStateError(
                "this AsyncConsumer belongs to another event loop than the caller's: use it in tasks of that loop "
                "(from a thread: asyncio.run_coroutine_threadsafe, or trio.from_thread.run)"
            )

    def loop_to_close_on(self) -> EventLoop:
        """The consumer's loop; if that has been closed, the caller's: nobody could close the consumer otherwise."""
        if self._loop is not None and self._loop.is_over():
            self._loop = running_loop()
        return self.own_loop()

    def is_processed_elsewhere(self) -> bool:
        """Whether another task than the caller may still be processing the records that it was returned."""
        return self.processor is not None and self.processor is not self.own_loop().current_task()

    def is_unfinished(self) -> bool:
        """Whether the records may be unprocessed: another task has them and has not returned, or the task that has them
        was cancelled after its poll. It may have caught the cancellation (`except CancelledError: pass`)."""
        loop = self.own_loop()
        if loop.cancellations(self.processor) > self.cancellations:
            return True
        return self.is_processed_elsewhere() and not loop.has_returned(self.processor)

    # --- as callers of a guard ------------------------------------------------------------------------------

    def as_callers(self) -> Callers:
        return Callers(self._number, self._name, "one task polls; all others may do everything else meanwhile")

    def _number(self) -> int:
        """As long as a task is alive no other one has its `id`."""
        if self._loop is None or not self._loop.is_current():
            return NOBODY
        return id(self._loop.current_task())

    def _name(self, number: int) -> str:
        names = [name for task, name in self.own_loop().tasks() if id(task) == number]
        return f"task {names[0]!r}" if names else "another task"


@answers_foreign_calls
class AsyncConsumer(Facade[K, V]):
    """A Kafka consumer for code that awaits, on asyncio (uvloop, too) or trio. Its methods are those of `Consumer`.

        async with AsyncConsumer("orders", group_id="billing") as consumer:
            async for record in consumer:
                await bill(record)

    It belongs to the event loop on which it is used first. One task at a time may poll; others may do everything else
    meanwhile: commit, seek, pause, look things up, change the subscription, close. `wakeup()` and `metrics()` may be
    called from anywhere. Heartbeats come from the network thread: a loop that is blocked misses none.

    A poll that is cancelled loses nothing: the next one returns its records. The records that a poll returned count as
    processed when the next poll begins, so poll in the task that processes the records.

    Args:
        topics: Topics to subscribe to when `async with` enters the consumer, or with its first poll. Without a
            `group_id` all their partitions are read, new ones too, and nothing is committed. A dictionary of settings
            may come before them, with Java's dotted names or in snake_case.
        config: The dictionary of settings, as a keyword argument.
        settings: Settings in snake_case; `kwire config` lists them.

    Raises:
        ConfigError: A setting is unknown, bad, or given twice.
    """

    def _begin(self, config: ConsumerConfig, topics: tuple[str, ...]) -> None:
        self._tasks = _Tasks()
        self._guard = AccessGuard(self._tasks.as_callers())
        me = cast("RebalanceConsumer", self)  # whose methods are coroutine functions, for a listener that awaits them
        self._session = ConsumerSession(config, me, self._guard, is_async=True)
        self._session.state.is_processing = self._tasks.is_processed_elsewhere
        self._session.link.leaves_wakeup = _while_there(self._tasks.is_processed_elsewhere)
        self._mailbox = self._tasks.mailbox = self._session.link.mailbox
        self._turn = _Turn(self._guard, self._mailbox, config.default_api_timeout_ms)
        self._topics: tuple[str, ...] = ()
        """Topics to subscribe to, once a call can await that."""
        self._gave_way_ms = monotonic_ms()
        disown_in_children(self._session)
        if config.group_id is None:
            self._session.whole_topics.read(frozenset(topics))
        else:
            self._topics = topics

    def _access(self) -> AbstractContextManager[object]:
        self._tasks.check_here()
        return NOT_GUARDED

    # --- how calls are made ---------------------------------------------------------------------------------

    async def _run(self, steps: Callable[[], Steps[T]]) -> T:
        """Make a call; while it waits, other tasks may make calls too."""
        loop = self._tasks.own_loop()
        self._check_open()
        return await run_awaiting(self._mailbox, steps(), loop)

    async def _run_in_turn(self, steps: Callable[[], Steps[T]]) -> T:
        """Make a call that may run callbacks."""
        loop = self._tasks.own_loop()
        await run_awaiting(self._mailbox, self._turn.take(goes_first=True), loop)
        try:
            self._check_open()
            return await run_awaiting(self._mailbox, steps(), loop, self._turn)
        finally:
            self._turn.leave()

    def _is_closed(self) -> bool:
        return self._session.state.closed

    async def _subscribe_at_last(self) -> None:
        """Subscribe to the topics that the consumer was made with."""
        if self._topics:
            await self._instead_of_topics(partial(self._session.subscribe, self._topics, None))

    async def _instead_of_topics(self, steps: Callable[[], Steps[None]]) -> None:
        """Make a call that replaces the topics the consumer was made with: a poll that begins meanwhile must not
        subscribe to those. A call that fails has changed nothing."""
        topics, self._topics = self._topics, ()
        try:
            await self._run_in_turn(steps)
        except BaseException:
            self._topics = topics
            raise
        self._topics = ()

    # --- what to consume ------------------------------------------------------------------------------------

    @property
    def rebalance_listener(self) -> AsyncRebalanceListener:
        """The listener that `subscribe` was given. Another one may be set; it is called from the next callback on."""
        return cast("AsyncRebalanceListener", self._session.callbacks.listener)

    @rebalance_listener.setter
    def rebalance_listener(self, listener: AsyncRebalanceListener) -> None:
        self._tasks.check_here()
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
        await self._instead_of_topics(lambda: self._session.subscribe(topics, chosen))

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """As `Consumer.assign`."""
        await self._instead_of_topics(lambda: self._session.assign(partitions))

    async def unsubscribe(self) -> None:
        """As `Consumer.unsubscribe`."""
        await self._instead_of_topics(self._session.unsubscribe)

    # --- records --------------------------------------------------------------------------------------------

    async def poll(self, timeout: Timeout = 1.0, *, max_records: int | None = None) -> Records[K, V]:
        """As `Consumer.poll`. The records of a poll that is cancelled are returned by the next one.

        Raises:
            ConcurrentModificationError: Another task polls.
        """
        return await self._poll(timeout, max_records)

    async def _poll(self, timeout: Timeout, max_records: int | None = None, *, to_loop: bool = False) -> Records[K, V]:
        loop, tasks = self._tasks.own_loop(), self._tasks
        task = loop.current_task()
        if tasks.poller not in (None, task):
            raise ConcurrentModificationError("another task polls this consumer; one at a time may")
        outer, tasks.poller = tasks.poller, task
        has_begun = False
        if outer is None and tasks.processor is task and not self._session.state.closed:
            self._session.state.interrupt_loop()  # first: this task is done with its records, and close() may come
        try:
            await self._subscribe_at_last()
            await self._give_way(loop)
            if not self._turn.take_at_once():
                await run_awaiting(self._mailbox, self._turn.take(), loop)
            timeout_ms = self._session.begin_poll(timeout, max_records, to_loop=to_loop)
            has_begun = True
            tasks.processor, tasks.cancellations = task, loop.cancellations(task)
            if (records := self._session.fast_poll(to_loop=to_loop)) is not None:
                return records
            steps = self._session.poll(timeout_ms, to_loop=to_loop)
            return await run_awaiting(self._mailbox, steps, loop, self._turn)
        except BaseException as error:
            if has_begun:
                self._session.undo_poll(error)
            raise
        finally:
            tasks.poller = outer
            self._turn.leave()

    async def _give_way(self, loop: EventLoop) -> None:
        """Polls that find records wait for nothing: without this the loop's other tasks would never run."""
        if monotonic_ms() - self._gave_way_ms > PORTION_MS:
            await loop.wait(self._mailbox, GIVE_WAY)
            self._gave_way_ms = monotonic_ms()

    def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Records one by one, without an end: until `close()`. Commits cover the records up to the one the loop is at.

        As for `Consumer`, a revoke that the loop's body delays with `delay_revoke` is soon completed, and a
        `BootstrapError` says that no broker was ever reached.
        """
        return _RecordIterator(self)

    async def _poll_to_loop(self) -> Iterator[Record[K, V]] | None:
        """The records of one more poll; None when the consumer is closed."""
        if self._is_closed():
            return None
        try:
            await self._poll(self._loop_poll_seconds, to_loop=True)
        except IllegalStateError:
            if self._is_closed():
                return None
            raise
        return self._session.state.delivery.iterate()

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

    async def paused(self) -> Partitions:
        """As `Consumer.paused`."""
        return await self._run(self._session.positions.paused)

    # --- commits --------------------------------------------------------------------------------------------

    async def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """As `Consumer.commit_sync`; only the calling task waits.

        Callbacks of `commit_async` that are due run before it returns, unless another task runs callbacks now, or is
        about to.
        """
        try:
            await self._run(lambda: self._session.commits.commit_sync(offsets, timeout))
        finally:
            if self._turn.take_at_once():
                try:
                    await run_awaiting(
                        self._mailbox,
                        self._session.callbacks.run_completed_commits(),
                        self._tasks.own_loop(),
                        self._turn,
                    )
                finally:
                    self._turn.leave()

    async def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As `Consumer.committed`."""
        return await self._run(lambda: self._session.commits.committed(partitions, timeout))

    # --- catching up after a crash (parallel rebalance) -----------------------------------------------------

    async def catch_up_progress(self) -> dict[TopicPartition, CatchUpProgress]:
        """As `Consumer.catch_up_progress`."""
        return await self._run(self._session.catch_up_progress)

    async def client_instance_id(self, *, timeout: Timeout | None = None) -> UUID:
        """As `Consumer.client_instance_id`."""
        return await self._run(lambda: self._session.client_instance_id(timeout))

    async def describe(self) -> ConsumerDescription:
        """As `Consumer.describe`."""
        return await run_awaiting(self._mailbox, self._session.describe(), self._tasks.own_loop())

    async def healthy(self, *, max_lag: int | None = None) -> Health:
        """As `Consumer.healthy`."""
        return await run_awaiting(self._mailbox, self._session.health(max_lag), self._tasks.own_loop())

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
        return await self._run(lambda: self._session.look_ups.beginning_offsets(partitions, timeout))

    async def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """As `Consumer.end_offsets`."""
        return await self._run(lambda: self._session.look_ups.end_offsets(partitions, timeout))

    # --- the end --------------------------------------------------------------------------------------------

    async def close(self, timeout: Timeout | None = None, *, leave_group: bool | None = None) -> None:
        """As `Consumer.close`, from any task. If another task waits for records, its `poll` raises IllegalStateError;
        its `async for` ends without an error.

        The records of the last poll are not committed (unless they were before) if the task that was returned them is
        still at work, or has failed over them. A task that calls this in the `except` or the `finally` of a failure has
        failed. Trio does not say how a task has ended, so there the records of every other task are not committed. A
        close that is cancelled still leaves the group, except while it waits for another task's callback to end: until
        then it has done nothing. A coroutine of a listener is awaited to its end, past the `timeout`.
        """
        if self._is_of_another_process() or self._is_closed():
            return
        session, state, loop = self._session, self._session.state, self._tasks.loop_to_close_on()
        total_ms = self._close_ms(timeout)
        deadline = Deadline.after(total_ms)
        await run_awaiting(self._mailbox, self._turn.take(total_ms, goes_first=True), loop)
        try:
            if self._is_closed():
                return
            state.check_not_in_callback("close()")
            if self._tasks.is_unfinished() or state.is_failing(get_ident()):
                state.delivery.abandon()
            else:
                state.delivery.leave()
            # Not held any longer: a failed task holds its frames, and these hold the consumer; and asyncio reports the
            # task's error when it is collected.
            self._tasks.processor = None
            await run_awaiting(
                self._mailbox, session.close(total_ms, deadline, leave_group=leave_group), loop, self._turn
            )
        finally:
            self._turn.leave()

    async def __aenter__(self) -> Self:
        if self._is_closed():
            raise IllegalStateError(CLOSED)
        self._tasks.own_loop()
        try:
            await self._subscribe_at_last()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._session.state.closed:
            self._session.state.delivery.abandon()  # what it failed over is not processed, so not to be committed
        with self._tasks.own_loop().shield():
            await self.close()


class _RecordIterator(AsyncIterator[Record[K, V]]):
    """No generator: one that is left in the middle would have to be closed, which a `break` does not do."""

    __slots__ = ("_consumer", "_records")

    def __init__(self, consumer: AsyncConsumer[K, V]) -> None:
        self._consumer = consumer
        self._records: Iterator[Record[K, V]] = iter(())

    async def __anext__(self) -> Record[K, V]:
        consumer = self._consumer
        if monotonic_ms() - consumer._gave_way_ms > PORTION_MS:
            await consumer._give_way(consumer._tasks.own_loop())  # before a record is taken, which would be lost
        while True:
            for record in self._records:
                return record
            records = await consumer._poll_to_loop()
            if records is None:
                raise StopAsyncIteration
            self._records = records
