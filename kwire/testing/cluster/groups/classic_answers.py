"""What a classic group tells a member: the generation it joined, and its share of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kwire.testing.cluster.groups.classic import ClassicGroup
    from kwire.testing.cluster.groups.classic_member import ClassicMember


def joined(
    group: ClassicGroup, member: ClassicMember, *, tell_members: bool = True, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The current generation; only the leader hears of the others."""
    tells = tell_members and group.roster.is_leader(member.member_id)
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.roster.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=[_told(other, group.protocol_name) for other in group.members.values()] if tells else [],
    )


def _told(member: ClassicMember, protocol: str | None) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata(protocol)
    )


def synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """The member's share."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
