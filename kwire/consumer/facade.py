"""`Facade`: what `Consumer` and `AsyncConsumer` have in common: how they are made, and the calls that wait for nothing.

Names, promises and exceptions are those of `org.apache.kafka.clients.consumer.KafkaConsumer`; durations are seconds.
What a call does is in `session.py`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Concatenate, Generic, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from kwire.attribute_hints import no_such_attribute
from kwire.config import AllSettings, ConsumerConfig, Deserialize, Settings
from kwire.consumer.access import AccessGuard, ThreadAccessKey
from kwire.consumer.arguments import Timeout, hint_at_file, milliseconds, topics_and_config
from kwire.consumer.foreign_calls import METHODS
from kwire.consumer.forks import look_for_fork, not_picklable
from kwire.consumer.session import ConsumerSession
from kwire.errors import ConfigError, InvalidArgumentError
from kwire.events import CommitCallback
from kwire.metrics import MetricName
from kwire.model import ConsumerGroupMetadata, K, OffsetAndMetadata, Partitions, TopicPartition, V
from kwire.parallel_rebalance.metrics import metrics_of

T = TypeVar("T")
P = ParamSpec("P")

# How long one poll of a loop over records waits. It loops, so this only bounds how late a Ctrl-C of another thread is
# seen.
LOOP_POLL_SECONDS = 3600.0
# The same while a revoke is delayed: the next poll completes it, also if no further record comes.
DELAYING_POLL_SECONDS = 1.0
# The least that such a poll waits while no broker was ever reached.
FIRST_POLL_SECONDS = 1.0


class _Admits(Protocol):
    def _access(self) -> AbstractContextManager[object]: ...

    def _check_open(self) -> None: ...


A = TypeVar("A", bound=_Admits)


def admitted(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[A, P], T]:
    """Refuses a call if its thread or task must not use the consumer now, or if the consumer is closed."""

    @functools.wraps(method)
    def call(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        look_for_fork()
        with self._access():
            self._check_open()
            return method(self, *args, **kwargs)

    return call


class Facade(ABC, Generic[K, V]):
    """The base class of `Consumer` and `AsyncConsumer`."""

    _guard: AccessGuard
    _session: ConsumerSession[K, V]

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

    # For `Consumer(**settings)` with any dictionary: to a type checker, only such a call can have the keyword
    # `__unpacked__`, which nobody writes. Without this overload pyright complains of each setting.
    @overload
    def __init__(self, *topics: str, __unpacked__: object) -> None: ...

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        config: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        try:
            names, config = topics_and_config(topics, config)
            self._begin(ConsumerConfig.of(config, **cast("AllSettings", settings)), names)
        except (ConfigError, InvalidArgumentError) as error:
            # Tools that report errors send what frames hold, and these hold passwords as they were given.
            hint_at_file(error, type(self).__name__, topics)
            topics, config, settings = (), None, {}
            raise error.with_traceback(None) from error.__cause__

    @abstractmethod
    def _begin(self, config: ConsumerConfig, topics: tuple[str, ...]) -> None:
        """Make guard and session, and see to it that these topics are read."""

    @abstractmethod
    def _access(self) -> AbstractContextManager[object]:
        """Entered around each call. Raises if the caller must not use the consumer now."""

    def _check_open(self) -> None:
        self._session.state.check_open()

    @property
    def config(self) -> ConsumerConfig:
        """The settings it was made with."""
        return self._session.state.config

    # --- what is consumed -----------------------------------------------------------------------------------

    @admitted
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed, or read as a whole; for a pattern, those it matches now.

        Returns:
            Their names; empty while partitions are assigned by hand.

        Raises:
            IllegalStateError: The consumer is closed.
        """
        return self._session.whole_topics.names or self._session.state.view.topics

    @admitted
    def assignment(self) -> Partitions:
        """The partitions this consumer has. Changes only inside poll, assign, unsubscribe and close.

        Returns:
            The partitions that the group gave to it, that were assigned by hand, or whose topics are read as a whole.

        Raises:
            IllegalStateError: The consumer is closed.
        """
        return self._session.state.assignment

    @admitted
    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; what is buffered is kept.

        A rebalance that takes a partition away, and brings it back, ends the pause.

        Args:
            partitions: Assigned ones.

        Raises:
            IllegalStateError: One of them is not assigned.
        """
        self._session.positions.set_paused(partitions, paused=True)

    @admitted
    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Undo `pause`.

        Args:
            partitions: Assigned ones, paused or not.

        Raises:
            IllegalStateError: One of them is not assigned.
        """
        self._session.positions.set_paused(partitions, paused=False)

    @property
    def _loop_poll_seconds(self) -> float:
        """How long the next poll of a loop over records waits. If no broker was ever reached by then, it says so."""
        if self._session.state.revocation.pending:
            return DELAYING_POLL_SECONDS
        if not self._session.link.mailbox.was_reached:
            return max(FIRST_POLL_SECONDS, self.config.default_api_timeout_ms / 1000.0)
        return LOOP_POLL_SECONDS

    # --- asynchronous revocation (KIP-983) ------------------------------------------------------------------

    @admitted
    def to_be_revoked_partitions(self) -> Partitions:
        """The partitions whose revoke the next poll completes, unless `delay_revoke` delays it.

        No more of their records are returned, but their offsets can be committed. Empty without
        `enable_async_revocation`: then a revoke is completed in the poll that learns of it. `Records.to_be_revoked`
        says the same.

        Returns:
            The partitions that the group wants back.
        """
        return self._session.state.revocation.look()

    @admitted
    def lost_partitions(self) -> Partitions:
        """The partitions that were lost in the last poll: others may have them already, so nothing more of them is to
        be committed. `Records.lost` says the same.

        Returns:
            Empty, unless the last poll has lost some.
        """
        return self._session.state.revocation.lost

    @admitted
    def delay_revoke(self, partitions: Collection[TopicPartition]) -> bool:
        """Have the revoke of these completed not by the next poll but by the one after it, unless it is delayed again.

        So the application can finish the records of these partitions while it polls on: all other partitions go on at
        full speed. A revoke can be delayed until shortly before the rebalance timeout (`max_poll_interval_ms`), after
        which the group would go on without this member. Partitions that are still delayed then are lost.

        Args:
            partitions: Some of `to_be_revoked_partitions()`.

        Returns:
            False if it is too late for some of them: they are lost, or given up. The others are delayed all the same.

        Raises:
            IllegalStateError: There is nothing to delay without `enable_async_revocation`.
        """
        return self._session.delay_revoke(partitions)

    # --- callbacks that work elsewhere (KIP-944) ------------------------------------------------------------

    def get_thread_access_key(self) -> ThreadAccessKey | None:
        """The key of the callback that runs now: with it, another thread or task can use the consumer in its place.

        While a callback runs, the consumer refuses all other threads. A thread that was passed the key, and calls
        `set_thread_access_key` with it, may do what the callback may do; still only one of them at a time. The callback
        has to wait for that thread: when the callback returns, its key is dead. A task of an `AsyncConsumer` needs the
        key of another task's callback only to poll, subscribe, assign, unsubscribe or close.

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

        Args:
            key: The answer of `get_thread_access_key` inside the callback; None gives the key back.

        Raises:
            InvalidArgumentError: This is not a key. (One that is dead is accepted, and opens nothing.)
        """
        self._guard.set_thread_access_key(key)

    # --- the group ------------------------------------------------------------------------------------------

    @admitted
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting or retrying.

        Args:
            offsets: The *next* offset to read, of each partition; None for everything returned so far.
            callback: Called as `callback(offsets, error)` inside a later poll, commit or close; `error` is None when
                all went well. An `AsyncConsumer` awaits it there, if it is a coroutine function.

        Raises:
            InvalidGroupIdError: There is no `group_id`.
            InvalidArgumentError: One of `offsets` is no offset, or the callback cannot be called with two arguments.
        """
        self._session.commits.commit_async(offsets, callback)

    @admitted
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Group, generation, member id and instance id, as a transactional producer needs them; for producers of other
        libraries see `kwire.transactions`.

        Returns:
            What they are now; a rebalance changes them.

        Raises:
            CommitFailedError: The member was removed from the group, and others may have its partitions. Java answers
                generation -1 then, and brokers accept a commit with it.
            InvalidGroupIdError: There is no `group_id`.
            IllegalStateError: With `enable_parallel_rebalance` nobody else may commit.
        """
        return self._session.group_metadata()

    @admitted
    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group rebalance; with the next poll this consumer rejoins.

        With `group_protocol="consumer"` the broker alone decides: this does nothing but warn.

        Args:
            reason: Why; brokers log it.
        """
        self._session.enforce_rebalance(reason)

    def child_consumer_is_alive(self) -> bool:
        """Whether a child cursor has been started, to catch up with a lag. It stays on standby when it is done, until
        the consumer is closed.

        Returns:
            Always False without `enable_parallel_rebalance`.
        """
        with self._access():
            return not self._session.state.closed and bool(self._session.state.view.children)

    # --- from any thread ------------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Make the current or the next blocking call raise WakeupError. Safe from any thread and signal handler.

        With an `AsyncConsumer`, the current or next call of the task that polls raises, and so do the calls that other
        tasks wait in at that moment.
        """
        self._guard.note_wakeup()
        self._session.link.mailbox.wakeup()

    def metrics(self) -> dict[MetricName, float]:
        """The metrics at this moment: Java's, under Java's names (docs/metrics.md lists them).

        For each partition with a lag that parallel rebalance catches up with, the group "consumer-catch-up-metrics" has
        the lag's first offset and its end, how many offsets have been returned and how many are left, how many are
        returned a second, and how many seconds the rest takes. Any thread may call this at any time, inside a callback
        too, and when the consumer is closed. It waits for nothing.

        Returns:
            Numbers by name; `math.nan` where there is none, such as the average of nothing.
        """
        link = self._session.link
        return link.snapshot() | metrics_of(link.metrics.catch_up, link.client_id)

    def _exported_metrics(self) -> dict[MetricName, float]:
        """Those that exporters show: of a closed consumer its totals, for nothing else goes on being true; of a copy in
        a process that was forked none, for all of them are the other process's."""
        look_for_fork()
        if self._session.link.is_forked:
            return {}
        found = self.metrics()
        return {each: found[each] for each in found if each.name.endswith("-total")} if self._has_ended else found

    @property
    def _has_ended(self) -> bool:
        """Whether it is closed, so that its numbers change no more."""
        return self._session.state.closed

    # --- the end --------------------------------------------------------------------------------------------

    def _is_of_another_process(self) -> bool:
        """Whether this is a copy in a process that was forked, which has nothing to close."""
        look_for_fork()
        if self._session.link.is_forked:
            self._session.state.closed = True
        return self._session.link.is_forked

    def _close_ms(self, timeout: Timeout | None) -> float:
        """How long closing may take."""
        return float(self.config.close_timeout_ms) if timeout is None else milliseconds(timeout)

    if not TYPE_CHECKING:  # to a type checker, it would make every name one of the consumer's

        def __getattr__(self, name: str) -> object:
            if hasattr(type(self), name):  # a property of a subclass has raised the error, which stays
                return object.__getattribute__(self, name)
            raise no_such_attribute(self, name, METHODS)

    def __reduce__(self) -> NoReturn:
        raise TypeError(not_picklable(self))

    def __repr__(self) -> str:
        if "_session" not in self.__dict__:
            return f"<{type(self).__name__} that could not be made>"
        session, state = self._session, self._session.state
        count = len(state.assignment)
        text = "closed" if state.closed else f"{count} partition{'' if count == 1 else 's'}"
        return f"<{type(self).__name__} {session.link.client_id} group={state.config.group_id} {text}>"
