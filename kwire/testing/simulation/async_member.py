"""A member of a world with an `AsyncConsumer`: its polls are cancelled now and then, and other tasks commit and look
things up meanwhile.

The member's own code stays what it is, blocking code in a greenlet; each call that it makes is awaited by the task that
drives it. A callback goes the other way: the task that awaits it drives another greenlet meanwhile.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import trio

from kwire.clock import NEVER_MS
from kwire.consumer.async_consumer import AsyncConsumer
from kwire.consumer.async_listener import AsyncRebalanceListener
from kwire.consumer.event_loops import TrioLoop
from kwire.consumer.steps import Wait
from kwire.errors import KafkaError
from kwire.model import OffsetAndMetadata, Partitions, TopicPartition
from kwire.testing.simulation.blocking import run_blocking, wait_for
from kwire.testing.simulation.member import COMMIT_TIMEOUT_SECONDS, SimulatedMember
from kwire.testing.simulation.user_code import Interrupt, UserError

if TYPE_CHECKING:
    from kwire.consumer.arguments import Timeout
    from kwire.consumer.async_listener import AsyncRebalanceConsumer
    from kwire.consumer.listener import RebalanceConsumer
    from kwire.consumer.sync import Consumer
    from kwire.fetching.columns import Records
    from kwire.mailbox import Mailbox
    from kwire.testing.simulation.habits import AsyncHabits
    from kwire.testing.simulation.host import Process

# How long a task may have to wait before it does something again.
PAUSE_SECONDS = 1.5


class AsyncMember(SimulatedMember):
    """A member with an `AsyncConsumer`. `Scenario.async_habits` has the frequencies."""

    consumer: AsyncConsumer[bytes, bytes]

    def _work(self, consumer: Consumer[bytes, bytes]) -> None:
        for number in range(self._habits.besides):
            self.process.nursery.start_soon(_Beside(self, self.consumer, number).live)
        while not self.is_leaving:
            self._poll_once(consumer)

    def _new_consumer(self, settings: dict[str, object]) -> Consumer[bytes, bytes]:
        self.consumer = AsyncConsumer(config=settings)
        self.consumer._tasks._loop = _FreezingLoop(self.process)
        return cast("Consumer[bytes, bytes]", _Polling(self, self.consumer))

    @property
    def _habits(self) -> AsyncHabits:
        assert self._scenario.async_habits is not None
        return self._scenario.async_habits

    async def poll(self, timeout: Timeout) -> Records[bytes, bytes]:
        """Poll; the poll may be cancelled.

        Raises:
            Interrupt: The poll was cancelled.
        """
        with trio.CancelScope(deadline=trio.current_time() + self._seconds_to_cancel()):
            return await self.consumer.poll(timeout)
        error = Interrupt("the poll was cancelled")
        self._user.tell("task", error)
        raise error

    def _seconds_to_cancel(self) -> float:
        if self.is_hurried or self._rng.random() >= self._habits.cancels:
            return float("inf")
        return self._rng.choice((0.0, 0.001, 0.01, self._rng.uniform(0.0, 2.0 * self._scenario.poll_seconds)))

    @property
    def pauses(self) -> bool:
        """Whether the member itself pauses partitions."""
        return self._scenario.habits.pauses > 0.0

    # --- beside the polls -----------------------------------------------------------------------------------

    def take_processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed, once, of the partitions it has. Nothing if kwire commits by itself: that knows of
        positions further on, behind what no poll returns."""
        through, self._through = self._through, {}
        if self._scenario.committing == "auto":
            return {}
        has = self.consumer.assignment()
        return {tp: position for tp, position in sorted(through.items()) if tp in has}

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit these, and write the commit to the ledger."""
        await self.consumer.commit_sync(offsets, timeout=COMMIT_TIMEOUT_SECONDS)
        self._write_committed({partition: committed.offset for partition, committed in offsets.items()})

    def tell(self, call: str, error: BaseException) -> None:
        """Record that a call of another task has raised."""
        self._raised(call, error)

    # --- callbacks ------------------------------------------------------------------------------------------

    @contextmanager
    def telling(self, partitions: Collection[TopicPartition]) -> Iterator[None]:
        """Around the callback's first steps: until they are done nothing is told, and a cancellation has it called
        again."""
        self._half_told = frozenset(partitions)
        yield
        self._half_told = frozenset()


class _Calls:
    """Has the methods of something that is awaited, for blocking code."""

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., object]:
        return partial(self._call, getattr(self._target, name))

    @staticmethod
    def _call(method: Callable[..., object], *args: object, **kwargs: object) -> object:
        return wait_for(lambda: _finished(method, args, kwargs))


async def _finished(method: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    result = method(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


class _Polling(_Calls):
    """The consumer, for the member."""

    def __init__(self, member: AsyncMember, consumer: AsyncConsumer[bytes, bytes]) -> None:
        super().__init__(consumer)
        self._member = member
        self._session = consumer._session

    def poll(self, timeout: Timeout) -> Records[bytes, bytes]:
        return wait_for(lambda: self._member.poll(timeout))

    def subscribe(self, topics: Collection[str], *, listener: AsyncMember) -> None:
        self._call(self._member.consumer.subscribe, topics, listener=_Listener(listener))


class _Listener(AsyncRebalanceListener):
    """Has a greenlet run the member's own methods. No cancellation ends what these have begun: what they are told they
    write down once."""

    def __init__(self, member: AsyncMember) -> None:
        self._member = member

    async def on_partitions_assigned(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        with self._member.telling(partitions):
            await trio.lowlevel.checkpoint()
        await self._run(self._member.on_partitions_assigned, consumer, partitions)

    async def on_partitions_revoked(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        await trio.lowlevel.checkpoint()
        await self._run(self._member.on_partitions_revoked, consumer, partitions)

    async def on_partitions_lost(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        await trio.lowlevel.checkpoint()
        await self._run(self._member.on_partitions_lost, consumer, partitions)

    async def _run(
        self,
        method: Callable[[RebalanceConsumer, Collection[TopicPartition]], None],
        consumer: AsyncRebalanceConsumer,
        partitions: Partitions,
    ) -> None:
        process = self._member.process
        blocking = cast("RebalanceConsumer", _Calls(consumer))
        with process.uncancelled():
            await run_blocking(partial(method, blocking, partitions), process.while_frozen)


class _Beside:
    """A task that commits what is processed, and looks things up, while another one polls."""

    def __init__(self, member: AsyncMember, consumer: AsyncConsumer[bytes, bytes], number: int) -> None:
        self._member = member
        self._consumer = consumer
        self._rng = random.Random(f"beside {number} {member.name} {member.seed}")

    async def live(self) -> None:
        while not self._member.is_leaving:
            await trio.sleep(self._rng.uniform(0.0, PAUSE_SECONDS))
            await self._member.process.until_thawed()
            call = self._rng.choice((self._commit, self._look_up, self._hold_back))
            try:
                await self._maybe_cancelled(call)
            except (KafkaError, UserError) as error:
                self._member.tell(f"{call.__name__.strip('_')} beside", error)

    async def _maybe_cancelled(self, call: Callable[[], Awaitable[object]]) -> None:
        seconds = self._rng.uniform(0.0, 0.5) if self._rng.random() < 0.2 else NEVER_MS
        with trio.move_on_after(seconds):
            await call()

    async def _commit(self) -> None:
        if offsets := self._member.take_processed():
            await self._member.commit(offsets)

    async def _look_up(self) -> None:
        """Of one partition: in which order several are asked for depends on how strings hash in this process."""
        if partitions := sorted(self._consumer.assignment()):
            at = self._rng.choice(partitions)
            await self._consumer.end_offsets([at], timeout=1.0)
            await self._consumer.offsets_for_times({at: 0}, timeout=1.0)
            await self._consumer.committed([at], timeout=1.0)
            await self._consumer.position(at, timeout=1.0)
            await self._consumer.current_lag(at)
            await self._consumer.describe()
            await self._consumer.healthy()

    async def _hold_back(self) -> None:
        """Pause a partition for a moment, if nobody else pauses any."""
        partitions = sorted(self._consumer.assignment())
        if not partitions or self._member.pauses:
            return
        at = self._rng.choice(partitions)
        self._consumer.pause([at])
        try:
            await trio.sleep(0.05)
        finally:
            if not self._member.is_leaving and at in self._consumer.assignment():
                self._consumer.resume([at])


class _FreezingLoop(TrioLoop):
    """The world's trio as the loop of one process."""

    def __init__(self, process: Process) -> None:
        super().__init__(trio.lowlevel.current_trio_token())
        self._process = process

    async def wait(self, mailbox: Mailbox, wait: Wait) -> None:
        try:
            await super().wait(mailbox, wait)
        finally:
            await self._process.until_thawed()
