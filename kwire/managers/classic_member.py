"""Where a member of a classic group stands: its state, its identity, and what the effects of its table do.

`classic_group.py` and `classic_join.py` decide what has happened, and fire it here.

Answers carry the attempt they belong to. Leaving, losing the membership and asking for a callback start a new attempt,
so what was under way before can no longer change anything.
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

from kwire.clock import Backoff
from kwire.config import ConsumerConfig
from kwire.epochs import Attempt
from kwire.errors import KafkaError
from kwire.events import CallbackKind, ErrorRaised, Reply, RunCallback
from kwire.logs import part_logger
from kwire.managers.base import Deliver, RequestState
from kwire.managers.classic_leader import ClassicLeader
from kwire.managers.classic_requests import leave_request
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.leaving import Leaving
from kwire.managers.membership import NO_GENERATION, NO_MEMBER_ID, GroupIdentity, log_callback, warn_of_overdue_poll
from kwire.managers.owned_partitions import OwnedPartitions
from kwire.managers.unsent import Channel
from kwire.model import ConsumerGroupMetadata, Partitions
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.states.classic_group import (
    CLASSIC_GROUP,
    FACTS,
    ClassicEffect,
    ClassicEvent,
    ClassicState,
    Flags,
    GroupFacts,
)
from kwire.states.machine import Machine, Row
from kwire.subscription.subscription import Subscription

log = part_logger("group")

MEMBERSHIP_LOST = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        # The group was deleted while its member slept. Kafka says so to a commit, other brokers to heartbeats as well.
        # Java raises it; joining creates the group again.
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""What the broker answers to a member, or a generation, that it does not know any more."""


