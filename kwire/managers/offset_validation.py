"""Is the log still the one that the positions were taken from? (KIP-320; for recreated topics KIP-516)

A position whose leader changed, or that was committed or sought with a leader epoch, waits in AWAIT_VALIDATION while
OffsetForLeaderEpoch asks the leader where that epoch ended in its log. An end in front of the position means that the
log was truncated: records that were read are gone, and others stand in their place.

The query is about the fetch position; records in front of it may still be in the buffer. So when the log was
truncated, the partition is held (`Hold.LOG_TRUNCATED`), and no more of it is handed out until the application comes
back. Then it is known how far the application got, and whether it has seen records that are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig, ResetKind
from kwire.epochs import AssignmentEpoch
from kwire.errors import KafkaError, LogTruncationError, TopicAuthorizationError, UnsupportedVersionError
from kwire.events import ErrorRaised
from kwire.holds import Hold
from kwire.logs import part_logger
from kwire.managers.base import Deliver, RequestState
from kwire.managers.metadata import MetadataManager
from kwire.managers.reset_events import LOST_BY_TRUNCATION, LOST_WITH_TOPIC, RECREATED, TRUNCATED, ResetEvents
from kwire.managers.unsent import AnyUnsentRequest, Channel, Destination, PollResult, UnsentRequest
from kwire.model import ZERO_UUID, OffsetAndMetadata, TopicPartition, leader_epoch_or_none
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.states.partition import PartitionEvent
from kwire.subscription.partition import UNKNOWN_OFFSET, AssignedPartition, LeaderAndEpoch
from kwire.subscription.subscription import Subscription

log = part_logger("offsets")

CONSUMER_REPLICA_ID = -1
MIN_VERSION = 3  # before that, only brokers may ask (KIP-320)


@dataclass(slots=True, kw_only=True, eq=False)
class _ValidationQuery:
    """One position under validation. `since_version` is the version of the metadata that named the leader."""

    topic_partition: TopicPartition
    assignment_epoch: AssignmentEpoch
    position_epoch: int
    leader: LeaderAndEpoch
    since_version: int
    state: RequestState
    waits_for: str = field(default="")


class _Divergence(NamedTuple):
    """What the answer of `leader` showed: its log differs from offset `divergent` on. None: nothing is in common.

    `former_end`: if the topic was deleted and created again, where the log ended before, as far as is known.
    """

    assignment_epoch: AssignmentEpoch
    leader: LeaderAndEpoch | None
    divergent: OffsetAndMetadata | None
    former_end: int | None = None


class _Truncation(NamedTuple):
    """A truncation that the user has to decide about, as there is no reset policy."""

    assignment_epoch: AssignmentEpoch
    offset: int
    divergent: OffsetAndMetadata | None
    recreated: bool


class OffsetValidationManager:
    """Validates positions, and decides where partitions go on whose log was truncated."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        deliver: Deliver,
        backoff: Backoff,
        events: ResetEvents,
    ) -> None:
        self._events = events
        self._reset = config.auto_offset_reset
        self._subscription = subscription
        self._metadata = metadata
        self._deliver = deliver
        self._backoff = backoff
        self._queries: dict[TopicPartition, _ValidationQuery] = {}
        self._diverged: dict[TopicPartition, _Divergence] = {}
        self._undecided: dict[TopicPartition, _Truncation] = {}
        self._refused: dict[TopicPartition, KafkaError] = {}
        self._seen = metadata.cluster

    # --- the application thread -----------------------------------------------------------------------------

    @property
    def awaits_poll(self) -> bool:
        """Whether there is something to decide, or to ask again."""
        return bool(self._diverged or self._undecided) or any(map(self._subscription.still_wants, self._refused))

    def on_poll(self) -> None:
        """Raise again what the user has not decided, and ask again what was refused."""
        for tp in list(filter(self._subscription.still_wants, self._refused)):
            del self._refused[tp]
        self._settle_diverged()
        self._raise_undecided()

    def settle(self, tp: TopicPartition | None = None) -> None:
        """The application came back, and what it was handed before is noted: decide about truncated logs.

        Args:
            tp: Decide about this partition alone, of which the application has no record in hand; of others it may have
                some. None: about all.
        """
        if self._settle_diverged(tp):
            self._raise_undecided()

    def problem(self, tp: TopicPartition) -> KafkaError | None:
        """What keeps a partition from a valid position, if only the user can do something about it."""
        self._forget()
        truncation = self._undecided.get(tp)
        return _truncation_error({tp: truncation}) if truncation is not None else self._refused.get(tp)

    def waits_for(self, tp: TopicPartition) -> str | None:
        """What the validation of this partition depends on, if there is one."""
        query = self._queries.get(tp)
        return query.waits_for if query is not None and tp in self._subscription.awaiting_validation else None

    # --- what has to be validated ---------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether there are positions or leaders that it has not looked at: it may forbid a fetch."""
        return bool(self._subscription.unvalidated) or self._seen is not self._metadata.cluster

    def _look_at_changes(self) -> None:
        """Positions that are new; all of them when the cluster is: leaders may have moved, topics been recreated."""
        if self._seen is not self._metadata.cluster:
            self._seen = self._metadata.cluster
            self._subscription.unvalidated.update(self._subscription.partitions)
        changed, self._subscription.unvalidated = self._subscription.unvalidated, set()
        for tp in sorted(changed):
            partition = self._subscription.partitions[tp]
            if partition.has_position and tp not in self._undecided:
                self._look_at(partition)

    def _look_at(self, partition: AssignedPartition) -> None:
        tp, cluster = partition.topic_partition, self._metadata.cluster
        topic_id, leader_id = cluster.topic_id(tp.topic), cluster.leader_id(tp)
        if ZERO_UUID not in (topic_id, partition.topic_id) and topic_id != partition.topic_id:
            # It keeps the old id until it has another position: commits look at that.
            if (known := self._diverged.get(tp)) is None or known.divergent is not None:
                self._on_recreated(partition)
        elif leader_id is not None and tp not in self._diverged:
            self._on_leader(partition, LeaderAndEpoch(leader_id, cluster.leader_epoch(tp)))

    def _on_leader(self, partition: AssignedPartition, leader: LeaderAndEpoch) -> None:
        if leader == partition.leader:
            return
        tp = partition.topic_partition
        # A follower that the former leader named is not asked any more (KIP-392), as in Java.
        partition.leader, partition.preferred_replica = leader, None
        if partition.fetch_epoch is None or leader.epoch < 0:
            if tp in self._subscription.awaiting_validation:
                self._subscription.fire(tp, PartitionEvent.VALIDATED)
            return
        self._subscription.fire(tp, PartitionEvent.VALIDATION_WANTED)
        self._queries[tp] = _ValidationQuery(
            topic_partition=tp,
            assignment_epoch=partition.epoch,
            position_epoch=partition.fetch_epoch,
            leader=leader,
            since_version=self._metadata.cluster.version,
            state=RequestState(self._backoff),
        )

    def _on_recreated(self, partition: AssignedPartition) -> None:
        """Offsets of the old topic mean nothing in the new one: truncated, with nothing in common."""
        tp = partition.topic_partition
        log.warning("topic %r was deleted and recreated; the position in %s is void", tp.topic, tp)
        self._subscription.former_topic_ids[tp.topic] = partition.topic_id
        former_end = max(partition.high_watermark, partition.fetch_offset)
        if partition.stop_offset is not None:
            former_end = min(former_end, partition.stop_offset)  # another cursor reads the rest
        partition.ends_at(UNKNOWN_OFFSET, UNKNOWN_OFFSET)
        self._queries.pop(tp, None)
        self._subscription.fire(tp, PartitionEvent.VALIDATION_WANTED)
        self._diverge(partition, _Divergence(partition.epoch, partition.leader, None, former_end))

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        self._forget()
        self._look_at_changes()
        batches: defaultdict[int, list[_ValidationQuery]] = defaultdict(list)
        wake_at_ms = NEVER_MS
        for query in self._open_queries():
            if not query.state.ready(now_ms):
                wake_at_ms = min(wake_at_ms, query.state.wake_at_ms)
            elif self._knows_leader(query):
                batches[query.leader.id].append(query)
        return PollResult([self._request(queries) for queries in batches.values()], wake_at_ms)

    def _forget(self) -> None:
        """Forget what a seek, a reset or a rebalance has overtaken."""
        for entries in (self._queries, self._diverged, self._undecided):
            overtaken = [tp for tp, entry in entries.items() if self._if_waiting(tp, entry.assignment_epoch) is None]
            for tp in overtaken:
                del entries[tp]
        for tp in self._refused.keys() - self._queries.keys():
            del self._refused[tp]

    def _if_waiting(self, tp: TopicPartition, assignment_epoch: AssignmentEpoch) -> AssignedPartition | None:
        """The partition, if it still waits for its validation in this assignment epoch; else None."""
        if tp not in self._subscription.awaiting_validation:
            return None
        partition = self._subscription.partitions[tp]
        return partition if partition.epoch == assignment_epoch else None

    def _open_queries(self) -> list[_ValidationQuery]:
        return [q for tp, q in self._queries.items() if tp not in self._diverged and tp not in self._refused]

    def _knows_leader(self, query: _ValidationQuery) -> bool:
        """Whether metadata knows whom to ask. If its leader epoch is older than the position's, it is out of date;
        unless its next answer says the same: then the topic is another."""
        cluster, tp = self._metadata.cluster, query.topic_partition
        known = cluster.leader_id(tp) == query.leader.id
        is_older = cluster.leader_epoch(tp) < query.position_epoch and cluster.version <= query.since_version
        if known and not is_older:
            return True
        query.waits_for = f"newer metadata of {tp}{self._metadata.last_error}"
        self._metadata.request_update()
        return False

    def _request(self, queries: Sequence[_ValidationQuery]) -> AnyUnsentRequest:
        node = self._metadata.cluster.nodes[queries[0].leader.id]
        for query in queries:
            query.state.sent()
            query.waits_for = f"the answer of broker {node} to OffsetForLeaderEpoch for {query.topic_partition}"
        return UnsentRequest(
            request=OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=_topics(queries)),
            destination=Destination(node, Channel.CONTROL),
            on_answer=partial(self._on_answer, queries),
            on_failure=partial(self._on_failure, queries),
            min_version=MIN_VERSION,
        )

    # --- its answer -----------------------------------------------------------------------------------------

    def _on_failure(self, queries: Sequence[_ValidationQuery], error: KafkaError, now_ms: float) -> None:
        if isinstance(error, UnsupportedVersionError):
            for query in self._current(queries):
                log.debug("%s is not validated: %s", query.topic_partition, error)
                self._subscription.fire(query.topic_partition, PartitionEvent.VALIDATED)
            return
        self._metadata.request_update()
        for query in self._current(queries):
            if error.retriable:
                self._retry(query, error, now_ms)
            else:
                self._refuse(query, error)

    def _on_answer(
        self, queries: Sequence[_ValidationQuery], answer: OffsetForLeaderEpochResponse, now_ms: float
    ) -> None:
        ends = {TopicPartition(topic.topic, end.partition): end for topic in answer.topics for end in topic.partitions}
        for query in self._current(queries):
            end = ends.get(query.topic_partition)
            code = ErrorCode.of(end.error_code) if end is not None else ErrorCode.UNKNOWN_SERVER_ERROR
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._refuse(query, TopicAuthorizationError({query.topic_partition.topic}))
            elif end is None or code is not ErrorCode.NONE:
                # FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER: the metadata is old. UNKNOWN_LEADER_EPOCH,
                # OFFSET_NOT_AVAILABLE: the broker is behind. Java retries what it does not know, too.
                self._metadata.request_update()
                self._retry(query, error_for(code, f"validating the position in {query.topic_partition}"), now_ms)
            else:
                self._compare(query, end)

    def _current(self, queries: Iterable[_ValidationQuery]) -> list[_ValidationQuery]:
        """The queries that still matter: there was no seek and no other leader since."""
        self._forget()
        return [query for query in queries if self._queries.get(query.topic_partition) is query]

    def _retry(self, query: _ValidationQuery, error: KafkaError, now_ms: float) -> None:
        query.state.failed(now_ms)
        query.waits_for = f"a retry of OffsetForLeaderEpoch (last error: {error})"

    def _refuse(self, query: _ValidationQuery, error: KafkaError) -> None:
        """For good: the user hears of it, and the next poll asks again."""
        query.state.reset()
        self._refused[query.topic_partition] = error
        if self._subscription.still_wants(query.topic_partition):
            self._deliver(ErrorRaised(error, self._subscription.epoch))

    # --- what it means --------------------------------------------------------------------------------------

    def _compare(self, query: _ValidationQuery, end: EpochEndOffset) -> None:
        tp = query.topic_partition
        partition = self._subscription.partitions[tp]
        if end.end_offset < 0 or end.leader_epoch < 0:
            log.warning("the leader of %s knows no epoch up to %d: truncated", tp, query.position_epoch)
            self._truncate(partition, None)
        elif end.end_offset >= partition.fetch_offset:
            self._subscription.fire(tp, PartitionEvent.VALIDATED)
        else:
            divergent = OffsetAndMetadata(end.end_offset, leader_epoch=leader_epoch_or_none(end.leader_epoch))
            log.warning("%s was truncated: read up to %d, differs from %d", tp, partition.fetch_offset, end.end_offset)
            self._truncate(partition, divergent)

    def _truncate(self, partition: AssignedPartition, divergent: OffsetAndMetadata | None) -> None:
        first = None if divergent is None else divergent.offset
        self._events.lost(partition.topic_partition, first, partition.fetch_offset, LOST_BY_TRUNCATION)
        self._diverge(partition, _Divergence(partition.epoch, partition.leader, divergent))

    def _diverge(self, partition: AssignedPartition, divergence: _Divergence) -> None:
        tp = partition.topic_partition
        self._diverged[tp] = divergence
        self._subscription.hold((tp,), Hold.LOG_TRUNCATED)
        resets = divergence.divergent is None and self._reset.kind is not ResetKind.NONE
        if resets or (partition.consumed is not None and partition.consumed.offset == partition.fetch_offset):
            # How far the application got makes no difference, or is known: nothing is buffered.
            self._settle(partition, self._diverged.pop(tp))
            if tp in self._undecided:
                self._raise_undecided()

    def _settle_diverged(self, only: TopicPartition | None = None) -> bool:
        """Whether the user has something new to decide."""
        undecided = len(self._undecided)
        for tp in [tp for tp in self._diverged if only in (None, tp)]:
            divergence = self._diverged.pop(tp)
            if (partition := self._if_waiting(tp, divergence.assignment_epoch)) is not None:
                self._settle(partition, divergence)
        return len(self._undecided) > undecided

    def _settle(self, partition: AssignedPartition, divergence: _Divergence) -> None:
        tp, consumed, divergent = partition.topic_partition, partition.consumed, divergence.divergent
        assert consumed is not None
        if divergent is not None and divergent.offset >= consumed.offset:
            # Nothing was handed out that is gone. Its own epoch may have ended earlier still: that is asked next.
            self._subscription.fire(tp, PartitionEvent.TRUNCATED, position=consumed)
        elif self._reset.kind is ResetKind.NONE:
            self._subscription.fire(tp, PartitionEvent.TRUNCATED_UNDECIDED)
            former_end = divergence.former_end
            self._undecided[tp] = _Truncation(partition.epoch, consumed.offset, divergent, former_end is not None)
            if former_end is not None:
                self._events.lost(tp, consumed.offset, former_end, LOST_WITH_TOPIC)
        elif divergent is None:
            reason = TRUNCATED if divergence.former_end is None else RECREATED
            self._events.begin_amid(partition, reason, divergence.former_end)
            self._subscription.fire(tp, PartitionEvent.RESET_WANTED, reset=self._reset)
        else:
            # Any reset policy will do: as in Java, it goes on where the two logs part, not at an end of the log.
            self._subscription.fire(tp, PartitionEvent.TRUNCATED, position=divergent)
            partition.leader = divergence.leader
        self._subscription.publish()

    def _raise_undecided(self) -> None:
        self._forget()
        undecided = {tp: found for tp, found in self._undecided.items() if self._subscription.still_wants(tp)}
        if undecided:
            self._deliver(ErrorRaised(_truncation_error(undecided), self._subscription.epoch))


def _truncation_error(undecided: dict[TopicPartition, _Truncation]) -> LogTruncationError:
    offsets = {tp: truncation.offset for tp, truncation in undecided.items()}
    divergent = {tp: found.divergent for tp, found in undecided.items() if found.divergent is not None}
    return LogTruncationError(offsets, divergent, [tp for tp, found in undecided.items() if found.recreated])


def _topics(queries: Iterable[_ValidationQuery]) -> list[OffsetForLeaderTopic]:
    by_topic: defaultdict[str, list[OffsetForLeaderPartition]] = defaultdict(list)
    for query in queries:
        tp = query.topic_partition
        by_topic[tp.topic].append(
            OffsetForLeaderPartition(
                partition=tp.partition,
                current_leader_epoch=query.leader.epoch,
                leader_epoch=query.position_epoch,
            )
        )
    return [OffsetForLeaderTopic(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()]
