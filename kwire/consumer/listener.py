"""Rebalance listeners, and the view of the consumer that their methods are given (KIP-1306)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from types import FunctionType
from typing import Protocol, TypeAlias, cast
from uuid import UUID

from kwire.config import ConsumerConfig
from kwire.consumer.access import ThreadAccessKey
from kwire.consumer.arguments import Timeout
from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.events import CommitCallback
from kwire.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    Partitions,
    TopicPartition,
)
from kwire.unfinished import is_coroutine


class CallsAtOnce(Protocol):
    """The calls a callback may make that wait for nothing; a `Consumer` and an `AsyncConsumer` have the same ones."""

    @property
    def config(self) -> ConsumerConfig:
        """As `Consumer.config`."""

    def assignment(self) -> Partitions:
        """As `Consumer.assignment`."""

    def subscription(self) -> frozenset[str]:
        """As `Consumer.subscription`."""

    def to_be_revoked_partitions(self) -> Partitions:
        """As `Consumer.to_be_revoked_partitions`."""

    def lost_partitions(self) -> Partitions:
        """As `Consumer.lost_partitions`."""

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: CommitCallback | None = None,
    ) -> None:
        """As `Consumer.commit_async`."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """As `Consumer.pause`."""

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """As `Consumer.resume`."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """As `Consumer.group_metadata`."""

    def get_thread_access_key(self) -> ThreadAccessKey | None:
        """As `Consumer.get_thread_access_key`."""

    def set_thread_access_key(self, key: ThreadAccessKey | None) -> None:
        """As `Consumer.set_thread_access_key`."""


class RebalanceConsumer(CallsAtOnce, Protocol):
    """What a callback may do with the consumer: commit, seek, pause and look things up. All other calls are refused,
    such as poll, delay_revoke, close, subscribe, unsubscribe and assign."""

    def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """As `Consumer.commit_sync`."""

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """As `Consumer.seek`."""

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """As `Consumer.seek_to_beginning`."""

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """As `Consumer.seek_to_end`."""

    def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int:
        """As `Consumer.position`."""

    def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As `Consumer.committed`."""

    def paused(self) -> Partitions:
        """As `Consumer.paused`."""

    def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]:
        """As `Consumer.partitions_for`."""

    def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]:
        """As `Consumer.list_topics`."""

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int | datetime], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """As `Consumer.offsets_for_times`."""

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """As `Consumer.beginning_offsets`."""

    def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """As `Consumer.end_offsets`."""

    def current_lag(self, partition: TopicPartition) -> int | None:
        """As `Consumer.current_lag`."""

    def client_instance_id(self, *, timeout: Timeout | None = None) -> UUID:
        """As `Consumer.client_instance_id`."""


_ALLOWED = frozenset(
    name for protocol in (CallsAtOnce, RebalanceConsumer) for name in vars(protocol) if not name.startswith("_")
)


class CallbackView:
    """Passes the calls of `RebalanceConsumer` on to the consumer, until the callback is over."""

    def __init__(self, consumer: RebalanceConsumer) -> None:
        self._consumer: RebalanceConsumer | None = consumer

    def as_consumer(self) -> RebalanceConsumer:
        """This object, under the type that its `__getattr__` lives up to."""
        return cast("RebalanceConsumer", self)

    def expire(self) -> None:
        self._consumer = None

    def __getattr__(self, name: str) -> object:
        if name not in _ALLOWED:
            raise AttributeError(f"{name!r} cannot be called inside a rebalance callback")
        if self._consumer is None:
            raise IllegalStateError(f"{name}() on the consumer of a rebalance callback that is over")
        return getattr(self._consumer, name)


class RebalanceListener:
    """Override what you need. The methods run on the thread that polls, inside `poll()`, `unsubscribe()` or `close()`.

    An exception is raised from that call: a `KafkaError` as it is, any other as the cause of a
    `RebalanceListenerError`. If `on_partitions_assigned` raises, each later poll calls it again until it returns. If
    another method raises, it is not called again.
    """

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        """Called with new partitions, before their first record; after every completed rebalance, also with none.

        When it raises, no record of these partitions is returned until a later call has succeeded. The partitions are
        assigned all the same: if they are revoked or lost before that, the other methods are called with them.
        Meanwhile this member takes part in no other rebalance, so other members may wait up to `max_poll_interval_ms`
        for its partitions.

        Args:
            consumer: The consumer, with the calls that are allowed here.
            partitions: Those that are new.
        """

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        """Called before partitions are given back: they are still owned, so commits for them work.

        Args:
            consumer: The consumer, with the calls that are allowed here.
            partitions: Those that go.
        """

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        """Called when partitions may belong to another member already: commits for them fail. Calls
        `on_partitions_revoked`, unless overridden.

        Args:
            consumer: The consumer, with the calls that are allowed here.
            partitions: Those that are gone.
        """
        self.on_partitions_revoked(consumer, partitions)


