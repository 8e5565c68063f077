"""A consumer group: members, epochs and assignments as Kafka's group coordinator keeps them (KIP-848).

Three epochs: the group's, which rises with every change of members, subscriptions or topics; the assignment's, which
follows when a target is computed; each member's, which follows when it has given up what it is not to keep. Everything
happens with a heartbeat or when a timer ends. `classic_in_consumer` adds what members of the classic protocol ask for,
`migration` makes groups. Pure: time comes in. A request that is refused has changed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.testing.cluster.groups import server_assignors
from kwire.testing.cluster.groups.consumer_member import (
    LEAVING,
    LEAVING_FOR_A_WHILE,
    NEW,
    ConsumerMember,
    ConsumerMemberState,
)
from kwire.testing.cluster.groups.consumer_patterns import ResolvedPatterns
from kwire.testing.cluster.groups.consumer_roster import ConsumerRoster
from kwire.testing.cluster.groups.consumer_world import Fingerprint, GroupWorld
from kwire.testing.cluster.groups.reconciling import Goal, reconcile
from kwire.testing.cluster.groups.refusal import GroupRefusal
from kwire.testing.cluster.groups.timers import GroupTimers
from kwire.testing.cluster.groups.topic_patterns import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

    from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from kwire.testing.cluster.groups.consumer_world import GroupCluster
    from kwire.testing.cluster.groups.surroundings import Client

    Downgrade = Callable[["ConsumerGroup", Sequence[ConsumerMember], float], bool]

KEEP_TIMEOUT = -1
SERVED_FROM = 9
"""From this version on OffsetCommit can tell a member that its epoch is stale."""


@dataclass(frozen=True, slots=True)
class Change:
    """A member before and after what it said. `successor_of`: whose place it takes, with that one's instance id."""

    before: ConsumerMember
    told: ConsumerMember
    successor_of: ConsumerMember | None = None


