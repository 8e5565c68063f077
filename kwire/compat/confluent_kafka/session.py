"""The implementation of the adapter's `Consumer`.

Users derive from `Consumer`. confluent-kafka's class is written in C: it has no attributes that a subclass could
overwrite, and none of its calls uses another one that a subclass may override. So the implementation is here, behind
one attribute.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from threading import get_ident
from typing import Self

from kwire import errors
from kwire.clock import NEVER_MS, monotonic_ms
from kwire.compat.confluent_kafka.arguments import check_starts, key_of, until
from kwire.compat.confluent_kafka.commits import Commits
from kwire.compat.confluent_kafka.ends import ENDS_S, PartitionEnds
from kwire.compat.confluent_kafka.forwarded_logs import forward
from kwire.compat.confluent_kafka.kafka_error import (
    KafkaError,
    KafkaException,
    as_theirs,
    ends_consumer,
    error_of,
    exception,
    exceptions,
    exceptions_of_callbacks,
)
from kwire.compat.confluent_kafka.look_ups import LookUps
from kwire.compat.confluent_kafka.settings import OwnSettings
from kwire.compat.confluent_kafka.statistics import Statistics
from kwire.compat.confluent_kafka.told_errors import ToldErrors
from kwire.compat.confluent_kafka.turns import Turns
from kwire.compat.confluent_kafka.values import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    OFFSET_TAIL,
    Message,
    TopicPartition,
)
from kwire.compat.record_loop import RecordLoop
from kwire.config import ConsumerConfig, GroupProtocol
from kwire.consumer.arguments import checked_partitions
from kwire.consumer.listener import RebalanceConsumer
from kwire.consumer.sync import Consumer
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import MAX_OFFSET, OffsetAndMetadata, Partitions
from kwire.model import TopicPartition as Partition

# Errors that librdkafka passes to error_cb, and no poll returns.
_OF_NO_GROUP = (errors.BootstrapError, errors.DisconnectError)
# How often a second thread that polls checks whether it is its turn.
POLLED_AGAIN_S = 0.001
# How often a poll without a subscription checks whether there is one now.
LOOKED_AGAIN_S = 0.05
# How often, after an error was reported: other partitions may go on.
TRIED_AGAIN_S = 0.005
# How long a poll without a timeout waits at a time.
FOREVER_S = 3600.0


class Session:
    """The state and the calls of one consumer."""

    is_closed = True  # until `__init__` has succeeded

    def __init__(self, own: OwnSettings) -> None:
        self.own = own
        if own.tokens is not None:
            own.tokens.ask_first()
        with exceptions():
            self.consumer: Consumer[bytes, bytes] = Consumer(own.left)
        self._delivery = self.consumer._session.state.delivery
        self.loop = RecordLoop(self._delivery)
        self.ends = PartitionEnds(self.consumer)
        self.turns = Turns(self.consumer)
        self.commits = Commits(own, self.consumer, self.turns)
        self.look_up = LookUps(self.consumer)
        self.told = ToldErrors()
        self._late_since_ms = NEVER_MS
        self.statistics = Statistics(own, self.consumer, self.commits.stored)
        if own.logger is not None:
            client_id = self.consumer._session.link.client_id
            forward(own.logger, client_id, until_gone=self, with_debug=own.with_debug)
        self.positions: dict[Partition, OffsetAndMetadata] = {}
        self.polled_by: int | None = None
        """The thread that is inside `poll` or `consume`."""
        self.in_callback: RebalanceConsumer | None = None
        self.offered: Partitions | None = None
        """Partitions from the group that `on_assign` has not taken yet; None outside of `on_assign`."""
        self.read_topics: set[str] = set()
        """The topics of which partitions have been assigned."""
        self.left_out: Partitions = frozenset()
        """Partitions from the group that `on_assign` has not taken."""
        self._is_incremental = _has_incremental_rebalances(self.consumer.config)
        self._is_closing = False
        self._ended_by: KafkaError | None = None
        """The error after which librdkafka refuses to go on."""
        self.is_closed = False

    @contextlib.contextmanager
    def look(self) -> Iterator[Self]:
        """A context for calls that change nothing; they do not mean that the program is done with its messages."""
        with self._turn():
            self.note_returned(stores=False)
            yield self

    @contextlib.contextmanager
    def call(self) -> Iterator[Self]:
        """A context for all other calls: the program is done with the messages it has, unless it has failed over
        them."""
        with self._turn():
            self.note_returned(stores=not self._delivery.is_failing())
            yield self

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        self.check_open()
        with self.turns, exceptions():
            self.check_open()  # another thread may have closed it
            yield

    def check_open(self) -> None:
        if self.is_closed:
            raise RuntimeError("Consumer closed")

    def close(self) -> None:
        if self.is_closed:
            return
        self._is_closing = True
        self.commits.hurry()
        with self.turns, exceptions():
            try:
                if self._delivery.is_failing():
                    self._delivery.abandon()
                self.note_returned()
                if self.is_assigned_by_hand():  # else the listener does it, behind the program's callback
                    self.commits.last(self.consumer.assignment())
            finally:
                try:
                    self.consumer.close()  # callbacks may commit
                finally:
                    self.is_closed = True

    # --- what to consume ------------------------------------------------------------------------------------

    def check_not_ended(self) -> None:
        """Raise the error that has ended this consumer. Another member has its `group.instance.id`; a new subscription
        would fence that member."""
        if self._ended_by is not None:
            raise as_theirs(KafkaException)(self._ended_by)

    def is_assigned_by_hand(self) -> bool:
        return self.consumer._session.state.assigned_by_hand

    def check_call(self, *, is_incremental: bool) -> None:
        """Refuse, in a rebalance callback, a call of the other rebalance protocol. In an incremental rebalance the
        callback is given only the new partitions; `assign()` with these would drop the others, and no member would read
        them."""
        if self.in_callback is None or self._is_closing or is_incremental == self._is_incremental:
            return
        prefix, kind = ("incremental_", "incremental") if self._is_incremental else ("", "not incremental")
        raise exception(
            KafkaError._STATE,
            f"rebalances of this group are {kind}: call {prefix}assign() or {prefix}unassign() in callbacks",
        )

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        check_starts(partitions)
        self.check_call(is_incremental=False)
        wanted = frozenset(map(key_of, partitions))
        if self.in_callback is None:
            self._assign_by_hand(wanted)
        elif self.offered is not None:
            self.leave_out(self.in_callback, self.in_callback.assignment() - wanted)
        self.start_at(partitions)

    def _assign_by_hand(self, wanted: Partitions) -> None:
        """Assign partitions. Each begins at the group's commit, also one that was assigned before. Paused ones stay
        paused."""
        checked_partitions(wanted)  # an error leaves the assignment as it is
        paused = self.consumer.paused()
        if self.is_assigned_by_hand():
            self.let_go(self.consumer.assignment())
            self.consumer.unsubscribe()
        self.consumer.assign(wanted)
        self.consumer.pause(paused & wanted)
        self.note_topics(wanted)

    def let_go(self, partitions: Partitions) -> None:
        """Give up partitions that were assigned by hand. Those from a group are given up with the callback of the
        rebalance."""
        if self.is_assigned_by_hand():
            self.commits.begin_last(partitions)
            self.forget(partitions)

    def leave_out(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        """Keep these partitions as this member's, without reading them."""
        consumer.resume(self.left_out - partitions)
        consumer.pause(partitions)
        self.left_out = partitions

    def assigned(self) -> Partitions:
        return self.consumer.assignment() - self.left_out

    def note_topics(self, partitions: Iterable[Partition]) -> None:
        self.read_topics.update(one.topic for one in partitions)

    def owned(self, partitions: Sequence[TopicPartition]) -> list[Partition]:
        assigned = self.assigned()
        return [tp for tp in map(key_of, partitions) if tp in assigned]

    def start_at(self, partitions: Sequence[TopicPartition]) -> None:
        """Move to the offsets of these partitions. One without an offset begins at the group's commit."""
        for one in partitions:
            if one.offset not in (OFFSET_STORED, OFFSET_INVALID):
                self._go_to(one)
        self._moved(map(key_of, partitions))

    def seek(self, one: TopicPartition) -> None:
        check_starts([one])
        if one.offset == OFFSET_STORED:
            raise exception(KafkaError._INVALID_ARG, "there is no seek to what is stored: assign() the partition")
        if one.offset == OFFSET_INVALID:  # an offset without a record, so that auto.offset.reset decides
            one = TopicPartition(one.topic, one.partition, MAX_OFFSET)
        self._go_to(one)
        self._moved([key_of(one)])

    def _go_to(self, one: TopicPartition) -> None:
        consumer, tp, offset = self.in_callback or self.consumer, key_of(one), one.offset
        if offset == OFFSET_BEGINNING:
            consumer.seek_to_beginning([tp])
        elif offset == OFFSET_END:
            consumer.seek_to_end([tp])
        elif offset <= OFFSET_TAIL:
            consumer.seek(tp, max(0, consumer.end_offsets([tp])[tp] - (OFFSET_TAIL - offset)))
        else:
            consumer.seek(tp, OffsetAndMetadata(offset, leader_epoch=one.leader_epoch))

    def _moved(self, partitions: Iterable[Partition]) -> None:
        """Note that the program has moved to other positions. Stored offsets stay, as in librdkafka."""
        for partition in partitions:
            self.positions.pop(partition, None)
            self.ends.moved(partition)
            self.told.moved((partition,))

    def forget(self, partitions: Partitions) -> None:
        """Forget partitions that are not this consumer's any more."""
        self._moved(partitions)
        self.commits.stored.forget(partitions)
        self.left_out -= partitions

    # --- messages -------------------------------------------------------------------------------------------

    def begin_poll(self) -> None:
        """Messages are handed out to one thread at a time. Not by `turns`: to leave a turn is a call."""
        self.check_open()
        me = get_ident()
        while self.polled_by not in (None, me):
            time.sleep(POLLED_AGAIN_S)
            self.check_open()
        self.polled_by = me

    def awaited(self, timeout: float | None) -> Message | None:
        """Wait for one message. Background work is done here: a poll comes here ten times a second, however many
        messages are buffered."""
        until_s = until(timeout)
        while True:
            if (instead := self.polled(until_s)) is not None:
                return instead[0] if instead else None
            message = self.loop.next(Message.of)
            if message is not None or time.monotonic() >= until_s:
                return message

    def awaited_batch(self, max_records: int, until_s: float) -> list[Message]:
        while True:
            if (instead := self.polled(until_s, max_records)) is not None:
                return instead
            found = self.loop.take(max_records, partial(self.batch, max_records))
            if found:
                return found  # no call in between: a signal handler might raise in it
            if time.monotonic() >= until_s:
                return []

    def batch(self, max_records: int, chunks: Sequence[PartitionRecords[bytes, bytes]]) -> list[Message]:
        """Messages, and the ends of partitions behind them."""
        found = [*map(Message.of, chain.from_iterable(chunks))]
        while len(found) < max_records and (ended := self._end_reached()) is not None:
            found.append(ended)
        return found

    def polled(self, until_s: float, min_records: int = 1) -> list[Message] | None:
        """Poll. Returns None if there may be records now, or the messages to return instead."""
        self.statistics.tell_if_due(time.monotonic())
        try:
            with self.turns, exceptions_of_callbacks():
                self.check_open()  # another thread may have closed it
                if (instead := self._late() or self._end_reached()) is not None:
                    return [instead]
                self._poll_until(until_s, min_records)
        except errors.KafkaError as error:
            if self.is_closed:  # closed by a signal handler while this poll waited
                return []
            if ends_consumer(error):
                self._ended_by = error_of(error)
            is_idle = self._is_of_nothing_to_poll(error)
            if not is_idle and (message := self.told.news_of(error)) is not None:
                return self._told(error, message)
            pause_s = LOOKED_AGAIN_S if is_idle or self._ended_by is not None else TRIED_AGAIN_S
            time.sleep(max(0.0, min(until_s - time.monotonic(), pause_s)))
        return None

    def _late(self) -> Message | None:
        """The event of a poll that comes so late that the group has gone on without this member; in front of the
        callbacks that tell of it."""
        session, config = self.consumer._session, self.consumer.config
        polled_ms, view = session.link.mailbox.polled_at_ms, session.state.view
        late_ms = monotonic_ms() - polled_ms - config.max_poll_interval_ms
        if late_ms < 0.0 or polled_ms == self._late_since_ms or not view.is_group or view.is_member:
            return None
        self._late_since_ms = polled_ms
        if not self.consumer.assignment():  # it was no member of the group before
            return None
        return Message.of_error(
            KafkaError(
                KafkaError._MAX_POLL_EXCEEDED,
                f"this poll comes {late_ms:.0f} ms after max.poll.interval.ms={config.max_poll_interval_ms}: the group "
                "has gone on without this member, which joins again; raise it, or process less between two polls",
            )
        )

    def _poll_until(self, until_s: float, min_records: int) -> None:
        now_s = time.monotonic()
        self.note_returned()
        self.commits.in_background(now_s)
        most_s = ENDS_S if self.own.tells_ends else FOREVER_S  # reaching an end does not wake a poll
        due_s = min(self.commits.stored.wait_s(now_s), self.statistics.wait_s(now_s))
        wait_s = max(0.0, min(until_s - now_s, due_s, most_s))
        # What is beyond would wait for the next call, for nothing.
        max_records = None if min_records == 1 else min_records
        with self.turns.waiting():
            records = self.consumer._poll(wait_s, max_records, to_loop=True, min_records=min_records)
            if min_records > 1 and not records and (self.own.tells_ends or time.monotonic() >= until_s):
                self.consumer._poll(0, max_records, to_loop=True)  # as many as there are
        self.loop.begin()

    def _is_of_nothing_to_poll(self, error: errors.KafkaError) -> bool:
        """Whether nothing is subscribed or assigned: librdkafka then waits, since another thread may change that."""
        return isinstance(error, errors.IllegalStateError) and not self.consumer._session.state.view.subscribed

    def _told(self, error: errors.KafkaError, message: Message) -> list[Message]:
        """Report an error: by `error_cb`, if there is one and the error is about no partition and no group; else in a
        message."""
        if self.own.on_error is None:
            return [message]
        if isinstance(error, (*_OF_NO_GROUP, errors.AuthenticationError)):
            self.own.on_error(error_of(error))
        return [] if isinstance(error, _OF_NO_GROUP) else [message]

    def give_up_returned(self) -> None:
        """Note that the program has failed over the messages that were returned last."""
        with self.turns:
            self._delivery.abandon()

    def note_returned(self, *, stores: bool = True) -> None:
        """Note the position of the program, which has come back, in the messages that it was handed. Idempotent.

        Args:
            stores: Whether the position is to be committed.
        """
        for partition, _, position in self._delivery.so_far():
            self.positions[partition] = position
            if stores and self.own.stores_each:
                self.commits.stored.store({partition: position})

    def _end_reached(self) -> Message | None:
        """The next end of a partition that has to be reported."""
        if not self.own.tells_ends:
            return None
        with self.turns:
            found = self.ends.next()
        return None if found is None else Message.end_of(*found)


def _has_incremental_rebalances(config: ConsumerConfig) -> bool:
    from kwire.assignors import RebalanceProtocol, rebalance_protocol, resolve  # the session imports it when needed

    if config.group_protocol is GroupProtocol.CONSUMER:
        return True
    return rebalance_protocol(resolve(config.partition_assignment_strategy)) is RebalanceProtocol.COOPERATIVE
