"""How a member of a classic group gets the plan of a new generation: JoinGroup, the leader's plan, SyncGroup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kwire.config import ConsumerConfig
from kwire.epochs import Attempt, Generation
from kwire.errors import AssignorError, InconsistentGroupProtocolError, KafkaError, ProtocolError
from kwire.managers.classic_leader import ClassicLeader, Plan, topics_of
from kwire.managers.classic_member import MEMBERSHIP_LOST, ClassicMember
from kwire.managers.classic_requests import (
    PROTOCOL_TYPE,
    join_request,
    read_assignment,
    read_subscriptions,
    sync_request,
)
from kwire.managers.find_coordinator import COORDINATOR_MOVED, FindCoordinatorManager
from kwire.managers.membership import NO_MEMBER_ID, is_predecessor
from kwire.managers.owned_partitions import OwnedPartitions
from kwire.managers.unsent import AnyUnsentRequest, Destination, UnsentRequest
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.states.classic_group import ClassicEvent
from kwire.subscription.subscription import Subscription

# Java: the broker answers a join when the rebalance timeout ends; this leaves the answer time to travel.
JOIN_GRACE_MS = 5_000.0


class ClassicJoin:
    """Joins, has this member assign if it leads, and syncs; what comes of it is fired as an event of the member.

    When to join, `classic_group.py` decides.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        member: ClassicMember,
        owned: OwnedPartitions,
        leader: ClassicLeader,
        subscription: Subscription,
        coordinator: FindCoordinatorManager,
    ) -> None:
        self._config = config
        self._member = member
        self._owned = owned
        self._leader = leader
        self._subscription = subscription
        self._coordinator = coordinator
        self._protocol_name = ""
        self._topics: frozenset[str] = frozenset()
        """What the newest JoinGroup named: another subscription may have been made since."""
        self._outgoing: list[AnyUnsentRequest] = []
        self._nameless: set[Attempt] = set()
        """The attempts of open joins without a member id."""

    @property
    def may_make_member(self) -> bool:
        """Whether a join is open whose answer brings the id of a new member."""
        return bool(self._nameless)

    def take_requests(self) -> Sequence[AnyUnsentRequest]:
        """What is to be sent now."""
        requests, self._outgoing = self._outgoing, []
        return requests

    # --- JoinGroup ------------------------------------------------------------------------------------------

    def join(self, destination: Destination) -> None:
        member = self._member
        try:
            request = self._join_request()
        except AssignorError as error:
            member.refuse(error)
            return
        self._topics = self._subscription.topics
        attempt = member.start_attempt()
        if member.identity.member_id == NO_MEMBER_ID:
            self._nameless.add(attempt)
        member.leaving.stop_retrying()
        member.flags.rejoin_wanted = False
        member.request.sent()
        member.fire(ClassicEvent.JOIN_SENT)
        self._outgoing.append(
            UnsentRequest(
                request=request,
                destination=destination,
                on_answer=partial(self._on_join_answer, attempt),
                on_failure=partial(self._on_join_failure, attempt, destination),
                timeout_ms=max(self._config.request_timeout_ms, self._config.max_poll_interval_ms + JOIN_GRACE_MS),
            )
        )

    def _join_request(self) -> JoinGroupRequest:
        return join_request(
            self._config,
            self._member.identity,
            self._leader.assignors,
            self._subscription.topics,
            owned=self._owned.partitions,
            last=self._owned.last,
            reason=self._member.reason,
        )

    def _on_join_answer(self, attempt: Attempt, answer: JoinGroupResponse, now_ms: float) -> None:
        member, code = self._member, ErrorCode.of(answer.error_code)
        if attempt != member.attempt:
            self._leave_behind(code, answer.member_id)
        elif code is ErrorCode.NONE:
            self._joined(answer, now_ms)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the first join only hands out the id; the second one counts.
            member.identity = member.identity._replace(member_id=answer.member_id)
            member.request.again(now_ms)
            member.fire(ClassicEvent.JOIN_FAILED)
        else:
            self._on_group_error(code, "joining", ClassicEvent.JOIN_FAILED, now_ms)
        self._closed(attempt)

    def _leave_behind(self, code: ErrorCode, member_id: str) -> None:
        """A join that nobody waits for any more has made a member: without a leave it would hold up the group until its
        session times out."""
        member = self._member
        is_new = member_id not in (NO_MEMBER_ID, member.identity.member_id)
        if is_new and code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            member.send_leave(member.identity._replace(member_id=member_id), "the join was given up")

    def _on_join_failure(self, attempt: Attempt, asked: Destination, error: KafkaError, now_ms: float) -> None:
        self._on_unanswered(attempt, asked, ClassicEvent.JOIN_FAILED, error, now_ms)
        self._closed(attempt)

    def _closed(self, attempt: Attempt) -> None:
        """This join is no longer open. If it made a member that nobody wants, that member was told to leave."""
        self._nameless.discard(attempt)
        if not self._nameless:
            self._member.leaving.member_came()

    def _joined(self, answer: JoinGroupResponse, now_ms: float) -> None:
        if answer.protocol_type not in (None, PROTOCOL_TYPE):
            self._refuse(self._inconsistent("JoinGroup", answer.protocol_type, PROTOCOL_TYPE), now_ms)
            return
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        try:
            members = read_subscriptions(answer.members)
            if leads and answer.member_id not in members:  # its plan would leave everybody without partitions
                raise ProtocolError(
                    f"JoinGroup names {answer.member_id!r} as the leader, but does not list it as a member"
                )
        except ProtocolError as error:
            self._refuse(self._of_group(error), now_ms)
            return
        member = self._member
        member.request.cancelled()  # what failed before counts until SyncGroup has succeeded, too
        identity = member.identity._replace(generation_id=Generation(answer.generation_id), member_id=answer.member_id)
        member.set_identity(identity)
        self._protocol_name = answer.protocol_name or ""
        if leads:
            self._leader.lead(self._protocol_name, members, self._topics)
            member.fire(ClassicEvent.JOINED_AS_LEADER)  # `maybe_assign` comes next
            return
        if answer.leader == answer.member_id or is_predecessor(answer.leader, identity):
            # The plan it made before its restart stands.
            self._leader.lead_on(topics_of(members), self._topics)
        else:
            self._leader.follow()
        member.fire(ClassicEvent.JOINED_AS_FOLLOWER)
        self._sync({})

    def _inconsistent(self, request: str, answered: str | None, own: str) -> KafkaError:
        """As in Java. Brokers that do not know the field leave it out."""
        doing = f"the answer to {request} is about {answered!r}, not {own!r}: joining group"
        return error_for(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{doing} {self._member.identity.group_id}")

    def _of_group(self, error: ProtocolError) -> ProtocolError:
        named = ProtocolError(f"group {self._member.identity.group_id}: {error}")
        named.__cause__ = error
        return named

    def maybe_assign(self, now_ms: float) -> None:
        """The leader's part, as soon as the metadata covers all that the members want."""
        try:
            plan = self._leader.assign()
        except (InconsistentGroupProtocolError, AssignorError) as error:
            self._refuse(error, now_ms)
            return
        if plan is not None:
            self._sync(plan)

    # --- SyncGroup ------------------------------------------------------------------------------------------

    def _sync(self, plan: Plan) -> None:
        """As in Java, the answer has no more time than that of other requests, though it waits for the leader's plan.
        There are no heartbeats meanwhile, so nothing else would show that the coordinator's machine is gone."""
        destination, attempt = self._coordinator.destination, self._member.attempt
        if destination is None:
            self._member.fire(ClassicEvent.SYNC_FAILED)
            return
        self._member.request.sent()
        self._outgoing.append(
            UnsentRequest(
                request=sync_request(self._member.identity, self._protocol_name, plan),
                destination=destination,
                on_answer=partial(self._on_sync_answer, attempt),
                on_failure=partial(self._on_unanswered, attempt, destination, ClassicEvent.SYNC_FAILED),
            )
        )

    def _on_sync_answer(self, attempt: Attempt, answer: SyncGroupResponse, now_ms: float) -> None:
        if attempt != self._member.attempt:
            return
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._synced(answer, now_ms)
        else:
            self._on_group_error(code, "synchronizing with", ClassicEvent.SYNC_FAILED, now_ms)

    def _synced(self, answer: SyncGroupResponse, now_ms: float) -> None:
        for answered, own in ((answer.protocol_type, PROTOCOL_TYPE), (answer.protocol_name, self._protocol_name)):
            if answered not in (None, own):
                self._refuse(self._inconsistent("SyncGroup", answered, own), now_ms)
                return
        try:
            assigned = read_assignment(answer.assignment)
        except ProtocolError as error:
            problem = f"the assignment that the group's leader has made for this member cannot be read: {error}"
            self._refuse(self._of_group(ProtocolError(problem)), now_ms)
            return
        member = self._member
        member.request.succeeded()
        if member.flags.rejoin_wanted and self._owned.has_unwanted(assigned):
            # The plan is for a former subscription, and about to be replaced: as in Java, no callback is called for it.
            member.fire(ClassicEvent.SYNC_FAILED)
            return
        self._owned.take_plan(assigned, member.identity.generation_id)
        if not self._owned.giving_up:
            member.fire(ClassicEvent.SYNCED)
            if self._leader.topics_changed:
                member.want_rejoin("the partitions of a topic changed")
            return
        # KIP-429: once this is revoked, another rebalance gives it to its new owner.
        count = len(self._owned.giving_up)
        member.want_rejoin(f"gave up {count} partition{'' if count == 1 else 's'} as planned")
        member.fire(ClassicEvent.SYNCED_GIVING_UP)

    # --- errors ---------------------------------------------------------------------------------------------

    def _on_group_error(self, code: ErrorCode, doing: str, failed: ClassicEvent, now_ms: float) -> None:
        member = self._member
        error = error_for(code, f"{doing} group {member.identity.group_id}")
        if code is ErrorCode.FENCED_INSTANCE_ID:
            member.refusal = error
            self._refuse(error, now_ms)
        elif code in MEMBERSHIP_LOST:
            member.request.again(now_ms)
            member.lose(code)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            member.request.again(now_ms)
            member.fire(failed)
        elif code.retriable:
            if code in COORDINATOR_MOVED:
                self._coordinator.lost(error)
            member.request.failed(now_ms)
            member.fire(failed)
        else:
            self._refuse(error, now_ms)

    def _on_unanswered(
        self, attempt: Attempt, asked: Destination, failed: ClassicEvent, error: KafkaError, now_ms: float
    ) -> None:
        self._coordinator.unanswered(asked, error)
        if attempt != self._member.attempt:
            return
        if error.retriable:
            self._member.request.failed(now_ms)
            self._member.fire(failed)
        else:
            self._refuse(error, now_ms)

    def _refuse(self, error: KafkaError, now_ms: float) -> None:
        """Raise the error in `poll()`. The poll after it may join again, with the same member id if the broker may know
        it: otherwise the group would wait for the old member until its session ends."""
        member = self._member
        # A loop that polls on, whatever is raised, must not ask as fast as the network goes: each join of a member that
        # the group has makes all others rebalance.
        member.request.failed(now_ms)
        member_id = member.identity.member_id if member.refusal is None else NO_MEMBER_ID
        member.flags.polled = False
        member.tell(error)
        member.fire(ClassicEvent.REFUSED)
        member.identity = member.identity._replace(member_id=member_id)
