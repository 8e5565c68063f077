"""OffsetFetch: the group's committed offsets, for `committed()` and for partitions that need a position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol, TypeAlias

from kwire.clock import NEVER_MS, Backoff
from kwire.commit_metadata import users_metadata
from kwire.errors import BrokerError, KafkaError, TopicAuthorizationError
from kwire.events import GetCommitted, Reply, ReplyPart
from kwire.managers.base import RequestState, answered
from kwire.managers.find_coordinator import COORDINATOR_MOVED, FindCoordinatorManager
from kwire.managers.membership import Committer, GroupIdentity, around_open_join
from kwire.managers.unsent import AnyUnsentRequest, Destination, PollResult, UnsentRequest
from kwire.model import OffsetAndMetadata, TopicPartition, leader_epoch_or_none
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

Committed: TypeAlias = dict[TopicPartition, OffsetAndMetadata | None]

REQUIRE_STABLE_VERSION = 7  # KIP-447
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class _Answered(Protocol):
    """What both shapes of an answered partition have."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int


class _CommittedQuery:
    """One look-up until it is answered. Partitions found so far stay found when others must be asked for again.

    `coordinator_asked` is how many coordinator look-ups had been sent when it was made.
    """

    def __init__(
        self,
        partitions: frozenset[TopicPartition],
        reply: Reply[Committed],
        state: RequestState,
        coordinator_asked: int,
    ) -> None:
        self.partitions = partitions
        self.reply = reply
        self.state = state
        self.coordinator_asked = coordinator_asked
        self.found: Committed = {}

    @property
    def missing(self) -> frozenset[TopicPartition]:
        return self.partitions - self.found.keys()


