"""Members of the classic protocol in a consumer group, while the group goes over to the other one (KIP-848).

They join, sync, heartbeat and leave as ever, and are led by the broker as the others: who has to give something up or
gets something is told to join again. Every answer comes at once. The handlers of the classic requests call this when
the group is a consumer group that has members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kwire.errors import ProtocolError
from kwire.protocol.consumer_protocol import decode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.leave_group import MemberResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.testing.cluster.groups import migration
from kwire.testing.cluster.groups.consumer import Change
from kwire.testing.cluster.groups.consumer_member import ClassicFacts, ConsumerMember, ConsumerMemberState
from kwire.testing.cluster.groups.consumer_roster import voters
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
    from kwire.protocol.messages.heartbeat import HeartbeatRequest
    from kwire.protocol.messages.join_group import JoinGroupRequest
    from kwire.protocol.messages.leave_group import MemberIdentity
    from kwire.protocol.messages.sync_group import SyncGroupRequest
    from kwire.testing.cluster.groups.consumer import ConsumerGroup
    from kwire.testing.cluster.groups.migration import MigratingWorld
    from kwire.testing.cluster.groups.surroundings import Client

MEMBER_ID_REQUIRED_FROM = 4
"""KIP-394."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining:
    """A JoinGroup, read."""

    group: ConsumerGroup
    request: JoinGroupRequest
    client: Client
    member_id: str
    subscription: ConsumerProtocolSubscription

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has none and means the session timeout."""
        return self.request.rebalance_timeout_ms if self.client.version > 0 else self.request.session_timeout_ms


def join(
    world: MigratingWorld, group: ConsumerGroup, request: JoinGroupRequest, client: Client, now_ms: float
) -> JoinGroupResponse:
    """A classic member joins, joins again, or takes the place of a static member."""
    try:
        return _join(world, group, request, client, now_ms)
    except GroupRefusal as refusal:
        return JoinGroupResponse(error_code=refusal.code, protocol_name=None)


def _join(
    world: MigratingWorld, group: ConsumerGroup, request: JoinGroupRequest, client: Client, now_ms: float
) -> JoinGroupResponse:
    member_id = request.member_id or group.world.new_member_id()
    _check_join(world, group, request, member_id)
    if not request.member_id and request.group_instance_id is None and client.version >= MEMBER_ID_REQUIRED_FROM:
        return JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name=None)
    try:
        subscription = decode_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise GroupRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    joining = _Joining(group=group, request=request, client=client, member_id=member_id, subscription=subscription)
    holder = group.roster.static_member(request.group_instance_id) if request.group_instance_id is not None else None
    change = _change(joining, holder)
    others = [member for member in group.members.values() if member is not holder]
    # The last member of the consumer protocol is replaced by a classic one: no consumer group any more.
    if holder is not None and not holder.is_classic and migration.may_downgrade(world, [*others, change.told]):
        after = _join_classic(world, joining, change, now_ms)
    else:
        after = _join_consumer(joining, change, now_ms)
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=after.epoch,
        protocol_type=group.protocol_type,
        protocol_name=request.protocols[0].name,
    )


def _check_join(world: MigratingWorld, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
    policy = world.settings.group_consumer_migration_policy
    if policy == "disabled":
        raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group migration is disabled.")
    group.check_room(member_id)
    classic = sum(member.is_classic for member in group.members.values())
    supported = voters(group.members.values())
    is_common = any(supported[protocol.name] == classic for protocol in request.protocols)
    if request.protocol_type != group.protocol_type or not is_common:
        raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def _change(joining: _Joining, holder: ConsumerMember | None) -> Change:
    """The member that joins, before and after that.

    Raises:
        Refusal: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    roster, request, member_id = joining.group.roster, joining.request, joining.member_id
    successor_of = None
    if request.group_instance_id is None:
        before = joining.group.members.get(member_id) or ConsumerMember(member_id=member_id)
    elif request.member_id:
        before = roster.known_member(member_id, request.group_instance_id)
    elif holder is not None:
        before, successor_of = holder.succeeded_by(member_id), holder
    else:
        before = ConsumerMember(member_id=member_id)
    return Change(before, _told(joining, before), successor_of)


def _told(joining: _Joining, before: ConsumerMember) -> ConsumerMember:
    request = joining.request
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    timeout_ms = joining.rebalance_timeout_ms
    return replace(
        before,
        instance_id=request.group_instance_id if request.group_instance_id is not None else before.instance_id,
        rack_id=joining.subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=frozenset(joining.subscription.topics),
        pattern="",
        client_id=joining.client.client_id,
        client_host=joining.client.client_host,
        classic=ClassicFacts(request.session_timeout_ms, protocols),
    )


