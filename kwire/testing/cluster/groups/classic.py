"""A classic group: its state, its rebalances and its clocks, as Kafka's GroupMetadataManager runs them.

What each request does is in `classic_join`, `classic_sync` and `classic_leave`; they and the timers call `rebalance`
and `complete_join_if_ready`. Pure: time comes in with every call, answers go out through `Pending`. What a new
coordinator would read from `__consumer_offsets` is kept in `logged`; `coordinator_moved` goes back to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.errors import InternalError, ProtocolError
from kwire.protocol.consumer_protocol import decode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.testing.cluster.groups.classic_answers import joined, synced
from kwire.testing.cluster.groups.classic_log import EMPTY_GROUP, LoggedGroup
from kwire.testing.cluster.groups.classic_roster import Roster
from kwire.testing.cluster.groups.classic_states import NEXT, ClassicGroupState
from kwire.testing.cluster.groups.refusal import GroupRefusal
from kwire.testing.cluster.groups.timers import GroupTimers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kwire.testing.cluster.groups.classic_member import ClassicMemberEntry
    from kwire.testing.cluster.groups.surroundings import CoordinatorServices

CONSUMER_PROTOCOL_TYPE = "consumer"
JOIN_TIMER, SYNC_TIMER = "join", "sync"
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may wait for the end of a rebalance (Kafka's classicGroupNewMemberJoinTimeoutMs)."""


