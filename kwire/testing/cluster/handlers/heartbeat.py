"""Heartbeat: a member of a classic group is alive, and hears of rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.testing.cluster.groups import classic_in_consumer, classic_sync
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.consumer import ConsumerGroup

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    """Answer one Heartbeat."""
    return HeartbeatResponse(error_code=_code(request, call))


def _code(request: HeartbeatRequest, call: Call) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    cluster = call.cluster
    code = call.group_error(request.group_id)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.NONE  # it cannot know better, and nobody is to join again for that
    if code is not ErrorCode.NONE:
        return code
    group = cluster.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_in_consumer.heartbeat(group, request, cluster.now_ms())
    if not isinstance(group, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return classic_sync.heartbeat(group, request, cluster.now_ms())