def _join_consumer(joining: _Joining, change: Change, now_ms: float) -> ConsumerMember:
    group, member_id = joining.group, joining.member_id
    has_changed = group.subscribe(change)
    group.assign(now_ms)
    after = group.follow(change.told, _owned(joining), has_changed=has_changed, now_ms=now_ms)
    group.timers.cancel(("join", member_id))
    group.start_session(member_id, joining.request.session_timeout_ms, now_ms)
    group.limit("sync", member_id, now_ms + joining.rebalance_timeout_ms)
    group.look_up_patterns(now_ms)
    return after


def _join_classic(world: MigratingWorld, joining: _Joining, change: Change, now_ms: float) -> ConsumerMember:
    """What the static member was to have goes to its successor; another subscription needs a rebalance."""
    group, after, generation = joining.group, change.told, joining.group.epoch
    has_changed = group.subscribe(change)
    needs_rebalance = group.assignment_epoch < group.epoch
    if not needs_rebalance:
        after = group.follow(after, _owned(joining), has_changed=has_changed, now_ms=now_ms)
    classic = migration.downgrade_for_successor(world, group, after, generation, now_ms)
    if needs_rebalance:
        classic.prepare_rebalance(now_ms)
    return after


def _owned(joining: _Joining) -> list[TopicPartitions]:
    topics = joining.group.world.topics
    return [
        TopicPartitions(topic_id=topics[entry.topic].topic_id, partitions=list(entry.partitions))
        for entry in joining.subscription.owned_partitions
        if entry.topic in topics
    ]


def sync(group: ConsumerGroup, request: SyncGroupRequest, now_ms: float) -> SyncGroupResponse:
    """What the member owns in the epoch in which it joined; leaders assign nothing here."""
    try:
        return _sync(group, request, now_ms)
    except GroupRefusal as refusal:
        return SyncGroupResponse(error_code=refusal.code)


def _sync(group: ConsumerGroup, request: SyncGroupRequest, now_ms: float) -> SyncGroupResponse:
    member, facts = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    _check_protocol(group, facts, request)
    # Who has partitions to give up has joined, and is told so by its assignment.
    if group.assignment_epoch > member.epoch and member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
        _limit_join(group, member, now_ms)
        raise GroupRefusal(ErrorCode.REBALANCE_IN_PROGRESS)
    group.timers.cancel(("sync", member.member_id))
    group.start_session(member.member_id, facts.session_timeout_ms, now_ms)
    assigned = {topic_id: sorted(partitions) for topic_id, partitions in member.assigned.items()}
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=migration.written(group, facts, assigned),
    )


def _check_protocol(group: ConsumerGroup, facts: ClassicFacts, request: SyncGroupRequest) -> None:
    has_type = request.protocol_type in {None, group.protocol_type}
    has_name = request.protocol_name in {None, facts.protocols[0][0]}
    if not has_type or not has_name:
        raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, now_ms: float) -> ErrorCode:
    """A sign of life, answered by REBALANCE_IN_PROGRESS to who has to join again."""
    try:
        member, facts = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    except GroupRefusal as refusal:
        return refusal.code
    group.start_session(member.member_id, facts.session_timeout_ms, now_ms)
    if not _has_to_join(group, member):
        return ErrorCode.NONE
    _limit_join(group, member, now_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.assignment_epoch or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not ConsumerMemberState.UNRELEASED_PARTITIONS:
        return False
    return not any(
        partition not in member.assigned.get(topic_id, {}) and group.roster.owner(topic_id, partition) is not None
        for topic_id, partitions in group.roster.target(member.member_id).items()
        for partition in partitions
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicFacts]:
    member = group.roster.known_member(member_id, instance_id)
    facts = migration.classic_facts(member)
    if generation != member.epoch:
        raise GroupRefusal(ErrorCode.ILLEGAL_GENERATION)
    return member, facts


def _limit_join(group: ConsumerGroup, member: ConsumerMember, now_ms: float) -> None:
    if not group.timers.is_scheduled(("join", member.member_id)):
        group.limit("join", member.member_id, now_ms + member.rebalance_timeout_ms)


def leave(group: ConsumerGroup, identities: Sequence[MemberIdentity], now_ms: float) -> list[MemberResponse]:
    """Let them go, whichever protocol they speak."""
    leaving: dict[str, ConsumerMember] = {}
    answers = []
    for identity in identities:
        code = ErrorCode.NONE
        try:
            member = _leaving(group, identity)
            leaving[member.member_id] = member
        except GroupRefusal as refusal:
            code = refusal.code
        instance_id = identity.group_instance_id
        answers.append(MemberResponse(member_id=identity.member_id, group_instance_id=instance_id, error_code=code))
    group.fence(list(leaving.values()), now_ms)
    return answers


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is not None and not identity.member_id:
        holder = group.roster.static_member(identity.group_instance_id)  # an administrator removes a static member
        return holder if holder is not None else group.roster.member("")
    return group.roster.known_member(identity.member_id, identity.group_instance_id)
