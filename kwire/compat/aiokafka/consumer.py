"""`AIOKafkaConsumer`, over kwire's `AsyncConsumer`. Long, because it has every call of the API.

Some calls are not awaited in aiokafka and have to wait in kwire: subscribe, unsubscribe, assign, seek. They are queued,
and the next call that is awaited carries them out in order.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias

from kwire.clock import monotonic_ms
from kwire.compat.aiokafka import errors
from kwire.compat.aiokafka.abc import ConsumerRebalanceListener, is_listener
from kwire.compat.aiokafka.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    as_theirs,
    raised_as_theirs,
)
from kwire.compat.aiokafka.polls_after_start import PollsAfterStart
from kwire.compat.aiokafka.private_attributes import Client, PrivateAttributes
from kwire.compat.aiokafka.settings import most_records, settings_of
from kwire.compat.aiokafka.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    record_of,
)
from kwire.compat.patterns import from_the_start
from kwire.compat.record_loop import RecordLoop
from kwire.compat.times import whole_ms
from kwire.consumer.async_consumer import AsyncConsumer
from kwire.consumer.async_listener import AsyncRebalanceConsumer, AsyncRebalanceListener
from kwire.consumer.listener import CalledOnce
from kwire.consumer.polling import PORTION_MS
from kwire.errors import AuthenticationError, KafkaError
from kwire.interrupts import is_of_signal_handler
from kwire.model import INTERNAL_TOPICS, Cursor, LogEnds, Partitions
from kwire.model import OffsetAndMetadata as KwireOffset

__all__ = ["AIOKafkaConsumer"]

log = logging.getLogger("kwire.compat")

RecordsOfPartitions: TypeAlias = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]
Offsets: TypeAlias = Mapping[TopicPartition, "int | tuple[int, str] | OffsetAndMetadata"]

# How long a poll waits at a time: then tasks that wait for other partitions have their turn.
SLICE_S = 0.1
NO_PARTITIONS = "partitions must be TopicPartition instances"


@dataclass(frozen=True, eq=False)
class _Later:
    """A queued call: one that is not awaited, and so not carried out yet."""

    do: Callable[[], Awaitable[None]]
    fits_listener: bool = False


class AIOKafkaConsumer(PrivateAttributes):
    """A consumer with aiokafka's API, set up by keyword arguments. See aiokafka.AIOKafkaConsumer.

    Private names begin with `_kwire`, so that a derived class may have names such as `_topics` of its own. Those of
    `PrivateAttributes` are for others to read.
    """

    def __init__(self, *topics: str, **configs: object) -> None:
        self._kwire_client = Client(configs.get("bootstrap_servers", "localhost"), "")
        self._kwire_settings = settings_of(configs)
        self._kwire_make()
        self._kwire_most_records = most_records(configs)
        self._kwire_group_id = self._kwire_consumer.config.group_id
        self._kwire_later: list[_Later] = []
        self._kwire_topics: frozenset[str] = frozenset()
        self._kwire_pattern: re.Pattern[str] | None = None
        self._kwire_by_hand: frozenset[TopicPartition] | None = None
        self._kwire_given_up: frozenset[TopicPartition] = frozenset()
        """By `unsubscribe()`, of which no listener has heard yet."""
        self._kwire_paused: set[TopicPartition] = set()
        self._kwire_partitions: dict[str, set[int]] = {}
        self._kwire_polls = asyncio.Lock()
        self._kwire_polls_after_start: PollsAfterStart | None = None
        self._kwire_has_assignment = asyncio.Event()
        self._kwire_polled_at_ms: int | None = None
        self._kwire_is_started = self._kwire_is_stopped = False
        if topics:
            self.subscribe(topics)

    def _kwire_make(self) -> None:
        self._kwire_consumer: AsyncConsumer[Any, Any] = AsyncConsumer(self._kwire_settings)
        self._kwire_loop = RecordLoop(self._kwire_consumer._session.state.delivery)

    async def start(self) -> None:
        """Wait until a broker answers and, in a group, until there is an assignment. May be called again after a
        failure."""
        assert not self._kwire_is_started, "Did you call `start` twice?"
        if self._kwire_consumer._session.state.closed:  # an earlier call has failed
            self._kwire_make()
        self._kwire_is_started, self._kwire_is_stopped = True, False
        later = [*self._kwire_later]
        with raised_as_theirs():
            try:
                await self._kwire_look_up()
                await self._kwire_settle()
                await self._kwire_wait_for_assignment()
            except BaseException:
                self._kwire_is_stopped = True
                self._kwire_later = later + [each for each in self._kwire_later if each not in later]
                self._kwire_has_assignment.clear()
                with suppress(KafkaError):
                    await self._kwire_consumer.close()
                self._kwire_is_started = False
                raise
        if self._kwire_group_id is not None:
            longest_s = self._kwire_consumer.config.max_poll_interval_ms / 1000.0
            self._kwire_polls_after_start = PollsAfterStart(self._kwire_poll_after_start, longest_s)
            self._kwire_keep_back()

    async def _kwire_poll_after_start(self) -> None:
        """Take part in a rebalance, if there is one. Records and errors are left for the next call for records. There
        is no poll while a queued call changes the subscription."""
        async with self._kwire_polls:
            polls = self._kwire_polls_after_start
            if polls is None or polls.are_over or not all(each.fits_listener for each in self._kwire_later):
                return
            try:
                await self._kwire_settle()
                await self._kwire_consumer._poll(0, to_loop=True)
            except KafkaError as error:
                log.debug("left for the next call for records: %s", error)
            finally:
                self._kwire_keep_back()

    def _kwire_keep_back(self) -> None:
        """Keep the polled records for the program's first call for records. They do not count as returned to any
        task."""
        self._kwire_consumer._session.state.delivery.interrupt()
        self._kwire_consumer._tasks.processor = None

    async def _kwire_wait_for_assignment(self) -> None:
        """Poll until there is an assignment. An error behind the assignment is left for the call that asks for
        records."""
        try:
            while not self._kwire_is_assigned():
                await self._kwire_poll(SLICE_S)
        except KafkaError:
            if not self._kwire_is_assigned():
                raise

    def _kwire_is_assigned(self) -> bool:
        if self._kwire_by_hand is not None or not (self._kwire_topics or self._kwire_pattern):
            return True
        return self._kwire_has_assignment.is_set() if self._kwire_group_id else bool(self._kwire_consumer.assignment())

    async def _kwire_look_up(self) -> None:
        """Ask for the topics, which shows whether a broker can be reached."""
        mailbox = self._kwire_consumer._session.link.mailbox
        timeout_s = self._kwire_consumer.config.request_timeout_ms / 1000.0
        topics = self._kwire_topics if self._kwire_topics else {tp.topic for tp in self._kwire_by_hand or ()}
        asking = asyncio.ensure_future(self._kwire_learn(topics, timeout_s))
        try:
            while not (await asyncio.wait([asking], timeout=SLICE_S))[0]:
                if mailbox.bootstrap_error is not None:
                    raise mailbox.bootstrap_error.with_traceback(None)
            asking.result()
        except AuthenticationError as error:  # for aiokafka, that broker cannot be reached
            raise as_theirs(errors.KafkaConnectionError)(str(error)) from error
        finally:
            asking.cancel()

    async def _kwire_learn(self, topics: Collection[str], timeout_s: float | None = None) -> None:
        """Wait for the topics that are subscribed: brokers, or somebody else, may be creating them."""
        until_s = time.monotonic() + (timeout_s or 0.0)
        for topic in topics:
            while not (infos := await self._kwire_consumer.partitions_for(topic, timeout=timeout_s)):
                if topic not in self._kwire_topics:
                    break
                if time.monotonic() >= until_s:
                    raise as_theirs(errors.UnknownTopicOrPartitionError)(f"there is no topic {topic}")
                await asyncio.sleep(SLICE_S)
            self._kwire_partitions[topic] = {info.partition for info in infos}
        if not topics:
            found = await self._kwire_consumer.list_topics(timeout=timeout_s)
            self._kwire_partitions = {topic: {info.partition for info in infos} for topic, infos in found.items()}

    async def stop(self) -> None:
        if not self._kwire_is_stopped:
            self._kwire_is_stopped = True
            if self._kwire_polls_after_start is not None:
                self._kwire_polls_after_start.end()
            with raised_as_theirs():
                await self._kwire_consumer.close()
            async with self._kwire_polls:  # wait for the task that waits for records
                pass
            if self._kwire_polls_after_start is not None:
                await self._kwire_polls_after_start.wait_ended()

    # --- what to consume ------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to a regular expression. Without a group all partitions are read."""
        if bool(topics) == bool(pattern):
            raise TypeError("give either topics or a pattern")
        if listener is not None and not is_listener(listener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        if not isinstance(topics, tuple | set | list | frozenset):
            raise TypeError("Topics should be list of strings")
        if self._kwire_by_hand is not None:
            raise as_theirs(IllegalStateError)("partitions are assigned by hand")
        if self._kwire_topics if pattern else self._kwire_pattern:
            raise as_theirs(IllegalStateError)("topics and a pattern are mutually exclusive: unsubscribe() in between")
        if self._kwire_group_id is None and (pattern or listener is not None):
            raise as_theirs(IllegalStateError)("a pattern and a listener need a group_id")
        self._kwire_pattern = _compiled(pattern) if pattern else None
        self._kwire_topics = frozenset(topics)
        self._kwire_has_assignment.clear()
        if self._kwire_group_id is not None:
            self._kwire_later.append(
                _Later(partial(self._kwire_subscribe, self._kwire_pattern or list(topics), listener))
            )
        else:
            self._kwire_later.append(_Later(partial(self._kwire_read_whole, self._kwire_topics)))

    async def _kwire_subscribe(
        self, topics: Sequence[str] | re.Pattern[str], listener: ConsumerRebalanceListener | None
    ) -> None:
        await self._kwire_consumer.subscribe(topics, listener=_Listener(self, listener))

    async def _kwire_read_whole(self, topics: frozenset[str]) -> None:
        self._kwire_consumer._session.whole_topics.read(topics)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        if self._kwire_topics or self._kwire_pattern:
            raise as_theirs(IllegalStateError)("topics are subscribed")
        self._kwire_by_hand = frozenset(TopicPartition(*tp) for tp in partitions)
        self._kwire_later.append(_Later(partial(self._kwire_assign, self._kwire_by_hand)))

    async def _kwire_assign(self, partitions: frozenset[TopicPartition]) -> None:
        await self._kwire_consumer.assign(partitions)

    def unsubscribe(self) -> None:
        self._kwire_topics, self._kwire_pattern, self._kwire_by_hand = frozenset(), None, None
        self._kwire_partitions.clear()
        self._kwire_paused.clear()
        self._kwire_later = [_Later(self._kwire_unsubscribe)]

    async def _kwire_unsubscribe(self) -> None:
        consumer = self._kwire_consumer
        # As in aiokafka no listener hears of it now. That of the next subscription does, and before that what was read
        # is committed.
        if self._kwire_group_id is not None:
            if consumer.config.enable_auto_commit and consumer.assignment():
                with suppress(KafkaError):
                    await consumer.commit_sync()
            self._kwire_given_up |= consumer.assignment()
            consumer.rebalance_listener = AsyncRebalanceListener()
        await consumer.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """The subscribed topics; for a pattern, the topics that it matches."""
        return self._kwire_topics if self._kwire_topics else self._kwire_consumer.subscription()

    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        if self._kwire_by_hand is not None:
            return self._kwire_by_hand
        return self._kwire_consumer.assignment() if self._kwire_topics or self._kwire_pattern else frozenset()

    async def _kwire_settle(self) -> None:
        """Carry out the queued calls. One that is cancelled is carried out again by the next call.

        In a listener, calls that change the subscription stay queued until the rebalance is over.
        """
        is_in_listener = self._kwire_consumer._session.state.callback is not None
        while self._kwire_later and (self._kwire_later[0].fits_listener or not is_in_listener):
            first = self._kwire_later[0]
            try:
                await first.do()
            except asyncio.CancelledError:
                raise
            except BaseException:
                self._kwire_drop(first)
                raise
            self._kwire_drop(first)

    def _kwire_drop(self, done: _Later) -> None:
        self._kwire_later = [each for each in self._kwire_later if each is not done]

    # --- records --------------------------------------------------------------------------------------------

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """Return the next record, of these partitions if some are named. Waits for it without a time limit."""
        assert _are_partitions(partitions), NO_PARTITIONS
        while True:
            if not partitions and (record := self._kwire_at_once()) is not None:
                return record
            for found in (await self._kwire_next(partitions, SLICE_S, 1)).values():
                return found[0]
            self._kwire_check_running()

    def _kwire_at_once(self) -> ConsumerRecord[Any, Any] | None:
        """A buffered record, unless there are queued calls, or it is the turn of other tasks."""
        is_due = monotonic_ms() - self._kwire_consumer._gave_way_ms > PORTION_MS
        if is_due or self._kwire_later or self._kwire_is_stopped or self._kwire_polls.locked():
            return None
        return self._kwire_loop.next(record_of)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> RecordsOfPartitions:
        """Return records by partition; none if there are none within `timeout_ms`."""
        assert _are_partitions(partitions), NO_PARTITIONS
        _check_count(max_records)
        most = max_records or self._kwire_most_records
        until_s = time.monotonic() + timeout_ms / 1000.0
        while True:
            left_s = max(0.0, until_s - time.monotonic())
            found = await self._kwire_next(partitions, min(SLICE_S, left_s), most)
            if found or left_s == 0.0 or self._kwire_is_stopped:
                return found

    async def _kwire_next(
        self, partitions: Collection[TopicPartition], wait_s: float, max_records: int
    ) -> RecordsOfPartitions:
        """The next records, up to this many; waits for the first. One task at a time."""
        self._kwire_check_running()
        if self._kwire_polls_after_start is not None:
            self._kwire_polls_after_start.end()
        with raised_as_theirs():
            try:
                async with self._kwire_polls:
                    await self._kwire_consumer._give_way(self._kwire_consumer._tasks.own_loop())
                    await self._kwire_settle()
                    if partitions:
                        return await self._kwire_next_of(partitions, wait_s, max_records)
                    found = self._kwire_at_hand(max_records)
                    if not found:
                        await self._kwire_poll(wait_s)
                        found = self._kwire_at_hand(max_records)
                    return found
            except Exception:
                if self._kwire_is_stopped:  # stopped by another task
                    return {}
                raise

    async def _kwire_next_of(
        self, partitions: Collection[TopicPartition], wait_s: float, max_records: int
    ) -> RecordsOfPartitions:
        """Records of some partitions. The other ones are held back meanwhile, and their buffered records are kept, also
        those of partitions that are assigned during the poll."""
        session, wanted = self._kwire_consumer._session, {TopicPartition(*tp) for tp in partitions}
        others = self._kwire_consumer.assignment() - wanted
        session.state.delivery.interrupt()
        session.positions.set_backpressure(others, Cursor.MAIN, is_on=True)
        try:
            await self._kwire_poll(wait_s)
            found = self._kwire_loop.take_by_partition(max_records, record_of, partitions=wanted)
        finally:
            session.state.delivery.interrupt()  # the records count as delivered when the program calls again
            session.positions.set_backpressure(others & self._kwire_consumer.assignment(), Cursor.MAIN, is_on=False)
        return found

    async def _kwire_poll(self, wait_s: float) -> None:
        session = self._kwire_consumer._session
        if session.state.view.subscribed or session.whole_topics.names:
            await self._kwire_consumer._poll(wait_s, to_loop=True)
        else:  # where kwire would raise
            await asyncio.sleep(wait_s)
        self._kwire_polled_at_ms = int(time.time() * 1000)
        self._kwire_loop.begin()

    def _kwire_at_hand(self, max_records: int) -> RecordsOfPartitions:
        return self._kwire_loop.take_by_partition(max_records, record_of)

    def _kwire_check_running(self) -> None:
        if self._kwire_is_stopped:
            raise as_theirs(ConsumerStoppedError)
        assert self._kwire_is_started, "call start() first"

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        if self._kwire_is_stopped:
            raise as_theirs(ConsumerStoppedError)
        return self

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        is_own = (
            self.__class__.getone is _OWN_GETONE and "getone" not in self.__dict__
        )  # without a call, for each record
        if is_own and (record := self._kwire_at_once()) is not None:
            return record
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    # --- offsets --------------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit the records that have been returned, or these offsets."""
        self._kwire_check_group()
        chosen = None if offsets is None else _offsets(offsets)
        self._kwire_check_committable(chosen or {})
        with raised_as_theirs():
            await self._kwire_settle()
            await self._kwire_consumer.commit_sync(chosen)

    async def committed(self, partition: TopicPartition) -> int | None:
        """The committed offset; None if nothing is committed."""
        self._kwire_check_group()
        tp = TopicPartition(*partition)
        with raised_as_theirs():
            found = (await self._kwire_consumer.committed([tp]))[tp]
        return None if found is None else found.offset

    async def position(self, partition: TopicPartition) -> int:
        """The offset behind the last record that was returned."""
        self._kwire_check_assigned([partition])
        with raised_as_theirs():
            await self._kwire_settle()
            return await self._kwire_consumer.position(TopicPartition(*partition))

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark, as of the last fetch."""
        ends = self._kwire_log_ends(partition)
        return None if ends is None else ends.high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The offset at which the first open transaction begins; without one, the end of the partition."""
        ends = self._kwire_log_ends(partition)
        return None if ends is None else ends.last_stable_offset

    def _kwire_log_ends(self, partition: TopicPartition) -> LogEnds | None:
        assert partition in self.assignment(), "Partition is not assigned"
        if TopicPartition(*partition) not in self._kwire_consumer.assignment():
            return None
        session = self._kwire_consumer._session  # waits for one turn of the network thread
        return session.link.run(session.positions.log_ends(TopicPartition(*partition)))

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """The time of the last poll, in ms since 1970; it is the same for all partitions."""
        assert partition in self.assignment(), "Partition is not assigned"
        return self._kwire_polled_at_ms

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if (given := _offset(offset)) is None or given < 0:
            raise ValueError("Offset must be a positive integer")
        self._kwire_check_assigned([partition])
        self._kwire_consumer._session.state.delivery.interrupt()  # buffered records wait for the seek
        self._kwire_later.append(
            _Later(partial(self._kwire_seek, TopicPartition(*partition), offset), fits_listener=True)
        )

    async def _kwire_seek(self, tp: TopicPartition, offset: int) -> None:
        if tp in self._kwire_consumer.assignment():  # else it was revoked meanwhile
            await self._kwire_consumer.seek(tp, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        return await self._kwire_seek_to(self._kwire_consumer.seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        return await self._kwire_seek_to(self._kwire_consumer.seek_to_end, partitions)

    async def _kwire_seek_to(
        self, seek: Callable[[Collection[TopicPartition]], Awaitable[None]], partitions: Sequence[TopicPartition]
    ) -> bool:
        chosen = self._kwire_chosen(partitions)
        with raised_as_theirs():
            await self._kwire_settle()
            await seek(chosen)
            for tp in chosen:
                await self._kwire_consumer.position(tp)
        return True

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Seek to the committed offsets, and return them. A partition without one stays where it is."""
        found = {tp: await self.committed(tp) for tp in self._kwire_chosen(partitions)}
        with raised_as_theirs():
            await self._kwire_settle()
            for tp, offset in found.items():
                if offset is not None:
                    await self._kwire_consumer.seek(tp, offset)
        return found

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        with raised_as_theirs():
            return await self._kwire_consumer.beginning_offsets([TopicPartition(*tp) for tp in partitions])

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        with raised_as_theirs():
            return await self._kwire_consumer.end_offsets([TopicPartition(*tp) for tp in partitions])

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, float]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted = whole_ms(timestamps)
        with raised_as_theirs():
            found = await self._kwire_consumer._run(
                lambda: self._kwire_consumer._session.look_ups.offsets_at(wanted, None)
            )
        return {tp: None if at is None else OffsetAndTimestamp(at.offset, at.timestamp) for tp, at in found.items()}

    def pause(self, *partitions: TopicPartition) -> None:
        _check_partitions(partitions)
        self._kwire_check_assigned(partitions)
        self._kwire_paused |= {TopicPartition(*tp) for tp in partitions}
        self._kwire_hold()

    def resume(self, *partitions: TopicPartition) -> None:
        _check_partitions(partitions)
        self._kwire_check_assigned(partitions)
        self._kwire_paused -= {TopicPartition(*tp) for tp in partitions}
        self._kwire_hold()

    def _kwire_hold(self) -> None:
        """Pause what is assigned. Partitions whose manual assignment is still queued are paused once it is carried
        out."""
        with raised_as_theirs():
            owned = self._kwire_consumer.assignment()
            self._kwire_consumer.pause(self._kwire_paused & owned)
            self._kwire_consumer.resume(owned - self._kwire_paused)
        if self._kwire_paused - owned:
            self._kwire_later.append(_Later(self._kwire_hold_later, fits_listener=True))

    async def _kwire_hold_later(self) -> None:
        self._kwire_paused &= self._kwire_consumer.assignment()
        self._kwire_hold()

    def paused(self) -> set[TopicPartition]:
        return self._kwire_paused & self.assignment()

    # --- the cluster ----------------------------------------------------------------------------------------

    async def topics(self) -> set[str]:
        with raised_as_theirs():
            return (await self._kwire_consumer.list_topics()).keys() - INTERNAL_TOPICS

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of the partitions, as `start()` has learned them; None for a topic that was not asked for."""
        return self._kwire_partitions.get(topic) or None

    # --- checks ---------------------------------------------------------------------------------------------

    def _kwire_chosen(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        _check_partitions(partitions)
        if not partitions:
            assert self.assignment(), "No partitions are currently assigned"
            return sorted(self.assignment())
        self._kwire_check_assigned(partitions)
        return [TopicPartition(*tp) for tp in partitions]

    def _kwire_check_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if missing := {TopicPartition(*tp) for tp in partitions} - self.assignment():
            raise as_theirs(IllegalStateError)(f"not assigned: {', '.join(map(str, sorted(missing)))}")

    def _kwire_check_committable(self, offsets: Collection[TopicPartition]) -> None:
        if not (self._kwire_topics or self._kwire_pattern or self._kwire_by_hand is not None):
            raise as_theirs(IllegalStateError)("Not subscribed to any topics")
        is_assigned = self._kwire_by_hand is not None or self._kwire_has_assignment.is_set()  # perhaps nothing
        if not is_assigned and not self.assignment():
            raise as_theirs(IllegalStateError)("No partitions assigned")
        if unknown := set(offsets) - self.assignment():
            raise as_theirs(IllegalStateError)(f"Partition {min(unknown)} is not assigned")

    def _kwire_check_group(self) -> None:
        if self._kwire_group_id is None:
            raise as_theirs(IllegalOperation)("Requires group_id")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


_OWN_GETONE = AIOKafkaConsumer.getone  # a program or a tracer may replace it


class _Listener(CalledOnce, AsyncRebalanceListener):
    """Calls a listener of aiokafka's, without the consumer as an argument, and not for `stop()`."""

    def __init__(self, owner: AIOKafkaConsumer, listener: ConsumerRebalanceListener | None) -> None:
        self._owner = owner
        self._listener = listener
        self._was_revoked = False

    async def on_partitions_assigned(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        owner, self.was_called = self._owner, False
        topics = {tp.topic for tp in partitions} - owner._kwire_partitions.keys()
        for topic in topics:
            owner._kwire_partitions[topic] = {info.partition for info in await consumer.partitions_for(topic)}
        self.was_called = True
        if self._listener is not None:
            if not self._was_revoked:  # in aiokafka each rebalance begins with this call, even without partitions
                given_up, owner._kwire_given_up = owner._kwire_given_up, frozenset()
                await self._tell(self._listener.on_partitions_revoked, given_up)
            self._was_revoked = False
            await self._tell(self._listener.on_partitions_assigned, consumer.assignment())
            await owner._kwire_settle()  # it may have called seek()
        owner._kwire_has_assignment.set()

    async def on_partitions_revoked(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:  # noqa: ARG002
        self._owner._kwire_paused -= partitions
        if self._listener is not None and not self._owner._kwire_is_stopped:
            self._was_revoked = True
            await self._tell(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_lost(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        await self.on_partitions_revoked(consumer, partitions)

    async def _tell(
        self, method: Callable[[set[TopicPartition]], Awaitable[None] | None], partitions: Partitions
    ) -> None:
        """Call the listener. If it raises, that is logged, and the rebalance goes on."""
        try:
            answer = method(set(partitions))
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            log.exception("a listener of group %s has failed: %r", self._owner._kwire_group_id, method)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return from_the_start(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error


def _check_partitions(partitions: Collection[object]) -> None:
    if not _are_partitions(partitions):
        raise TypeError(NO_PARTITIONS)


def _check_count(given: object) -> None:
    if given is not None and (not isinstance(given, int) or given < 1):
        raise ValueError("`max_records` must be a positive Integer")


def _are_partitions(given: Collection[object]) -> bool:
    return all(isinstance(tp, tuple) and len(tp) == 2 for tp in given)


def _offset(given: object) -> int | None:
    return given if isinstance(given, int) else None


def _offsets(offsets: Offsets) -> dict[TopicPartition, KwireOffset]:
    if not offsets or not hasattr(offsets, "items"):
        raise ValueError(offsets)
    if not _are_partitions(offsets):
        raise TypeError("Key should be TopicPartition instance")
    found: dict[TopicPartition, KwireOffset] = {}
    for tp, at in offsets.items():
        try:
            offset, metadata = (at, "") if isinstance(at, int) else at
        except (TypeError, ValueError):
            raise ValueError(offsets) from None
        if not isinstance(metadata, str):
            raise TypeError("Metadata should be a string")
        found[TopicPartition(*tp)] = KwireOffset(offset, metadata)
    return found
