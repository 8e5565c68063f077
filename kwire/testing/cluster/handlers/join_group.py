"""JoinGroup: checks that need no group, then the group's own; the answer may take as long as a rebalance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.testing.cluster.access import Operation, Resource
from kwire.testing.cluster.groups import classic_in_consumer
from kwire.testing.cluster.groups.consumer import ConsumerGroup
from kwire.testing.cluster.groups.surroundings import Client

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

NULLABLE_PROTOCOL_FROM = 7


async def handle(request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    """Answer one JoinGroup, when the group has."""
    response = await _join(request, call)
    response.protocol_name = response.protocol_name or (None if call.version >= NULLABLE_PROTOCOL_FROM else "")
    return response


async def _join(request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    code = _error(request, call)
    if code is not ErrorCode.NONE:
        return JoinGroupResponse(error_code=code, member_id=request.member_id)
    cluster = call.cluster
    group = cluster.groups.get(request.group_id)
    client = Client(call.client_id, call.client_host, call.version)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        return classic_in_consumer.join(cluster, group, request, client, cluster.now_ms())
    answer = cluster.groups.join(request, client, cluster.now_ms())
    while answer.value is None:
        await cluster.changed.wait(answer)
    return answer.value


def _error(request: JoinGroupRequest, call: Call) -> ErrorCode:
    settings = call.cluster.settings
    if not call.may(Operation.READ, request.group_id, Resource.GROUP):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    shortest_ms, longest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return call.group_error(request.group_id)
