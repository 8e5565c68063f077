"""LeaveGroup for a classic group: members go, by member id or by group instance id, many at a time (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.leave_group import MemberResponse
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.protocol.messages.leave_group import MemberIdentity
    from kwire.testing.cluster.groups.classic import ClassicGroup


def leave(group: ClassicGroup, members: Sequence[MemberIdentity], now_ms: float) -> list[MemberResponse]:
    """Remove members; one rebalance follows, if any was removed."""
    codes = [_leave_one(group, identity) for identity in members]
    if ErrorCode.NONE in codes and not group.is_empty:
        group.rebalance(now_ms)
    return [
        MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        for identity, code in zip(members, codes, strict=True)
    ]


def _leave_one(group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    roster, member_id, instance_id = group.roster, identity.member_id, identity.group_instance_id
    if not member_id:  # an administrator removes a static member
        if instance_id is None or instance_id not in roster.static_ids:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = roster.static_ids[instance_id]
    elif member_id in roster.pending_joins:
        group.end_session(member_id)
        roster.remove(member_id)
        return ErrorCode.NONE
    try:
        roster.check(member_id, instance_id)
    except GroupRefusal as refusal:
        return refusal.code
    group.remove(group.members[member_id])
    return ErrorCode.NONE
