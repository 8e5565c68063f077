"""LeaveGroup: members go. Up to version 2 it is one, and its error is that of the whole answer (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kwire.testing.cluster.groups import classic_in_consumer, classic_leave
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.consumer import ConsumerGroup

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

MANY_FROM = 3


async def handle(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    """Answer one LeaveGroup."""
    code = call.group_error(request.group_id) if request.group_id else ErrorCode.INVALID_GROUP_ID
    if code is not ErrorCode.NONE:
        return LeaveGroupResponse(error_code=code)
    if call.version >= MANY_FROM:
        return LeaveGroupResponse(members=_leave(request.group_id, request.members, call))
    left = _leave(request.group_id, [MemberIdentity(member_id=request.member_id)], call)
    return LeaveGroupResponse(error_code=left[0].error_code)


def _leave(group_id: str, members: list[MemberIdentity], call: Call) -> list[MemberResponse]:
    groups, now_ms = call.cluster.groups, call.cluster.now_ms()
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return classic_in_consumer.leave(group, members, now_ms)
    if isinstance(group, ClassicGroup):
        return classic_leave.leave(group, members, now_ms)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    return [
        MemberResponse(member_id=who.member_id, group_instance_id=who.group_instance_id, error_code=unknown)
        for who in members
    ]
