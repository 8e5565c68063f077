"""`KafkaConsumer` with kafka-python's API, over kwire. Long, because it has every call of the API.

Records are kafka-python's tuples, timeouts are milliseconds.
"""

from __future__ import annotations

import inspect
import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from kwire.compat.kafka_python.consumer.fetcher import ConsumerRecord, record_of
from kwire.compat.kafka_python.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from kwire.compat.kafka_python.errors import bootstrap_timeout, error_of, raises_theirs
from kwire.compat.kafka_python.future import Future
from kwire.compat.kafka_python.private_attributes import PrivateAttributes
from kwire.compat.kafka_python.settings import BOOTSTRAP_MS, defaults, settings_of, take_interval, take_ms
from kwire.compat.kafka_python.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from kwire.compat.patterns import check_no_patterns, from_the_start
from kwire.compat.record_loop import RecordLoop
from kwire.compat.times import whole_ms
from kwire.consumer.arguments import checked_topic
from kwire.consumer.listener import CalledOnce, RebalanceConsumer, RebalanceListener
from kwire.consumer.sync import Consumer
from kwire.errors import (
    BootstrapError,
    ConcurrentModificationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    WakeupError,
)
from kwire.events import FoundTopics, LookUpTopics
from kwire.model import INTERNAL_TOPICS, Partitions, leader_epoch_number, leader_epoch_or_none
from kwire.model import OffsetAndMetadata as KwireOffset
from kwire.model import OffsetAndTimestamp as KwireOffsetAndTimestamp
from kwire.transactions import kafka_python_group_metadata

if TYPE_CHECKING:
    from kafka.structs import ConsumerGroupMetadata as TheirGroupMetadata

__all__ = ["KafkaConsumer"]

AnyListener: TypeAlias = ConsumerRebalanceListener | AsyncConsumerRebalanceListener
OnCommit: TypeAlias = Callable[[Mapping[TopicPartition, "OffsetAndMetadata"], Exception | None], object]

FOREVER_S = 3600.0  # a loop goes on after that
# How often a poll without a subscription checks whether there is one now.
SLICE_S = 0.1
_NO_GROUP = ConsumerGroupMetadata(group_id=cast("str", None))
_FOREVER_MS = float("inf")


