"""`AIOConsumer`, as in confluent-kafka's module of this name: the calls of `Consumer`, awaited.

Calls that wait for brokers run in threads of an executor. The event loop's thread takes messages right before they are
returned, so that a cancelled poll loses none. Callbacks may be coroutine functions, and run on the event loop. The
thread of the poll waits for a callback, and makes the calls that it awaits: no other thread could, since this one holds
the consumer.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import ParamSpec, Self, TypeAlias, TypeVar

from kwire.compat.confluent_kafka.arguments import check_count, until
from kwire.compat.confluent_kafka.consumer import Consumer
from kwire.compat.confluent_kafka.metadata import ClusterMetadata
from kwire.compat.confluent_kafka.values import Message, TopicPartition
from kwire.consumer.failure_watch import FailureWatch

__all__ = ["AIOConsumer"]

P = ParamSpec("P")
T = TypeVar("T")
OnPartitions: TypeAlias = "Callable[[AIOConsumer, list[TopicPartition]], object]"

_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "on_commit")
# How long a thread waits at a time: when the interpreter exits, it waits for the thread.
_STEP_S = 1.0


class _Jobs:
    """A callback's calls, handed to the thread that waits for the callback. The event loop uses all methods but
    `work`."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.is_open = True

    def close(self) -> None:
        """Note that the callback has returned: tasks that it has left behind make their calls as others do."""
        self.is_open = False
        self._jobs.put(None)

    async def call(self, function: Callable[[], T]) -> T:
        answer: Future[T] = Future()
        self._jobs.put(partial(_answer, answer, function))
        return await asyncio.wrap_future(answer)

    def work(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Make the calls until `close`. Returns False if the event loop has ended, so that `close` never comes."""
        while True:
            try:
                job = self._jobs.get(timeout=_STEP_S)
            except Empty:
                if loop.is_closed():
                    return False
                continue
            if job is None:
                return True
            job()


def _answer(answer: Future[T], function: Callable[[], T]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(function())
    except BaseException as error:  # noqa: BLE001  who has asked for it gets it
        answer.set_exception(error)


_jobs_of_callback: ContextVar[_Jobs | None] = ContextVar("kwire_jobs_of_callback", default=None)


def _open_jobs() -> _Jobs | None:
    """Where calls go inside a callback; None outside of one."""
    jobs = _jobs_of_callback.get()
    return jobs if jobs is not None and jobs.is_open else None


class AIOConsumer:
    """A consumer for asyncio with confluent-kafka's API. See confluent_kafka.aio.AIOConsumer.

    Args:
        consumer_conf: The settings, as of a `Consumer`. `error_cb`, `stats_cb` and `on_commit` may be coroutine
            functions.
        max_workers: How many threads the executor has, if none is given.
        executor: The executor of calls that wait. `close` does not shut it down.
    """

    def __init__(
        self, consumer_conf: Mapping[str, object], max_workers: int = 2, executor: Executor | None = None
    ) -> None:
        if executor is None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")
        self._loop: asyncio.AbstractEventLoop | None = None
        callbacks = {name: callback for name in _CALLBACKS if callable(callback := consumer_conf.get(name))}
        wrapped = {name: self._wrap_callback(callback) for name, callback in callbacks.items()}
        self._consumer = Consumer({**consumer_conf, **wrapped})
        self._owns_executor = executor is None
        self.executor = executor or ThreadPoolExecutor(max_workers, "kwire-aio")
        self._polls = asyncio.Lock()
        self._failures = FailureWatch()  # of the task; the calls are made in threads
        self._step: Future[list[Message] | None] | None = None
        """The wait of a poll, which goes on in its thread when the poll is cancelled."""

    # --- messages -------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = -1) -> Message | None:
        """Return one message, or None if there is none within `timeout` seconds."""
        self._failures.begin()
        if _open_jobs() is not None:
            return await self._call(self._consumer.poll, timeout)
        session, until_s = self._consumer._kwire, until(timeout)
        async with self._polls:
            if self._step is None:
                session.check_open()
                if (message := session.loop.next(Message.of)) is not None:
                    return message
            while True:
                if (instead := await self._polled(until_s, 1)) is not None:
                    return instead[0] if instead else None
                message = session.loop.next(Message.of)
                if message is not None or time.monotonic() >= until_s:
                    return message

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return up to `num_messages` messages; fewer if `timeout` seconds are over."""
        self._failures.begin()
        session, until_s = self._consumer._kwire, until(timeout)
        session.check_open()
        check_count(num_messages)
        if _open_jobs() is not None:
            return await self._call(self._consumer.consume, num_messages, timeout)
        if num_messages == 1:
            message = await AIOConsumer.poll(self, timeout)  # not the method of a subclass, which may call this one
            return [] if message is None else [message]
        async with self._polls:
            while num_messages:
                if (instead := await self._polled(until_s, num_messages)) is not None:
                    return instead
                found = session.loop.take(num_messages, partial(session.batch, num_messages))
                if found or time.monotonic() >= until_s:
                    return found
        return []

    async def _polled(self, until_s: float, min_records: int) -> list[Message] | None:
        """As `Session.polled`. If a call was cancelled, the next one waits for what it has begun, and returns its
        result."""
        session = self._consumer._kwire
        if self._step is None:
            session.check_open()
            step_until_s = min(until_s, time.monotonic() + _STEP_S)
            self._step = self._submit(partial(session.polled, step_until_s, min_records))
        answer = asyncio.wrap_future(self._step)
        answer.add_done_callback(_looked_at)
        try:
            await asyncio.wait([answer])
        except asyncio.CancelledError:
            session.turns.wake()
            raise
        self._step = None
        return answer.result()

    # --- all else -------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: list[str],
        on_assign: OnPartitions | None = None,
        on_revoke: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Subscribe to topics. The callbacks may be coroutine functions, and are given this consumer."""
        functions = (on_assign, on_revoke, on_lost)
        given = [function and self._wrap_callback(partial(_told, self, function)) for function in functions]
        await self._call(self._consumer.subscribe, topics, *given)

    async def unsubscribe(self) -> None:
        await self._call(self._consumer.unsubscribe)

    async def assign(self, partitions: list[TopicPartition]) -> None:
        await self._call(self._consumer.assign, partitions)

    async def unassign(self) -> None:
        await self._call(self._consumer.unassign)

    async def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        await self._call(self._consumer.incremental_assign, partitions)

    async def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        await self._call(self._consumer.incremental_unassign, partitions)

    async def assignment(self) -> list[TopicPartition]:
        return await self._call(self._consumer.assignment)

    async def store_offsets(
        self, message: Message | None = None, offsets: Sequence[TopicPartition] | None = None
    ) -> None:
        await self._call(self._consumer.store_offsets, message, offsets)

    async def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        return await self._call(self._consumer.commit, message, offsets, asynchronous)

    async def committed(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        return await self._call(self._consumer.committed, partitions, timeout)

    async def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return await self._call(self._consumer.position, partitions)

    async def seek(self, partition: TopicPartition) -> None:
        await self._call(self._consumer.seek, partition)

    async def pause(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._consumer.pause, partitions)

    async def resume(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._consumer.resume, partitions)

    async def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        return await self._call(self._consumer.get_watermark_offsets, partition, timeout, cached)

    async def offsets_for_times(
        self, partitions: Sequence[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        return await self._call(self._consumer.offsets_for_times, partitions, timeout)

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return await self._call(self._consumer.list_topics, topic, timeout)

    async def consumer_group_metadata(self) -> bytes:
        return await self._call(self._consumer.consumer_group_metadata)

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        await self._call(self._consumer.set_sasl_credentials, username, password)

    async def close(self) -> None:
        if self._failures.is_failing():
            await self._call(self._consumer._kwire.give_up_returned)
        await self._call(self._consumer.close)
        if self._owns_executor:
            self.executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- threads --------------------------------------------------------------------------------------------

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        called = partial(function, *args, **kwargs)
        if self._consumer._kwire.is_closed:
            return called()  # raises that it is closed
        if (jobs := _open_jobs()) is not None:
            return await jobs.call(called)
        return await asyncio.wrap_future(self._submit(called))

    def _submit(self, function: Callable[[], T]) -> Future[T]:
        self._loop = asyncio.get_running_loop()
        return self.executor.submit(function)

    def _wrap_callback(self, callback: Callable[..., object]) -> Callable[..., object]:
        """A function that a thread calls: it has the callback run on the event loop, waits for it, and makes its
        calls."""

        def called(*args: object) -> object:
            jobs = _Jobs()
            assert self._loop is not None  # `_submit` has set it before the thread ran
            running = _run(partial(callback, *args), jobs)
            answer = asyncio.run_coroutine_threadsafe(running, self._loop)
            if not jobs.work(self._loop):
                running.close()
                raise RuntimeError("the event loop that a callback was to run on is closed")
            return answer.result()

        return called


def _looked_at(answer: asyncio.Future[T]) -> None:
    """Mark the exception as retrieved, so that asyncio does not log it: the next poll raises it."""
    if not answer.cancelled():
        answer.exception()


def _told(consumer: AIOConsumer, function: OnPartitions, _: Consumer, partitions: list[TopicPartition]) -> object:
    return function(consumer, partitions)


async def _run(callback: Callable[[], object], jobs: _Jobs) -> object:
    _jobs_of_callback.set(jobs)
    try:
        answer = callback()
        return await answer if inspect.isawaitable(answer) else answer
    finally:
        jobs.close()
