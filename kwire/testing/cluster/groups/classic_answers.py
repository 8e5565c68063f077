"""Answers of a classic group to a member: the generation that it has joined, and its assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kwire.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.testing.cluster.groups.classic_member import ClassicMemberEntry
    from kwire.testing.cluster.groups.classic_roster import Roster


class GenerationFacts(Protocol):
    """What members are told of a group: `classic.ClassicGroup`."""

    generation: int
    protocol_type: str
    protocol_name: str | None
    roster: Roster

    @property
    def members(self) -> Mapping[str, ClassicMemberEntry]: ...


def joined(
    group: GenerationFacts, member: ClassicMemberEntry, *, tell_members: bool = True, skip_assignment: bool = False
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


def _told(member: ClassicMemberEntry, protocol: str | None) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata(protocol)
    )


def synced(group: GenerationFacts, member: ClassicMemberEntry) -> SyncGroupResponse:
    """The member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
