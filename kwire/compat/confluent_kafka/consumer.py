"""`Consumer` as confluent-kafka has it, over kwire. Long, because every call a user has is in it.

What `subscribe` and `assign` take are its own partitions, with offsets. Errors are a `KafkaException`, or the message
of a poll.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from threading import get_ident
from types import TracebackType
from typing import Self, TypeAlias

from kwire import errors
from kwire.clock import Deadline
from kwire.compat.confluent_kafka.arguments import check_time, listed, names_or_pattern, offsets_of, seconds, until
from kwire.compat.confluent_kafka.ends import ENDS_S, PartitionEnds
from kwire.compat.confluent_kafka.kafka_error import (
    KafkaError,
    error_of,
    exception,
    exceptions,
    exceptions_of_callbacks,
    place_of,
)
from kwire.compat.confluent_kafka.settings import OwnSettings
from kwire.compat.confluent_kafka.stored_offsets import StoredOffsets
from kwire.compat.confluent_kafka.turns import Turns
from kwire.compat.confluent_kafka.values import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    ClusterMetadata,
    Message,
    TopicPartition,
    cluster_metadata,
)
from kwire.compat.record_loop import RecordLoop
from kwire.consumer.listener import Partitions, RebalanceConsumer, RebalanceListener
from kwire.consumer.session import COMMIT_SHARE_OF_CLOSE
from kwire.consumer.sync import Consumer as KwireConsumer
from kwire.events import Commit, Reply
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import OffsetAndMetadata
from kwire.model import TopicPartition as Partition
from kwire.transactions import librdkafka_group_metadata

__all__ = ["Consumer"]

OnPartitions: TypeAlias = "Callable[[Consumer, list[TopicPartition]], object]"

log = logging.getLogger("kwire.compat")

# What librdkafka tells error_cb, and no poll.
_OF_NO_GROUP = (errors.BootstrapError, errors.DisconnectError)
# What stands in a commit's way and will not in that of the next one, which covers its offsets, too.
_FOR_THE_NEXT_COMMIT = (errors.RetriableError, errors.RebalanceInProgressError)
_MOST_MESSAGES = 1_000_000
# How often a second thread that polls looks whether it is its turn.
POLLED_AGAIN_S = 0.001
# As long as a poll without a timeout waits at a time.
FOREVER_S = 3600.0


class Consumer:
    """A consumer of one dictionary of settings. See confluent_kafka.Consumer."""

    _is_closed = True  # until `__init__` has succeeded

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        self._own = own = OwnSettings.of({**(config or {}), **settings})
        with exceptions():
            self._consumer = KwireConsumer(own.left)
        self._delivery = self._consumer._session.state.delivery
        self._loop = RecordLoop(self._delivery)
        interval_s = self._consumer.config.auto_commit_interval_ms / 1000.0 or math.inf  # 0: only where one has to be
        self._stored = StoredOffsets(interval_s if own.auto_commits else math.inf, time.monotonic())
        self._positions: dict[Partition, int] = {}
        self._last_commit_ms = float(self._consumer.config.default_api_timeout_ms)
        self._ends = PartitionEnds(self._consumer)
        self._turns = Turns(self._consumer)
        self._polled_by: int | None = None
        """The thread that is in poll or consume."""
        self._in_callback: RebalanceConsumer | None = None
        self._offered: Partitions | None = None
        """What the group has given and `on_assign` has not taken yet; None outside of it."""
        self._read_topics: set[str] = set()
        """Those of which partitions have been assigned."""
        self._left_out: Partitions = frozenset()
        """What the group has given and `on_assign` has not taken."""
        self._is_closed = False

    # --- what to consume ------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: OnPartitions | None = None,
        on_revoke: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        with self._call():
            if self._is_assigned_by_hand():
                self.unassign()
            self._consumer.subscribe(names_or_pattern(topics), listener=_Listener(self, on_assign, on_revoke, on_lost))

    def unsubscribe(self) -> None:
        """Partitions that were assigned by hand stay."""
        with self._call():
            if not self._is_assigned_by_hand():
                self._consumer.unsubscribe()

    def unassign(self) -> None:
        """In `on_assign` all that the group has given is left alone. In `on_revoke` this changes nothing: what is
        revoked goes when the callback is done."""
        self.assign([])

    def assign(self, partitions: list[TopicPartition]) -> None:
        """In `on_assign` this says which of the group's partitions are read, and from where."""
        wanted = {one.key for one in partitions}
        with self._call():
            if self._in_callback is None:
                self._let_go(self._consumer.assignment())
                self._consumer.assign(wanted)
                self._note_topics(wanted)
            elif self._offered is not None:
                self._leave_out(self._in_callback, self._in_callback.assignment() - wanted)
            self._start_at(self._in_callback or self._consumer, partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        wanted = {one.key for one in partitions}
        with self._call():
            if self._in_callback is None:
                if twice := self._owned(partitions):
                    raise exception(KafkaError._CONFLICT, f"{twice[0]} is assigned already")
                self._consumer.assign(self._consumer.assignment() | wanted)
                self._note_topics(wanted)
            elif self._offered is not None:
                self._offered -= wanted
                self._leave_out(self._in_callback, (self._left_out | self._offered) - wanted)
            self._start_at(self._in_callback or self._consumer, partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        with self._call():
            if self._in_callback is not None:
                return
            gone = frozenset(self._owned(partitions))
            if len(gone) < len(partitions):
                raise exception(KafkaError._INVALID_ARG, "one of the partitions is not assigned")
            self._let_go(gone)
            self._consumer.assign(self._consumer.assignment() - gone)

    def _is_assigned_by_hand(self) -> bool:
        return self._consumer._session.state.assigned_by_hand

    def _let_go(self, partitions: Partitions) -> None:
        """The program gives up what it has assigned by hand. What a group has given goes with its callback."""
        if not self._is_assigned_by_hand():
            return
        if left := self._to_commit(partitions):
            self._consumer.commit_async(left, callback=self._committed)
        self._forget(partitions)

    def _leave_out(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        """These stay this member's, and nothing of them is read."""
        consumer.resume(self._left_out - partitions)
        consumer.pause(partitions)
        self._left_out = partitions

    def _assigned(self) -> Partitions:
        return self._consumer.assignment() - self._left_out

    def _note_topics(self, partitions: Iterable[Partition]) -> None:
        self._read_topics.update(one.topic for one in partitions)

    def _owned(self, partitions: Sequence[TopicPartition]) -> list[Partition]:
        assigned = self._assigned()
        return [one.key for one in partitions if one.key in assigned]

    def _start_at(self, consumer: RebalanceConsumer | KwireConsumer, partitions: Sequence[TopicPartition]) -> None:
        for one in partitions:
            if one.offset >= 0:
                consumer.seek(one.key, one.offset)
            elif one.offset == OFFSET_BEGINNING:
                consumer.seek_to_beginning([one.key])
            elif one.offset == OFFSET_END:
                consumer.seek_to_end([one.key])
        self._moved(one.key for one in partitions)

    def assignment(self) -> list[TopicPartition]:
        with self._call():
            return listed(self._assigned())

    # --- records --------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = -1) -> Message | None:
        """One message, or None when `timeout` seconds are over."""
        self._begin_poll()
        try:
            message = self._loop.next(Message.of)
            return message if message is not None else self._awaited(timeout)
        finally:
            self._polled_by = None  # nothing is called: an exception of a signal handler might strike there

    def _begin_poll(self) -> None:
        """Messages are handed out to one thread at a time. Not by `_turns`: to leave a turn is a call."""
        self._check_open()
        me = get_ident()
        while self._polled_by not in (None, me):
            time.sleep(POLLED_AGAIN_S)
            self._check_open()
        self._polled_by = me

    def _awaited(self, timeout: float | None) -> Message | None:
        """One message when none is at hand. What is done in the background is done here: a poll comes here ten times
        a second, however many messages are at hand."""
        until_s = until(timeout)
        while True:
            if (instead := self._polled(until_s)) is not None:
                return instead[0] if instead else None
            message = self._loop.next(Message.of)
            if message is not None or time.monotonic() >= until_s:
                return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to so many messages; fewer when `timeout` seconds are over, in front of an error, and where ends of
        partitions are told of.

        Until it returns none of them counts as delivered, so no commit in the background covers them.
        """
        if not 0 <= num_messages <= _MOST_MESSAGES:
            self._check_open()
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        if num_messages == 1:
            message = self.poll(timeout)
            return [] if message is None else [message]
        self._begin_poll()
        try:
            return self._awaited_batch(num_messages, until(timeout)) if num_messages else []
        finally:
            self._polled_by = None  # as in `poll`

    def _awaited_batch(self, most: int, until_s: float) -> list[Message]:
        while True:
            if (instead := self._polled(until_s, most)) is not None:
                return instead
            found = self._loop.take(most, partial(self._batch, most))
            if found:
                return found  # nothing is called in between: an exception of a signal handler might strike there
            if time.monotonic() >= until_s:
                return []

    def _batch(self, most: int, chunks: Sequence[PartitionRecords[bytes, bytes]]) -> list[Message]:
        """Messages, and the ends behind them."""
        found = [*map(Message.of, chain.from_iterable(chunks))]
        while len(found) < most and (ended := self._end_reached()) is not None:
            found.append(ended)
        return found

    def _polled(self, until_s: float, least: int = 1) -> list[Message] | None:
        """A poll has returned, so records may be at hand; or what is to be returned instead."""
        try:
            with self._turns, exceptions_of_callbacks():
                self._check_open()  # another thread may have closed it
                if (ended := self._end_reached()) is not None:
                    return [ended]
                self._poll_until(until_s, least)
        except errors.KafkaError as error:
            if self._is_of_nothing_to_poll(error) and until_s < math.inf:
                time.sleep(max(0.0, until_s - time.monotonic()))
                return []
            return self._told(error)
        return None

    def _poll_until(self, until_s: float, least: int) -> None:
        now_s = time.monotonic()
        self._note_returned()
        if due := self._stored.due(now_s):
            self._consumer.commit_async(due, callback=self._committed)
        most_s = ENDS_S if self._own.tells_ends else FOREVER_S  # nothing wakes a poll because an end is reached
        wait_s = max(0.0, min(until_s - now_s, self._stored.wait_s(now_s), most_s))
        with self._turns.waiting():
            records = self._consumer._poll(wait_s, to_loop=True, least=least)
            if least > 1 and not records and (self._own.tells_ends or time.monotonic() >= until_s):
                self._consumer._poll(0, to_loop=True)  # as many as there are
        self._loop.begin()

    def _is_of_nothing_to_poll(self, error: errors.KafkaError) -> bool:
        """Whether nothing is subscribed or assigned: librdkafka then waits for the timeout instead of raising."""
        return isinstance(error, errors.IllegalStateError) and not self._consumer._session.state.view.subscribed

    def _told(self, error: errors.KafkaError) -> list[Message]:
        """An error, in a message; or to `error_cb`, if there is one, and it is of no partition and no group."""
        found = error_of(error)
        message = Message.of_error(found, *place_of(error))
        if self._own.on_error is None:
            return [message]
        if isinstance(error, (*_OF_NO_GROUP, errors.AuthenticationError)):
            self._own.on_error(found)
        return [] if isinstance(error, _OF_NO_GROUP) else [message]

    def _note_returned(self) -> None:
        """The program has come back: where it stands, in what it was handed. To note it twice does no harm."""
        for partition, _, position in self._delivery.so_far():
            self._positions[partition] = position.offset
            if self._own.stores_each:
                self._stored.store({partition: position})

    def _moved(self, partitions: Iterable[Partition]) -> None:
        """The program goes on elsewhere in these. What is stored of them stays, as in librdkafka."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._ends.moved(partition)

    def _forget(self, partitions: Partitions) -> None:
        """They are not this consumer's any more."""
        self._moved(partitions)
        self._stored.forget(partitions)
        self._left_out -= partitions

    def _end_reached(self) -> Message | None:
        """The next end of a partition that the program is to be told of."""
        if not self._own.tells_ends:
            return None
        with self._turns:
            found = self._ends.next()
        return None if found is None else Message.end_of(*found)

    # --- offsets --------------------------------------------------------------------------------------------

    def store_offsets(self, message: Message | None = None, offsets: Sequence[TopicPartition] | None = None) -> None:
        """To be committed by `commit()`, or in the background. Partitions that are not assigned are left out."""
        with self._call():
            if message is None and offsets is None:
                raise ValueError("expected either message or offsets")
            if self._own.stores_each:
                raise exception(
                    KafkaError._INVALID_ARG, "every message is stored: set enable.auto.offset.store to False"
                )
            given, assigned = offsets_of(message, offsets) or {}, self._assigned()
            kept = {tp: at for tp, at in given.items() if tp in assigned}
            if given and not kept:
                first = next(iter(given))
                code = KafkaError._STATE if first.topic in self._read_topics else KafkaError._UNKNOWN_PARTITION
                raise exception(code, f"{first} is not assigned")
            self._stored.store(kept)

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """What is stored and not committed; or the message's offset, or these. Answers what was committed, if it
        waits: of the assigned partitions those with OFFSET_INVALID are not."""
        with self._call():
            chosen = offsets_of(message, offsets)
            found = self._stored.left() if chosen is None else chosen
            if chosen is None and not found:
                if asynchronous:
                    return None
                raise exception(KafkaError._NO_OFFSET, "there is nothing to commit")
            asked = None if self._own.commits_by_kwire and chosen is None else found
            if asynchronous:
                self._consumer.commit_async(asked, callback=self._committed)
                return None
            self._consumer.commit_sync(asked)
            self._stored.committed(found)
            offset_of = {} if chosen is not None else dict.fromkeys(self._assigned(), OFFSET_INVALID)
            offset_of |= {tp: at.offset for tp, at in found.items()}
            return [TopicPartition(tp.topic, tp.partition, offset) for tp, offset in sorted(offset_of.items())]

    def _committed(self, offsets: Mapping[Partition, OffsetAndMetadata], error: Exception | None) -> None:
        if error is None:
            self._stored.committed(offsets)
        if self._own.on_commit is not None:
            found = error_of(error) if isinstance(error, errors.KafkaError) else None
            with self._turns.in_callback():
                self._own.on_commit(
                    found, [TopicPartition(tp.topic, tp.partition, at.offset) for tp, at in offsets.items()]
                )
        elif error is not None:
            level = logging.DEBUG if isinstance(error, _FOR_THE_NEXT_COMMIT) else logging.WARNING
            log.log(level, "a commit of %s failed: %s", ", ".join(map(str, sorted(offsets))), error)

    def _to_commit(self, partitions: Partitions) -> dict[Partition, OffsetAndMetadata]:
        """What has to be committed before these are given up."""
        left = self._stored.left() if self._own.auto_commits else {}
        return {tp: at for tp, at in left.items() if tp in partitions}

    def _commit_last(self, partitions: Partitions) -> None:
        """The same, and that is waited for: afterwards they are not this member's."""
        if not (left := self._to_commit(partitions)):
            return
        link = self._consumer._session.link
        reply: Reply[None] = link.post(lambda reply: Commit(left, reply, is_last=True))
        try:
            link.run(link.wait_for(reply, "auto-commit", Deadline.after(self._last_commit_ms), wakeable=False))
        except errors.KafkaError as error:
            self._committed(left, error)
        else:
            self._committed(left, None)

    def committed(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        with self._call():
            found = self._consumer.committed([one.key for one in partitions], timeout=seconds(timeout))
        answers = []
        for one in partitions:
            at = found[one.key]
            offset = OFFSET_INVALID if at is None else at.offset
            answers.append(TopicPartition(one.topic, one.partition, offset, at.metadata or None if at else None))
        return answers

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Behind the last message of each that was returned."""
        with self._call():
            offsets = [self._positions.get(one.key, OFFSET_INVALID) for one in partitions]
        return [TopicPartition(one.topic, one.partition, at) for one, at in zip(partitions, offsets, strict=True)]

    def seek(self, partition: TopicPartition) -> None:
        with self._call():
            self._start_at(self._in_callback or self._consumer, [partition])

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float = -1,
        cached: bool = False,  # noqa: ARG002
    ) -> tuple[int, int]:
        """The first offset, and the one behind the last. They are asked for, cached or not."""
        with self._call():
            check_time(timeout)
            low = self._consumer.beginning_offsets([partition.key], timeout=seconds(timeout))
            high = self._consumer.end_offsets([partition.key], timeout=seconds(timeout))
        return low[partition.key], high[partition.key]

    def offsets_for_times(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """The offset of each partition is a time, in ms; OFFSET_END where all records are older."""
        with self._call():
            check_time(timeout)
            found = self._consumer.offsets_for_times(
                {one.key: one.offset for one in partitions}, timeout=seconds(timeout)
            )
        answers = ((one, found[one.key]) for one in partitions)
        return [TopicPartition(one.topic, one.partition, at.offset if at else OFFSET_END) for one, at in answers]

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Those that are not assigned (any more) are passed over."""
        with self._call():
            self._consumer.pause(self._owned(partitions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        with self._call():
            resumed = self._consumer.paused().intersection(self._owned(partitions))
            for partition in resumed:
                self._ends.moved(partition)
            self._consumer.resume(resumed)

    # --- the cluster and the group --------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        if self._is_closed:
            raise RuntimeError("Handle has been closed")
        with self._call():
            if topic is None:
                return cluster_metadata(self._consumer.list_topics(timeout=seconds(timeout)))
            return cluster_metadata({topic: self._consumer.partitions_for(topic, timeout=seconds(timeout))})

    def memberid(self) -> str | None:
        with self._call(), contextlib.suppress(errors.CommitFailedError):  # put out of its group
            return self._consumer.group_metadata().member_id or None
        return None

    def consumer_group_metadata(self) -> bytes:
        """What confluent-kafka's own producer takes in `send_offsets_to_transaction()`."""
        with self._call():
            return librdkafka_group_metadata(self._consumer.group_metadata())

    # --- the end --------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._is_closed:
            return
        self._last_commit_ms = COMMIT_SHARE_OF_CLOSE * self._consumer.config.close_timeout_ms
        with self._turns, exceptions():
            try:
                self._note_returned()
                if self._is_assigned_by_hand():  # else the listener does it, behind the program's callback
                    self._commit_last(self._consumer.assignment())
            finally:
                try:
                    self._consumer.close()  # callbacks may commit
                finally:
                    self._is_closed = True

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """Around a call of the program."""
        self._check_open()
        with self._turns, exceptions():
            self._check_open()  # another thread may have closed it
            self._note_returned()
            yield

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("Consumer closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Listener(RebalanceListener):
    """Calls the functions of `subscribe` with the consumer and a list."""

    def __init__(
        self,
        owner: Consumer,
        on_assign: OnPartitions | None,
        on_revoke: OnPartitions | None,
        on_lost: OnPartitions | None,
    ) -> None:
        self._owner = owner
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost or on_revoke

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._owner._offered = partitions
        self._owner._note_topics(partitions)
        try:
            self._call(self._on_assign, consumer, partitions)
        finally:
            self._owner._offered = None

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        try:
            self._call(self._on_revoke, consumer, partitions)
        finally:
            self._owner._commit_last(partitions)
            self._owner._forget(partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        try:
            self._call(self._on_lost, consumer, partitions)
        finally:
            self._owner._forget(partitions)

    def _call(self, function: OnPartitions | None, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        if function is None:
            return
        self._owner._in_callback = consumer
        try:
            with self._owner._turns.in_callback():
                function(self._owner, listed(partitions))
        finally:
            self._owner._in_callback = None