class ClassicMember:
    """One member: fires the events of `states.classic_group` and performs their effects.

    Attributes:
        flags: what is wanted, such as a rejoin, beside the state.
        identity: what its requests carry.
        attempt: the number of the join, sync or callback that is under way.
        request: JoinGroup or SyncGroup, of which one at a time is open.
        leaving: leave requests to the coordinator.
        reason: why it joins or leaves, for the broker's log (KIP-800).
        refusal: why it does not join again with the present subscription.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        coordinator: FindCoordinatorManager,
        deliver: Deliver,
        backoff: Backoff,
        owned: OwnedPartitions,
        leader: ClassicLeader,
    ) -> None:
        self.flags = Flags()
        self.identity = GroupIdentity(config.group_id or "", group_instance_id=config.group_instance_id)
        self.attempt = Attempt(0)
        self.request = RequestState(backoff)
        self.leaving = Leaving(coordinator, backoff)
        self.reason = ""
        self.refusal: KafkaError | None = None
        self._config = config
        self._subscription = subscription
        self._deliver = deliver
        self._owned = owned
        self._leader = leader
        self._machine: Machine[ClassicState, ClassicEvent, ClassicEffect] = Machine(CLASSIC_GROUP, _log_row)
        self._leave_reply: Reply[None] | None = None

    @property
    def state(self) -> ClassicState:
        return self._machine.state

    @property
    def keeps_place(self) -> bool:
        """Whether the group keeps its place: a static member's outlives it (KIP-345), unless it is told to leave it."""
        return self.identity.group_instance_id is not None and not self.flags.leaves_for_good

    @property
    def facts(self) -> GroupFacts:
        """What there is to know of the present state."""
        return FACTS[self._machine.state]

    def fire(self, event: ClassicEvent) -> None:
        if event is ClassicEvent.SYNCED or event is ClassicEvent.SYNCED_GIVING_UP:
            identity = self.identity
            log.info(
                "joined group %s: generation %d, member %s",
                identity.group_id,
                identity.generation_id,
                identity.member_id,
                extra={"generation": identity.generation_id, "member_id": identity.member_id},
            )
        for effect in self._machine.fire(event):
            self._perform(effect)

    def fire_losing(self, event: ClassicEvent) -> None:
        """Fire an event that loses all partitions. A callback that is running goes on with those it was called for."""
        if not self.facts.calls_back:
            self._owned.give_up_all()
        self.fire(event)

    def want_rejoin(self, reason: str) -> None:
        """Join again, as soon as what is under way is through."""
        self.reason = reason
        self.flags.rejoin_wanted = True

    # --- attempts -------------------------------------------------------------------------------------------

    def start_attempt(self) -> Attempt:
        self.attempt = Attempt(self.attempt + 1)
        self._leader.stop()
        self.request.cancelled()
        return self.attempt

    def _start_attempt_unless_calling_back(self) -> None:
        # The callback that is running is still waited for: its end is what lets go of the partitions.
        if not self.facts.calls_back:
            self.start_attempt()

    # --- ways out -------------------------------------------------------------------------------------------

    def lose(self, code: ErrorCode) -> None:
        """The broker does not know this member any more, its generation, or its right to the instance id."""
        self.reason = f"lost the membership: {code.name}"
        if self.identity.is_member:
            log.warning("group %s has gone on without this member (%s)", self.identity.group_id, code.name)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.refuse(error_for(code, f"group {self.identity.group_id}"))
        self._start_attempt_unless_calling_back()
        # With another generation the member id is still good: joining with it spares the group an abandoned member.
        self.lose_keeping(self.identity.member_id if code is ErrorCode.ILLEGAL_GENERATION else NO_MEMBER_ID)

    def lose_keeping(self, member_id: str) -> None:
        """The membership is lost; the next join uses this member id."""
        self.fire_losing(ClassicEvent.MEMBERSHIP_LOST)
        if self.state is not ClassicState.UNJOINED:
            self.identity = self.identity._replace(member_id=member_id)

    def stop_being_polled(self) -> None:
        """No poll for `max_poll_interval_ms`."""
        warn_of_overdue_poll(self._config)
        self.reason = "the application has not polled for max_poll_interval_ms"
        self.flags.polled = False
        self.fire_losing(ClassicEvent.POLL_OVERDUE)
        self._start_attempt_unless_calling_back()  # only now: the leave has to know whether a sync is open

    def leave(self, reason: str, reply: Reply[None] | None) -> None:
        """The reply comes when the broker has answered, or at once."""
        self.reason, self._leave_reply = reason, reply
        if self.identity.is_member:
            log.info("leaving group %s: %s", self.identity.group_id, reason)
        self.flags.polled = self.flags.rejoin_wanted = False
        self.refusal = None
        self._owned.forget_plan()
        self._owned.give_up_all()
        self.fire(ClassicEvent.LEAVE_WANTED)
        self.start_attempt()
        self.request.reset()
        if self._leave_reply is not None:
            self._leave_reply.succeed(None)
            self._leave_reply = None

    def refuse(self, error: KafkaError) -> None:
        """Never join again with this subscription: it would fence the new owner of our instance id, or fail again."""
        self.refusal = error
        self.tell(error)

    def tell(self, error: KafkaError) -> None:
        """Raise it in `poll()`."""
        self._deliver(ErrorRaised(error, self._subscription.epoch))

    # --- effects --------------------------------------------------------------------------------------------

    def _perform(self, effect: ClassicEffect) -> None:
        match effect:
            case ClassicEffect.STOP_FETCHING:
                self._owned.stop_fetching()
            case ClassicEffect.CALL_REVOKED:
                self._call_back(CallbackKind.REVOKED, self._owned.giving_up)
            case ClassicEffect.CALL_LOST:
                self._call_back(CallbackKind.LOST, self._owned.giving_up)
            case ClassicEffect.DROP_PARTITIONS:
                self._owned.drop()
            case ClassicEffect.ADOPT_ASSIGNMENT:
                self._owned.adopt()
            case ClassicEffect.CALL_ASSIGNED:
                self._call_back(CallbackKind.ASSIGNED, self._owned.added)
            case ClassicEffect.START_FETCHING:
                self._owned.start_fetching()
            case ClassicEffect.FORGET_MEMBER:
                self._leader.follow()
                self.set_identity(self.identity._replace(generation_id=NO_GENERATION, member_id=NO_MEMBER_ID))
            case ClassicEffect.SEND_LEAVE:
                self.send_leave(self.identity, self.reason)
            case _:
                assert_never(effect)

    def _call_back(self, kind: CallbackKind, partitions: Partitions) -> None:
        log_callback(kind, partitions)
        self._deliver(RunCallback(kind, partitions, self.start_attempt(), self._subscription.epoch))

    def set_identity(self, identity: GroupIdentity) -> None:
        self.identity = identity
        self._subscription.set_group(ConsumerGroupMetadata(**identity._asdict()))

    def send_leave(self, identity: GroupIdentity, reason: str) -> None:
        """Tell the coordinator that this member is gone."""
        reply, self._leave_reply = self._leave_reply, None
        if identity.member_id and not self.keeps_place:
            # An open join blocks the coordinator's connection, perhaps until the rebalance timeout: go around it.
            channel = Channel.CONTROL if self.request.in_flight else None
            self.leaving.send(partial(leave_request, identity, reason), channel=channel, reply=reply)
        elif reply is not None:
            reply.succeed(None)


def _log_row(table: str, row: Row[ClassicState, ClassicEvent, ClassicEffect]) -> None:
    log.debug("%s %s", table, row)
