"""OffsetCommit: explicit commits, synchronous and asynchronous, and the timer of auto-commit.

Everything goes through one queue and one connection, so commits reach the broker in the order they were made.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.errors import (
    CommitFailedError,
    KafkaError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
)
from kwire.events import Commit, CommitAsync, CommitCompleted, Reply
from kwire.managers.base import Deliver, RequestState
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.membership import GroupIdentity, Membership
from kwire.managers.unsent import AnyUnsentRequest, Destination, PollResult, UnsentRequest
from kwire.model import NO_LEADER_EPOCH, OffsetAndMetadata, TopicPartition
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.subscription.subscription import Subscription

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
OnDone: TypeAlias = Callable[[KafkaError | None], None]

# auto_commit_interval_ms=0 means "with every poll" in Java; here a timer commits, which must not become a spin.
MIN_AUTO_COMMIT_INTERVAL_MS = 100.0
MAX_VERSION = 9  # v10 names topics by id alone; a position here belongs to a name
_LOST = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})


class _PendingCommit:
    """One commit until it is done. `reply` is set for those who wait, and is told what the commit waits for."""

    __slots__ = ("deadline_ms", "is_last", "offsets", "on_done", "reply", "retries", "state")

    def __init__(
        self,
        offsets: Offsets,
        on_done: OnDone,
        state: RequestState,
        *,
        retries: bool = False,
        is_last: bool = False,
        reply: Reply[None] | None = None,
        deadline_ms: float = NEVER_MS,
    ) -> None:
        self.offsets = offsets
        self.on_done = on_done
        self.state = state
        self.retries = retries
        self.is_last = is_last
        self.reply = reply
        self.deadline_ms = deadline_ms

    @property
    def given_up(self) -> bool:
        return self.reply is not None and self.reply.abandoned

    def is_done_with(self, code: ErrorCode) -> bool:
        """Whether there is nothing more to do for a partition. A deleted topic is not worth holding up a rebalance."""
        return code is ErrorCode.NONE or (self.is_last and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def waits_for(self, what: str) -> None:
        if self.reply is not None:
            self.reply.waiting_for = what


class OffsetCommitManager:
    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        coordinator: FindCoordinatorManager,
        member: Membership,
        deliver: Deliver,
        backoff: Backoff,
    ) -> None:
        self._config = config
        self._subscription = subscription
        self._coordinator = coordinator
        self._member = member
        self._deliver = deliver
        self._backoff = backoff
        self._pending: list[_PendingCommit] = []
        self._in_flight = 0
        self._auto_commit_at_ms = NEVER_MS
        self._auto_commit_under_way = False

    # --- what the application thread asks for ---------------------------------------------------------------

    def commit(self, event: Commit) -> None:
        """Until it succeeds, is refused for good, or the caller gives up."""
        offsets = self._subscription.consumed() if event.offsets is None else event.offsets

        def on_done(error: KafkaError | None) -> None:
            if error is None:
                event.reply.succeed(None)
            else:
                event.reply.fail(error)

        self._enqueue(
            _PendingCommit(offsets, on_done, self._state(), retries=True, is_last=event.is_last, reply=event.reply)
        )

    def commit_async(self, event: CommitAsync, now_ms: float) -> None:
        """Once; the callback runs on the application thread."""
        offsets = self._subscription.consumed() if event.offsets is None else event.offsets

        def on_done(error: KafkaError | None) -> None:
            if error is not None and error.retriable:
                error = _retriable(error)
            if event.callback is not None:
                self._deliver(CommitCompleted(event.callback, offsets, error))
            elif error is not None:
                log.warning("asynchronous commit of %s failed: %s", _names(offsets), error)

        deadline_ms = now_ms + self._config.default_api_timeout_ms
        self._enqueue(_PendingCommit(offsets, on_done, self._state(), deadline_ms=deadline_ms))

    def auto_commit(self, now_ms: float) -> None:
        """Commit what was delivered, without anybody waiting: the timer is due, or an assignment is about to change."""
        offsets = self._subscription.consumed()
        if not self._config.enable_auto_commit or not offsets or self._member.is_joining:
            return
        self._auto_commit_under_way = True

        def on_done(error: KafkaError | None) -> None:
            self._auto_commit_under_way = False
            if error is not None:
                log.warning("auto-commit of %s failed: %s", _names(offsets), error)

        deadline_ms = now_ms + self._config.default_api_timeout_ms
        self._enqueue(_PendingCommit(offsets, on_done, self._state(), deadline_ms=deadline_ms))

    @property
    def idle(self) -> bool:
        return not self._pending and not self._in_flight

    def _state(self) -> RequestState:
        return RequestState(self._backoff)

    def _enqueue(self, commit: _PendingCommit) -> None:
        if commit.offsets:
            self._pending.append(commit)
        else:
            commit.on_done(None)

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        auto_commit_at_ms = self._poll_timer(now_ms)
        if not self._pending:
            return PollResult([], auto_commit_at_ms)
        self._coordinator.need()
        destination = self._coordinator.destination
        requests: list[AnyUnsentRequest] = []
        waiting: list[_PendingCommit] = []
        for commit in self._pending:
            if commit.given_up or self._refused(commit, now_ms):
                continue
            if destination is None or not commit.state.ready(now_ms):
                waiting.append(commit)
            else:
                requests.append(self._send(commit, destination))
        self._pending = waiting
        wake_at_ms = min((self._wake_at_ms(commit, destination) for commit in waiting), default=NEVER_MS)
        return PollResult(requests, min(wake_at_ms, auto_commit_at_ms))

    def _poll_timer(self, now_ms: float) -> float:
        """Fire auto-commit when due; the timer runs while there is something assigned."""
        if not self._config.enable_auto_commit or not self._subscription.partitions:
            self._auto_commit_at_ms = NEVER_MS
            return NEVER_MS
        if self._auto_commit_at_ms == NEVER_MS:
            self._auto_commit_at_ms = now_ms + self._config.auto_commit_interval_ms
        if now_ms >= self._auto_commit_at_ms:
            self._auto_commit_at_ms = now_ms + max(MIN_AUTO_COMMIT_INTERVAL_MS, self._config.auto_commit_interval_ms)
            if not self._auto_commit_under_way:
                self.auto_commit(now_ms)
        return self._auto_commit_at_ms

    def _wake_at_ms(self, commit: _PendingCommit, destination: Destination | None) -> float:
        if destination is None:
            commit.waits_for(f"the coordinator of group {self._config.group_id}{self._coordinator.last_error}")
            return commit.deadline_ms
        return min(commit.state.wake_at_ms, commit.deadline_ms)

    def _refused(self, commit: _PendingCommit, now_ms: float) -> bool:
        """Whether there is no point in sending it; then it is done."""
        if self._member.is_joining:
            commit.on_done(RebalanceInProgressError("the group is rebalancing; poll() to finish it, then commit again"))
        elif self._subscription.is_group and not self._member.identity().is_member:
            commit.on_done(
                CommitFailedError(
                    "not a member of the group (any more): its partitions may have a new owner; "
                    "poll more often, or raise max_poll_interval_ms"
                )
            )
        elif self._coordinator.refusal is not None:
            commit.on_done(self._coordinator.refusal)
        elif now_ms >= commit.deadline_ms:
            commit.on_done(
                RetriableCommitFailedError(f"no coordinator for the commit in time{self._coordinator.last_error}")
            )
        else:
            return False
        return True

    # --- one request ----------------------------------------------------------------------------------------

    def _send(self, commit: _PendingCommit, destination: Destination) -> AnyUnsentRequest:
        identity = self._member.identity()
        commit.state.sent()
        commit.waits_for(f"the answer of coordinator {destination.node} to OffsetCommit; it may have been carried out")
        self._in_flight += 1
        return UnsentRequest(
            request=_request(identity, commit.offsets),
            destination=destination,
            on_answer=partial(self._on_answer, commit, identity),
            on_failure=partial(self._on_failure, commit, destination),
            max_version=MAX_VERSION,
        )

    def _on_answer(
        self, commit: _PendingCommit, identity: GroupIdentity, answer: OffsetCommitResponse, now_ms: float
    ) -> None:
        self._in_flight -= 1
        codes = {
            TopicPartition(topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }
        if refused := {tp.topic for tp, code in codes.items() if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED}:
            commit.on_done(TopicAuthorizationError(refused))
        elif failed := {tp: code for tp, code in codes.items() if not commit.is_done_with(code)}:
            tp, code = min(failed.items(), key=lambda item: item[1].retriable)
            self._on_error(commit, identity, tp, code, now_ms)
        else:
            commit.on_done(None)

    def _on_error(
        self, commit: _PendingCommit, identity: GroupIdentity, tp: TopicPartition, code: ErrorCode, now_ms: float
    ) -> None:
        error = error_for(code, f"committing {tp} for group {identity.group_id}")
        if code in _LOST:
            # The answer speaks of the generation it was sent with; a newer one is not touched (KAFKA-19242).
            if identity == self._member.identity() and identity.is_member:
                self._member.on_membership_lost(code)
            commit.on_done(error if error.fatal else CommitFailedError(str(error)))
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            if identity == self._member.identity():
                self._member.on_group_rebalancing("a commit met a rebalance")
            commit.on_done(RebalanceInProgressError(f"{error}; poll() to finish it, then commit again"))
        elif code is ErrorCode.STALE_MEMBER_EPOCH:
            # Still a member, whose newest epoch is on its way with a heartbeat: as the same member, a little later.
            if identity == self._member.identity():
                self._member.on_stale_epoch()
            self._retry(commit, RetriableCommitFailedError(str(error)), now_ms)
        elif code.retriable:
            if code in _MOVED:
                self._coordinator.lost(error)
            self._retry(commit, error, now_ms)
        else:
            commit.on_done(error)

    def _on_failure(self, commit: _PendingCommit, asked: Destination, error: KafkaError, now_ms: float) -> None:
        self._in_flight -= 1
        self._coordinator.unanswered(asked, error)
        self._retry(commit, error, now_ms)

    def _retry(self, commit: _PendingCommit, error: KafkaError, now_ms: float) -> None:
        if not commit.retries or not error.retriable:
            commit.on_done(error)
            return
        commit.state.failed(now_ms)
        commit.waits_for(f"a retry of OffsetCommit (last error: {error})")
        self._pending.append(commit)


def _request(identity: GroupIdentity, offsets: Offsets) -> OffsetCommitRequest:
    by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for tp, position in offsets.items():
        epoch = position.leader_epoch
        by_topic[tp.topic].append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=position.offset,
                committed_leader_epoch=NO_LEADER_EPOCH if epoch is None else epoch,
                committed_metadata=position.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=identity.group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()],
    )


def _retriable(error: KafkaError) -> RetriableCommitFailedError:
    failed = RetriableCommitFailedError(str(error))
    failed.__cause__ = error
    return failed


def _names(offsets: Offsets) -> str:
    return ", ".join(f"{tp}@{position.offset}" for tp, position in list(offsets.items())[:3]) + (
        f" and {len(offsets) - 3} more" if len(offsets) > 3 else ""
    )