class KafkaConsumer(PrivateAttributes):
    """A consumer with kafka-python's API, set up by keyword arguments. See kafka.KafkaConsumer.

    Private names begin with `_kwire`, so that a derived class may have names such as `_loop` of its own. Those of
    `PrivateAttributes` are for others to read.
    """

    @raises_theirs
    def __init__(self, *topics: str, **configs: object) -> None:
        given = {name: value for name, value in configs.items() if value is not None}
        timeout_ms = take_ms(given, "consumer_timeout_ms", _FOREVER_MS)
        waits_forever = configs.get("bootstrap_timeout_ms", BOOTSTRAP_MS) is None
        bootstrap_ms = take_ms(given, "bootstrap_timeout_ms", _FOREVER_MS if waits_forever else BOOTSTRAP_MS)
        knows_version = given.pop("api_version", None) is not None
        self._kwire_timeout_s = timeout_ms / 1000.0 if 0 <= timeout_ms < _FOREVER_MS else None
        self._kwire_on_commit = cast("OnCommit | None", given.pop("default_offset_commit_callback", None))
        settings = settings_of(given)
        self._kwire_commit_s = take_interval(settings) if self._kwire_on_commit is not None else math.inf
        self._kwire_commits_at_s = time.monotonic() + self._kwire_commit_s
        self._kwire_in_callback: RebalanceConsumer | None = None
        self._kwire_closing = threading.Lock()
        self._kwire_polled: Iterator[ConsumerRecord] = iter(())
        self._kwire_is_reached = self._kwire_is_looping = False
        self._kwire_subscribed: frozenset[str] = frozenset()
        """Before it was closed."""
        self._kwire_way: str | None = None
        """How it was said what is read."""
        self._kwire_consumer: Consumer[Any, Any] = Consumer(settings)
        try:
            self._kwire_loop = RecordLoop(self._kwire_consumer._session.state.delivery)
            client_id = self._kwire_consumer._session.link.client_id
            self.config = {**defaults(self._kwire_consumer.config, client_id), **configs}
            if not knows_version:  # else kafka-python does not ask brokers for it here
                self._kwire_reach(bootstrap_ms)
            if topics:
                self.subscribe(topics)
        except BaseException:  # a Ctrl-C, perhaps: no program has the consumer yet, to close it
            self._kwire_consumer.close(0.0)
            raise

    # --- what to consume ------------------------------------------------------------------------------------

    @raises_theirs
    def subscribe(
        self, topics: Sequence[str] = (), pattern: str | None = None, listener: AnyListener | None = None
    ) -> None:
        """Subscribe to topics, or to a regular expression. Without a group all partitions are read."""
        if not topics and not pattern:
            raise ValueError("give topics or a pattern")
        if topics and pattern:
            raise IllegalStateError("give topics or a pattern, and not both")
        topics = [*topics] if isinstance(topics, Iterator) else [topics] if isinstance(topics, str) else topics
        check_no_patterns(topics)
        has_group = self._kwire_consumer.config.group_id is not None
        if not has_group and (pattern or listener is not None):
            raise IllegalStateError("a pattern and a listener need a group_id")
        self._kwire_choose("a pattern" if pattern else "topics")
        if not has_group:
            self._kwire_consumer._session.whole_topics.read(frozenset(topics))
            return
        wanted = from_the_start(pattern) if pattern else topics
        self._kwire_consumer.subscribe(wanted, listener=_Listener(self, listener) if listener is not None else None)

    @raises_theirs
    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._kwire_choose("partitions")
        self._kwire_consumer.assign([TopicPartition(*tp) for tp in partitions])

    def _kwire_choose(self, way: str) -> None:
        """One way to say what is read does not replace another, also without a group, where kwire would let it."""
        if self._kwire_way not in (None, way):
            raise IllegalStateError(f"choose only one way: {self._kwire_way} or {way}; call unsubscribe() in between")
        self._kwire_way = way

    @raises_theirs
    def unsubscribe(self) -> None:
        self._kwire_consumer.unsubscribe()
        self._kwire_way = None

    @raises_theirs
    def subscription(self) -> set[str] | None:
        """The subscribed topics. A closed consumer keeps its last ones, as in kafka-python."""
        is_closed = self._kwire_consumer._session.state.closed
        return set(self._kwire_subscribed if is_closed else self._kwire_consumer.subscription()) or None

    @raises_theirs
    def assignment(self) -> set[TopicPartition]:
        return set() if self._kwire_consumer._session.state.closed else set(self._kwire_consumer.assignment())

    # --- records --------------------------------------------------------------------------------------------

    @raises_theirs
    def poll(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition; none if there are none within `timeout_ms`.

        As in kafka-python, a loop over the consumer calls the `poll` of a class that overrides it, with
        `update_offsets=False`. Here it does so for one record at a time, so that commits cover only what the loop has
        seen.
        """
        most = _most(max_records, self._kwire_consumer.config.max_poll_records)
        if self._kwire_is_looping and not update_offsets:
            most = 1
        if self._kwire_is_over():
            raise IllegalStateError("KafkaConsumer is closed")
        until_s = _until(timeout_ms)
        found = self._kwire_loop.take_by_partition(most, record_of, goes_on=False)
        goes_on = True
        while goes_on and not found:
            goes_on = self._kwire_poll(until_s)
            found = self._kwire_loop.take_by_partition(most, record_of, goes_on=False)
        return found

    def _kwire_poll(self, until_s: float) -> bool:
        """Wait for records. Returns False if there is no reason to wait again: the time is over, or another thread or a
        signal handler has closed the consumer."""
        left_s = max(0.0, until_s - time.monotonic())
        try:
            if self._kwire_has_nothing_to_poll():
                time.sleep(min(left_s, SLICE_S))
            else:
                self._kwire_auto_commit()
                next_s = max(SLICE_S, self._kwire_commits_at_s - time.monotonic())
                self._kwire_consumer._poll(min(left_s, next_s, FOREVER_S), to_loop=True)
            self._kwire_loop.begin()
        except BootstrapError:  # only if `api_version` was given; the logger `kwire.network` has logged it
            pass
        except (WakeupError, IllegalStateError, ConcurrentModificationError):
            if not self._kwire_is_over():
                raise
        return time.monotonic() < until_s and not self._kwire_is_over()

    def _kwire_auto_commit(self) -> None:
        """What the program has come back from; only where it wants to be told, else kwire does so by itself."""
        if time.monotonic() >= self._kwire_commits_at_s:
            self._kwire_commits_at_s = time.monotonic() + self._kwire_commit_s
            KafkaConsumer.commit_async(self)

    def _kwire_has_nothing_to_poll(self) -> bool:
        """Whether nothing is subscribed or assigned: kafka-python then waits, and kwire raises an error."""
        session = self._kwire_consumer._session
        return not (session.state.view.subscribed or session.whole_topics.names or session.state.closed)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record. The loop ends when there was none for `consumer_timeout_ms`."""
        record = self._kwire_loop.next(record_of)
        return self._kwire_awaited() if record is None else record

    @raises_theirs
    def _kwire_awaited(self) -> ConsumerRecord:
        """Wait for the next record."""
        until_s = math.inf if self._kwire_timeout_s is None else time.monotonic() + self._kwire_timeout_s
        goes_on = not self._kwire_is_over()
        while goes_on:
            if type(self).poll is _OWN_POLL and "poll" not in vars(self):
                goes_on = self._kwire_poll(until_s)
                record = self._kwire_loop.next(record_of)
            else:
                record = self._kwire_polled_by_override(until_s)
                goes_on = time.monotonic() < until_s and not self._kwire_is_over()
            if record is not None:
                return record
        raise StopIteration

    def _kwire_polled_by_override(self, until_s: float) -> ConsumerRecord | None:
        record = next(self._kwire_polled, None)
        if record is None:
            left_ms = max(0.0, until_s - time.monotonic()) * 1000.0
            self._kwire_is_looping = True
            try:
                polled = self.poll(timeout_ms=left_ms, update_offsets=False)
            finally:
                self._kwire_is_looping = False
            self._kwire_polled = chain.from_iterable(polled.values())
            record = next(self._kwire_polled, None)
        return record

    def _kwire_is_over(self) -> bool:
        """Whether it is closed, or another thread or a signal handler is about to close it."""
        return self._kwire_closing.locked() or self._kwire_consumer._session.state.closed

    # --- offsets --------------------------------------------------------------------------------------------

    @raises_theirs
    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        self._kwire_consumer.commit_sync(_offsets(offsets), timeout=_seconds(timeout_ms))

    @raises_theirs
    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, callback: OnCommit | None = None
    ) -> Future:
        """Begin a commit. A later call that polls, commits or closes completes the future and calls the callback."""
        chosen, future = callback or self._kwire_on_commit, Future()

        def done(committed: Mapping[TopicPartition, KwireOffset], failure: Exception | None) -> None:
            found = {tp: _offset(at) for tp, at in committed.items()}
            error = _as_theirs(failure)
            future.end(found, error)
            if chosen is not None:
                chosen(found, error)

        self._kwire_consumer.commit_async(_offsets(offsets), callback=done)
        return future

    @raises_theirs
    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """The committed offset, with `metadata` an OffsetAndMetadata; None if nothing is committed."""
        tp = TopicPartition(*partition)
        found = self._kwire_consumer.committed([tp], timeout=_seconds(timeout_ms))[tp]
        if found is None:
            return None
        return _offset(found) if metadata else found.offset

    @raises_theirs
    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        return self._kwire_consumer.position(TopicPartition(*partition), timeout=_seconds(timeout_ms))

    @raises_theirs
    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark, as of the last fetch."""
        session = self._kwire_consumer._session
        ends = session.link.run(session.positions.log_ends(TopicPartition(*partition)))
        return None if ends is None else ends.high_watermark

    @raises_theirs
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        to = _checked_offset(offset.offset if isinstance(offset, OffsetAndMetadata) else offset)
        with _unassigned_is(ValueError):
            (self._kwire_in_callback or self._kwire_consumer).seek(TopicPartition(*partition), to)

    @raises_theirs
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        consumer = self._kwire_in_callback or self._kwire_consumer
        with _unassigned_is(ValueError):
            consumer.seek_to_beginning(_chosen(partitions, consumer.assignment()))

    @raises_theirs
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        consumer = self._kwire_in_callback or self._kwire_consumer
        with _unassigned_is(ValueError):
            consumer.seek_to_end(_chosen(partitions, consumer.assignment()))

    @raises_theirs
    def beginning_offsets(
        self, partitions: Sequence[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._kwire_consumer.beginning_offsets(
            [TopicPartition(*tp) for tp in partitions], timeout=_seconds(timeout_ms)
        )

    @raises_theirs
    def end_offsets(
        self, partitions: Sequence[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._kwire_consumer.end_offsets(
            [TopicPartition(*tp) for tp in partitions], timeout=_seconds(timeout_ms)
        )

    @raises_theirs
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, float], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted, consumer = whole_ms(timestamps), self._kwire_consumer
        with consumer._guard:
            consumer._check_open()
            found = consumer._run(consumer._session.look_ups.offsets_at(wanted, _seconds(timeout_ms)))
        return {tp: None if at is None else _offset_and_timestamp(at) for tp, at in found.items()}

    @raises_theirs
    def pause(self, *partitions: TopicPartition) -> None:
        with _unassigned_is(KeyError):
            self._kwire_consumer.pause([TopicPartition(*tp) for tp in partitions])

    @raises_theirs
    def resume(self, *partitions: TopicPartition) -> None:
        with _unassigned_is(KeyError):
            self._kwire_consumer.resume([TopicPartition(*tp) for tp in partitions])

    @raises_theirs
    def paused(self) -> set[TopicPartition]:
        return set() if self._kwire_consumer._session.state.closed else set(self._kwire_consumer.paused())

    # --- the cluster and the group --------------------------------------------------------------------------

    # Other threads may look topics up while one polls, so these calls do not claim exclusive access.

    @raises_theirs
    def topics(self) -> set[str]:
        return self._kwire_look_up(None).keys() - INTERNAL_TOPICS

    @raises_theirs
    def partitions_for_topic(self, topic: str) -> set[int]:
        """The numbers of the partitions; none if there is no such topic."""
        assigned = self._kwire_consumer._session.state.assignment
        is_read = topic in self._kwire_topics_read or any(tp.topic == topic for tp in assigned)
        if is_read or not self._kwire_consumer.config.allow_auto_create_topics:
            found = self._kwire_look_up(frozenset((checked_topic(topic),)))
        else:  # asking for one topic would have brokers create it
            found = self._kwire_look_up(None)
        return {info.partition for info in found.get(topic, [])}

    def _kwire_look_up(self, topics: frozenset[str] | None, timeout_s: float | None = None) -> FoundTopics:
        """Metadata of these topics, or of all. A wakeup is left for the thread that polls."""
        link = self._kwire_consumer._session.link
        self._kwire_consumer._check_open()
        return link.run(link.ask("topics", lambda reply: LookUpTopics(topics, reply), timeout_s, wakeable=False))

    @raises_theirs
    def group_metadata(self) -> ConsumerGroupMetadata | TheirGroupMetadata:
        """The group metadata. It has kafka-python's own type if that is imported: its producer accepts no other."""
        has_group = self._kwire_consumer.config.group_id is not None
        group = self._kwire_consumer.group_metadata() if has_group else _NO_GROUP
        return kafka_python_group_metadata(group) if "kafka.structs" in sys.modules else group

    def metrics(self, raw: bool = False) -> dict[str, dict[str, float]]:  # noqa: ARG002  there is one kind
        """The metrics of the whole consumer, by group and name."""
        found: dict[str, dict[str, float]] = {}
        for name, number in self._kwire_consumer.metrics().items():
            if {tag for tag, _ in name.tags} <= {"client-id"}:
                found.setdefault(name.group, {})[name.name] = number
        return found

    @raises_theirs
    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:  # noqa: ARG002
        """Wait until a broker answers, even if one has answered before."""
        self._kwire_reach(_FOREVER_MS if timeout_ms is None else timeout_ms)

    def _kwire_reach(self, timeout_ms: float) -> None:
        """Ask a broker for metadata of no topic."""
        try:
            self._kwire_look_up(frozenset(), timeout_ms / 1000.0)
        except KafkaTimeoutError as error:
            servers = ", ".join(map(str, self._kwire_consumer.config.bootstrap_servers))
            why = self._kwire_consumer._session.link.mailbox.bootstrap_error or error
            raise bootstrap_timeout(
                f"unable to bootstrap from {servers} within {timeout_ms / 1000.0:g} s: {why}; "
                "start the brokers, or correct bootstrap_servers"
            ) from why
        self._kwire_is_reached = True

    def bootstrap_connected(self) -> bool:
        """Whether a broker has answered and the consumer is open."""
        session = self._kwire_consumer._session
        return not session.state.closed and (self._kwire_is_reached or session.link.mailbox.was_reached)

    # --- the end --------------------------------------------------------------------------------------------

    @raises_theirs
    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Close the consumer. Any thread may call this: one that waits for records is woken, and gets none."""
        if not autocommit:
            self._kwire_commit_no_more()
        if self._kwire_closing.acquire(blocking=False):  # else another thread is closing it
            try:
                self._kwire_close(_seconds(timeout_ms))
            finally:
                self._kwire_closing.release()
            self._kwire_loop.end()

    def _kwire_close(self, timeout_s: float | None) -> None:
        session = self._kwire_consumer._session
        if session.state.closed:
            return
        self._kwire_subscribed = self._kwire_topics_read
        is_used = False
        try:
            self._kwire_consumer.close(timeout_s)
        except ConcurrentModificationError:
            is_used = True
        if is_used:  # out of the `except`, in which a close would take the program to have failed
            self._kwire_consumer.wakeup()
            self._kwire_consumer.close(timeout_s)
        for name in ("key_deserializer", "value_deserializer"):
            if callable(close := getattr(self.config[name], "close", None)):
                close()

    def _kwire_commit_no_more(self) -> None:
        """End auto-commit, and keep a commit of a listener from covering the records that the program has failed
        over."""
        state = self._kwire_consumer._session.state
        state.delivery.abandon()
        state.config = replace(state.config, enable_auto_commit=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the consumer, without a commit if the block has raised."""
        self.close(autocommit=kind is None)


