"""Membership in a group of the classic protocol. Long, because a rebalance is one story, told in the order it happens.

Fires the events of `states.classic_group` and performs their effects.

Follow a rebalance here: a heartbeat says REBALANCE_IN_PROGRESS -> `rejoin_needed` -> the application thread is asked
to revoke -> `on_callback_completed` -> JoinGroup -> (the leader assigns) -> SyncGroup -> the application thread is
told what it got -> `on_callback_completed` -> positions -> STABLE. `poll` does whatever the state waits for. A
cooperative member keeps reading all along, and revokes, after SyncGroup, only what it was not given again.

Answers carry the attempt they belong to. Leaving, losing the membership and asking for a callback start a new
attempt, so what was under way before can no longer change anything.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import assert_never

from kwire.assignors import rebalance_protocol
from kwire.assignors.base import Assignor
from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.errors import AssignorError, InconsistentGroupProtocolError, KafkaError, ProtocolError
from kwire.events import CallbackKind, ErrorRaised, Reply, RunCallback
from kwire.managers.base import Deliver, RequestState
from kwire.managers.classic_holdings import ClassicHoldings, Partitions
from kwire.managers.classic_leader import ClassicLeader, Plan, topics_of
from kwire.managers.classic_requests import (
    join_request,
    leave_request,
    read_assignment,
    read_subscriptions,
    sync_request,
)
from kwire.managers.find_coordinator import COORDINATOR_MOVED, FindCoordinatorManager
from kwire.managers.leaving import Leaving
from kwire.managers.membership import (
    NO_GENERATION,
    NO_MEMBER_ID,
    GroupIdentity,
    is_predecessor,
    match_pattern,
    warn_of_overdue_poll,
)
from kwire.managers.metadata import MetadataManager
from kwire.managers.unsent import (
    NOTHING_TO_SEND,
    AnyUnsentRequest,
    Channel,
    Destination,
    PollResult,
    UnsentRequest,
)
from kwire.model import ConsumerGroupMetadata
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.states.classic_group import CLASSIC_GROUP, FACTS, ClassicEffect, ClassicEvent, ClassicState
from kwire.states.machine import Machine, Row
from kwire.subscription.subscription import Subscription, SubscriptionKind

log = logging.getLogger(__name__)

# Java: the broker answers a join when the rebalance timeout ends; this leaves the answer time to travel.
JOIN_GRACE_MS = 5_000.0

_MEMBERSHIP_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
_NOTHING_UNDER_WAY = frozenset({ClassicState.UNJOINED, ClassicState.PARTITIONS_REVOKED})
_CALLING_BACK = frozenset({ClassicState.REVOKING_PARTITIONS, ClassicState.ASSIGNING_PARTITIONS})
_STEADY = frozenset({ClassicState.PARTITIONS_ASSIGNED, ClassicState.STABLE})
_AFTER_SYNC = frozenset({ClassicState.ASSIGNING_PARTITIONS, ClassicState.PARTITIONS_ASSIGNED, ClassicState.STABLE})


class ClassicGroupManager:
    """One membership; owned by the network thread. Idle while there is no group subscription."""

    fetches_as_member = False  # committed offsets are anybody's to read

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        subscription: Subscription,
        coordinator: FindCoordinatorManager,
        metadata: MetadataManager,
        deliver: Deliver,
        backoff: Backoff,
    ) -> None:
        self._config = config
        protocol = rebalance_protocol(assignors)
        self._leader = ClassicLeader(
            assignors, protocol, metadata, coordinator, backoff, on_plan_known=self._rejoin_if_topics_changed
        )
        self._holdings = ClassicHoldings(subscription, protocol)
        self._subscription = subscription
        self._coordinator = coordinator
        self._metadata = metadata
        self._deliver = deliver
        self._machine: Machine[ClassicState, ClassicEvent, ClassicEffect] = Machine(CLASSIC_GROUP, _log_row)
        self._identity = GroupIdentity(config.group_id or "", group_instance_id=config.group_instance_id)
        self._request = RequestState(backoff)
        self.leaving = Leaving(coordinator, backoff)
        self._outgoing: list[AnyUnsentRequest] = []
        self._attempt = 0
        self._polled = False
        self._rejoin_wanted = False
        self._fatal: KafkaError | None = None
        self._reason = ""
        self._plan_follows = False
        self._leave_reply: Reply[None] | None = None
        self._leaves_for_good = False
        self._protocol_name = ""
        metadata.on_update.append(self._on_metadata)

    # --- what others ask ------------------------------------------------------------------------------------

    @property
    def state(self) -> ClassicState:
        return self._machine.state

    def identity(self) -> GroupIdentity:
        return self._identity

    @property
    def heartbeats(self) -> bool:
        return self._identity.is_member and FACTS[self.state].heartbeats and not self.blocks_coordinator

    @property
    def refusal(self) -> KafkaError | None:
        return self._fatal

    @property
    def blocks_coordinator(self) -> bool:
        """Whether a JoinGroup or SyncGroup is open: the broker answers nothing else on its connection until the others
        are in, and takes the open request for a sign of life."""
        return self._request.in_flight

    @property
    def poll_timer_runs(self) -> bool:
        return self._identity.is_member and FACTS[self.state].poll_timer

    @property
    def is_joining(self) -> bool:
        """Whether the broker would refuse a commit: it takes those of the old generation until the last member's join
        is in, and those of the new one once the leader has assigned."""
        if self.state is ClassicState.PREPARE_REBALANCE:
            return not self._identity.is_member
        return self.state is ClassicState.COMPLETING_REBALANCE

    # --- what the application thread says -------------------------------------------------------------------

    @property
    def awaits_poll(self) -> bool:
        return not self._polled or self._fatal is not None

    def on_poll(self) -> None:
        self._polled = True
        if self._fatal is not None:
            self._deliver(ErrorRaised(self._fatal, self._subscription.generation))

    def on_subscription_changed(self) -> None:
        self._fatal = None
        if not self._request.in_flight:
            self._request.reset()
        if self._subscription.kind is SubscriptionKind.PATTERN:
            self._metadata.request_update()
            self._match_pattern()
        if self._topics_known:
            self._holdings.withhold_unwanted()
        self.rejoin_needed("the subscription changed")

    def on_callback_completed(self, attempt: int) -> None:
        if attempt != self._attempt:
            return
        if self.state is ClassicState.REVOKING_PARTITIONS:
            self._released()
        elif self.state is ClassicState.ASSIGNING_PARTITIONS:
            self._fire(ClassicEvent.ASSIGNED)
            if not self._identity.is_member:
                self._lose_membership(self._identity.member_id)

    def _released(self) -> None:
        takes_plan, self._plan_follows = self._plan_follows and self._identity.is_member, False
        self._fire(ClassicEvent.RELEASED_TO_ASSIGN if takes_plan else ClassicEvent.RELEASED)

    def leave(self, reason: str, reply: Reply[None] | None = None) -> None:
        """Leave for good: unsubscribe or close. The reply comes when the broker has answered, or at once."""
        self._reason, self._leave_reply = reason, reply
        self._polled = self._rejoin_wanted = False
        self._fatal = None
        self._plan_follows = False
        self._holdings.give_up_all()
        self._fire(ClassicEvent.LEAVE_WANTED)
        self._start_attempt()
        self._request.reset()
        if self._leave_reply is not None:
            self._leave_reply.succeed(None)
            self._leave_reply = None

    def close(self, *, leave_group: bool | None) -> None:
        """Leave, unless the member is to stay until its session times out (KIP-1092)."""
        if leave_group is not False:
            self._leaves_for_good = leave_group is True
            self.leave("the consumer was closed")

    def rejoin_needed(self, reason: str) -> None:
        """Give back what is owned and join again, now or as soon as the rebalance under way is through."""
        if self.state is ClassicState.UNJOINED:
            return
        self._reason = reason
        self._rejoin_wanted = True
        self._fire_rejoin()

    def _fire_rejoin(self) -> None:
        if self.state not in _STEADY or not self._topics_known:
            return  # `poll` comes back to it
        if self._holdings.keeps_all:
            self._fire(ClassicEvent.REJOIN_KEEPING)
        else:
            self._holdings.give_up_before_join()
            self._fire(ClassicEvent.REJOIN_NEEDED)

    # --- what heartbeats and commits find out ---------------------------------------------------------------

    def on_heartbeat_error(self, code: ErrorCode, now_ms: float) -> None:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.on_group_rebalancing("the group is rebalancing")
        elif code in COORDINATOR_MOVED:
            self._coordinator.lost(error_for(code, "heartbeat"))
        elif code in _MEMBERSHIP_LOST:
            self.on_membership_lost(code)
        elif not code.retriable:
            self._deliver(ErrorRaised(error_for(code, "heartbeat"), self._subscription.generation))

    def on_stale_epoch(self) -> None:
        """No broker says that to a classic member, whose generation changes by joining alone."""

    def on_group_rebalancing(self, reason: str) -> None:
        """An answer says so. One that was asked for before the join speaks of the rebalance that is under way."""
        if self.state in _AFTER_SYNC:
            self.rejoin_needed(reason)

    def on_membership_lost(self, code: ErrorCode) -> None:
        """A heartbeat or a commit was told that the broker no longer knows this member, its generation, or its right to
        the instance id. While a join is open that is old news: the join's own answer will tell."""
        if self.state is not ClassicState.PREPARE_REBALANCE:
            self._on_membership_lost(code)

    def _on_membership_lost(self, code: ErrorCode) -> None:
        self._reason = f"lost the membership: {code.name}"
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._refuse(error_for(code, f"group {self._identity.group_id}"))
        self._start_attempt_unless_calling_back()
        # With another generation the member id is still good: joining with it spares the group an abandoned member.
        self._lose_membership(self._identity.member_id if code is ErrorCode.ILLEGAL_GENERATION else NO_MEMBER_ID)

    def _lose_membership(self, kept_member_id: str) -> None:
        self._fire_losing(ClassicEvent.MEMBERSHIP_LOST)
        if self.state is not ClassicState.UNJOINED:
            self._identity = self._identity._replace(member_id=kept_member_id)

    def on_poll_overdue(self, now_ms: float) -> None:
        warn_of_overdue_poll(self._config)
        self._reason = "the application has not polled for max_poll_interval_ms"
        self._polled = False
        self._fire_losing(ClassicEvent.POLL_OVERDUE)
        self._start_attempt_unless_calling_back()  # only now: the leave has to know whether a sync is open

    def _fire_losing(self, event: ClassicEvent) -> None:
        """Everything is lost; but a callback that runs goes on with what it was about."""
        if self.state not in _CALLING_BACK:
            self._holdings.give_up_all()
        self._fire(event)

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        wake_at_ms = NEVER_MS
        self._maybe_lose_partitions()
        match self.state:
            case ClassicState.UNJOINED:
                self._maybe_begin()
            case ClassicState.PARTITIONS_ASSIGNED if self._subscription.all_have_positions:
                self._fire(ClassicEvent.POSITIONS_KNOWN)
            case ClassicState.COMPLETING_REBALANCE if self._leader.has_to_assign:
                self._maybe_assign()
            case _:
                pass
        if self._rejoin_wanted:
            self._fire_rejoin()
        if self.state is ClassicState.PARTITIONS_REVOKED and self._fatal is None:
            wake_at_ms = self._maybe_join(now_ms)
        requests, self._outgoing = self._outgoing, []
        farewell = self.leaving.poll(now_ms)
        shares = self._leader.poll(now_ms) if self.state in _AFTER_SYNC else NOTHING_TO_SEND
        wake_at_ms = min(wake_at_ms, farewell.wake_at_ms, shares.wake_at_ms)
        return PollResult(farewell.requests + requests + shares.requests, wake_at_ms)

    def _maybe_begin(self) -> None:
        if not self._subscription.is_group or not self._polled or self._fatal is not None:
            return
        self._coordinator.need()
        if self._coordinator.destination is not None and self._topics_known:
            self._fire(ClassicEvent.JOIN_WANTED)

    @property
    def _topics_known(self) -> bool:
        """Whether a pattern, if there is one, has been compared with all topics."""
        return self._subscription.kind is SubscriptionKind.TOPICS or self._metadata.has_looked_for(None)

    def _maybe_lose_partitions(self) -> None:
        """What a cooperative member kept through a rebalance is lost when its membership is."""
        if self.state in _NOTHING_UNDER_WAY and not self._identity.is_member and self._holdings.owned:
            self._fire_losing(ClassicEvent.PARTITIONS_LOST)

    def _maybe_join(self, now_ms: float) -> float:
        self._coordinator.need()
        destination = self._coordinator.destination
        if destination is None or not self._topics_known:
            return NEVER_MS
        if self._holdings.must_give_up:
            self._holdings.give_up_before_join()
            self._fire(ClassicEvent.REJOIN_NEEDED)
            return NEVER_MS
        if not self._request.ready(now_ms):
            return self._request.wake_at_ms
        self._send_join(destination)
        return NEVER_MS

    # --- JoinGroup ------------------------------------------------------------------------------------------

    def _send_join(self, destination: Destination) -> None:
        try:
            request = self._join_request()
        except AssignorError as error:
            self._refuse(error)
            return
        attempt = self._start_attempt()
        self.leaving.take_back()
        self._rejoin_wanted = False
        self._request.sent()
        self._fire(ClassicEvent.JOIN_SENT)
        self._send(
            UnsentRequest(
                request=request,
                destination=destination,
                on_answer=partial(self._on_join_answer, attempt),
                on_failure=partial(self._on_unanswered, attempt, destination, ClassicEvent.JOIN_FAILED),
                timeout_ms=max(self._config.request_timeout_ms, self._config.max_poll_interval_ms + JOIN_GRACE_MS),
            )
        )

    def _join_request(self) -> JoinGroupRequest:
        return join_request(
            self._config,
            self._identity,
            self._leader.assignors,
            self._subscription.topics,
            owned=self._holdings.owned,
            last=self._holdings.last,
            reason=self._reason,
        )

    def _on_join_answer(self, attempt: int, answer: JoinGroupResponse, now_ms: float) -> None:
        code = ErrorCode.of(answer.error_code)
        if attempt != self._attempt:
            self._leave_behind(code, answer.member_id)
        elif code is ErrorCode.NONE:
            self._joined(answer)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the first join only hands out the id; the second one counts.
            self._identity = self._identity._replace(member_id=answer.member_id)
            self._request.again(now_ms)
            self._fire(ClassicEvent.JOIN_FAILED)
        else:
            self._on_group_error(code, "joining", ClassicEvent.JOIN_FAILED, now_ms)

    def _leave_behind(self, code: ErrorCode, member_id: str) -> None:
        """A join that nobody waits for any more has made a member: without a leave it would hold up the group until its
        session times out."""
        is_new = member_id not in (NO_MEMBER_ID, self._identity.member_id)
        if is_new and code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self._reason = "the join was given up"
            self._send_leave(self._identity._replace(member_id=member_id))

    def _joined(self, answer: JoinGroupResponse) -> None:
        try:
            members = read_subscriptions(answer.members)
        except ProtocolError as error:
            self._refuse_join(error)
            return
        self._request.cancelled()  # what failed before counts until SyncGroup has succeeded, too
        self._set_identity(self._identity._replace(generation_id=answer.generation_id, member_id=answer.member_id))
        self._protocol_name = answer.protocol_name or ""
        if answer.leader == answer.member_id and not answer.skip_assignment:
            self._leader.lead(self._protocol_name, members)
            self._fire(ClassicEvent.JOINED_AS_LEADER)
        elif answer.leader == answer.member_id or is_predecessor(answer.leader, self._identity):
            self._leader.lead_on(topics_of(members) | self._subscription.topics)
            self._fire(ClassicEvent.JOINED_AS_FOLLOWER)  # for this generation there is nothing to hand in
        else:
            self._leader.follow()
            self._fire(ClassicEvent.JOINED_AS_FOLLOWER)

    # --- the leader's part ----------------------------------------------------------------------------------

    def _maybe_assign(self) -> None:
        try:
            plan = self._leader.assign()
        except (InconsistentGroupProtocolError, AssignorError) as error:
            self._refuse_join(error)
            return
        if plan is not None:
            self._send_sync(plan)

    def _on_metadata(self, now_ms: float) -> None:
        """Pattern members rejoin when their topics change, the leader when partitions were added or removed."""
        if self._match_pattern():
            self.rejoin_needed("topics that match the pattern changed")
        self._rejoin_if_topics_changed()

    def _rejoin_if_topics_changed(self) -> None:
        if self.state in _AFTER_SYNC and self._leader.topics_changed:
            self.rejoin_needed("the partitions of a topic changed")

    def _match_pattern(self) -> bool:
        return match_pattern(self._config, self._subscription, self._metadata)

    # --- SyncGroup ------------------------------------------------------------------------------------------

    def _send_sync(self, plan: Plan) -> None:
        destination = self._coordinator.destination
        if destination is None:
            self._fire(ClassicEvent.SYNC_FAILED)
            return
        self._request.sent()
        self._send(
            UnsentRequest(
                request=sync_request(self._identity, self._protocol_name, plan),
                destination=destination,
                on_answer=partial(self._on_sync_answer, self._attempt),
                on_failure=partial(self._on_unanswered, self._attempt, destination, ClassicEvent.SYNC_FAILED),
                timeout_ms=max(self._config.request_timeout_ms, self._config.max_poll_interval_ms + JOIN_GRACE_MS),
            )
        )

    def _on_sync_answer(self, attempt: int, answer: SyncGroupResponse, now_ms: float) -> None:
        if attempt != self._attempt:
            return
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._synced(answer)
        else:
            self._on_group_error(code, "synchronizing with", ClassicEvent.SYNC_FAILED, now_ms)

    def _synced(self, answer: SyncGroupResponse) -> None:
        try:
            assigned = read_assignment(answer.assignment)
        except ProtocolError as error:
            self._refuse_join(error)
            return
        self._request.succeeded()
        self._holdings.take_plan(assigned, self._identity.generation_id)
        if not self._holdings.giving_up:
            self._fire(ClassicEvent.SYNCED)
            self._rejoin_if_topics_changed()
            return
        # KIP-429: once this is revoked, another rebalance gives it to its new owner.
        self._reason = f"gave up {len(self._holdings.giving_up)} partitions as planned"
        self._rejoin_wanted = self._plan_follows = True
        self._fire(ClassicEvent.SYNCED_GIVING_UP)

    # --- errors ---------------------------------------------------------------------------------------------

    def _on_group_error(self, code: ErrorCode, doing: str, failed: ClassicEvent, now_ms: float) -> None:
        error = error_for(code, f"{doing} group {self._identity.group_id}")
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._fatal = error
            self._refuse_join(error)
        elif code in _MEMBERSHIP_LOST:
            self._request.again(now_ms)
            self._on_membership_lost(code)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._request.again(now_ms)
            self._fire(failed)
        elif code.retriable:
            if code in COORDINATOR_MOVED:
                self._coordinator.lost(error)
            self._request.failed(now_ms)
            self._fire(failed)
        else:
            self._refuse_join(error)

    def _on_unanswered(
        self, attempt: int, asked: Destination, failed: ClassicEvent, error: KafkaError, now_ms: float
    ) -> None:
        self._coordinator.unanswered(asked, error)
        if attempt != self._attempt:
            return
        self._request.failed(now_ms)
        if error.retriable:
            self._fire(failed)
        else:
            self._refuse_join(error)

    def _refuse_join(self, error: KafkaError) -> None:
        """Raise the error in `poll()`; the poll after it may try again."""
        self._request.reset()
        self._polled = False
        self._deliver(ErrorRaised(error, self._subscription.generation))
        self._fire(ClassicEvent.REFUSED)

    def _refuse(self, error: KafkaError) -> None:
        """Never join again with this subscription: it would fence the new owner of our instance id, or fail again."""
        self._fatal = error
        self._deliver(ErrorRaised(error, self._subscription.generation))

    # --- effects --------------------------------------------------------------------------------------------

    def _fire(self, event: ClassicEvent) -> None:
        for effect in self._machine.fire(event):
            self._perform(effect)

    def _perform(self, effect: ClassicEffect) -> None:  # noqa: C901  one case an effect, one line each
        match effect:
            case ClassicEffect.STOP_FETCHING:
                self._holdings.stop_fetching()
            case ClassicEffect.CALL_REVOKED:
                self._call_back(CallbackKind.REVOKED, self._holdings.giving_up)
            case ClassicEffect.CALL_LOST:
                self._call_back(CallbackKind.LOST, self._holdings.giving_up)
            case ClassicEffect.DROP_PARTITIONS:
                self._holdings.drop()
            case ClassicEffect.COMPUTE_ASSIGNMENT:
                pass  # `poll` does it, as soon as the metadata covers all that the members want
            case ClassicEffect.SEND_SYNC:
                self._send_sync({})
            case ClassicEffect.ADOPT_ASSIGNMENT:
                self._holdings.adopt()
            case ClassicEffect.CALL_ASSIGNED:
                self._call_back(CallbackKind.ASSIGNED, self._holdings.added)
            case ClassicEffect.START_FETCHING:
                self._holdings.start_fetching()
            case ClassicEffect.FORGET_MEMBER:
                self._forget_member()
            case ClassicEffect.SEND_LEAVE:
                self._send_leave(self._identity)
            case _:
                assert_never(effect)

    def _call_back(self, kind: CallbackKind, partitions: Partitions) -> None:
        self._deliver(RunCallback(kind, partitions, self._start_attempt(), self._subscription.generation))

    def _start_attempt(self) -> int:
        self._attempt += 1
        self._leader.stop()
        self._request.cancelled()
        return self._attempt

    def _start_attempt_unless_calling_back(self) -> None:
        # The callback that is running is still waited for: its end is what lets go of the partitions.
        if self.state not in _CALLING_BACK:
            self._start_attempt()

    def _forget_member(self) -> None:
        self._leader.follow()
        self._set_identity(self._identity._replace(generation_id=NO_GENERATION, member_id=NO_MEMBER_ID))

    def _set_identity(self, identity: GroupIdentity) -> None:
        self._identity = identity
        self._subscription.set_group(ConsumerGroupMetadata(**identity._asdict()))

    def _send_leave(self, identity: GroupIdentity) -> None:
        reply, self._leave_reply = self._leave_reply, None
        # A static member's place outlives it (KIP-345), unless it is told to leave it.
        keeps_place = identity.group_instance_id is not None and not self._leaves_for_good
        if identity.member_id and not keeps_place:
            # An open join blocks the coordinator's connection, perhaps until the rebalance timeout: go around it.
            channel = Channel.CONTROL if self.blocks_coordinator else None
            self.leaving.say(partial(leave_request, identity, self._reason), channel=channel, reply=reply)
        elif reply is not None:
            reply.succeed(None)

    def _send(self, request: AnyUnsentRequest) -> None:
        self._outgoing.append(request)


def _log_row(table: str, row: Row[ClassicState, ClassicEvent, ClassicEffect]) -> None:
    log.debug("%s %s", table, row)
