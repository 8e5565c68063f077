"""Fetches records. Long, because the choice of a partition's broker, and what its answer does to the position, belong
together.

Keeps one request in flight on each connection to a broker that leads something wanted, while the buffer has room.

Looks only at partitions that changed: assigned, revoked, sought, paused, moved, or answered. `fetch_connections`
decides which connection each partition is fetched over; `fetching.session` finds the differences between what a
broker's fetch session has and what it should have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.errors import CorruptRecordError, KafkaError, TopicAuthorizationError
from kwire.events import ErrorRaised
from kwire.fetching.buffer import RESERVED_SHARE, FetchBuffer
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.idle_partitions import MANY_PARTITIONS
from kwire.fetching.session import FetchSession, FetchSpec, Told
from kwire.holds import Hold
from kwire.interpreter_lock import for_another_thread
from kwire.logs import part_logger
from kwire.managers.base import Deliver
from kwire.managers.fetch_connection import MIN_WAIT_MS, FetchConnection
from kwire.managers.fetch_connections import FetchConnections
from kwire.managers.fetch_request import fetch_request
from kwire.managers.metadata import MetadataManager
from kwire.managers.unsent import (
    AnyUnsentRequest,
    Channel,
    Destination,
    PollResult,
    UnsentRequest,
)
from kwire.metrics.consumed import AnswerCounts, ConsumedMetrics, LogSpan
from kwire.model import MAX_OFFSET, ZERO_UUID, Cursor, TopicPartition, leader_epoch_or_none
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kwire.protocol.record_batch import Batch, last_batch
from kwire.subscription.partition import NO_TURN, UNKNOWN_OFFSET, AssignedPartition
from kwire.subscription.subscription import Subscription

log = part_logger("fetch")

# An answer counts in the buffer as a whole until all of it is collected. One answer may take a quarter of the buffer,
# so the next fetch is sent while three are still in it. A quarter is large: the limit only matters where dozens of
# partitions have many records. With many brokers the share shrinks, so that all answers due fill at most half.
ANSWER_SHARE = 4
ANSWER_SHARE_PER_CONNECTION = 2
# How much an answer may have of one partition, without a setting: the partitions together fill an answer. With less
# than 1 MiB, Java's default, one partition alone would be slow; more than 4 MiB is faster from distant brokers alone.
MIN_PARTITION_BYTES = 1024 * 1024
MAX_PARTITION_BYTES = 4 * MIN_PARTITION_BYTES
READ_COMMITTED_MIN_VERSION = 4
PATIENCE_MS = 100.0
"""When the buffer has been full for this long, the application is slow. From then on partitions of which nothing is
buffered are fetched beside it."""
READ_AHEAD_DELAY_MS = 10.0
"""A partition of which the first records since a seek are buffered is not fetched for so long, or until the application
comes back for more. A program that looks up single records seeks again, and its fetch would wait for the answer to one
that nobody wants."""
NO_PROGRESS_TIMES = 3
"""After so many answers in a row without a whole batch, polls raise an error."""
_SESSION_ENDED = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""A new session ends these errors. They are logged only if they come twice in a row."""
_LED_BY_ANOTHER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class OutOfRange(Protocol):
    """Decides where a partition goes on whose position is out of range."""

    def out_of_range(self, partition: AssignedPartition) -> None:
        """The answer does not say where the log starts or ends: with this error brokers set both to -1."""


Answered: TypeAlias = Sequence[tuple[TopicPartition, PartitionData]]


class FetchStatus(NamedTuple):
    """The state of one partition's fetches, for `Consumer.describe()`.

    Attributes:
        due_ms: When a fetch of it has to be answered, with or without records; None: none is under way.
        next_try_ms: When it is fetched again after an error; None: there was none, or it depends on something else.
    """

    due_ms: float | None
    error: KafkaError | None
    next_try_ms: float | None