_OWN_POLL = KafkaConsumer.poll  # a program or a tracer may replace it


class _Listener(CalledOnce, RebalanceListener):
    """Calls a listener of kafka-python's, without the consumer as an argument."""

    def __init__(self, owner: KafkaConsumer, listener: AnyListener) -> None:
        self._owner = owner
        self._listener = listener

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._call(self._listener.on_partitions_assigned, consumer, partitions)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._call(self._listener.on_partitions_revoked, consumer, partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        lost = getattr(self._listener, "on_partitions_lost", self._listener.on_partitions_revoked)
        self._call(lost, consumer, partitions)

    def _call(
        self, method: Callable[[set[TopicPartition]], object], consumer: RebalanceConsumer, partitions: Partitions
    ) -> None:
        self._owner._kwire_in_callback = consumer
        try:
            answer = method(set(partitions))
            if inspect.iscoroutine(answer):
                import asyncio  # few programs need it

                asyncio.run(answer)
        finally:
            self._owner._kwire_in_callback = None


def _offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> dict[TopicPartition, KwireOffset] | None:
    if offsets is None:
        return None
    return {
        TopicPartition(*tp): KwireOffset(at.offset, at.metadata or "", leader_epoch_or_none(at.leader_epoch))
        for tp, at in offsets.items()
    }


def _as_theirs(failure: Exception | None) -> Exception | None:
    if not isinstance(failure, KafkaError):
        return failure
    error = error_of(failure)
    error.__cause__ = failure
    return error


def _offset(at: KwireOffset) -> OffsetAndMetadata:
    return OffsetAndMetadata(at.offset, at.metadata, leader_epoch_number(at.leader_epoch))


def _offset_and_timestamp(at: KwireOffsetAndTimestamp) -> OffsetAndTimestamp:
    return OffsetAndTimestamp(at.offset, at.timestamp, leader_epoch_number(at.leader_epoch))


def _checked_offset(offset: object) -> int:
    if not isinstance(offset, int) or offset < 0:
        raise ValueError(f"an offset is a number from 0 on, and not {offset!r}")
    return offset


@contextmanager
def _unassigned_is(kind: type[Exception]) -> Iterator[None]:
    """Raise what kafka-python raises if a partition is not assigned, also of a closed consumer."""
    try:
        yield
    except ConcurrentModificationError:
        raise
    except IllegalStateError as error:
        raise kind(str(error)) from error


def _chosen(partitions: Sequence[TopicPartition], assigned: Partitions) -> Collection[TopicPartition]:
    """The partitions that are named, or all."""
    if not partitions and not assigned:
        raise ValueError("No partitions are currently assigned")
    return [TopicPartition(*tp) for tp in partitions] or assigned


def _most(max_records: int | None, default: int) -> int:
    if max_records is None:
        return default
    if not isinstance(max_records, int):
        raise TypeError("max_records must be an integer")
    if max_records <= 0:
        raise ValueError("max_records must be positive")
    return max_records


def _until(timeout_ms: float) -> float:
    if timeout_ms < 0:
        raise ValueError("Timeout must not be negative")
    return time.monotonic() + timeout_ms / 1000.0


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000.0
