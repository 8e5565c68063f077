"""ListOffsets: the offset of a time, the beginning or the end, for users and for partitions that reset.

A query is about one partition. Queries that are ready are grouped into requests, mostly one for each leader; what
could not be answered goes back into the queue, so one leaderless partition holds up nobody else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.errors import KafkaError, TopicAuthorizationError
from kwire.events import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, LookUpOffsets
from kwire.managers.base import RequestState
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

CONSUMER_REPLICA_ID = -1
READ_COMMITTED_MIN_VERSION = 2  # ListOffsets v2 adds the isolation level

OnOffset = Callable[[OffsetAndTimestamp | None, float], None]
OnError = Callable[[KafkaError], None]


class OffsetQuery:
    """One partition's question.

    `wanted` turns false when nobody needs the answer any more; `waits_for` hears what the answer depends on.
    `since_version` is the version of the metadata when it was asked: older refusals are not held against it.
    """

    __slots__ = (
        *("on_error", "on_offset", "since_version", "state", "timestamp", "topic_partition", "waits_for", "wanted"),
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        *,
        on_offset: OnOffset,
        on_error: OnError,
        wanted: Callable[[], bool],
        waits_for: Callable[[str], None],
        state: RequestState,
        since_version: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.timestamp = timestamp
        self.on_offset = on_offset
        self.on_error = on_error
        self.wanted = wanted
        self.waits_for = waits_for
        self.state = state
        self.since_version = since_version

    def may_be(self, offset: int) -> bool:
        """Whether a leader can mean that. There need not be a record of some time, but each log has both ends: one that
        is not told is asked for again, as in Java; neither the other end nor 0 is as good."""
        is_end = self.timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        return offset >= 0 or (offset == UNKNOWN_OFFSET and not is_end)


class ListOffsetsManager:
    """Looks up offsets by time, and the ends of logs.

    Args:
        widened: what users are told for an offset found at a time (or at `EARLIEST_TIMESTAMP` or `LATEST_TIMESTAMP`).
    """

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: MetadataManager,
        backoff: Backoff,
        widened: Callable[[TopicPartition, int, int], int],
    ) -> None:
        self._widened = widened
        self._config = config
        self._metadata = metadata
        self._backoff = backoff
        self._queries: list[OffsetQuery] = []

    def look_up(self, event: LookUpOffsets) -> None:
        """`offsets_for_times`, `beginning_offsets` and `end_offsets`: all partitions or an error."""
        gathering = _Gathering(event, self._widened)
        if not event.timestamps:
            event.reply.succeed({})
        for tp, timestamp in event.timestamps.items():
            self.ask(
                tp,
                timestamp,
                on_offset=partial(gathering.found, tp),
                on_error=event.reply.fail,
                wanted=gathering.wanted,
                waits_for=gathering.waits_for,
            )

    def ask(
        self,
        tp: TopicPartition,
        timestamp: int,
        *,
        on_offset: OnOffset,
        on_error: OnError,
        wanted: Callable[[], bool],
        waits_for: Callable[[str], None],
    ) -> None:
        """Queue one query; asked again until it is answered, refused for good, or not wanted any more."""
        self._queries.append(
            OffsetQuery(
                tp,
                timestamp,
                on_offset=on_offset,
                on_error=on_error,
                wanted=wanted,
                waits_for=waits_for,
                state=RequestState(self._backoff),
                since_version=self._metadata.cluster.version,
            )
        )

    def poll(self, now_ms: float) -> PollResult:
        if not self._queries:
            return PollResult([], NEVER_MS)
        # A broker refuses a request that names a partition twice, so its second question goes into a second request.
        batches: defaultdict[tuple[int, int], list[OffsetQuery]] = defaultdict(list)
        asked: Counter[TopicPartition] = Counter()
        waiting: list[OffsetQuery] = []
        for query in self._queries:
            if not query.wanted():
                continue
            leader_id = self._metadata.cluster.leader_id(query.topic_partition)
            if leader_id is None:
                if not self._refused(query):
                    self._await_leader(query, now_ms)
                    waiting.append(query)
            elif not query.state.ready(now_ms):
                waiting.append(query)
            else:
                batches[leader_id, asked[query.topic_partition]].append(query)
                asked[query.topic_partition] += 1
        self._queries = waiting
        requests = [self._request(leader_id, queries) for (leader_id, _), queries in batches.items()]
        wakes = (query.state.wake_at_ms for query in waiting if query.state.wake_at_ms > now_ms)
        return PollResult(requests, min(wakes, default=NEVER_MS))

    def _refused(self, query: OffsetQuery) -> bool:
        """Whether metadata that is newer than the query says that its topic may not be read; then it is over."""
        error = self._metadata.refused.get(query.topic_partition.topic)
        if error is None or self._metadata.cluster.version <= query.since_version:
            return False
        query.on_error(error)
        return True

    def _await_leader(self, query: OffsetQuery, now_ms: float) -> None:
        tp, cluster = query.topic_partition, self._metadata.cluster
        self._metadata.borrow((tp.topic,), now_ms)
        if tp.topic in cluster.topics:
            unknown = cluster.partition(tp) is None
            query.waits_for(f"partition {tp}, which does not exist" if unknown else f"a leader for {tp}")
            self._metadata.request_update()
        else:
            missing = "which does not exist" if cluster.version else "not known yet"
            query.waits_for(f"topic {tp.topic!r}, {missing}{self._metadata.last_error}")

    def _request(self, leader_id: int, queries: Sequence[OffsetQuery]) -> AnyUnsentRequest:
        node = self._metadata.cluster.nodes[leader_id]
        for query in queries:
            query.state.sent()
            query.waits_for(f"the answer of broker {node} to ListOffsets for {query.topic_partition}")
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
            min_version=READ_COMMITTED_MIN_VERSION if self._config.isolation_level.value else None,
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
        answered = {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        for query in queries:
            tp = query.topic_partition
            partition = answered.get(tp)
            if partition is None:
                error = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"ListOffsets answered without {tp}")
                self._retry(query, error, now_ms)
            elif partition.error_code:
                self._on_error(query, ErrorCode.of(partition.error_code), now_ms)
            elif not query.may_be(partition.offset):
                doing = f"ListOffsets answered {partition.offset} as the offset of {tp}"
                self._retry(query, error_for(ErrorCode.UNKNOWN_SERVER_ERROR, doing), now_ms)
            elif partition.offset < 0:
                query.on_offset(None, now_ms)
            else:
                epoch = leader_epoch_or_none(partition.leader_epoch)
                query.on_offset(OffsetAndTimestamp(partition.offset, partition.timestamp, epoch), now_ms)

    def _on_error(self, query: OffsetQuery, code: ErrorCode, now_ms: float) -> None:
        error = error_for(code, f"listing offsets of {query.topic_partition}")
        if code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            query.on_offset(None, now_ms)  # a log so old that its records have no timestamps
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            query.on_error(TopicAuthorizationError({query.topic_partition.topic}))
        elif code.retriable:
            self._metadata.request_update()
            self._retry(query, error, now_ms)
        else:
            query.on_error(error)

    def _on_failure(self, queries: Sequence[OffsetQuery], error: KafkaError, now_ms: float) -> None:
        self._metadata.request_update()
        for query in queries:
            if error.retriable:
                self._retry(query, error, now_ms)
            else:
                query.on_error(error)

    def _retry(self, query: OffsetQuery, error: KafkaError, now_ms: float) -> None:
        query.state.failed(now_ms)
        query.waits_for(f"a retry of ListOffsets (last error: {error})")
        self._queries.append(query)


class _Gathering:
    """The answers of one call, until all are there."""

    def __init__(self, event: LookUpOffsets, widened: Callable[[TopicPartition, int, int], int]) -> None:
        self._widened = widened
        self._event = event
        self._found: dict[TopicPartition, OffsetAndTimestamp | None] = {}

    def wanted(self) -> bool:
        return not self._event.reply.abandoned and not self._event.reply.done

    def waits_for(self, what: str) -> None:
        self._event.reply.waiting_for = what

    def found(self, tp: TopicPartition, offset: OffsetAndTimestamp | None, now_ms: float) -> None:
        timestamp = self._event.timestamps[tp]
        if offset is not None and timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            offset = replace(offset, offset=self._widened(tp, timestamp, offset.offset))
        self._found[tp] = offset
        if len(self._found) == len(self._event.timestamps):
            self._event.reply.succeed(self._found)
