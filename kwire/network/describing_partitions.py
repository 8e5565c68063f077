"""The state of one assigned partition, and why no records come from it, for `Consumer.describe()`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kwire.clock import NEVER_MS
from kwire.description.values import Cause, CauseKind, PartitionDescription, age_s
from kwire.errors import (
    AuthenticationError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from kwire.holds import HOLD_FACTS, Hold
from kwire.managers.cursor import AnyCursor
from kwire.managers.fetch import FetchStatus
from kwire.managers.metadata import MetadataManager
from kwire.model import Node, TopicPartition
from kwire.network.connection_failures import BrokerConnectionFailure
from kwire.states.partition import STATE_REASONS
from kwire.subscription.partition import AssignedPartition

LATE_MS = 2_000.0
"""An answer that is overdue for this long is a reason why no records come."""


def wait_s(at_ms: float | None, now_ms: float) -> float | None:
    """How many seconds it is until `at_ms`; None if there is no such time."""
    return None if at_ms is None or at_ms == NEVER_MS else round(max(0.0, at_ms - now_ms) / 1000.0, 3)


def broker_cause(failure: BrokerConnectionFailure, now_ms: float) -> Cause:
    """A broker that cannot be used."""
    node = failure.node
    is_refused = isinstance(failure.error, AuthenticationError)
    kind = "bootstrap server" if node.id < 0 else "broker"
    return Cause(
        kind=CauseKind.AUTHENTICATION if is_refused else CauseKind.BROKER_DOWN,
        text=f"{kind} {node} {'and this client do not accept each other' if is_refused else 'cannot be reached'}",
        error=str(failure.error).removeprefix(f"broker {node}: "),
        address=f"{node.host}:{node.port}",
        for_s=age_s(failure.since_ms, now_ms),
        # Once that is over, it is dialled when somebody has a request for it.
        next_try_in_s=wait_s(failure.next_try_ms, now_ms) if failure.next_try_ms > now_ms else None,
    )


class PartitionDescriber:
    """Describes partitions at one moment."""

    def __init__(
        self,
        metadata: MetadataManager,
        failures: Sequence[BrokerConnectionFailure],
        throttled_until_ms: Mapping[tuple[str, int], float],
        now_ms: float,
        *,
        read_committed: bool,
    ) -> None:
        self._metadata = metadata
        self._failures = {each.node.address: each for each in failures}
        self._throttled_until_ms = throttled_until_ms
        self._now_ms = now_ms
        self._read_committed = read_committed

    def describe(self, partition: AssignedPartition, cursor: AnyCursor) -> PartitionDescription:
        """One partition, as a cursor reads it."""
        tp, consumed = partition.topic_partition, partition.consumed
        leader, fetch = self._leader(tp), cursor.fetch.status(partition)
        has_position = partition.has_position and consumed is not None
        ends = partition.log_ends()
        return PartitionDescription(
            topic=tp.topic,
            partition=tp.partition,
            cursor=cursor.cursor.value,
            state=partition.machine.state.name,
            leader=None if leader is None else str(leader),
            position=consumed.offset if has_position and consumed is not None else None,
            fetch_position=partition.fetch_offset if has_position else None,
            committed=partition.committed_offset,
            lag=partition.lag(read_committed=self._read_committed),
            high_watermark=None if ends is None else ends.high_watermark,
            last_stable_offset=None if ends is None else ends.last_stable_offset,
            is_fetch_in_flight=fetch.due_ms is not None,
            last_error=None if fetch.error is None else str(fetch.error),
            next_try_in_s=wait_s(fetch.next_try_ms, self._now_ms),
            causes=tuple(self._causes(partition, cursor, leader, fetch)),
        )

    def _leader(self, tp: TopicPartition) -> Node | None:
        leader_id = self._metadata.cluster.leader_id(tp)
        return None if leader_id is None else self._metadata.cluster.nodes[leader_id]

    # --- why nothing comes ----------------------------------------------------------------------------------

    def _causes(
        self, partition: AssignedPartition, cursor: AnyCursor, leader: Node | None, fetch: FetchStatus
    ) -> Iterator[Cause]:
        for hold in Hold:
            if hold in partition.holds:
                yield Cause(kind=CauseKind(hold.name.lower()), text=HOLD_FACTS[hold].reason)
        failure = None if leader is None else self._failures.get(leader.address)
        if leader is None:
            yield self._no_leader(partition.topic_partition)
        elif failure is not None:
            yield broker_cause(failure, self._now_ms)
        throttle = None if leader is None else self._throttle(leader)
        if throttle is not None:
            yield throttle
        if not partition.has_valid_position:
            yield self._no_position(partition, cursor)
        elif throttle is None and (unanswered := self._unanswered(fetch)) is not None:
            yield unanswered  # else it is kwire that waits
        if partition.has_position:
            is_answered = leader is not None and not (failure or throttle or self._unanswered(fetch))
            yield from self._at_position(partition, is_answered=is_answered)

    def _unanswered(self, fetch: FetchStatus) -> Cause | None:
        if fetch.error is not None:
            return Cause(
                kind=CauseKind.FETCH_FAILED,
                text="the last fetch has failed",
                error=str(fetch.error),
                next_try_in_s=wait_s(fetch.next_try_ms, self._now_ms),
            )
        if fetch.due_ms is not None and self._now_ms - fetch.due_ms > LATE_MS:
            text = "the answer to the fetch is overdue: the broker does not answer, or the line to it is slow"
            return Cause(kind=CauseKind.FETCH_OVERDUE, text=text, for_s=age_s(fetch.due_ms, self._now_ms))
        return None

    def _throttle(self, leader: Node) -> Cause | None:
        until_ms = self._throttled_until_ms.get(leader.address)
        if until_ms is None:
            return None
        text = f"broker {leader} holds this client back, by a quota"
        return Cause(kind=CauseKind.THROTTLED, text=text, next_try_in_s=wait_s(until_ms, self._now_ms))

    def _no_leader(self, tp: TopicPartition) -> Cause:
        cluster = self._metadata.cluster
        known = cluster.partition(tp)
        next_try_in_s = wait_s(self._metadata.next_refresh_ms, self._now_ms)
        if (refusal := self._metadata.refused.get(tp.topic)) is not None:
            return Cause(kind=CauseKind.AUTHORIZATION, text=f"topic {tp.topic!r} cannot be read", error=str(refusal))
        if tp.topic in self._metadata.unknown:
            kind, text = CauseKind.UNKNOWN_TOPIC, f"topic {tp.topic!r} does not exist"
        elif known is None:
            what = f"topic {tp.topic!r} has no such partition" if tp.topic in cluster.topics else "no metadata has come"
            kind, text = CauseKind.NO_LEADER, f"it has no leader that is known: {what}"
        elif known.leader_id < 0:
            kind, text = CauseKind.NO_LEADER, "it has no leader at the moment"
        else:
            kind, text = CauseKind.NO_LEADER, f"its leader, broker {known.leader_id}, is not in the cluster any more"
        return Cause(kind=kind, text=text, next_try_in_s=next_try_in_s)

    def _no_position(self, partition: AssignedPartition, cursor: AnyCursor) -> Cause:
        tp = partition.topic_partition
        problem = cursor.validation.problem(tp) or cursor.positions.problem(tp)
        if problem is not None:
            text = "it has no position to go on at: the next poll raises an error, and a seek settles it"
            return Cause(kind=_kind_of(problem), text=text, error=str(problem))
        waits_for = cursor.validation.waits_for(tp) or cursor.positions.waits_for(tp)
        text = STATE_REASONS[partition.machine.state] + (f", which waits for {waits_for}" if waits_for else "")
        return Cause(kind=CauseKind.LOOKING_UP, text=text)

    def _at_position(self, partition: AssignedPartition, *, is_answered: bool) -> Iterator[Cause]:
        lag = partition.lag(read_committed=self._read_committed)
        if partition.is_ahead:
            text = f"records are fetched up to offset {partition.fetch_offset}, and wait until a poll returns them"
            yield Cause(kind=CauseKind.NOT_TAKEN, text=text)
        elif partition.stop_offset is not None and partition.fetch_offset >= partition.stop_offset:
            yield Cause(kind=CauseKind.AT_END, text=f"all of it is fetched up to offset {partition.stop_offset}")
        elif lag == 0 and self._read_committed and partition.has_open_transaction:
            text = f"the records from offset {partition.last_stable_offset} on wait for a transaction to end"
            yield Cause(kind=CauseKind.OPEN_TRANSACTION, text=text)
        elif lag == 0 and is_answered:  # else nobody knows what is new
            yield Cause(kind=CauseKind.AT_END, text="there is nothing new in it")


def _kind_of(problem: KafkaError) -> CauseKind:
    is_for_the_user = isinstance(problem, NoOffsetForPartitionError | OffsetOutOfRangeError)
    return CauseKind.NO_OFFSET if is_for_the_user else CauseKind.REFUSED
