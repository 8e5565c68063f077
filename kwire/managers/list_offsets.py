"""ListOffsets: the offset of a time, the beginning or the end, for users (`offset_look_ups.py`) and for partitions that
reset.

A query is about one partition. Queries that are ready are grouped into requests, mostly one for each leader; what
could not be answered goes back into the queue, so one leaderless partition holds up nobody else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeAlias

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.errors import KafkaError, TopicAuthorizationError
from kwire.events import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Reply
from kwire.managers.base import RequestState, answered
from kwire.managers.metadata import MetadataManager
from kwire.managers.unsent import AnyUnsentRequest, Channel, Destination, PollResult, UnsentRequest
from kwire.model import OffsetAndTimestamp, TopicPartition, leader_epoch_or_none
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.subscription.partition import UNKNOWN_OFFSET
from kwire.subscription.subscription import NO_TOPICS

CONSUMER_REPLICA_ID = -1
READ_COMMITTED_MIN_VERSION = 2  # ListOffsets v2 adds the isolation level

Found: TypeAlias = OffsetAndTimestamp | None


class OffsetQuery:
    """One partition's query.

    `since_version` is the version of the metadata when it was asked: older refusals are not held against it.
    """

    __slots__ = ("reply", "since_version", "state", "timestamp", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        reply: Reply[Found],
        state: RequestState,
        since_version: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.timestamp = timestamp
        self.reply = reply
        self.state = state
        self.since_version = since_version

    @property
    def awaits_answer(self) -> bool:
        """Whether it was sent, and somebody waits for the answer."""
        return self.state.in_flight and not self.reply.done and not self.reply.abandoned

    def may_be(self, offset: int) -> bool:
        """Whether this can be the answer. -1 can, if no record is of that time or later. But each log has a beginning
        and an end: if the leader names none, it is asked again, as in Java."""
        is_end = self.timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        return offset >= 0 or (offset == UNKNOWN_OFFSET and not is_end)


class ListOffsetsManager:
    """Looks up offsets by time, and the ends of logs."""

    def __init__(self, config: ConsumerConfig, metadata: MetadataManager, backoff: Backoff) -> None:
        self._config = config
        self._metadata = metadata
        self._backoff = backoff
        self._queries: list[OffsetQuery] = []
        self._sent: list[OffsetQuery] = []

    def ask(self, tp: TopicPartition, timestamp: int, reply: Reply[Found]) -> None:
        """Queue one query; asked again until it is answered, refused for good, or abandoned."""
        state = RequestState(self._backoff)
        self._queries.append(OffsetQuery(tp, timestamp, reply, state, self._metadata.cluster.version))

    def poll(self, now_ms: float) -> PollResult:
        self._sent = [query for query in self._sent if query.awaits_answer]
        if not self._queries and not self._sent:
            self._metadata.set_transient(NO_TOPICS)
            return PollResult([], NEVER_MS)
        batches, self._queries = self._batches(now_ms)
        self._sent += [query for queries in batches.values() for query in queries]
        self._metadata.set_transient(frozenset(query.topic_partition.topic for query in (*self._queries, *self._sent)))
        requests = [self._request(leader_id, queries) for (leader_id, _), queries in batches.items()]
        wakes = (query.state.wake_at_ms for query in self._queries if query.state.wake_at_ms > now_ms)
        return PollResult(requests, min(wakes, default=NEVER_MS))

    def _batches(self, now_ms: float) -> tuple[dict[tuple[int, int], list[OffsetQuery]], list[OffsetQuery]]:
        """The queries to send now, by leader and request, and those that wait. A broker refuses a request that names a
        partition twice, so the second query of a partition goes into a second request."""
        batches: defaultdict[tuple[int, int], list[OffsetQuery]] = defaultdict(list)
        asked: Counter[TopicPartition] = Counter()
        waiting: list[OffsetQuery] = []
        for query in self._queries:
            if query.reply.abandoned:
                continue
            leader_id = self._metadata.cluster.leader_id(query.topic_partition)
            if leader_id is None:
                if not self._refused(query):
                    self._await_leader(query)
                    waiting.append(query)
            elif not query.state.ready(now_ms):
                waiting.append(query)
            else:
                batches[leader_id, asked[query.topic_partition]].append(query)
                asked[query.topic_partition] += 1
        return batches, waiting

    def _refused(self, query: OffsetQuery) -> bool:
        """Whether metadata that is newer than the query says that its topic may not be read; then it is over."""
        error = self._metadata.refused.get(query.topic_partition.topic)
        if error is None or self._metadata.cluster.version <= query.since_version:
            return False
        query.reply.fail(error)
        return True

    def _await_leader(self, query: OffsetQuery) -> None:
        tp, cluster = query.topic_partition, self._metadata.cluster
        self._metadata.request_update()
        if tp.topic in cluster.topics:
            unknown = cluster.partition(tp) is None
            query.reply.waiting_for = f"partition {tp}, which does not exist" if unknown else f"a leader for {tp}"
        else:
            missing = "which does not exist" if cluster.version else "not known yet"
            query.reply.waiting_for = f"topic {tp.topic!r}, {missing}{self._metadata.last_error}"

    def _request(self, leader_id: int, queries: Sequence[OffsetQuery]) -> AnyUnsentRequest:
        node = self._metadata.cluster.nodes[leader_id]
        for query in queries:
            query.state.sent()
            query.reply.waiting_for = f"the answer of broker {node} to ListOffsets for {query.topic_partition}"
        return UnsentRequest(
            request=ListOffsetsRequest(
                replica_id=CONSUMER_REPLICA_ID,
                isolation_level=self._config.isolation_level.value,
                topics=self._topics(queries),
                timeout_ms=int(self._config.request_timeout_ms),
            ),
            destination=Destination(node, Channel.CONTROL),
            on_answer=partial(self._on_answer, queries),
            on_failure=partial(self._on_failure, queries),
            min_version=READ_COMMITTED_MIN_VERSION if self._config.reads_committed else None,
        )

    def _topics(self, queries: Iterable[OffsetQuery]) -> list[ListOffsetsTopic]:
        by_topic: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for query in queries:
            tp = query.topic_partition
            by_topic[tp.topic].append(
                ListOffsetsPartition(
                    partition_index=tp.partition,
                    current_leader_epoch=self._metadata.cluster.leader_epoch(tp),
                    timestamp=query.timestamp,
                )
            )
        return [ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]

    def _on_answer(self, queries: Sequence[OffsetQuery], answer: ListOffsetsResponse, now_ms: float) -> None:
        found = answered(answer.topics, {query.topic_partition for query in queries})
        for query in queries:
            tp = query.topic_partition
            partition = found.get(tp)
            if partition is None:
                error = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"ListOffsets answered without {tp}")
                self._retry(query, error, now_ms)
            elif partition.error_code:
                self._on_error(query, ErrorCode.of(partition.error_code), now_ms)
            elif not query.may_be(partition.offset):
                doing = f"ListOffsets answered {partition.offset} as the offset of {tp}"
                self._retry(query, error_for(ErrorCode.UNKNOWN_SERVER_ERROR, doing), now_ms)
            elif partition.offset < 0:
                query.reply.succeed(None)
            else:
                epoch = leader_epoch_or_none(partition.leader_epoch)
                query.reply.succeed(OffsetAndTimestamp(partition.offset, partition.timestamp, epoch))

    def _on_error(self, query: OffsetQuery, code: ErrorCode, now_ms: float) -> None:
        error = error_for(code, f"listing offsets of {query.topic_partition}")
        if code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT and query.may_be(UNKNOWN_OFFSET):
            query.reply.succeed(None)  # a log so old that its records have no timestamps; it has both ends
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            query.reply.fail(TopicAuthorizationError({query.topic_partition.topic}))
        elif code.retriable or code.is_unknown or code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            self._metadata.request_update()
            self._retry(query, error, now_ms)
        else:
            query.reply.fail(error)

    def _on_failure(self, queries: Sequence[OffsetQuery], error: KafkaError, now_ms: float) -> None:
        self._metadata.request_update()
        for query in queries:
            if error.retriable:
                self._retry(query, error, now_ms)
            else:
                query.reply.fail(error)

    def _retry(self, query: OffsetQuery, error: KafkaError, now_ms: float) -> None:
        query.state.failed(now_ms)
        query.reply.waiting_for = f"a retry of ListOffsets (last error: {error})"
        self._queries.append(query)