class ClassicGroup:
    """A group of members that join and sync."""

    kind = "classic"

    def __init__(self, group_id: str, surroundings: CoordinatorServices) -> None:
        self.group_id = group_id
        self.surroundings = surroundings
        self.state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.roster = Roster()
        self.timers = GroupTimers()
        self.logged = EMPTY_GROUP
        self._is_initial_rebalance = False
        self._has_grown = False
        """Whether somebody joined during the initial rebalance, which then takes longer."""

    @classmethod
    def of_consumer_members(
        cls,
        group_id: str,
        surroundings: CoordinatorServices,
        *,
        generation: int,
        members: Iterable[ClassicMemberEntry],
        now_ms: float,
    ) -> ClassicGroup:
        """A stable group of these members with their assignments: a consumer group after its downgrade (KIP-848)."""
        group = cls(group_id, surroundings)
        group.generation = generation
        group.protocol_type = CONSUMER_PROTOCOL_TYPE
        for member in members:
            group.roster.add(member)
        group.protocol_name = group.roster.selected_protocol()
        group.state = ClassicGroupState.STABLE
        group._restart_sessions(now_ms)
        group.subscribed_topics = group._compute_subscribed_topics()
        group.log()
        return group

    # --- what others ask -------------------------------------------------------------------------------------

    @property
    def members(self) -> dict[str, ClassicMemberEntry]:
        return self.roster.members

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and no rebalance is under way."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def subscribes(self, topic: str) -> bool:
        """Whether its offsets for the topic are in use; unreadable subscriptions may be about any topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def check_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        is_transactional: bool,
        partitions: Iterable[tuple[UUID, int]],
    ) -> None:
        """Raises: Refusal, if an OffsetCommit or TxnOffsetCommit of this member and generation is not taken."""
        del version, partitions  # the consumer protocol's affair
        if generation < 0 and self.is_empty:
            return  # an administrator, or a consumer with assign(): welcome while nobody is here
        if generation >= 0 or member_id or instance_id is not None:
            self.roster.check(member_id, instance_id)
            if generation != self.generation:
                raise GroupRefusal(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional:
            raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID)
        # A member with this generation has also heard of it, so it knows that a rebalance is going on.
        if not is_transactional and self.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise GroupRefusal(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, *, member_id: str | None, generation: int) -> None:
        """Raises: Refusal, if the group cannot be asked for offsets. Anybody may ask a classic group."""
        del member_id, generation

    def touch(self, member_id: str, now_ms: float) -> None:
        """A commit is a sign of life, except while the leader assigns."""
        if (
            self.state in {ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE}
            and member_id in self.members
        ):
            self.restart_session(self.members[member_id], now_ms)

    # --- clocks ----------------------------------------------------------------------------------------------

    def next_timer_ms(self) -> float:
        """When `expire` has something to do; infinity for never."""
        return self.timers.next_ms

    def expire(self, now_ms: float) -> float:
        """Do what is due. Returns when something is due next."""
        return self.timers.expire(now_ms)

    def restart_session(self, member: ClassicMemberEntry, now_ms: float) -> None:
        """Renew the session of a member."""
        self.start_session(member.member_id, now_ms + member.session_timeout_ms)

    def start_session(self, member_id: str, deadline_ms: float) -> None:
        """Let a member, or somebody who was given an id, live until then."""
        self.timers.schedule(
            ("session", member_id), deadline_ms, lambda now_ms: self._session_expired(member_id, now_ms)
        )

    def end_session(self, member_id: str) -> None:
        """End the session timeout of a member."""
        self.timers.cancel(("session", member_id))

    def _restart_sessions(self, now_ms: float) -> None:
        for member in self.members.values():
            self.restart_session(member, now_ms)

    def _session_expired(self, member_id: str, now_ms: float) -> None:
        if member_id in self.roster.pending_joins:
            self.roster.remove(member_id)
            self.complete_join_if_ready(now_ms, even_initial=True)
            return
        member = self.members.get(member_id)
        if member is None or member.is_excused:
            return
        self.remove(member)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            self.complete_join_if_ready(now_ms, even_initial=True)
        else:
            self.rebalance(now_ms)

    def remove(self, member: ClassicMemberEntry) -> None:
        """Remove a member. If it still waits for the answer to its join, it is told to join again."""
        self.end_session(member.member_id)
        member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.roster.remove(member.member_id)

    def fence(self, member: ClassicMemberEntry) -> None:
        """Fence a member whose instance id another one has: the answers that it waits for are errors."""
        self.end_session(member.member_id)
        self.roster.pending_syncs.pop(member.member_id, None)
        member.refuse(ErrorCode.FENCED_INSTANCE_ID)

    # --- a rebalance -----------------------------------------------------------------------------------------

    def add(self, member: ClassicMemberEntry, now_ms: float) -> None:
        """A new member has joined; a rebalance follows."""
        member.is_new = True
        if self._is_initial_rebalance and self.state is ClassicGroupState.PREPARING_REBALANCE:
            self._has_grown = True
        self.roster.add(member)
        # It cannot send heartbeats before it is answered, and a broken connection is not noticed meanwhile.
        self.start_session(member.member_id, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance(now_ms)

    def rebalance(self, now_ms: float) -> None:
        """Something has changed that needs a new generation; if one is under way, it may be complete now."""
        if ClassicGroupState.PREPARING_REBALANCE in NEXT[self.state]:
            self.prepare_rebalance(now_ms)
        else:
            self.complete_join_if_ready(now_ms)

    def prepare_rebalance(self, now_ms: float) -> None:
        """Begin to wait for everybody to join."""
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._drop_assignments()
        self.roster.pending_syncs.clear()
        self.timers.cancel(SYNC_TIMER)
        self._is_initial_rebalance = self.is_empty
        self._to(ClassicGroupState.PREPARING_REBALANCE)
        if self._is_initial_rebalance:
            self._wait_for_first_members(now_ms)
        elif not self.complete_join_if_ready(now_ms):
            self._limit_join(now_ms)

    def _wait_for_first_members(self, now_ms: float) -> None:
        """The first of many rarely comes alone: wait a moment, longer if somebody came (KIP-134)."""
        delay_ms = self.surroundings.settings.group_initial_rebalance_delay_ms
        remaining_ms = max(0, self.roster.rebalance_timeout_ms() - delay_ms)
        self._wait_for_more(now_ms, delay_ms, remaining_ms)

    def _wait_for_more(self, now_ms: float, delay_ms: int, remaining_ms: int) -> None:
        def look_again(then_ms: float) -> None:
            if not self._has_grown or remaining_ms == 0:
                self._complete_join(then_ms)
                return
            self._has_grown = False
            longer_ms = min(self.surroundings.settings.group_initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_more(then_ms, longer_ms, max(0, remaining_ms - delay_ms))

        self._has_grown = False
        self.timers.schedule(JOIN_TIMER, now_ms + delay_ms, look_again)
        self.timers.expire(now_ms)

    def _limit_join(self, now_ms: float) -> None:
        self.timers.schedule(JOIN_TIMER, now_ms + self.roster.rebalance_timeout_ms(), self._complete_join)

    def complete_join_if_ready(self, now_ms: float, *, even_initial: bool = False) -> bool:
        """End the joining if nobody has to be waited for. The initial rebalance is ended by its timer."""
        if self.state is not ClassicGroupState.PREPARING_REBALANCE or not self.roster.has_everybody_joined():
            return False
        if self._is_initial_rebalance and not even_initial:
            return False
        self._complete_join(now_ms)
        return True

    def _complete_join(self, now_ms: float) -> None:
        """Form the next generation of the members that have joined, and remove those that have not."""
        self.timers.cancel(JOIN_TIMER)
        for absent in self.roster.absent():
            self.remove(absent)
        if not self.roster.elect_joined_leader() and self.members:
            self._limit_join(now_ms)  # only static members, none of them back: wait on, until their sessions end
            return
        self.generation += 1
        self.protocol_name = self.roster.selected_protocol() if self.members else None
        self.subscribed_topics = self._compute_subscribed_topics()
        self.roster.pending_syncs.clear()
        if not self.members:
            self._to(ClassicGroupState.EMPTY)
            self.log()
            return
        self._to(ClassicGroupState.COMPLETING_REBALANCE)
        self._announce_generation(now_ms)

    def _announce_generation(self, now_ms: float) -> None:
        for member in self.members.values():
            member.answer_join(joined(self, member))
            member.is_new = False
            self.restart_session(member, now_ms)
            self.roster.pending_syncs[member.member_id] = None
        self.timers.schedule(SYNC_TIMER, now_ms + self.roster.rebalance_timeout_ms(), self._sync_expired)

    def _sync_expired(self, now_ms: float) -> None:
        """Members that joined and never synced are out, as long as they may have taken."""
        late = [self.members[member_id] for member_id in self.roster.pending_syncs]
        for member in late:
            self.remove(member)
        if late:
            self.prepare_rebalance(now_ms)

    def stabilize(self, assignments: dict[str, bytes], now_ms: float) -> None:
        """The leader has assigned: everybody who waits gets a share, and may begin."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._to(ClassicGroupState.STABLE)
        self.log()
        for member in self.members.values():
            if member.answer_sync(synced(self, member)):
                self.restart_session(member, now_ms)

    def _drop_assignments(self) -> None:
        for member in self.members.values():
            member.assignment = b""
            member.answer_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def abandon(self, code: ErrorCode) -> None:
        """Answer every open JoinGroup and SyncGroup with an error."""
        for member in self.members.values():
            member.refuse(code)

    # --- its end, and its coordinator's ----------------------------------------------------------------------

    def log(self) -> None:
        """Write the state to the log, which a new coordinator reads."""
        self.logged = LoggedGroup.of(self)

    def coordinator_moved(self, now_ms: float) -> None:
        """Move to another broker, which knows the last assigned generation, and nothing of a rebalance under way."""
        self.abandon(ErrorCode.NOT_COORDINATOR)
        self.timers.clear()
        self.logged.restore(self)
        self.subscribed_topics = self._compute_subscribed_topics()
        self._is_initial_rebalance = self._has_grown = False
        self._restart_sessions(now_ms)

    def die(self) -> None:
        """End the group: it was deleted, or a consumer group replaces it."""
        self.abandon(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.timers.clear()
        self._to(ClassicGroupState.DEAD)

    def _to(self, state: ClassicGroupState) -> None:
        if state not in NEXT[self.state]:
            raise InternalError(f"group {self.group_id!r} cannot go from {self.state_name} to {state.value}")
        self.state = state

    def _compute_subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members name; None where they are not consumers or not to be understood."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        try:
            subscriptions = [decode_subscription(m.metadata(self.protocol_name)) for m in self.members.values()]
        except ProtocolError:
            return None
        return frozenset(topic for subscription in subscriptions for topic in subscription.topics)
