"""OffsetCommit: explicit commits, synchronous and asynchronous, and automatic ones.

Commits reach the broker in the order they were made, and are done in that order: they go through one list and one
connection, a commit that is repeated holds back those behind it, and an outcome is told once all earlier ones are. So
callbacks come in order, and a synchronous commit returns after the asynchronous ones before it, as in Java.

Asynchronous commits of the same partitions that are to be sent at the same moment are one request, of the newest
positions. So a commit for each record does not cost the broker a request for each record.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from functools import partial
from itertools import islice
from uuid import UUID

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.errors import (
    BrokerError,
    CommitFailedError,
    KafkaError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
)
from kwire.events import Commit, CommitAsync, CommitCompleted, Reply
from kwire.logs import part_logger
from kwire.managers.auto_commit import AutoCommitTimer
from kwire.managers.base import Deliver, RequestState, answered
from kwire.managers.find_coordinator import COORDINATOR_MOVED, FindCoordinatorManager
from kwire.managers.membership import Committer, GroupIdentity, around_open_join
from kwire.managers.metadata import MetadataManager
from kwire.managers.pending_commit import CommitLog, GroupLog, OnDone, PendingCommit, UnknownTopic
from kwire.managers.unsent import AnyUnsentRequest, Destination, PollResult, UnsentRequest
from kwire.model import NO_LEADER_EPOCH, ZERO_UUID, Offsets, TopicPartition
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.subscription.subscription import Subscription

log = part_logger("offsets")

_LOST = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,  # deleted while its member slept; a commit by no member would create it again
    }
)
MAX_IN_FLIGHT = 500
"""Commits in flight. A heartbeat stands behind them on the same connection; brokers answer 500 commits in a moment."""
MAX_LOOKED_AT = 100
"""Commits that a poll looks at and cannot send. Those behind them wait for the same: the coordinator, or metadata."""
UNKNOWN_TOPIC_MS = 1_000.0
"""A topic that brokers have not known for this long does not exist."""
EARLIER_COMMIT = "a commit that was made before it"
"""What a commit waits for that stands behind others."""
_MOVED = COORDINATOR_MOVED | {ErrorCode.REQUEST_TIMED_OUT}


class OffsetCommitManager:
    """Sends commits, and tries again what may be tried again.

    Args:
        log: where it commits to, if that is not simply the group.

    Attributes:
        has_settled: Since the last poll an answer has settled a commit, and no other manager has to know of it.
        needs_others: The last poll has left a commit that waits for more than the answers to earlier ones.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        coordinator: FindCoordinatorManager,
        member: Committer,
        deliver: Deliver,
        backoff: Backoff,
        commit_log: CommitLog | None = None,
    ) -> None:
        self._commit_log = commit_log or GroupLog(config.group_id, subscription)
        self._config = config
        self._subscription = subscription
        self._metadata = metadata
        self._coordinator = coordinator
        self._member = member
        self._deliver = deliver
        self._backoff = backoff
        self._commits: deque[PendingCommit] = deque()
        """All commits whose outcome has not been told, in the order they were made."""
        self._unsent: deque[PendingCommit] = deque()
        """Those that are not in flight. A turn looks at these alone: many may be in flight."""
        self.has_settled = False
        self.needs_others = False
        self._under_way: Counter[Destination] = Counter()
        self._repeatable: PendingCommit | None = None
        """The last one that was sent and may have to be repeated."""
        self._timer = AutoCommitTimer(config.auto_commit_interval_ms, backoff)

    # --- what the application thread asks for ---------------------------------------------------------------

    def commit(self, event: Commit) -> None:
        """Commit; retried until it succeeds, is refused for good, or the caller gives up."""
        offsets = self._commit_log.delivered() if event.offsets is None else event.offsets

        def on_done(error: KafkaError | None) -> None:
            if error is None:
                event.reply.succeed(None)
            else:
                event.reply.fail(error)

        self._enqueue(offsets, on_done, retries=True, is_last=event.is_last, reply=event.reply)

    def commit_async(self, event: CommitAsync, now_ms: float) -> None:
        """Commit, without retries; the callback runs on the application thread."""
        offsets = self._commit_log.delivered() if event.offsets is None else event.offsets

        def on_done(error: KafkaError | None) -> None:
            if error is not None and error.retriable:
                error = _retriable(error)
            if event.callback is not None:
                self._deliver(CommitCompleted(event.callback, offsets, error))
            elif error is not None:
                log.warning("asynchronous commit of %s failed: %s", _names(offsets), error)

        deadline_ms = now_ms + self._config.default_api_timeout_ms
        self._enqueue(offsets, on_done, deadline_ms=deadline_ms)

    def auto_commit(self, now_ms: float) -> None:
        """Commit what was delivered, without anybody waiting: the timer is due, or an assignment is about to change."""
        if (
            not self._config.enable_auto_commit
            or self._member.is_joining
            or not (offsets := self._commit_log.delivered())
        ):
            return
        self._timer.started()

        def on_done(error: KafkaError | None) -> None:
            level = self._timer.ended(error)
            if error is not None:
                log.log(level, "auto-commit of %s failed: %s", _names(offsets), error)

        deadline_ms = now_ms + self._config.default_api_timeout_ms
        self._enqueue(offsets, on_done, deadline_ms=deadline_ms)

    @property
    def idle(self) -> bool:
        return not any(commit for commit in self._commits if not commit.given_up)

    def close(self) -> None:
        """The consumer ends: what is not done will not be, and its caller hears of it."""
        for commit in self._commits:
            if not commit.settled:
                commit.settled = True
                commit.error = CommitFailedError(
                    f"the consumer was closed before its commit was answered; it may have been carried out"
                    f"{self._coordinator.last_error}"
                )
        self._report()

    def _topic_id(self, tp: TopicPartition, offset: int) -> UUID:
        """The id of the topic that a position is in: of the topic that has served it, or else of the one in metadata.

        If the topic was deleted and recreated, an offset beyond the delivered records of the new topic is one of the
        deleted topic: the application still handles its records. Committed to the new topic, it would make the group
        skip records.
        """
        partition = self._subscription.partitions.get(tp)
        position = None if partition is None or not partition.has_position else partition.consumed
        former = self._subscription.former_topic_ids.get(tp.topic)
        if former is not None and (position is None or offset > position.offset):
            return former
        if partition is not None and position is not None and partition.topic_id != ZERO_UUID:
            return partition.topic_id
        return self._metadata.cluster.topic_id(tp.topic)

    def _enqueue(
        self,
        offsets: Offsets,
        on_done: OnDone,
        *,
        retries: bool = False,
        is_last: bool = False,
        reply: Reply[None] | None = None,
        deadline_ms: float = NEVER_MS,
    ) -> None:
        commit = PendingCommit(
            offsets,
            on_done,
            RequestState(self._backoff),
            self._coordinator.look_ups,
            {tp: self._topic_id(tp, at.offset) for tp, at in offsets.items()},
            retries=retries,
            is_last=is_last,
            reply=reply,
            deadline_ms=deadline_ms,
        )
        self._commits.append(commit)
        if commit.offsets:
            if self._unsent:  # it may take long until a poll looks at this one
                commit.waits_for(EARLIER_COMMIT)
            self._unsent.append(commit)
        else:
            self._settle(commit, None)

    def _settle(self, commit: PendingCommit, error: KafkaError | None) -> None:
        if error is None:
            self._commit_log.acknowledged(commit.offsets)
            self._note_committed(commit.offsets)
        for each in (*commit.superseded, commit):
            each.settled, each.error = True, error or (None if each.is_last else each.void)
        commit.waits_for("commits that were made before it")
        self._report()

    def _note_committed(self, offsets: Offsets) -> None:
        """For `Consumer.describe()`."""
        for tp, committed in offsets.items() if self._commit_log.group_id == self._config.group_id else ():
            if (partition := self._subscription.partitions.get(tp)) is not None:
                partition.committed_offset = committed.offset

    def _report(self) -> None:
        """Tell the outcome of the commits at the head of the list, up to the first that has none."""
        while self._commits and (self._commits[0].settled or self._commits[0].given_up):
            done = self._commits.popleft()
            done.on_done(done.error)

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        self.has_settled = self.needs_others = False
        auto_commit_at_ms = self._watch_timer(now_ms)
        self._report()
        if not self._unsent:
            return PollResult([], auto_commit_at_ms)
        self._coordinator.need()
        destination = around_open_join(self._coordinator.destination, self._member)
        chosen, wake_at_ms = self._choose(destination, now_ms)
        requests = [] if destination is None else [self._send(commit, destination) for commit in chosen]
        return PollResult(requests, min(auto_commit_at_ms, wake_at_ms))

    def _choose(self, destination: Destination | None, now_ms: float) -> tuple[list[PendingCommit], float]:
        """Which of the unsent commits are sent now, and when to look at the others again. Those that there is no point
        in sending are settled."""
        chosen: list[PendingCommit] = []
        wake_at_ms = NEVER_MS
        held = self._is_overtaking(destination)
        kept: list[PendingCommit] = []
        while self._unsent and len(kept) < MAX_LOOKED_AT:
            commit = self._unsent.popleft()
            if commit.settled or commit.given_up or self._refused(commit, now_ms):
                continue
            held = held or self._under_way.total() + len(chosen) >= MAX_IN_FLIGHT
            if destination is not None and not held and commit.state.ready(now_ms) and not self._is_in_doubt(commit):
                if chosen and commit.supersedes(chosen[-1]):
                    commit.take_over(chosen.pop())
                chosen.append(commit)
            else:
                kept.append(commit)
                wake_at_ms = min(wake_at_ms, self._wake_at_ms(commit, destination, held=held))
                if destination is not None and held:
                    self._hold_back_the_rest()
                    break
                self.needs_others = True
            held = held or commit.retries
        self._unsent.extendleft(reversed(kept))
        return chosen, wake_at_ms

    def _hold_back_the_rest(self) -> None:
        """The commits behind one that is held wait for the same answers. No poll looks at them before, but they may
        have waited for something else until now."""
        for commit in islice(self._unsent, MAX_LOOKED_AT):
            commit.waits_for(EARLIER_COMMIT)

    def _is_overtaking(self, destination: Destination | None) -> bool:
        """Whether a commit that is sent now may overtake an earlier one, and be undone by it. The earlier one may have
        to be repeated. Or it is under way to this broker over another connection, which may be slower; that counts
        though its caller has given up. What was sent to a former coordinator cannot undo anything."""
        last = self._repeatable
        if last is not None and last.state.in_flight and not (last.settled or last.given_up):
            return True
        return destination is not None and any(
            count and way.node == destination.node and way != destination for way, count in self._under_way.items()
        )

    def _watch_timer(self, now_ms: float) -> float:
        if not self._config.enable_auto_commit or not self._subscription.partitions:
            self._timer.stop()
        elif self._timer.fires(now_ms):
            self.auto_commit(now_ms)
        return self._timer.due_at_ms

    def _wake_at_ms(self, commit: PendingCommit, destination: Destination | None, *, held: bool) -> float:
        if destination is None:
            commit.waits_for(f"the coordinator of group {self._commit_log.group_id}{self._coordinator.last_error}")
            return commit.deadline_ms
        if held:
            commit.waits_for(EARLIER_COMMIT)
            return commit.deadline_ms
        if self._is_in_doubt(commit):
            return commit.deadline_ms  # metadata is asked for
        return min(commit.state.wake_at_ms, commit.deadline_ms)

    def _refused(self, commit: PendingCommit, now_ms: float) -> bool:
        """Whether there is no point in sending it; then it is settled."""
        reason = self._reason_to_refuse(commit, now_ms)
        self._leave_out_void(commit)
        if reason is not None or not commit.offsets:
            self._settle(commit, reason)
        return commit.settled

    def _reason_to_refuse(self, commit: PendingCommit, now_ms: float) -> KafkaError | None:
        if self._member.is_joining:
            return RebalanceInProgressError("the group is rebalancing; poll() to finish it, then commit again")
        if self._commit_log.by_member and not self._member.identity().is_member:
            return self._member.refusal or CommitFailedError(
                "not a member of the group: a consumer joins it inside poll(). If it was a member before, its "
                "partitions may have a new owner: poll more often, or raise max_poll_interval_ms"
            )
        if (refusal := self._coordinator.refusal_since(commit.coordinator_asked)) is not None:
            return refusal
        self._look_for_unknown(commit, now_ms)
        if (gone := self._is_gone(commit, now_ms)) is not None:
            return gone
        if now_ms >= commit.deadline_ms:
            return RetriableCommitFailedError(f"no coordinator for the commit in time{self._coordinator.last_error}")
        return None

    # --- topics that are gone -------------------------------------------------------------------------------

    def _leave_out_void(self, commit: PendingCommit) -> None:
        """Take positions out of a commit whose topic was deleted, if another topic has its name now. A group that went
        on at such a position would skip records that it has never seen."""
        topic_id = self._metadata.cluster.topic_id
        void = [
            tp
            for tp, of in commit.topic_ids.items()
            if tp in commit.offsets and ZERO_UUID not in (of, now := topic_id(tp.topic)) and of != now
        ]
        if commit.is_last:  # nobody waits until metadata has decided
            void += self._unknown_to_metadata(commit)
        if void:
            commit.offsets = {tp: at for tp, at in commit.offsets.items() if tp not in void}
            names = ", ".join(map(str, sorted(void)))
            commit.void = CommitFailedError(f"not committed: {names}; the topic has been deleted and recreated")

    def _look_for_unknown(self, commit: PendingCommit, now_ms: float) -> None:
        """Have a commit wait for the next metadata if the last one did not list its topic. The topic may have been
        recreated since, and a coordinator that gets its name would commit the position to the new topic."""
        if commit.unknown is None and not commit.is_last and (unknown := self._unknown_to_metadata(commit)):
            error = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"committing {unknown[0]}")
            commit.unknown = UnknownTopic(unknown[0], error, now_ms, self._metadata.refreshes)
            self._metadata.request_update()

    def _unknown_to_metadata(self, commit: PendingCommit) -> list[TopicPartition]:
        """Positions in topics that were there, and that the newest metadata does not have."""
        unknown = self._metadata.unknown
        return [tp for tp in commit.offsets if tp.topic in unknown and commit.topic_ids[tp] != ZERO_UUID]

    def _on_unknown(self, commit: PendingCommit, tp: TopicPartition, error: KafkaError, now_ms: float) -> None:
        """Brokers hear of a new topic one after the other, so it may be there a moment later."""
        since_ms = now_ms if commit.unknown is None else commit.unknown.since_ms
        if now_ms >= since_ms + UNKNOWN_TOPIC_MS:
            self._settle(commit, error)
            return
        self._metadata.request_update()
        self._retry(commit, error, now_ms)
        commit.unknown = UnknownTopic(tp, error, since_ms, self._metadata.refreshes)

    def _is_gone(self, commit: PendingCommit, now_ms: float) -> KafkaError | None:
        """The error of a commit whose topic or partition metadata does not have, after it was asked for a while."""
        unknown = commit.unknown
        if unknown is None or self._is_in_doubt(commit) or self._may_be_there(unknown.partition):
            return None
        if now_ms >= unknown.since_ms + UNKNOWN_TOPIC_MS:
            return unknown.error
        commit.unknown = unknown._replace(refreshes=self._metadata.refreshes)
        self._metadata.request_update()
        return None

    def _is_in_doubt(self, commit: PendingCommit) -> bool:
        """Whether the commit waits for metadata to say that its topic, which a broker does not know, is still there.
        It does not wait where metadata is not asked for that topic."""
        unknown, metadata = commit.unknown, self._metadata
        if unknown is None or metadata.refreshes > unknown.refreshes:
            return False
        return unknown.partition.topic in metadata.cluster.topics or unknown.partition.topic in metadata.unknown

    def _may_be_there(self, tp: TopicPartition) -> bool:
        """Whether the newest answer has this partition, or was not about its topic."""
        known = self._metadata.cluster.topics.get(tp.topic)
        return tp.topic not in self._metadata.unknown if known is None else tp.partition in known.partitions

    # --- one request ----------------------------------------------------------------------------------------

    def _send(self, commit: PendingCommit, destination: Destination) -> AnyUnsentRequest:
        identity = self._identity()
        commit.state.sent()
        self._under_way[destination] += 1
        if commit.retries:
            self._repeatable = commit
        commit.waits_for(f"the answer of coordinator {destination.node} to OffsetCommit; it may have been carried out")
        return UnsentRequest(
            request=_request(identity, commit),
            destination=destination,
            on_answer=partial(self._on_answer, commit, identity, destination),
            on_failure=partial(self._on_failure, commit, destination),
            max_version=None if commit.has_ids else OffsetCommitRequest.last_version_with_names,
            # The broker reads a commit when it has answered the request in front of it. By then the commit may have
            # been given up, made again over another connection, and followed by later ones: it would undo those.
            only_behind_its_kind=True,
        )

    def _identity(self) -> GroupIdentity:
        """Who commits. Without a group subscription that is no member, so the instance id is left out as well."""
        return self._member.identity() if self._commit_log.by_member else GroupIdentity(self._commit_log.group_id)

    def _on_answer(
        self,
        commit: PendingCommit,
        identity: GroupIdentity,
        asked: Destination,
        answer: OffsetCommitResponse,
        now_ms: float,
    ) -> None:
        self._under_way[asked] -= 1
        names = {topic_id: tp.topic for tp, topic_id in commit.topic_ids.items()}
        for topic in answer.topics:
            topic.name = topic.name or names.get(topic.topic_id, "")
        codes = {tp: _code(partition.error_code) for tp, partition in answered(answer.topics, commit.offsets).items()}
        if refused := {tp.topic for tp, code in codes.items() if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED}:
            self._settle(commit, TopicAuthorizationError(refused))
        elif failed := {tp: code for tp, code in codes.items() if not commit.is_done_with(code)}:
            tp, code = min(failed.items(), key=lambda item: item[1].retriable)
            self._on_error(commit, identity, tp, code, now_ms)
        elif left_out := commit.offsets.keys() - codes.keys():
            # Not committed, as far as anybody knows.
            self._settle(commit, _left_out(min(left_out), identity.group_id))
        else:
            self._settle(commit, None)
            self.has_settled = True

    def _on_error(
        self, commit: PendingCommit, identity: GroupIdentity, tp: TopicPartition, code: ErrorCode, now_ms: float
    ) -> None:
        error = error_for(code, f"committing {tp} for group {identity.group_id}")
        if code in _LOST:
            self._settle(commit, self._lost(identity, code, error))
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            if identity == self._identity():
                self._member.on_group_rebalancing("a commit met a rebalance")
            self._settle(commit, RebalanceInProgressError(f"{error}; poll() to finish it, then commit again"))
        elif code is ErrorCode.STALE_MEMBER_EPOCH:
            # Still a member, whose newest epoch is on its way with a heartbeat: as the same member, a little later.
            if identity == self._identity():
                self._member.on_stale_epoch()
            self._retry(commit, RetriableCommitFailedError(str(error)), now_ms)
        elif code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._on_unknown(commit, tp, error, now_ms)
        elif code.retriable:
            if code in _MOVED:
                self._coordinator.lost(error)
            self._retry(commit, error, now_ms)
        else:
            self._settle(commit, error)

    def _lost(self, identity: GroupIdentity, code: ErrorCode, error: KafkaError) -> KafkaError:
        """The answer speaks of the generation it was sent with; a newer one is not touched (KAFKA-19242)."""
        is_current = identity == self._identity()
        if is_current and identity.is_member:
            self._member.on_membership_lost(code)
        if not is_current and self._member.is_joining:
            return RebalanceInProgressError(f"{error}; it was sent before the rebalance: poll() to finish it")
        if not identity.is_member:
            return CommitFailedError(
                f"group {identity.group_id} has members, which subscribe, and only they can commit for it; a consumer "
                f"with partitions assigned by hand needs another group_id, or none ({error})"
            )
        return self._member.refusal or CommitFailedError(str(error))

    def _on_failure(self, commit: PendingCommit, asked: Destination, error: KafkaError, now_ms: float) -> None:
        self._under_way[asked] -= 1
        self._coordinator.unanswered(asked, error)
        self._retry(commit, error, now_ms)

    def _retry(self, commit: PendingCommit, error: KafkaError, now_ms: float) -> None:
        if not commit.retries or not error.retriable:
            commit.state.reset()
            self._settle(commit, error)
            return
        commit.state.failed(now_ms)
        commit.unknown = None  # what a broker has answered since counts
        self._unsent.appendleft(commit)  # all others that are unsent were made later
        commit.waits_for(f"a retry of OffsetCommit (last error: {error})")


def _request(identity: GroupIdentity, commit: PendingCommit) -> OffsetCommitRequest:
    by_topic: defaultdict[tuple[str, UUID], list[OffsetCommitRequestPartition]] = defaultdict(list)
    for tp, position in commit.offsets.items():
        epoch = position.leader_epoch
        by_topic[tp.topic, commit.topic_ids[tp]].append(
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
        topics=[
            OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=positions)
            for (topic, topic_id), positions in by_topic.items()
        ],
    )


def _left_out(tp: TopicPartition, group_id: str) -> BrokerError:
    return BrokerError(f"committing {tp} for group {group_id}: the answer leaves it out")


def _code(number: int) -> ErrorCode:
    """An unknown topic is the same whether the broker was asked by name or by id."""
    code = ErrorCode.of(number)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if code is ErrorCode.UNKNOWN_TOPIC_ID else code


def _retriable(error: KafkaError) -> RetriableCommitFailedError:
    failed = RetriableCommitFailedError(str(error))
    failed.__cause__ = error
    return failed


def _names(offsets: Offsets) -> str:
    return ", ".join(f"{tp}@{position.offset}" for tp, position in list(offsets.items())[:3]) + (
        f" and {len(offsets) - 3} more" if len(offsets) > 3 else ""
    )
