"""`Consumer` with confluent-kafka's API, over kwire. Long, because it has every call of the API.

Partitions are `TopicPartition`s with offsets. An error is raised as a `KafkaException`, or is in the message of a poll.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

from kwire import errors
from kwire.compat.confluent_kafka.arguments import (
    answered,
    check_count,
    check_starts,
    check_time,
    key_of,
    listed,
    names_or_pattern,
    offsets_of,
    seconds,
    until,
)
from kwire.compat.confluent_kafka.kafka_error import KafkaError, exception
from kwire.compat.confluent_kafka.listener import Listener
from kwire.compat.confluent_kafka.metadata import ClusterMetadata
from kwire.compat.confluent_kafka.session import Session
from kwire.compat.confluent_kafka.settings import OwnSettings
from kwire.compat.confluent_kafka.values import Message, TopicPartition
from kwire.transactions import librdkafka_group_metadata

__all__ = ["Consumer"]

OnPartitions: TypeAlias = "Callable[[Consumer, list[TopicPartition]], object]"


class Consumer:
    """A consumer with confluent-kafka's API, set up by a dictionary of librdkafka's settings. See
    confluent_kafka.Consumer."""

    _kwire = Session.__new__(Session)  # closed, until `__init__` has succeeded
    """The only attribute: all other names are free for subclasses."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        self._kwire = Session(OwnSettings.of({**(config or {}), **settings}))

    # --- what to consume ------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: OnPartitions | None = None,
        on_revoke: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        with self._kwire.call() as session:
            wanted = names_or_pattern(topics)
            session.check_not_ended()
            if session.is_assigned_by_hand():
                session.assign([])
            functions = (function and partial(function, self) for function in (on_assign, on_revoke, on_lost))
            session.consumer.subscribe(wanted, listener=Listener(session, *functions))

    def unsubscribe(self) -> None:
        """End the subscription. Partitions that were assigned by hand stay assigned."""
        with self._kwire.call() as session:
            session.check_not_ended()
            if not session.is_assigned_by_hand():
                session.consumer.unsubscribe()

    def unassign(self) -> None:
        """Give up partitions that were assigned by hand. In `on_assign`, none of the partitions from the group is read.
        In `on_revoke` this changes nothing: revoked partitions are given up after the callback."""
        with self._kwire.call() as session:
            session.assign([])

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Assign partitions by hand. In `on_assign`, this says which of the group's partitions are read, and from
        where."""
        with self._kwire.call() as session:
            session.assign(partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        with self._kwire.call() as session:
            check_starts(partitions)
            session.check_call(is_incremental=True)
            wanted = frozenset(map(key_of, partitions))
            if session.in_callback is None:
                if twice := session.owned(partitions):
                    raise exception(KafkaError._CONFLICT, f"{twice[0]} is assigned already")
                session.consumer.assign(session.consumer.assignment() | wanted)
                session.note_topics(wanted)
            elif session.offered is not None:
                session.offered -= wanted
                session.leave_out(session.in_callback, (session.left_out | session.offered) - wanted)
            session.start_at(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        with self._kwire.call() as session:
            session.check_call(is_incremental=True)
            if session.in_callback is not None:
                return
            gone = frozenset(session.owned(partitions))
            if len(gone) < len(partitions):
                raise exception(KafkaError._INVALID_ARG, "one of the partitions is not assigned")
            session.let_go(gone)
            session.consumer.assign(session.consumer.assignment() - gone)

    def assignment(self) -> list[TopicPartition]:
        with self._kwire.look() as session:
            return listed(session.assigned())

    # --- records --------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Return one message, or None if there is none within `timeout` seconds."""
        session = self._kwire
        session.begin_poll()
        try:
            message = session.loop.next(Message.of)
            return message if message is not None else session.awaited(timeout)
        finally:
            session.polled_by = None  # no call from here on: a signal handler might raise in it

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return up to `num_messages` messages; fewer if `timeout` seconds are over, before an error, or if the end of
        a partition is reported.

        No message counts as delivered before this returns, so no background commit covers it.
        """
        session = self._kwire
        session.check_open()
        check_count(num_messages)
        if num_messages == 1:
            message = Consumer.poll(self, timeout)  # not the method of a subclass, which may call this one
            return [] if message is None else [message]
        session.begin_poll()
        try:
            return session.awaited_batch(num_messages, until(timeout)) if num_messages else []
        finally:
            session.polled_by = None  # as in `poll`

    # --- offsets --------------------------------------------------------------------------------------------

    def store_offsets(self, message: Message | None = None, offsets: Sequence[TopicPartition] | None = None) -> None:
        """Store offsets, which `commit()` or a background commit commits. Partitions that are not assigned are left
        out."""
        with self._kwire.call() as session:
            if message is None and offsets is None:
                raise ValueError("expected either message or offsets")
            if session.own.stores_each:
                raise exception(
                    KafkaError._INVALID_ARG, "every message is stored: set enable.auto.offset.store to False"
                )
            given, assigned = offsets_of(message, offsets) or {}, session.assigned()
            kept = {tp: at for tp, at in given.items() if tp in assigned}
            if given and not kept:
                first = next(iter(given))
                code = KafkaError._STATE if first.topic in session.read_topics else KafkaError._UNKNOWN_PARTITION
                raise exception(code, f"{first} is not assigned")
            session.commits.stored.store(kept)

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit the stored offsets, the offset of a message, or these. Returns what was committed, if it waits;
        assigned partitions without a commit have OFFSET_INVALID."""
        with self._kwire.call() as session:
            session.note_returned()
            chosen = offsets_of(message, offsets)
            found = session.commits.stored.left() if chosen is None else chosen
            if not found:
                if asynchronous:
                    return None
                session.check_not_ended()
                raise exception(KafkaError._NO_OFFSET, "Commit failed: Local: No offset stored")
            asked = None if session.own.commits_by_kwire and chosen is None else found
            if asynchronous:
                session.commits.begin(asked)
                return None
            session.look_up.check(chosen.keys() - session.assigned() if chosen else ())
            session.consumer.commit_sync(asked)
            session.commits.stored.committed(found)
            asked_of = found.keys() | (session.assigned() if chosen is None else {*map(key_of, offsets or ())})
            return [answered(tp, found.get(tp)) for tp in sorted(asked_of)]

    def committed(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        with self._kwire.look() as session:
            found = session.consumer.committed([*map(key_of, partitions)], timeout=seconds(timeout))
        return [answered(key_of(one), found[key_of(one)]) for one in partitions]

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return, for each partition, the offset behind the last message that was returned."""
        with self._kwire.look() as session:
            return [answered(key_of(one), session.positions.get(key_of(one))) for one in partitions]

    def seek(self, partition: TopicPartition) -> None:
        with self._kwire.call() as session:
            session.seek(partition)

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float = -1,
        cached: bool = False,  # noqa: ARG002
    ) -> tuple[int, int]:
        """Return the first offset of a partition, and the offset behind the last. Brokers are asked, even if
        `cached`."""
        with self._kwire.look() as session:
            check_time(timeout)
            if session.look_up.missing([partition], timeout):
                raise exception(KafkaError._UNKNOWN_PARTITION, f"there is no partition {key_of(partition)}")
            low = session.consumer.beginning_offsets([key_of(partition)], timeout=seconds(timeout))
            high = session.consumer.end_offsets([key_of(partition)], timeout=seconds(timeout))
        return low[key_of(partition)], high[key_of(partition)]

    def offsets_for_times(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Look up offsets by time. The `offset` of each partition is a time in ms, OFFSET_BEGINNING or OFFSET_END. The
        answer is OFFSET_END if all records are older. A partition that does not exist has an error in the answer; if
        none of them exists, the error is raised."""
        with self._kwire.look() as session:
            check_time(timeout)
            return session.look_up.offsets_for_times(partitions, timeout)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Pause partitions. Those that are not assigned (any more) are skipped."""
        with self._kwire.look() as session:
            session.consumer.pause(session.owned(partitions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        with self._kwire.look() as session:
            resumed = session.consumer.paused().intersection(session.owned(partitions))
            for partition in resumed:
                session.ends.moved(partition)
            session.consumer.resume(resumed)

    # --- the cluster and the group --------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        if self._kwire.is_closed:
            raise RuntimeError("Handle has been closed")
        with self._kwire.look() as session:
            return session.look_up.metadata(topic, timeout)

    def memberid(self) -> str | None:
        with self._kwire.look() as session, contextlib.suppress(errors.CommitFailedError):  # removed from its group
            return session.consumer.group_metadata().member_id or None
        return None

    def consumer_group_metadata(self) -> bytes:
        """The group metadata that confluent-kafka's own producer needs in `send_offsets_to_transaction()`."""
        with self._kwire.look() as session:
            return librdkafka_group_metadata(session.consumer.group_metadata())

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the user name and password of later logins by PLAIN or SCRAM. Open connections stay as they are."""
        self._kwire.check_open()
        self._kwire.own.credentials.set(username, password)

    # --- the end --------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._kwire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kwire.close()