class ConsumerGroup:
    """One group.

    Args:
        group_id: Its name.
        world: Topics and settings.
        downgrade: Asked before members are removed: whether the group has become a classic one instead.
    """

    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str, world: GroupCluster, downgrade: Downgrade) -> None:
        self.group_id = group_id
        self.world = GroupWorld(group_id, world)
        self.epoch = 1
        self.assignment_epoch = 0
        self.roster = ConsumerRoster()
        self.timers = GroupTimers()
        self._assigned_at_ms: float | None = None
        self._patterns = ResolvedPatterns()
        self._fingerprint: Fingerprint = ()
        self._downgrade = downgrade

    # --- what others ask -------------------------------------------------------------------------------------

    @property
    def members(self) -> dict[str, ConsumerMember]:
        return self.roster.members

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if self.is_empty:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_stable = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for, or the default."""
        return self.roster.preferred_assignor() or self.world.settings.group_consumer_assignors[0]

    def subscribes(self, topic: str) -> bool:
        """Whether a member subscribes to that topic."""
        return topic in self._subscribed_topics()

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
        """Raises: Refusal, if an OffsetCommit or TxnOffsetCommit of this member and epoch is not taken."""
        if generation < 0 and self.is_empty:
            return  # an administrator, or a consumer with assign(): welcome while nobody is here
        if is_transactional and generation == -1 and not member_id and instance_id is None:
            return
        member = self.roster.member(member_id)
        if not is_transactional and not member.is_classic and version < SERVED_FROM:
            raise GroupRefusal(ErrorCode.UNSUPPORTED_VERSION, "OffsetCommit version 9 or above must be used")
        if generation == member.epoch:
            return
        # KIP-1251: an old epoch is as good as the new one for partitions that the member has had since then.
        stale = _stale(member, is_transactional=is_transactional)
        if generation > member.epoch:
            raise GroupRefusal(stale, f"Epoch {generation} is newer than {member.epoch}.")
        for topic_id, partition in partitions:
            since = member.owned_since(topic_id, partition)
            if since is None or generation < since:
                raise GroupRefusal(
                    stale, f"Partition {partition} was not assigned to the member in epoch {generation}."
                )

    def check_fetch(self, *, member_id: str | None, generation: int) -> None:
        """Raises: Refusal, if this member may not ask for offsets in that epoch."""
        if member_id is None and generation < 0:
            return
        member = self.roster.member(member_id or "")
        if generation != member.epoch:
            raise GroupRefusal(_stale(member), f"Epoch {generation} is not the member's, {member.epoch}.")

    # --- heartbeats ------------------------------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: float
    ) -> ConsumerGroupHeartbeatResponse:
        """Join, stay in, change or leave.

        Raises:
            Refusal: Nothing has changed.
        """
        if request.member_epoch in {LEAVING, LEAVING_FOR_A_WHILE}:
            return self._leave(request, now_ms)
        self.check_room(request.member_id)
        change = self._change(request, client)
        has_changed = self.subscribe(change)
        self.assign(now_ms)
        after = self.follow(change.told, request.topic_partitions, has_changed=has_changed, now_ms=now_ms)
        self.start_session(after.member_id, self.world.session_timeout_ms, now_ms)
        self.look_up_patterns(now_ms)
        tells = _is_full(request) or change.before.assigned != after.assigned
        return ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.world.heartbeat_interval_ms,
            assignment=_assignment(after) if tells else None,
        )

    def check_room(self, member_id: str) -> None:
        """Raises: Refusal, GROUP_MAX_SIZE_REACHED for one more member."""
        if len(self.members) >= self.world.settings.group_consumer_max_size and member_id not in self.members:
            raise GroupRefusal(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _change(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> Change:
        """The member that has sent the heartbeat, before and after it."""
        member_id = request.member_id or self.world.new_member_id()
        joins = request.member_epoch == NEW
        successor_of = None
        if not joins:
            before = self.roster.known_member(member_id, request.instance_id)
            _check_epoch(before, request)
        elif (holder := self._holder(request.instance_id)) is not None:
            if not holder.is_classic and holder.epoch != LEAVING_FOR_A_WHILE:
                message = f"Instance id {request.instance_id} is owned by member {holder.member_id}."
                raise GroupRefusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)
            before, successor_of = holder.succeeded_by(member_id), holder
        else:
            before = self.members.get(member_id) or ConsumerMember(member_id=member_id)
        return Change(before, before.told(request, client.client_id, client.client_host), successor_of)

    def _holder(self, instance_id: str | None) -> ConsumerMember | None:
        return None if instance_id is None else self.roster.static_member(instance_id)

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now_ms: float) -> ConsumerGroupHeartbeatResponse:
        member = self.roster.known_member(request.member_id, request.instance_id)
        if request.instance_id is not None and request.member_epoch == LEAVING_FOR_A_WHILE:
            self.roster.put(member.away())
        else:
            self.fence([member], now_ms)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    # --- rebalances ------------------------------------------------------------------------------------------

    def subscribe(self, change: Change) -> bool:
        """Take a member's subscription in; whether it is another one than before.

        Raises:
            Refusal: INVALID_REGULAR_EXPRESSION.
        """
        has_other_pattern = change.told.pattern != change.before.pattern
        is_resolved = has_other_pattern and self._take_pattern(change.told.pattern)
        has_other_topics = change.told.topics != change.before.topics
        if change.successor_of is not None:
            self.roster.replace(change.successor_of, change.before)
        self.roster.put(change.told)
        self._patterns.keep(self.roster.patterns())
        # A pattern whose topics are not known yet bumps the epoch when they are.
        self._bump(force=has_other_topics or is_resolved or (has_other_pattern and change.told.is_classic))
        return has_other_topics or has_other_pattern

    def _take_pattern(self, pattern: str) -> bool:
        """Whether what it matches is known already."""
        if pattern and pattern not in self.roster.patterns():
            compile_pattern(pattern)
            return False
        return not pattern or self._patterns.is_resolved(pattern)

    def look_up_patterns(self, now_ms: float) -> None:
        """Kafka does this on another thread: the heartbeat that brings a pattern is answered before."""
        has_changed = self._patterns.look_up(
            self.roster.patterns(),
            self.world.topics,
            now_ms=now_ms,
            max_age_ms=self.world.settings.group_consumer_regex_refresh_interval_ms,
        )
        self._bump(force=has_changed)

    def remember_topics(self) -> None:
        """What the members have was assigned with the topics as they are now."""
        self._fingerprint = self.world.fingerprint(self._subscribed_topics())

    def _bump(self, *, force: bool) -> None:
        fingerprint = self.world.fingerprint(self._subscribed_topics())
        if force or fingerprint != self._fingerprint:
            self.epoch += 1
        self._fingerprint = fingerprint

    def _subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(self._topics_of(member) for member in self.members.values()))

    def _topics_of(self, member: ConsumerMember) -> frozenset[str]:
        return member.topics | self._patterns.topics(member.pattern) if member.pattern else member.topics

    def assign(self, now_ms: float) -> None:
        """Compute a target for the group's epoch, unless the last one is too young."""
        if self.assignment_epoch >= self.epoch or not self._is_time_to_assign(now_ms):
            return
        topics = self.world.existing(self._subscribed_topics())
        task = server_assignors.ServerAssignment(
            members={member_id: self._candidate(member) for member_id, member in self.members.items()},
            partitions={topic.topic_id: len(topic.partitions) for topic in topics},
        )
        plan = server_assignors.SERVER_ASSIGNORS[self.assignor](task)
        self.roster.targets = {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in plan.get(member_id, {}).items()}
            for member_id in self.members
        }
        self.assignment_epoch, self._assigned_at_ms = self.epoch, now_ms

    def _is_time_to_assign(self, now_ms: float) -> bool:
        last_ms = self._assigned_at_ms
        return last_ms is None or now_ms >= last_ms + self.world.assignment_interval_ms

    def _candidate(self, member: ConsumerMember) -> server_assignors.Candidate:
        return server_assignors.Candidate(
            topic_ids=tuple(topic.topic_id for topic in self.world.existing(self._topics_of(member))),
            target=self.roster.target(member.member_id),
            instance_id=member.instance_id,
        )

    def follow(
        self, member: ConsumerMember, owned: list[TopicPartitions] | None, *, has_changed: bool, now_ms: float
    ) -> ConsumerMember:
        """Lead the member towards its target; answers what became of it."""
        if not has_changed and member.is_reconciled_to(self.assignment_epoch):
            return member
        goal = Goal(
            epoch=self.assignment_epoch,
            target=self.roster.target(member.member_id),
            subscribed=frozenset(topic.topic_id for topic in self.world.existing(self._topics_of(member))),
            subscription_changed=has_changed,
            owned=owned,
            owner=self.roster.owner,
        )
        after = reconcile(member, goal)
        if after != member:
            self.roster.put(after)
            self._limit_revocation(after, now_ms)
        return after

    # --- clocks ----------------------------------------------------------------------------------------------

    def next_timer_ms(self) -> float:
        """When `expire` has something to do; infinity for never."""
        return self.timers.next_ms

    def expire(self, now_ms: float) -> float:
        """Do what is due. Returns when something is due next."""
        return self.timers.expire(now_ms)

    def start_session(self, member_id: str, timeout_ms: float, now_ms: float) -> None:
        """Renew the session of a member."""
        self.limit("session", member_id, now_ms + timeout_ms)

    def limit(self, what: str, member_id: str, deadline_ms: float) -> None:
        """Let the member be removed then, unless what it has to do is done before."""
        self.timers.schedule((what, member_id), deadline_ms, lambda now_ms: self._expired(member_id, now_ms))

    def _limit_revocation(self, member: ConsumerMember, now_ms: float) -> None:
        if member.is_classic:
            return  # it has timers for join and sync instead
        if member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
            self.timers.cancel(("rebalance", member.member_id))
            return
        member_id, epoch = member.member_id, member.epoch

        def overdue(then_ms: float) -> None:
            now = self.members.get(member_id)
            if now is not None and now.epoch == epoch:
                self.fence([now], then_ms)

        self.timers.schedule(("rebalance", member_id), now_ms + member.rebalance_timeout_ms, overdue)

    def _expired(self, member_id: str, now_ms: float) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self.fence([member], now_ms)

    def fence(self, members: Sequence[ConsumerMember], now_ms: float) -> None:
        """Remove these members; the others learn of it with their next heartbeats."""
        if not members:
            return
        if self._downgrade(self, members, now_ms):
            self.timers.clear()
            return
        for member in members:
            self.roster.remove(member)
            for what in ("session", "rebalance", "join", "sync"):
                self.timers.cancel((what, member.member_id))
        self._patterns.keep(self.roster.patterns())
        self._bump(force=True)
        if self.is_empty:  # since Kafka 4.4: to nobody everything is assigned that is to be
            self.assignment_epoch = self.epoch

    def coordinator_moved(self, now_ms: float) -> None:
        """Move to another broker, which reads the whole group from the log; only the timers begin again."""
        self.timers.clear()
        for member in self.members.values():
            self.start_session(member.member_id, self.world.session_timeout_ms, now_ms)
            self._limit_revocation(member, now_ms)


def _stale(member: ConsumerMember, *, is_transactional: bool = False) -> ErrorCode:
    if member.is_classic or is_transactional:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """An epoch back is fine where the answer that raised it may have been lost.

    Raises:
        Refusal: FENCED_MEMBER_EPOCH.
    """
    said = request.member_epoch
    if said == member.epoch:
        return
    if said != member.previous_epoch or said > member.epoch or not member.holds_all(request.topic_partitions):
        message = f"Epoch {said} is not the member's, {member.epoch}. It must abandon all its partitions and rejoin."
        raise GroupRefusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says all there is to say, and so is to be told all."""
    if request.member_epoch == NEW:
        return True
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return subscribes and request.rebalance_timeout_ms != KEEP_TIMEOUT and request.topic_partitions is not None


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )
