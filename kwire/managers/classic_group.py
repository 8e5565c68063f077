"""Membership in a group of the classic protocol: what the application, heartbeats and commits say to it, and its turns.

Follow a rebalance here: a heartbeat says REBALANCE_IN_PROGRESS -> `rejoin_needed` -> the application thread is asked
to revoke -> `on_callback_completed` -> JoinGroup -> (the leader assigns) -> SyncGroup (`classic_join.py`) -> the
application thread is told what it got -> `on_callback_completed` -> positions -> STABLE. `poll` does whatever the state
waits for. A cooperative member keeps reading all along, and revokes, after SyncGroup, only what it was not given again.

What an event changes is a row of `states.classic_group`, and is performed by `classic_member.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.assignors import rebalance_protocol
from kwire.assignors.base import Assignor
from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.epochs import Attempt
from kwire.errors import KafkaError
from kwire.events import Reply
from kwire.managers.base import Deliver
from kwire.managers.classic_join import ClassicJoin
from kwire.managers.classic_leader import ClassicLeader
from kwire.managers.classic_member import MEMBERSHIP_LOST, ClassicMember
from kwire.managers.find_coordinator import COORDINATOR_MOVED, FindCoordinatorManager
from kwire.managers.membership import GroupIdentity, MemberStatus, match_pattern
from kwire.managers.metadata import MetadataManager
from kwire.managers.owned_partitions import OwnedPartitions
from kwire.managers.unsent import NOTHING_TO_SEND, PollResult
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.states.classic_group import ClassicEvent, ClassicState
from kwire.subscription.subscription import Subscription, SubscriptionKind

_JOINING = frozenset(
    {ClassicState.PARTITIONS_REVOKED, ClassicState.PREPARE_REBALANCE, ClassicState.COMPLETING_REBALANCE}
)


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
        self._subscription = subscription
        self._coordinator = coordinator
        self._metadata = metadata
        protocol = rebalance_protocol(assignors)
        self._leader = ClassicLeader(
            assignors, protocol, metadata, coordinator, backoff, on_plan_known=self._rejoin_if_topics_changed
        )
        self._owned = OwnedPartitions(subscription, protocol)
        self._member = ClassicMember(config, subscription, coordinator, deliver, backoff, self._owned, self._leader)
        self.leaving = self._member.leaving
        self._heartbeat_refusal: KafkaError | None = None
        self._join = ClassicJoin(config, self._member, self._owned, self._leader, subscription, coordinator)
        metadata.on_update.append(self._on_metadata)

    # --- what others ask ------------------------------------------------------------------------------------

    @property
    def state(self) -> ClassicState:
        return self._member.state

    def identity(self) -> GroupIdentity:
        return self._member.identity

    def status(self) -> MemberStatus:
        """As `Membership`."""
        member = self._member
        identity, facts = member.identity, member.facts
        return MemberStatus(
            self.state.name,
            facts.waits_for,
            identity.member_id,
            identity.generation_id if identity.is_member else None,
            owes_callback=facts.calls_back,
            is_joining=self.state in _JOINING,
            awaits_poll=self._subscription.is_group and not member.flags.polled,
            reason=member.reason or "it joins the group",
            heartbeat_refusal=self._heartbeat_refusal if identity.is_member else None,
        )

    @property
    def heartbeats(self) -> bool:
        member = self._member
        return member.identity.is_member and member.facts.heartbeats and not self.blocks_coordinator

    @property
    def refusal(self) -> KafkaError | None:
        return self._member.refusal

    @property
    def blocks_coordinator(self) -> bool:
        """Whether a JoinGroup or SyncGroup is open. Until the other members are in, the broker answers nothing else on
        that connection; and it takes the open request for a sign of life."""
        return self._member.request.in_flight

    @property
    def poll_timer_runs(self) -> bool:
        return self._member.identity.is_member and self._member.facts.poll_timer

    @property
    def is_joining(self) -> bool:
        """Whether the broker would refuse a commit. It takes commits of the old generation until the last member has
        joined, and commits of the new one once the leader has assigned."""
        if self.state is ClassicState.PREPARE_REBALANCE:
            return not self._member.identity.is_member
        return self.state is ClassicState.COMPLETING_REBALANCE

    # --- what the application thread says -------------------------------------------------------------------

    @property
    def awaits_poll(self) -> bool:
        return not self._member.flags.polled or self.refusal is not None

    def on_poll(self) -> None:
        self._member.flags.polled = True
        if self.refusal is not None:
            self._member.tell(self.refusal)

    def on_subscription_changed(self) -> None:
        self._member.refusal = None
        if not self._member.request.in_flight:
            self._member.request.reset()
        if self._subscription.kind is SubscriptionKind.PATTERN:
            self._metadata.request_update()
            self._match_pattern()
        if self._topics_known:
            self._owned.withhold_unwanted()
        self.rejoin_needed("the subscription changed")

    def on_callback_completed(self, attempt: Attempt) -> None:
        member = self._member
        if attempt != member.attempt:
            return
        if self.state is ClassicState.REVOKING_PARTITIONS:
            self._released()
        elif self.state is ClassicState.ASSIGNING_PARTITIONS:
            member.fire(ClassicEvent.ASSIGNED)
            if not member.identity.is_member:
                member.lose_keeping(member.identity.member_id)

    def _released(self) -> None:
        if self._owned.plan_follows and self._member.identity.is_member:
            self._member.fire(ClassicEvent.RELEASED_TO_ASSIGN)
        else:
            self._owned.forget_plan()
            self._member.fire(ClassicEvent.RELEASED)

    def leave(self, reason: str, reply: Reply[None] | None = None) -> None:
        """Leave for good: unsubscribe or close. The reply comes when the broker has answered, or at once."""
        self._member.leave(reason, reply)

    def close(self, *, leave_group: bool | None) -> None:
        """Leave, unless the member is to stay until its session times out (KIP-1092)."""
        if leave_group is not False:
            self._member.flags.leaves_for_good = leave_group is True
            self.leave("the consumer was closed")
            if self._join.may_make_member and not self._member.keeps_place:
                self.leaving.await_member()

    def rejoin_needed(self, reason: str) -> None:
        """Give back what is owned and join again, now or as soon as the rebalance under way is through."""
        if self.state is not ClassicState.UNJOINED:
            self._member.want_rejoin(reason)
            self._maybe_rejoin()

    def _maybe_rejoin(self) -> None:
        if not self._member.facts.may_rejoin or not self._topics_known:
            return  # `poll` comes back to it
        if self._owned.keeps_all:
            self._member.fire(ClassicEvent.REJOIN_KEEPING)
        else:
            self._owned.give_up_before_join()
            self._member.fire(ClassicEvent.REJOIN_NEEDED)

    # --- what heartbeats, commits and metadata find out -----------------------------------------------------

    def on_heartbeat(self, code: ErrorCode, now_ms: float) -> None:
        self._heartbeat_refusal = None
        if code is ErrorCode.NONE:
            return
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.on_group_rebalancing("the group is rebalancing")
        elif code in COORDINATOR_MOVED:
            self._coordinator.lost(error_for(code, "heartbeat"))
        elif code in MEMBERSHIP_LOST:
            self.on_membership_lost(code)
        elif not code.retriable:
            self._heartbeat_refusal = error_for(code, f"heartbeat of group {self._config.group_id}")
            self._member.tell(self._heartbeat_refusal)

    def on_stale_epoch(self) -> None:
        """No broker says that to a classic member, whose generation changes by joining alone."""

    def on_group_rebalancing(self, reason: str) -> None:
        """An answer says that the group rebalances. While a join is under way, it means that very rebalance."""
        if self._member.facts.has_plan:
            self.rejoin_needed(reason)

    def on_membership_lost(self, code: ErrorCode) -> None:
        """A heartbeat or a commit was told that the broker no longer knows this member, its generation, or its right to
        the instance id. While a join is open that is old news: the join's own answer will tell."""
        if self.state is not ClassicState.PREPARE_REBALANCE:
            self._member.lose(code)

    def on_poll_overdue(self) -> None:
        self._member.stop_being_polled()

    def _on_metadata(self, now_ms: float) -> None:
        """Pattern members rejoin when their topics change, the leader when partitions were added or removed."""
        if self._match_pattern():
            self.rejoin_needed("topics that match the pattern changed")
        self._rejoin_if_topics_changed()

    def _rejoin_if_topics_changed(self) -> None:
        if self._member.facts.has_plan and self._leader.topics_changed:
            self.rejoin_needed("the partitions of a topic changed")

    def _match_pattern(self) -> bool:
        return match_pattern(self._config, self._subscription, self._metadata)

    @property
    def _topics_known(self) -> bool:
        """Whether a pattern, if there is one, has been compared with all topics."""
        return self._subscription.kind is SubscriptionKind.TOPICS or self._metadata.has_looked_for(None)

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        wake_at_ms = NEVER_MS
        self._maybe_lose_partitions()
        match self.state:
            case ClassicState.UNJOINED:
                self._maybe_begin()
            case ClassicState.PARTITIONS_ASSIGNED if self._subscription.all_have_positions:
                self._member.fire(ClassicEvent.POSITIONS_KNOWN)
            case ClassicState.COMPLETING_REBALANCE:
                self._join.maybe_assign(now_ms)
            case _:
                pass
        if self._member.flags.rejoin_wanted:
            self._maybe_rejoin()
        if self.state is ClassicState.PARTITIONS_REVOKED and self.refusal is None:
            wake_at_ms = self._maybe_join(now_ms)
        requests = self._join.take_requests()
        leave = self.leaving.poll(now_ms)
        plan_scope = self._leader.poll(now_ms) if self._member.facts.has_plan else NOTHING_TO_SEND
        wake_at_ms = min(wake_at_ms, leave.wake_at_ms, plan_scope.wake_at_ms)
        return PollResult([*leave.requests, *requests, *plan_scope.requests], wake_at_ms)

    def _maybe_begin(self) -> None:
        if not self._subscription.is_group or not self._member.flags.polled or self.refusal is not None:
            return
        self._coordinator.need(tell=True)
        if self._coordinator.destination is not None and self._topics_known:
            self._member.fire(ClassicEvent.JOIN_WANTED)

    def _maybe_lose_partitions(self) -> None:
        """What a cooperative member kept through a rebalance is lost when its membership is."""
        if self._member.facts.is_idle and not self._member.identity.is_member and self._owned.partitions:
            self._member.fire_losing(ClassicEvent.PARTITIONS_LOST)

    def _maybe_join(self, now_ms: float) -> float:
        self._coordinator.need(tell=True)
        destination = self._coordinator.destination
        if destination is None or not self._topics_known:
            return NEVER_MS
        if self._owned.must_give_up:
            self._owned.give_up_before_join()
            self._member.fire(ClassicEvent.REJOIN_NEEDED)
            return NEVER_MS
        if not self._member.request.ready(now_ms):
            return self._member.request.wake_at_ms
        self._join.join(destination)
        return NEVER_MS