class FetchManager:
    """Decides which broker is asked for which partitions, and takes what they answer.

    Args:
        positions: told of positions that are out of range.
        on_data: called when records have been put into the buffer.
        cursor: whose fetches these are. A child's go over a connection of their own.

    Attributes:
        may_poll_early: the newest answer brought records and nothing else, so what to ask next depends on no other
            manager, unless positions are to be validated.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        positions: OutOfRange,
        buffer: FetchBuffer,
        deliver: Deliver,
        on_data: Callable[[], None],
        backoff: Backoff,
        metrics: ConsumedMetrics,
        cursor: Cursor = Cursor.MAIN,
    ) -> None:
        self._config = config
        self._cursor = cursor
        buffer.limit_bytes = config.fetch_buffer_bytes
        self._subscription = subscription
        self._metadata = metadata
        self._positions = positions
        self._buffer = buffer
        self._deliver = deliver
        self._on_data = on_data
        self._backoff = backoff
        self._metrics = metrics
        self._read_committed = config.reads_committed
        self._answer = AnswerCounts()
        self._connections = FetchConnections(
            subscription, backoff, config.request_timeout_ms, read_committed=self._read_committed, cursor=cursor
        )
        self._blocked: dict[TopicPartition, float] = {}
        self._sought: set[TopicPartition] = set()
        """Those that wait for `READ_AHEAD_DELAY_MS`."""
        self._redirected: set[TopicPartition] = set()
        """Their leader named another leader (KIP-951), and no answer without an error has come since."""
        self._not_served: set[TopicPartition] = set()
        """No leader has served their new position yet, so it is not known which topic id it belongs to."""
        self._untold: set[TopicPartition] = set()
        """No answer has told where their log ends."""
        self._set_aside: set[TopicPartition] = set()
        """Partitions with buffered records, while the buffer has no room for more of them."""
        self._no_progress: dict[TopicPartition, tuple[tuple[int, int], int]] = {}
        """Epoch and offset of partitions whose last answer had no whole batch, and how many did in a row."""
        self._full_since_ms = NEVER_MS
        self._partition_bytes = 0
        self.may_poll_early = False
        self._turn = 0
        metadata.on_update.append(self._on_metadata)
        subscription.on_removed.append(self._redirected.difference_update)
        subscription.on_removed.append(self._not_served.difference_update)
        subscription.on_removed.append(self._untold.difference_update)
        subscription.on_removed.append(self._forget_progress)
        if cursor is Cursor.MAIN:  # what a child reads no more, the main cursor may read on
            subscription.on_removed.append(metrics.forget)

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        self.may_poll_early = False
        if self._sought and not self._buffer.awaits_return:
            self._read_ahead()
        self._unblock(now_ms)
        self._subscription.touched.update(self._connections.misplaced(now_ms))
        self._end_setting_aside()
        self._take_changes(now_ms)
        busy = [connection for connection in self._connections if connection.session.wanted]
        ready = [connection for connection in busy if connection.request.ready(now_ms)]
        max_bytes = self._answer_bytes(len(busy), len(ready)) if ready and not self._set_aside else 0
        if ready or not busy:
            self._note_room(now_ms, is_full=bool(ready) and not max_bytes)
        if ready and not max_bytes and self._buffer.tells_run_out:
            ready = self._set_buffered_aside(ready)
            max_bytes = self._reserved_bytes(len(ready)) if ready else 0
        requests = self._requests(ready, max_bytes, now_ms) if max_bytes else []
        wakes_ms = (
            *self._blocked.values(),
            *(connection.request.wake_at_ms for connection in busy),
            self._full_since_ms + PATIENCE_MS,
        )
        # What is ready and finds no room waits for room; after `PATIENCE_MS` it is looked at again.
        return PollResult(requests, min((at_ms for at_ms in wakes_ms if at_ms > now_ms), default=NEVER_MS))

    def _requests(self, ready: list[FetchConnection], max_bytes: int, now_ms: float) -> list[AnyUnsentRequest]:
        requests = [self._request(each, max_bytes, self._wait_ms(each, now_ms), now_ms) for each in ready]
        opening = self._connections.opening(now_ms)
        if opening is not None:
            requests.append(self._request(opening, 0, 0, now_ms))
        return requests

    def _answer_bytes(self, busy: int, ready: int) -> int:
        """How large the answer on each ready connection may be; 0 while there is no room.

        Requests that are not answered yet reserve at most half of the buffer, so brokers that never answer cannot keep
        the others from the rest.
        """
        limit_bytes = self._buffer.limit_bytes
        room_bytes = self._buffer.room_bytes(self._usual_limit_bytes, self._subscription.view.withheld)
        if room_bytes <= 0:
            return 0
        share_bytes = limit_bytes // max(ANSWER_SHARE, ANSWER_SHARE_PER_CONNECTION * busy)
        return max(1, min(self._config.fetch_max_bytes, room_bytes // ready, share_bytes))

    @property
    def _usual_limit_bytes(self) -> int:
        """How much may be buffered, without what is reserved: for answers that are due, and for partitions of which
        nothing is buffered."""
        limit_bytes = self._buffer.limit_bytes
        due_bytes = min(self._connections.due_bytes, limit_bytes // 2)
        return limit_bytes - due_bytes - int(limit_bytes * RESERVED_SHARE)

    def _note_room(self, now_ms: float, *, is_full: bool) -> None:
        """Note since when the buffer is full. A fast application makes room in a moment, and is waited for."""
        self._full_since_ms = min(self._full_since_ms, now_ms) if is_full else NEVER_MS
        self._buffer.tells_run_out = now_ms >= self._full_since_ms + PATIENCE_MS

    def _reserved_bytes(self, ready: int) -> int:
        """How large the answer on each ready connection may be when there is no room but what is reserved."""
        limit_bytes = self._buffer.limit_bytes
        undue_bytes = limit_bytes - self._connections.due_bytes
        free_bytes = self._buffer.free_bytes(undue_bytes, self._subscription.view.withheld)
        room_bytes = min(free_bytes, int(limit_bytes * RESERVED_SHARE))
        return max(0, min(self._config.fetch_max_bytes, room_bytes // ready))

    def _set_buffered_aside(self, ready: list[FetchConnection]) -> list[FetchConnection]:
        """Stop fetching the partitions with buffered records, on connections that have others. Returns these
        connections."""
        others = []
        for connection in ready:
            buffered = self._buffer.held(connection.session.wanted)
            if len(buffered) < len(connection.session.wanted):
                others.append(connection)
                self._set_aside.update(buffered)
                for tp in buffered:
                    self._connections.remove(tp)
        return others

    def _end_setting_aside(self) -> None:
        """When there is room again, fetch all partitions. Before that, fetch those that have a new position, or have
        nothing buffered any more."""
        if not self._set_aside:
            return
        has_room = self._buffer.has_room_again(self._usual_limit_bytes, self._subscription.view.withheld)
        still = set() if has_room else set(self._buffer.held(self._set_aside))
        self._subscription.touched.update(self._set_aside - still)
        self._set_aside -= self._subscription.touched

    def poll_on_close(self) -> list[AnyUnsentRequest]:
        """Requests that end the sessions, so that the brokers need not wait for them to grow old."""
        requests: list[AnyUnsentRequest] = []
        for connection in self._connections:
            closing = connection.session.closing_request()
            node = self._metadata.cluster.nodes.get(connection.id.node_id)
            if closing is None or node is None:
                continue
            requests.append(
                UnsentRequest(
                    request=fetch_request(self._config, closing, max_bytes=0, max_wait_ms=0),
                    # A fetch may be waiting at the broker on the other connection.
                    destination=Destination(node, Channel.CONTROL),
                    on_answer=_ignore,
                    on_failure=_ignore,
                )
            )
        return requests

    def status(self, partition: AssignedPartition) -> FetchStatus:
        """The state of its fetches."""
        connection = self._connections.of(partition.topic_partition)
        due_ms = None
        if connection is not None and connection.is_asked_for(partition.topic_partition):
            due_ms = connection.due_ms
        error = partition.error or (connection.error if connection is not None else None)
        tries_ms = self._blocked.get(partition.topic_partition)
        if tries_ms is None and connection is not None and connection.error is not None and due_ms is None:
            tries_ms = connection.request.not_before_ms
        return FetchStatus(due_ms, error, tries_ms)

    def _forget_progress(self, removed: Iterable[TopicPartition]) -> None:
        for tp in removed:
            self._no_progress.pop(tp, None)

    # --- which broker fetches what --------------------------------------------------------------------------

    def _on_metadata(self, now_ms: float) -> None:
        """Leaders may have moved, brokers be gone."""
        self._connections.forget_brokers(but=self._metadata.cluster.nodes)
        self._subscription.touched.update(self._subscription.partitions)

    def _unblock(self, now_ms: float) -> None:
        ended = [tp for tp, until_ms in self._blocked.items() if until_ms <= now_ms]
        for tp in ended:
            del self._blocked[tp]
        self._sought.difference_update(ended)
        self._subscription.touched.update(ended)

    def _read_ahead(self) -> None:
        """The application has come back since it has sought: fetch what follows."""
        for tp in self._sought & self._blocked.keys() & self._subscription.partitions.keys():
            self._blocked[tp] = self._subscription.partitions[tp].blocked_until_ms = 0.0
        self._sought.clear()

    def _take_changes(self, now_ms: float) -> None:
        if self._subscription.touched and (partition_bytes := self._share_of_partition()) != self._partition_bytes:
            self._partition_bytes = partition_bytes
            self._subscription.touched.update(self._subscription.partitions)
        touched, self._subscription.touched = self._subscription.touched, set()
        are_many = len(touched) > MANY_PARTITIONS
        for tp in sorted(touched):  # a set has another order in each process; requests shall not
            partition = self._subscription.partitions.get(tp)
            if partition is None or not partition.fetchable(now_ms):
                self._connections.remove(tp)
                self._untold.discard(tp)
                continue
            node_id = self._source(partition, now_ms)
            if node_id is None:
                self._metadata.request_update()
                self._connections.remove(tp)
            else:
                self._connections.place(partition, node_id, self._spec(partition), with_many=are_many, now_ms=now_ms)
                if partition.high_watermark == UNKNOWN_OFFSET:
                    self._untold.add(tp)

    def _source(self, partition: AssignedPartition, now_ms: float) -> int | None:
        """The broker to fetch from: the follower the leader named (KIP-392) while it is known, else the leader."""
        preferred = partition.preferred_replica
        if preferred in self._metadata.cluster.nodes and now_ms < partition.preferred_until_ms:
            return preferred
        return self._metadata.cluster.leader_id(partition.topic_partition)

    def _spec(self, partition: AssignedPartition) -> FetchSpec:
        tp, cluster = partition.topic_partition, self._metadata.cluster
        topic_id, leader_epoch = cluster.topic_id(tp.topic), cluster.leader_epoch(tp)
        if partition.turn == NO_TURN:
            partition.turn = self._turn  # the last one: those that wait already come first
        if topic_id != partition.topic_id:
            self._not_served.add(tp)
        return FetchSpec(
            topic_id, partition.fetch_offset, leader_epoch, partition.epoch, self._max_bytes(partition), partition.turn
        )

    def _max_bytes(self, partition: AssignedPartition) -> int:
        return min(self._partition_bytes, partition.fetch_max_bytes)

    def _share_of_partition(self) -> int:
        """How many bytes of one partition an answer may have."""
        if self._config.max_partition_fetch_bytes is not None:
            return self._config.max_partition_fetch_bytes
        answer_bytes = min(self._config.fetch_max_bytes, self._buffer.limit_bytes // ANSWER_SHARE)
        share_bytes = answer_bytes // max(1, len(self._subscription.partitions))
        return max(MIN_PARTITION_BYTES, min(share_bytes, MAX_PARTITION_BYTES))

    # --- one request ----------------------------------------------------------------------------------------

    def _request(self, connection: FetchConnection, max_bytes: int, wait_ms: float, now_ms: float) -> AnyUnsentRequest:
        node_id, channel = connection.id
        session = connection.session.next_request()
        max_bytes = min(max_bytes, connection.most_bytes)
        connection.sent(max_bytes, wait_ms, now_ms)
        return UnsentRequest(
            request=fetch_request(
                self._config,
                session,
                max_bytes=max_bytes,
                max_wait_ms=wait_ms,
            ),
            destination=Destination(self._metadata.cluster.nodes[node_id], channel),
            on_answer=partial(self._on_answer, connection),
            on_failure=partial(self._on_failure, connection),
            on_arrival=connection.arrived,
            min_version=READ_COMMITTED_MIN_VERSION,
            max_version=None if connection.session.can_use_ids(session) else FetchRequest.last_version_with_names,
            timeout_ms=self._config.request_timeout_ms + wait_ms,
        )

    def _wait_ms(self, connection: FetchConnection, now_ms: float) -> float:
        """How long the broker may wait for records. With `fetch_min_bytes` above 1 the user wants few answers, not
        early ones: then it is always as long as the settings allow.

        The first fetch of a partition hardly waits. It tells where the log ends, and the user may be about to seek
        other partitions, one by one: those would stand behind it.
        """
        most_ms: float = self._config.fetch_max_wait_ms
        if self._config.fetch_min_bytes > 1:
            return most_ms
        if any(tp in connection.session.wanted and tp not in connection.session.sent for tp in self._untold):
            most_ms = min(most_ms, MIN_WAIT_MS)
        return self._connections.wait_ms(connection, most_ms, now_ms)

    # --- its answer -----------------------------------------------------------------------------------------

    def _on_failure(self, connection: FetchConnection, error: KafkaError, now_ms: float) -> None:
        connection.session.failed()
        connection.failed(error, now_ms)
        self._connections.second.failed(connection, now_ms)
        self._metadata.request_update()
        for tp in connection.session.wanted:
            self._unfollow(tp, connection.id.node_id)
        if not error.retriable and connection.session.wanted:
            self._deliver(ErrorRaised(error))

    def _follow(self, partition: AssignedPartition, replica: int, now_ms: float) -> None:
        """Fetch from the replica that the leader names (KIP-392). If metadata does not know it, the leader is asked
        again, after a back-off: it may name the same one."""
        if replica in self._metadata.cluster.nodes:
            partition.preferred_replica = replica
            partition.preferred_until_ms = now_ms + self._config.metadata_max_age_ms
            self._metrics.follows(partition.topic_partition, replica, partition.preferred_until_ms)
        else:
            self._metadata.request_update()
            self.block(partition, now_ms)

    def _unfollow(self, tp: TopicPartition, node_id: int) -> None:
        """Fetch from the leader again: the follower cannot be reached, whatever metadata says of it."""
        partition = self._subscription.partitions.get(tp)
        if partition is not None and partition.preferred_replica == node_id:
            partition.preferred_replica = None
            self._metrics.follows(tp, None)
            self._subscription.touched.add(tp)

    def _on_answer(self, connection: FetchConnection, answer: FetchResponse, now_ms: float) -> None:
        self.may_poll_early = False
        code = ErrorCode.of(answer.error_code)
        connection.session.answered(code, answer.session_id)
        if code is not ErrorCode.NONE:
            self._on_refusal(connection, code, now_ms)
            self._metadata.request_update()  # a session over topic ids fails when the ids are out of date
            return
        partitions: Answered = list(_by_partition(answer, connection.session.topic_names))
        connection.throttled(answer.throttle_time_ms, now_ms)
        has_errors = any(data.error_code for _, data in partitions)
        self._note_size(connection, partitions, now_ms, has_errors=has_errors)
        self._answer = answer_counts = AnswerCounts()
        fetches = [
            fetch for tp, data in partitions if (fetch := self._on_partition(connection, tp, data, now_ms)) is not None
        ]
        self._note_silent(connection.session, partitions, now_ms)
        self.may_poll_early = bool(fetches) and not has_errors
        if not self.may_poll_early:
            self._follow_leaders(connection, answer, now_ms)
        self._connections.second.answered(
            connection,
            [fetch.topic_partition for fetch in fetches],
            held_bytes=self._buffer.waiting_bytes(self._subscription.view.withheld),
            limit_bytes=self._buffer.limit_bytes,
        )
        if fetches:
            answer_counts.left = len(fetches)
            self._buffer.put(fetches)
            self._on_data()

    def _on_refusal(self, connection: FetchConnection, code: ErrorCode, now_ms: float) -> None:
        """The broker refuses the fetch as a whole. What ends a session alone is told only if the next one fails, too:
        brokers forget sessions when they have too many."""
        node_id, was_refused = connection.id.node_id, connection.is_refused
        error = error_for(code, f"fetching from broker {node_id}")
        if code in _SESSION_ENDED and not was_refused:
            log.debug("fetch session of broker %d: %s; starting a new one", node_id, code.name)
            connection.refused(None, now_ms)
            return
        if not was_refused or connection.error is None:
            log.warning("%s; trying again", error)
        connection.refused(error, now_ms)

    def _note_size(self, connection: FetchConnection, partitions: Answered, now_ms: float, *, has_errors: bool) -> None:
        size_bytes = sum(len(data.records) for _, data in partitions if data.records)
        if size_bytes or has_errors or not self._config.fetch_min_bytes:
            connection.answered(size_bytes, now_ms)
        else:
            connection.answered_with_nothing(now_ms)

    def _note_silent(self, session: FetchSession, partitions: Answered, now_ms: float) -> None:
        """What it means for the partitions of a session that the answer does not name."""
        if self._untold:
            self._remember_ends(session, {tp for tp, _ in partitions}, now_ms)
        if self._not_served:
            self._note_topics(session.sent, {tp for tp, data in partitions if data.error_code})

    def _follow_leaders(self, connection: FetchConnection, answer: FetchResponse, now_ms: float) -> None:
        """KIP-951: a broker that no longer leads a partition names the new leader, and is believed. The new leader is
        asked at once, without the back-off of the error. If it names yet another one, the back-off counts: brokers that
        name each other would be asked without end."""
        leaders = {
            tp: data.current_leader
            for tp, data in _by_partition(answer, connection.session.topic_names)
            if data.error_code in _LED_BY_ANOTHER
        }
        if leaders:
            self._metadata.adopt_leaders(leaders, answer.node_endpoints)
        for tp in leaders:
            partition, spec = self._subscription.partitions.get(tp), connection.session.sent.get(tp)
            if partition is None or spec is None or self._metadata.cluster.leader_epoch(tp) <= spec.leader_epoch:
                continue
            if tp in self._redirected:
                continue
            self._redirected.add(tp)
            if self._blocked.pop(tp, None) is not None:
                partition.blocked_until_ms = now_ms

    def _on_partition(
        self, connection: FetchConnection, tp: TopicPartition, data: PartitionData, now_ms: float
    ) -> CompletedFetch | None:
        partition, spec = self._subscription.partitions.get(tp), connection.session.sent.get(tp)
        if spec is not None and not data.error_code:
            connection.session.told[tp] = Told(data.log_start_offset, data.high_watermark, data.last_stable_offset)
        if partition is None or spec is None:
            return None
        fetch = self._take(partition, data, spec, now_ms)
        if fetch is not None and self._goes_on(connection, partition, spec, now_ms):
            offset, turn = partition.fetch_offset, partition.turn
            connection.session.want(tp, spec._replace(offset=offset, max_bytes=self._max_bytes(partition), turn=turn))
        else:
            self._subscription.touched.add(tp)
        return fetch

    def _remember_ends(self, session: FetchSession, answered: set[TopicPartition], now_ms: float) -> None:
        """Where logs end of new partitions that the session had before: a rebalance took them and gave them back. An
        answer leaves out a partition of which nothing has changed since the session told it."""
        for tp in [tp for tp in self._untold if tp in session.sent]:
            partition, told = self._subscription.partitions[tp], session.told.get(tp)
            if partition.epoch != session.sent[tp].epoch:
                continue  # it was asked for before the rebalance
            self._untold.discard(tp)
            if tp in answered or told is None or partition.high_watermark != UNKNOWN_OFFSET:
                continue
            partition.ends_at(told.high_watermark, told.last_stable_offset)
            if self._cursor is Cursor.MAIN and not partition.has_lag(read_committed=self._read_committed):
                self._metrics.at_end(tp, partition.fetch_offset, self._log_span(partition, told), now_ms)

    def _note_topics(self, sent: Mapping[TopicPartition, FetchSpec], refused: set[TopicPartition]) -> None:
        """Note the topic ids of new positions that their leaders have served now. An answer leaves out partitions
        without news, so all that were sent and not refused have been served."""
        for tp in [tp for tp in self._not_served if tp in sent and tp not in refused]:
            partition, spec = self._subscription.partitions[tp], sent[tp]
            if partition.epoch == spec.epoch and spec.topic_id != ZERO_UUID:
                self._not_served.discard(tp)
                partition.topic_id = spec.topic_id
                self._subscription.unvalidated.add(tp)  # metadata may name another topic by now

    def _goes_on(
        self, connection: FetchConnection, partition: AssignedPartition, spec: FetchSpec, now_ms: float
    ) -> bool:
        """Whether the next fetch differs by the offset alone, over the same connection: the partition is not fetched
        from a follower, whose time may be up (KIP-392), and cannot move between the idle partitions and the others."""
        is_wanted = connection.session.wanted.get(partition.topic_partition) == spec
        return (
            is_wanted
            and partition.preferred_replica is None
            and not self._connections.have_many
            and partition.fetchable(now_ms)
        )

    def _take(
        self, partition: AssignedPartition, data: PartitionData, spec: FetchSpec, now_ms: float
    ) -> CompletedFetch | None:
        if partition.epoch != spec.epoch or partition.fetch_offset != spec.offset:
            self._learn_end(partition, data, spec)
            return None  # sought or already answered since the request was made
        if Hold.CALLBACK_PENDING in partition.holds:
            return None  # it is being revoked
        if not partition.has_valid_position:
            # From a former leader: a position must not move while it is validated against the new one's log.
            return None
        code = ErrorCode.of(data.error_code)
        if code is not ErrorCode.NONE:
            self._on_partition_error(partition, code, now_ms)
            return None
        partition.error = None
        if self._redirected:
            self._redirected.discard(partition.topic_partition)
        partition.ends_at(data.high_watermark, data.last_stable_offset)
        if data.records or partition.has_lag(read_committed=self._read_committed):
            partition.had_records()
        if data.preferred_read_replica >= 0:
            self._follow(partition, data.preferred_read_replica, now_ms)
        if not data.records and self._cursor is Cursor.MAIN:
            log_span = self._log_span(partition, data)
            self._metrics.at_end(partition.topic_partition, partition.fetch_offset, log_span, now_ms)
        fetch = self._completed(partition, data, now_ms) if data.records else None
        if self._connections.have_many:
            has_more = fetch is not None or partition.has_lag(read_committed=self._read_committed)
            self._connections.answered(partition.topic_partition, has_more=has_more, now_ms=now_ms)
        return fetch

    def _learn_end(self, partition: AssignedPartition, data: PartitionData, spec: FetchSpec) -> None:
        """Where the log ends, if it is still the same topic's and the same leader's: a session tells that once, and
        again when it has changed."""
        tp, cluster = partition.topic_partition, self._metadata.cluster
        is_same_log = (cluster.topic_id(tp.topic), cluster.leader_epoch(tp)) == (spec.topic_id, spec.leader_epoch)
        if is_same_log and data.error_code == ErrorCode.NONE:
            partition.ends_at(data.high_watermark, data.last_stable_offset)

    def _completed(self, partition: AssignedPartition, data: PartitionData, now_ms: float) -> CompletedFetch | None:
        """Take the records, and move the fetch position behind the last whole batch."""
        assert data.records is not None
        fetch = CompletedFetch(
            topic_partition=partition.topic_partition,
            epoch=partition.epoch,
            fetch_offset=partition.fetch_offset,
            records=for_another_thread(data.records),
            aborted=tuple((t.producer_id, t.first_offset) for t in data.aborted_transactions or ()),
            fetch_epoch=partition.fetch_epoch,
            cursor=self._cursor,
            stop_offset=partition.stop_offset,
            log=self._log_span(partition, data),
            answer=self._answer,
        )
        try:
            batch = last_batch(data.records)
        except CorruptRecordError:
            # The collector raises this when it gets there, behind the sound batches, and sets the position. Until then
            # nothing more is fetched.
            self._sought.discard(partition.topic_partition)
            partition.blocked_until_ms = NEVER_MS
            return fetch
        return fetch if self._move_behind(partition, batch, now_ms) else None

    def _move_behind(self, partition: AssignedPartition, batch: Batch | None, now_ms: float) -> bool:
        """Move the fetch position behind the last batch of an answer; False if that is not possible."""
        if batch is None or batch.next_offset <= partition.fetch_offset:
            # No whole batch, or none we asked for: a broker's bug (KIP-74). Asked again at once, it would spin.
            self.block(partition, now_ms)
            self._note_no_progress(partition)
            return False
        if batch.next_offset > MAX_OFFSET:
            self.block(partition, now_ms)
            problem = f"a record batch whose last offset is {batch.last_offset}: no offset can follow it"
            self._raise(CorruptRecordError(problem).at(*partition.topic_partition, partition.fetch_offset))
            return False
        self._turn += 1
        partition.turn = self._turn
        if partition.is_sought:
            self._delay_read_ahead(partition, now_ms)
        partition.fetch_offset = batch.next_offset
        partition.fetch_epoch = leader_epoch_or_none(batch.partition_leader_epoch)
        return True

    def _note_no_progress(self, partition: AssignedPartition) -> None:
        """Tell of a partition that stands still, although the broker has records. A single answer may be cut off where
        the records of other partitions have filled it: then the next one begins with this partition."""
        tp, position = partition.topic_partition, (partition.epoch, partition.fetch_offset)
        before, times = self._no_progress.get(tp, (position, 0))
        times = times + 1 if before == position else 1
        self._no_progress[tp] = position, times
        problem = "the broker's answer holds records, but no whole batch from this offset on; trying again"
        error = CorruptRecordError(problem).at(*tp, partition.fetch_offset)
        partition.error = error
        if times >= NO_PROGRESS_TIMES:
            self._raise(error)

    def _delay_read_ahead(self, partition: AssignedPartition, now_ms: float) -> None:
        partition.is_sought = False
        self._block_until(partition, now_ms + READ_AHEAD_DELAY_MS)
        self._sought.add(partition.topic_partition)
        self._buffer.awaits_return = True

    def _log_span(self, partition: AssignedPartition, data: PartitionData | Told) -> LogSpan:
        return LogSpan(data.log_start_offset, partition.end_offset(read_committed=self._read_committed))

    def _on_partition_error(self, partition: AssignedPartition, code: ErrorCode, now_ms: float) -> None:
        tp = partition.topic_partition
        followed, partition.preferred_replica = partition.preferred_replica, None
        if followed is not None:
            self._metrics.follows(tp, None)
        self.block(partition, now_ms)
        partition.error = error_for(code, f"fetching {tp} at offset {partition.fetch_offset}")
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if followed is None:
                self._positions.out_of_range(partition)
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._raise(TopicAuthorizationError({tp.topic}))
        elif code is ErrorCode.CORRUPT_MESSAGE:
            problem = "the broker finds its own copy of the records damaged"
            self._raise(CorruptRecordError(problem).at(*tp, partition.fetch_offset))
        elif code.retriable:
            log.debug("fetching %s: %s; refreshing metadata", tp, code.name)
            self._metadata.request_update()
        elif code.is_unknown:
            log.warning("fetching %s: the broker reports an unknown error (%d); trying again", tp, code)
        else:
            self._raise(partition.error)

    def block(self, partition: AssignedPartition, now_ms: float) -> None:
        """Leave the partition alone for `retry_backoff_ms`: one that keeps failing must not keep the loop busy."""
        self._sought.discard(partition.topic_partition)  # the application's return ends another wait, not this one
        self._block_until(partition, now_ms + self._backoff.delay_ms(1))

    def _block_until(self, partition: AssignedPartition, until_ms: float) -> None:
        partition.blocked_until_ms = until_ms
        self._blocked[partition.topic_partition] = until_ms

    def _raise(self, error: KafkaError) -> None:
        self._deliver(ErrorRaised(error, self._subscription.epoch))


def _by_partition(answer: FetchResponse, names: Mapping[UUID, str]) -> Iterable[tuple[TopicPartition, PartitionData]]:
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for data in topic.partitions:
                yield TopicPartition(name, data.partition_index), data


def _ignore(_: object, now_ms: float) -> None:
    """Closing is a courtesy; nothing depends on its answer."""
