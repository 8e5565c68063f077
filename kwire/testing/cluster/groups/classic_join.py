"""JoinGroup for a classic group: which members may join, their ids, and whether a rebalance follows.

Kafka's classicGroupJoin. `join` answers at once or when the rebalance is over; the answer is a `Pending` either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.testing.cluster.groups.classic_answers import joined
from kwire.testing.cluster.groups.classic_member import ClassicMemberEntry
from kwire.testing.cluster.groups.classic_states import ClassicGroupState
from kwire.testing.cluster.groups.pending import Pending
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from kwire.protocol.messages.join_group import JoinGroupRequest
    from kwire.testing.cluster.groups.classic import ClassicGroup
    from kwire.testing.cluster.groups.surroundings import Client

MEMBER_ID_REQUIRED_FROM = 4
"""KIP-394."""

SKIPS_ASSIGNMENT_FROM = 9
"""KIP-814."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """One JoinGroup on its way through the group."""

    group: ClassicGroup
    request: JoinGroupRequest
    client: Client
    now_ms: float
    answer: Pending[JoinGroupResponse]

    @property
    def protocols(self) -> list[tuple[str, bytes]]:
        return [(protocol.name, bytes(protocol.metadata)) for protocol in self.request.protocols]

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has none and means the session timeout."""
        return self.request.rebalance_timeout_ms if self.client.version > 0 else self.request.session_timeout_ms

    def refuse(self, code: ErrorCode, member_id: str = "") -> None:
        """Answer with an error."""
        self.answer.complete(JoinGroupResponse(error_code=code, member_id=member_id))


def join(group: ClassicGroup, request: JoinGroupRequest, client: Client, now_ms: float) -> Pending[JoinGroupResponse]:
    """Let a client join; the group's answer comes now or later."""
    answer: Pending[JoinGroupResponse] = Pending(group.surroundings.notify)
    joining = Joining(group=group, request=request, client=client, now_ms=now_ms, answer=answer)
    if not _has_room(group, request.member_id):
        group.roster.remove(request.member_id)
        joining.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif not _fits(group, request):
        joining.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif not request.member_id:
        _join_new(joining)
    elif request.member_id in group.roster.pending_joins:
        _join_with_new_id(joining)
    else:
        _join_again(joining)
    return answer


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """While joins come in, those who wait for the answer count: so the last to come back are the ones kept out."""
    limit = group.surroundings.settings.group_max_size
    if group.is_empty:
        return True
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return (member is not None and member.waiting_join is not None) or group.roster.waiting_to_join() < limit
    return member is not None or len(group.members) < limit


def _fits(group: ClassicGroup, request: JoinGroupRequest) -> bool:
    """Whether all members would still have a protocol in common."""
    if group.is_empty:
        return bool(request.protocol_type and request.protocols)
    return request.protocol_type == group.protocol_type and group.roster.has_common(p.name for p in request.protocols)


# --- without a member id ---------------------------------------------------------------------------------------------


def _join_new(joining: Joining) -> None:
    group, instance_id = joining.group, joining.request.group_instance_id
    new_id = group.surroundings.new_member_id(joining.client.client_id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.roster.static_ids:
        _replace_static(joining, group.roster.static_ids[instance_id], new_id)
    elif instance_id is None and joining.client.version >= MEMBER_ID_REQUIRED_FROM:
        group.roster.pending_joins[new_id] = None
        group.start_session(new_id, joining.now_ms + joining.request.session_timeout_ms)
        joining.refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id)
    else:
        _add(joining, new_id)


def _join_with_new_id(joining: Joining) -> None:
    """The second JoinGroup of KIP-394. Static members are never sent away for an id, so this is none."""
    if joining.request.group_instance_id is not None:
        joining.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    _add(joining, joining.request.member_id)


def _add(joining: Joining, member_id: str) -> None:
    group, request = joining.group, joining.request
    if not group.members:
        group.protocol_type = request.protocol_type
    member = ClassicMemberEntry(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=joining.client.client_id,
        client_host=joining.client.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=joining.protocols,
        waiting_join=joining.answer,
    )
    group.add(member, joining.now_ms)


def _replace_static(joining: Joining, old_id: str, new_id: str) -> None:
    """A static member comes back without its id: the process was restarted, or a second one has the same instance id.

    The member with the old id is fenced (KIP-345); a stable group goes on without a rebalance.
    """
    group = joining.group
    old_leader = group.roster.leader_id
    group.fence(group.members[old_id])
    member = group.roster.rename(old_id, new_id)
    _update(joining, member)
    group.restart_session(member, joining.now_ms)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        # The leader assigns to the old id, so the new one would be left without partitions.
        group.prepare_rebalance(joining.now_ms)
    elif group.state is ClassicGroupState.STABLE and group.roster.selected_protocol() == group.protocol_name:
        group.log()
        _welcome_back(joining, member, old_leader or "")
    else:
        group.rebalance(joining.now_ms)


def _welcome_back(joining: Joining, member: ClassicMemberEntry, old_leader: str) -> None:
    """Before KIP-814 a returning leader was named the old leader's id, so that it would not assign; now it is told."""
    group = joining.group
    if joining.client.version >= SKIPS_ASSIGNMENT_FROM:
        skips = group.roster.is_leader(member.member_id)
        member.answer_join(joined(group, member, skip_assignment=skips))
        return
    response = joined(group, member, tell_members=False)
    response.leader = old_leader
    member.answer_join(response)


# --- with a member id ------------------------------------------------------------------------------------------------


def _join_again(joining: Joining) -> None:
    group, request = joining.group, joining.request
    try:
        group.roster.check(request.member_id, request.group_instance_id)
    except GroupRefusal as refusal:
        joining.refuse(refusal.code, request.member_id)
        return
    member = group.members[request.member_id]
    if _has_news(group, member, joining.protocols):
        _update(joining, member)
        group.rebalance(joining.now_ms)
    else:
        # The first answer may have been lost: the same once more, so that it can go on to SyncGroup.
        joining.answer.complete(joined(group, member))


def _has_news(group: ClassicGroup, member: ClassicMemberEntry, protocols: list[tuple[str, bytes]]) -> bool:
    """Whether its coming back makes a rebalance. A stable group's leader comes back to ask for one."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE or member.protocols != protocols:
        return True
    return group.state is ClassicGroupState.STABLE and group.roster.is_leader(member.member_id)


def _update(joining: Joining, member: ClassicMemberEntry) -> None:
    """What it says now counts. An older JoinGroup of it is never answered: its connection waits for it in vain."""
    member.protocols = joining.protocols
    member.rebalance_timeout_ms = joining.rebalance_timeout_ms
    member.session_timeout_ms = joining.request.session_timeout_ms
    member.waiting_join = joining.answer