class OffsetFetchManager:
    """Looks up committed offsets. Look-ups are retried with back-off until they are answered, refused for good, or
    given up."""

    def __init__(
        self, group_id: str | None, coordinator: FindCoordinatorManager, member: Committer, backoff: Backoff
    ) -> None:
        self._group_id = group_id
        self._coordinator = coordinator
        self._member = member
        self._backoff = backoff
        self._pending: list[_CommittedQuery] = []

    def committed(self, event: GetCommitted) -> None:
        """`Consumer.committed`."""

        def on_done() -> None:
            if not part.fails_whole():
                event.reply.succeed({tp: _as_user_wrote(position) for tp, position in part.result().items()})

        part = ReplyPart[Committed](event.reply, on_done)
        self.look_up(event.partitions, part)

    def look_up(self, partitions: frozenset[TopicPartition], reply: Reply[Committed]) -> None:
        """Look up committed offsets, until there is an answer, or nobody waits for it."""
        state = RequestState(self._backoff)
        self._pending.append(_CommittedQuery(partitions, reply, state, self._coordinator.look_ups))

    def poll(self, now_ms: float) -> PollResult:
        self._pending = [query for query in self._pending if not query.reply.abandoned]
        if not self._pending:
            return PollResult([], NEVER_MS)
        self._coordinator.need()
        destination = around_open_join(self._coordinator.destination, self._member)
        if destination is None:
            self._await_coordinator()
            return PollResult([], NEVER_MS)
        requests = [self._send(query, destination) for query in self._pending if query.state.ready(now_ms)]
        self._pending = [query for query in self._pending if not query.state.in_flight]
        return PollResult(requests, min((query.state.wake_at_ms for query in self._pending), default=NEVER_MS))

    def _await_coordinator(self) -> None:
        pending, self._pending = self._pending, []
        for query in pending:
            refusal = self._coordinator.refusal_since(query.coordinator_asked)
            if refusal is not None:
                query.reply.fail(refusal)
            else:
                self._pending.append(query)
                query.reply.waiting_for = f"the coordinator of group {self._group_id}{self._coordinator.last_error}"

    def _send(self, query: _CommittedQuery, destination: Destination) -> AnyUnsentRequest:
        query.state.sent()
        query.reply.waiting_for = f"the answer of coordinator {destination.node} to OffsetFetch"
        assert self._group_id is not None
        identity = self._member.identity() if self._member.fetches_as_member else GroupIdentity(self._group_id)
        request = partial(_request, identity, query.missing)
        return UnsentRequest(
            request=request(OffsetFetchRequest.last_version_with_names),
            for_version=request,
            destination=destination,
            on_answer=partial(self._on_answer, query, identity),
            on_failure=partial(self._on_failure, query, destination),
            max_version=OffsetFetchRequest.last_version_with_names,
        )

    def _on_answer(
        self, query: _CommittedQuery, identity: GroupIdentity, answer: OffsetFetchResponse, now_ms: float
    ) -> None:
        whole = answer.groups[0] if answer.groups else answer
        code = ErrorCode.of(whole.error_code)
        if code is ErrorCode.GROUP_ID_NOT_FOUND and not identity.is_member:
            # What Kafka says with an offset of -1 for each. A member is told so when its group was deleted, and joins.
            query.reply.succeed(query.found | dict.fromkeys(query.missing))
            return
        if code is not ErrorCode.NONE:
            error = error_for(code, f"fetching committed offsets of group {self._group_id}")
            if code in COORDINATOR_MOVED:
                self._coordinator.lost(error)
            self._retry(query, error, now_ms, again=identity.is_member and self._is_epoch_error(code, identity))
            return
        self._take(query, answered(whole.topics, query.partitions), now_ms)

    def _is_epoch_error(self, code: ErrorCode, identity: GroupIdentity) -> bool:
        """Whether the error is about the member's epoch (KIP-848). Then the look-up is repeated: to fail it would mean
        a reset."""
        is_current = identity == self._member.identity()
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            if is_current:
                self._member.on_stale_epoch()
        elif code in _FENCED:
            if is_current:
                self._member.on_membership_lost(code)
        else:
            return False
        return True

    def _take(self, query: _CommittedQuery, found: Mapping[TopicPartition, _Answered], now_ms: float) -> None:
        codes = {tp: ErrorCode.of(partition.error_code) for tp, partition in found.items()}
        if refused := {tp.topic for tp, code in codes.items() if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED}:
            query.reply.fail(TopicAuthorizationError(refused))
            return
        for tp, code in codes.items():
            if code is ErrorCode.NONE:
                query.found[tp] = _position(found[tp])
            elif code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                query.found[tp] = None
        if not query.missing:
            query.reply.succeed(query.found)
            return
        # A transaction is pending on the rest (UNSTABLE_OFFSET_COMMIT), or the broker left it out: never guess.
        left = min(query.missing, key=lambda tp: (tp not in codes or codes[tp].retriable, tp))
        doing = f"fetching the committed offset of {left} for group {self._group_id}"
        error = error_for(codes[left], doing) if left in codes else BrokerError(f"{doing}: the answer leaves it out")
        self._retry(query, error, now_ms, again=left not in codes)

    def _on_failure(self, query: _CommittedQuery, asked: Destination, error: KafkaError, now_ms: float) -> None:
        self._coordinator.unanswered(asked, error)
        self._retry(query, error, now_ms)

    def _retry(self, query: _CommittedQuery, error: KafkaError, now_ms: float, *, again: bool = False) -> None:
        if not error.retriable and not again:
            query.reply.fail(error)
            return
        query.state.failed(now_ms)
        query.reply.waiting_for = f"a retry of OffsetFetch (last error: {error})"
        self._pending.append(query)


def _as_user_wrote(position: OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    """The position without kwire's own part of the metadata, which a member with parallel rebalance has committed."""
    if position is None or not position.metadata:
        return position
    return OffsetAndMetadata(position.offset, users_metadata(position.metadata), position.leader_epoch)


def _position(partition: _Answered) -> OffsetAndMetadata | None:
    """A negative offset means that nothing was committed."""
    if partition.committed_offset < 0:
        return None
    epoch = leader_epoch_or_none(partition.committed_leader_epoch)
    return OffsetAndMetadata(partition.committed_offset, partition.metadata or "", epoch)


def _request(member: GroupIdentity, partitions: Iterable[TopicPartition], version: int) -> OffsetFetchRequest:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for tp in sorted(partitions):
        by_topic[tp.topic].append(tp.partition)
    # Before KIP-447 a broker cannot be asked to wait for pending transactions; Java asks without, too.
    require_stable = version >= REQUIRE_STABLE_VERSION
    if version < OffsetFetchRequest.first_version_with_groups:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
        return OffsetFetchRequest(group_id=member.group_id, topics=topics, require_stable=require_stable)
    named = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
    group = OffsetFetchRequestGroup(
        group_id=member.group_id,
        member_id=member.member_id or None,
        member_epoch=member.generation_id,
        topics=named,
    )
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)
