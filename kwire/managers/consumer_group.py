"""Membership in a group of the consumer protocol (KIP-848). Long: all events of one state machine are fired here.

Follow a rebalance here: the answer to a heartbeat holds a target assignment -> `_take_target` -> RECONCILING, where
`poll` asks the application thread for one step after the other (`consumer_reconciliation.py`), until the callback for
the last is through -> ACKNOWLEDGING -> a heartbeat that names what is owned -> STABLE. What stays flows all along.

There is one kind of request, and one in flight at a time, except that a leave does not wait for an answer. Answers
carry the number of their heartbeat, so those of an earlier membership change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import assert_never

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig
from kwire.epochs import Attempt, MemberEpoch
from kwire.errors import GroupAuthorizationError, KafkaError, ProtocolError, UnsupportedVersionError
from kwire.events import CallbackKind, ErrorRaised, Reply
from kwire.logs import part_logger
from kwire.managers.base import Deliver
from kwire.managers.consumer_heartbeat import (
    JOIN_EPOCH,
    REGEX_MIN_VERSION,
    ConsumerHeartbeats,
    ConsumerIdentity,
    HeartbeatOutcome,
    HeartbeatSchedule,
    SubscriptionFields,
    heartbeat_outcome,
    unsupported,
)
from kwire.managers.consumer_reconciliation import Reconciler, read_target
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.leaving import Leaving
from kwire.managers.membership import (
    NO_GENERATION,
    GroupIdentity,
    MemberStatus,
    PollTimer,
    match_pattern,
    warn_of_overdue_poll,
)
from kwire.managers.metadata import MetadataManager
from kwire.managers.topic_names import TopicNames
from kwire.managers.unsent import AnyUnsentRequest, Destination, PollResult, UnsentRequest
from kwire.metrics import ConsumerMetrics
from kwire.model import ConsumerGroupMetadata
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.states.consumer_group import CONSUMER_GROUP, FACTS, MemberEffect, MemberEvent, MemberState
from kwire.states.machine import Machine, Row
from kwire.subscription.subscription import Subscription, SubscriptionKind

log = part_logger("group")

NO_EPOCH = MemberEpoch(NO_GENERATION)
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})


class ConsumerGroupManager:
    """One membership; owned by the network thread. Idle while there is no group subscription.

    Args:
        member_id: Made up once for the life of the consumer (KIP-1082), so a leave works even before the first answer.
        auto_commit: Commits what was delivered, if commits are automatic; nobody waits for it.
    """

    is_joining = False  # a member may commit in every state: its epoch is known all along
    blocks_coordinator = False  # heartbeats are answered at once
    fetches_as_member = True

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        coordinator: FindCoordinatorManager,
        metadata: MetadataManager,
        deliver: Deliver,
        backoff: Backoff,
        poll_timer: PollTimer,
        member_id: str,
        metrics: ConsumerMetrics,
        auto_commit: Callable[[float], None],
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._auto_commit = auto_commit
        self._subscription = subscription
        self._coordinator = coordinator
        self._metadata = metadata
        self._deliver = deliver
        self._poll_timer = poll_timer
        self._member_id = member_id
        self._machine = self._new_machine()
        self._heartbeats = ConsumerHeartbeats(_member(config, member_id))
        self._names = TopicNames(metadata, backoff)
        self._reconciler = Reconciler(subscription, deliver)
        self._schedule = HeartbeatSchedule(backoff)
        self.leaving = Leaving(coordinator, backoff)
        self._epoch = NO_EPOCH
        self._subscribed = SubscriptionFields((), None)
        self._polled = False
        self._overdue = False
        # Whether a broker may have heard of this membership, so that it has to be told of its end.
        self._is_known = False
        self._leaves_for_good = False
        self._fatal: KafkaError | None = None
        self._heartbeat_refusal: KafkaError | None = None
        """Why the coordinator took none since. It outlives `_fatal`, which a poll clears to try again."""
        self._leave_reply: Reply[None] | None = None
        metadata.on_update.append(self._on_metadata)

    # --- what others ask ------------------------------------------------------------------------------------

    @property
    def state(self) -> MemberState:
        return self._machine.state

    def identity(self) -> GroupIdentity:
        instance_id = self._config.group_instance_id
        if self._epoch <= JOIN_EPOCH:
            return GroupIdentity(self._group_id, group_instance_id=instance_id)
        return GroupIdentity(self._group_id, self._epoch, self._member_id, instance_id)

    def status(self) -> MemberStatus:
        """As `Membership`."""
        return MemberStatus(
            self.state.name,
            FACTS[self.state].waits_for,
            self._member_id,
            self._epoch if self._epoch > JOIN_EPOCH else None,
            owes_callback=self._reconciler.owes_callback,
            is_joining=self.state in (MemberState.JOINING, MemberState.RECONCILING),
            awaits_poll=self._subscription.is_group and not self._polled,
            reason="the group assigns it other partitions",
            heartbeat_refusal=self._heartbeat_refusal,
        )

    @property
    def refusal(self) -> KafkaError | None:
        return self._fatal

    @property
    def _group_id(self) -> str:
        return self._config.group_id or ""

    # --- what the application thread says -------------------------------------------------------------------

    @property
    def awaits_poll(self) -> bool:
        return not self._polled or self._fatal is not None

    def on_poll(self) -> None:
        self._polled = True
        if isinstance(self._fatal, GroupAuthorizationError):
            # It has been raised. Only another attempt can tell whether the permission has been granted since: the poll
            # that waits for it raises the error again if not. The back-off still counts.
            self._clear_refusal()
        if self._fatal is not None:
            self._tell(self._fatal)

    def on_subscription_changed(self) -> None:
        """The next heartbeat carries the new subscription, and is due now."""
        if self.state is MemberState.FATAL:
            self._begin_anew()
        if self._subscription.kind is SubscriptionKind.PATTERN:
            self._metadata.request_update()
            match_pattern(self._config, self._subscription, self._metadata)
        self._reconciler.follow_subscription()

    def on_callback_completed(self, attempt: Attempt) -> None:
        kind = self._reconciler.completed(attempt)
        if kind is CallbackKind.ASSIGNED and self.state is MemberState.RECONCILING:
            self._fire(MemberEvent.RECONCILED)

    def rejoin_needed(self, reason: str) -> None:
        """There is no such thing here: the broker alone decides when to assign anew."""
        log.warning("enforce_rebalance() does nothing with group_protocol='consumer' (reason given: %s)", reason)

    def leave(self, reason: str, reply: Reply[None] | None = None) -> None:
        """Leave for good: unsubscribe or close. The reply comes when the broker has answered, or at once."""
        log.info("leaving group %s: %s", self._group_id, reason)
        self._polled = self._overdue = False
        self._reconciler.abandon()
        match self.state:
            case MemberState.FATAL:
                self._begin_anew()
            case MemberState.FENCED:
                self._fire(MemberEvent.RELEASED_UNSUBSCRIBED)
            case _:
                self._leave()
        if self._can_send_leave:
            self._leave_reply = reply
        elif reply is not None:
            reply.succeed(None)

    def close(self, *, leave_group: bool | None) -> None:
        """Leave, unless a dynamic member is to stay until its session times out (KIP-1092). A static one that is not
        told to leave says that it is away for a while: its place is kept for the next member with its instance id."""
        if leave_group is False and self._config.group_instance_id is None:
            return
        self._leaves_for_good = leave_group is True
        self.leave("the consumer was closed")
        if self._can_send_leave:
            self._send_leave()

    @property
    def _can_send_leave(self) -> bool:
        return self.state is MemberState.LEAVING and self._coordinator.destination is not None

    def _leave(self) -> None:
        self._fire(MemberEvent.LEAVE_WANTED)
        if self.state is MemberState.PREPARE_LEAVING:
            self._fire(MemberEvent.RELEASED if self._is_known else MemberEvent.RELEASED_UNSUBSCRIBED)

    def _begin_anew(self) -> None:
        self._heartbeat_refusal = None
        self._clear_refusal()
        self._schedule.reset()

    def _clear_refusal(self) -> None:
        """A membership that was refused is over for good: begin another one, with the same member id."""
        self._fatal = None
        self._machine = self._new_machine()

    # --- what commits and look-ups find out -----------------------------------------------------------------

    def on_membership_lost(self, code: ErrorCode) -> None:
        """The broker no longer knows this member or its epoch, or gave its instance id to another one."""
        if code in _FENCED:
            self._fenced(code)
        else:
            self._refuse(error_for(code, f"group {self._group_id}"))

    def on_stale_epoch(self) -> None:
        """The broker has a newer epoch than the one sent with a commit. A heartbeat brings it, so let it be now."""
        self._schedule.heartbeat_now()

    def on_group_rebalancing(self, reason: str) -> None:
        """Members of this protocol go on committing while others rebalance; no broker says so."""

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        overdue_at_ms = self._watch_poll_timer(now_ms)
        self._advance()
        leave = self.leaving.poll(now_ms)
        heartbeat = self._poll_heartbeat(now_ms)
        if heartbeat.requests:
            self._advance()  # an acknowledgement is out, and there was more to do
        names = self._names.poll(now_ms)
        wake_at_ms = min(overdue_at_ms, leave.wake_at_ms, names.wake_at_ms, heartbeat.wake_at_ms)
        return PollResult(leave.requests + names.requests + heartbeat.requests, wake_at_ms)

    def _watch_poll_timer(self, now_ms: float) -> float:
        """When the timer has to be looked at again; one that has run out ends the membership, and with it the timer."""
        if not FACTS[self.state].poll_timer:
            return NEVER_MS
        if not self._poll_timer.expired(now_ms):
            return self._poll_timer.expires_at_ms()
        warn_of_overdue_poll(self._config)
        self._polled, self._overdue = False, True
        self._leave()
        return NEVER_MS

    def _advance(self) -> None:
        """Do what the state waits for, if it is there."""
        if self._reconciler.owes_callback:
            return
        match self.state:
            case MemberState.UNSUBSCRIBED if self._may_join():
                self._fire(MemberEvent.SUBSCRIBED)
            case MemberState.STALE if self._may_join():
                self._fire(MemberEvent.POLLED_AGAIN)
            case MemberState.FENCED:
                goes_on = self._subscription.is_group
                self._fire(MemberEvent.RELEASED if goes_on else MemberEvent.RELEASED_UNSUBSCRIBED)
            case MemberState.RECONCILING:
                self._reconcile()
            case _:
                pass

    def _may_join(self) -> bool:
        if not self._polled or not self._subscription.is_group:
            return False
        self._coordinator.need(tell=True)
        return self._update_subscribed()

    def _update_subscribed(self) -> bool:
        """Read the subscription; whether it can be told already. A pattern needs to know all topics first."""
        if self._subscription.kind is SubscriptionKind.PATTERN and not self._metadata.has_looked_for(None):
            return False
        self._subscribed = self._to_subscribe
        return True

    @property
    def _to_subscribe(self) -> SubscriptionFields:
        return SubscriptionFields(tuple(sorted(self._subscription.topics)), self._subscription.regex)

    def _on_metadata(self, now_ms: float) -> None:
        match_pattern(self._config, self._subscription, self._metadata)

    def _reconcile(self) -> None:
        step = self._reconciler.advance(self._names.name_of)
        self._names.want(step.unresolved)
        if not self._reconciler.owes_callback and not step.unresolved:
            self._fire(MemberEvent.NOTHING_TO_RECONCILE)

    # --- heartbeats -----------------------------------------------------------------------------------------

    def _poll_heartbeat(self, now_ms: float) -> PollResult:
        facts = FACTS[self.state]
        if not facts.heartbeats:
            return PollResult([])
        self._coordinator.need(tell=True)
        destination = self._coordinator.destination
        if destination is None:
            return PollResult([])
        if self.state is MemberState.LEAVING:
            self._send_leave()
            return self.leaving.poll(now_ms)
        if self._schedule.in_flight:
            return PollResult([])
        is_subscription_new = self._update_subscribed() and not self._heartbeats.knows(self._subscribed)
        due_ms = self._schedule.due_ms(at_once=facts.at_once or is_subscription_new)
        if now_ms < due_ms:
            return PollResult([], due_ms)
        return PollResult([self._send_heartbeat(destination, now_ms)])

    def _send_heartbeat(self, destination: Destination, now_ms: float) -> AnyUnsentRequest:
        self._schedule.sent(now_ms)
        self._is_known = True
        if self.state is MemberState.JOINING:
            self.leaving.stop_retrying()
            request = self._heartbeats.join(self._subscribed)
        else:
            acknowledging = self.state is MemberState.ACKNOWLEDGING
            owned = self._reconciler.owned
            request = self._heartbeats.stay(self._epoch, self._subscribed, owned, acknowledge=acknowledging)
        if self.state is MemberState.ACKNOWLEDGING:
            done = self._reconciler.has_reached_target
            self._fire(MemberEvent.ACK_SENT if done else MemberEvent.ACK_SENT_MORE_TO_DO)
        return self._unsent(request, destination, self._on_answer, self._on_failure)

    def _send_leave(self) -> None:
        reply, self._leave_reply = self._leave_reply, None
        request = self._heartbeats.leave(for_good=self._leaves_for_good)
        self.leaving.send(lambda _version: request, reply=reply)
        self._schedule.reset()
        self._is_known = False
        self._fire(MemberEvent.LEAVE_SENT_OVERDUE if self._overdue else MemberEvent.LEAVE_SENT)

    def _unsent(
        self,
        request: ConsumerGroupHeartbeatRequest,
        destination: Destination,
        on_answer: Callable[[int, ConsumerGroupHeartbeatResponse, float], None],
        on_failure: Callable[[int, KafkaError, float], None],
    ) -> AnyUnsentRequest:
        self._schedule.number += 1

        def failed(error: KafkaError, now_ms: float) -> None:
            self._coordinator.unanswered(destination, error)
            on_failure(number, error, now_ms)

        number = self._schedule.number
        return UnsentRequest(
            request=request,
            destination=destination,
            on_answer=partial(on_answer, number),
            on_failure=failed,
            min_version=None if request.subscribed_topic_regex is None else REGEX_MIN_VERSION,
        )

    def _on_answer(self, number: int, answer: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        if number != self._schedule.number:
            return
        code = ErrorCode.of(answer.error_code)
        if code is not ErrorCode.NONE:
            self._on_error(code, answer.error_message, now_ms)
            return
        self._schedule.answered(answer.heartbeat_interval_ms)
        self._heartbeat_refusal = None
        if not FACTS[self.state].takes_target:
            return  # leaving, and this was still on its way
        if answer.member_epoch <= JOIN_EPOCH:
            self._refuse(ProtocolError(f"group {self._group_id}: a member cannot have epoch {answer.member_epoch}"))
            return
        if self._epoch <= JOIN_EPOCH:
            log.info(
                "joined group %s: member epoch %d, member %s",
                self._group_id,
                answer.member_epoch,
                self._member_id,
                extra={"generation": answer.member_epoch, "member_id": self._member_id},
            )
        self._set_epoch(MemberEpoch(answer.member_epoch))
        self._take_target(answer.assignment, now_ms)

    def _take_target(self, assignment: Assignment | None, now_ms: float) -> None:
        joining = self.state is MemberState.JOINING
        if assignment is None:
            if joining:
                self._fire(MemberEvent.JOINED_EMPTY)
            return
        self._reconciler.aim_at(read_target(assignment))
        if self._reconciler.only_adds:
            self._auto_commit(now_ms)  # as Java at each rebalance; partitions are given up behind a commit anyway
        if joining or not self._reconciler.has_reached_target:
            self._fire(MemberEvent.TARGET_RECEIVED)

    def _answer_leave(self) -> None:
        reply, self._leave_reply = self._leave_reply, None
        if reply is not None:
            reply.succeed(None)

    # --- what goes wrong ------------------------------------------------------------------------------------

    def _on_failure(self, number: int, error: KafkaError, now_ms: float) -> None:
        if number != self._schedule.number:
            return
        self._start_over_after(now_ms)
        if self._is_of_former_subscription:
            return
        if isinstance(error, UnsupportedVersionError):
            self._refuse(unsupported(error, uses_regex=self._subscribed.regex is not None))
        elif not error.retriable:
            self._tell(error)

    def _on_error(self, code: ErrorCode, message: str | None, now_ms: float) -> None:
        doing = f"heartbeat of group {self._group_id}" + (f" ({message})" if message else "")
        error = error_for(code, doing, topics=self._refused_topics())
        self._start_over_after(now_ms)
        match heartbeat_outcome(code, joining=self.state is MemberState.JOINING):
            case HeartbeatOutcome.FENCED:
                self._fenced(code)
            case HeartbeatOutcome.COORDINATOR_MOVED:
                self._coordinator.lost(error)
            case HeartbeatOutcome.RETRY:
                pass
            case _ if self._is_of_former_subscription:
                pass  # a topic or pattern of a former subscription: the next heartbeat names the present ones
            case HeartbeatOutcome.RAISE:
                self._tell(error)
            case HeartbeatOutcome.UNSUPPORTED:
                self._refuse(unsupported(error, uses_regex=self._subscribed.regex is not None))
            case HeartbeatOutcome.REFUSED:
                self._refuse(error)
            case never:
                assert_never(never)

    @property
    def _is_of_former_subscription(self) -> bool:
        """Whether the heartbeat that is answered now named another subscription than the present one."""
        return self._subscription.is_group and self._subscribed != self._to_subscribe

    def _refused_topics(self) -> Collection[str]:
        """The broker does not say which topics it means. Metadata does, unless they may be described and not read."""
        names = self._subscribed.topic_names
        return self._metadata.refused.keys() & names or (names if len(names) == 1 else ())

    def _start_over_after(self, now_ms: float) -> None:
        """Say everything again, after the back-off."""
        self._schedule.failed(now_ms)
        self._heartbeats.forget()

    def _fenced(self, code: ErrorCode) -> None:
        if self.state is not MemberState.JOINING:
            self._schedule.reset()  # joins that are fenced again and again keep their back-off
        self._is_known = False
        log.warning("group %s has gone on without this member (%s): joining again", self._group_id, code.name)
        self._fire(MemberEvent.FENCED_BY_BROKER)

    def _refuse(self, error: KafkaError) -> None:
        """The cause is queued before what follows from it, so `poll()` raises it first."""
        self._fatal = self._heartbeat_refusal = error
        self._tell(error)
        self._fire(MemberEvent.FATAL_ERROR)

    def _tell(self, error: KafkaError) -> None:
        """Raise it in `poll()`, unless the group has been left."""
        if self._subscription.is_group:
            self._deliver(ErrorRaised(error, self._subscription.epoch))

    # --- effects --------------------------------------------------------------------------------------------

    def _new_machine(self) -> Machine[MemberState, MemberEvent, MemberEffect]:
        return Machine(CONSUMER_GROUP, self._on_row)

    def _on_row(self, table: str, row: Row[MemberState, MemberEvent, MemberEffect]) -> None:
        log.debug("%s %s", table, row)
        rebalances, now_ms = self._metrics.coordinator.rebalances, self._metrics.turns.now_ms
        match row.target:
            case MemberState.RECONCILING:
                rebalances.started(now_ms)
            case MemberState.ACKNOWLEDGING | MemberState.STABLE if row.source is MemberState.RECONCILING:
                rebalances.ended(now_ms)
            case MemberState.FENCED | MemberState.FATAL:
                rebalances.broken_off(now_ms)
            case MemberState.PREPARE_LEAVING:
                rebalances.given_up()
            case _:
                pass

    def _fire(self, event: MemberEvent) -> None:
        for effect in self._machine.fire(event):
            match effect:
                case MemberEffect.START_JOINING:
                    self._start_joining()
                case MemberEffect.FORGET_MEMBER:
                    self._set_epoch(NO_EPOCH)
                    self._names.forget()
                case MemberEffect.IGNORE_ANSWERS:
                    self._schedule.give_up()
                    self._answer_leave()
                case MemberEffect.STOP_FETCHING:
                    self._reconciler.stop_fetching()
                case MemberEffect.CALL_LOST:
                    self._reconciler.call_lost()
                case MemberEffect.DROP_PARTITIONS:
                    self._reconciler.drop()
                case _:
                    assert_never(effect)

    def _start_joining(self) -> None:
        self._overdue = False
        self._set_epoch(JOIN_EPOCH)
        self._reconciler.start()

    def _set_epoch(self, epoch: MemberEpoch) -> None:
        self._epoch = epoch
        self._subscription.set_group(ConsumerGroupMetadata(**self.identity()._asdict()))


def _member(config: ConsumerConfig, member_id: str) -> ConsumerIdentity:
    return ConsumerIdentity(
        group_id=config.group_id or "",
        member_id=member_id,
        instance_id=config.group_instance_id,
        rack_id=config.client_rack or None,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        server_assignor=config.group_remote_assignor,
    )
