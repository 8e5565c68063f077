"""SyncGroup: the assignment of a member, once the leader has sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.testing.cluster.groups import classic_in_consumer, classic_sync
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.consumer import ConsumerGroup

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

PROTOCOL_MANDATORY_FROM = 5
"""KIP-559."""


async def handle(request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    """Answer one SyncGroup, when there are assignments."""
    code = _error(request, call)
    if code is not ErrorCode.NONE:
        return SyncGroupResponse(error_code=code)
    cluster = call.cluster
    group = cluster.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        return classic_in_consumer.sync(group, request, cluster.now_ms())
    if not isinstance(group, ClassicGroup):
        return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    answer = classic_sync.sync(group, request, cluster.now_ms())
    while answer.value is None:
        await cluster.changed.wait(answer)
    return answer.value


def _error(request: SyncGroupRequest, call: Call) -> ErrorCode:
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= PROTOCOL_MANDATORY_FROM and not has_protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    return call.group_error(request.group_id)