class CalledOnce:
    """A listener of an adapter. If its `on_partitions_assigned` raises, it is not called again, as in the client that
    the adapter replaces.

    Attributes:
        was_called: Whether the program's listener was called. If it was not, the next poll calls this one again.
    """

    was_called = True


OnPartitions: TypeAlias = Callable[[RebalanceConsumer, Partitions], object]
"""A function in the place of a listener's method."""


class FunctionListener:
    """A listener made of functions, each of which may be missing. What they return is passed on: it may have to be
    awaited."""

    def __init__(
        self, on_assigned: OnPartitions | None, on_revoked: OnPartitions | None, on_lost: OnPartitions | None
    ) -> None:
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost or on_revoked

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> object:
        return self._on_assigned and self._on_assigned(consumer, partitions)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> object:
        return self._on_revoked and self._on_revoked(consumer, partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> object:
        return self._on_lost and self._on_lost(consumer, partitions)


def listener_of(
    listener: RebalanceListener | None,
    *,
    on_assigned: OnPartitions | None,
    on_revoked: OnPartitions | None,
    on_lost: OnPartitions | None,
    may_await: bool = False,
) -> RebalanceListener | None:
    """The listener that `subscribe` was given, as an object or as functions.

    Args:
        may_await: Whether they may be coroutine functions.

    Raises:
        InvalidArgumentError: Both are given, or one is no function of a consumer and a set of partitions.
    """
    functions = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
    given = {name: function for name, function in functions.items() if function is not None}
    if not given:
        return listener
    if listener is not None:
        raise InvalidArgumentError(f"a listener and {', '.join(given)} are both given; give one way")
    for name, function in given.items():
        if is_coroutine(function) and not may_await:
            raise InvalidArgumentError(
                f"{name} is a coroutine function, which nobody would await; an AsyncConsumer does"
            )
        if why := uncallable_with(function, 2):
            raise InvalidArgumentError(f"{name} takes the consumer and a set of partitions, but {function!r} {why}")
    return cast("RebalanceListener", FunctionListener(on_assigned, on_revoked, on_lost))


_METHODS = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")


def checked_listener(listener: RebalanceListener | None, *, may_await: bool = False) -> RebalanceListener:
    """The listener, or one that does nothing.

    Args:
        may_await: Whether its methods may be coroutine functions.

    Raises:
        InvalidArgumentError: It is not an object with these three methods that can be called with a consumer and a set
            of partitions; checked here, for in a poll it is too late.
    """
    if listener is None:
        return RebalanceListener()
    for name in _METHODS:
        if problem := _problem(listener, name, may_await=may_await):
            raise InvalidArgumentError(
                f"{listener!r} is no rebalance listener: {problem}. Derive from kwire.RebalanceListener, override what "
                f"you need, such as {name}(self, consumer, partitions), and pass an object of that class"
            )
    return listener


def _problem(listener: object, name: str, *, may_await: bool) -> str | None:
    if isinstance(listener, type):
        return "it is a class"
    method = getattr(listener, name, None)
    if not callable(method):
        return f"it has no method {name}"
    if is_coroutine(method) and not may_await:
        return f"{name} is a coroutine function, which nobody would await; an AsyncConsumer does"
    return f"{name} {why}" if (why := uncallable_with(method, 2)) else None


def uncallable_with(function: object, arguments: int) -> str | None:
    """Why this cannot be called with this many positional arguments; None if it can, or does not say."""
    if isinstance(function, FunctionType):  # most are, and `inspect.signature` would take 20 us for each commit
        code = function.__code__
        if code.co_argcount == arguments and not code.co_kwonlyargcount:
            return None
    if not callable(function):
        return "cannot be called"
    try:
        # Not followed: a wrapper (functools.wraps) may call what it wraps with further arguments.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # written in C
        return None
    try:
        signature.bind(*range(arguments))
    except TypeError as error:
        return f"cannot be called with {arguments} arguments: {error}"
    return None
