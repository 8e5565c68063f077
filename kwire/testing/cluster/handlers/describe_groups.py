"""DescribeGroups: classic groups with their members. What is not one is dead, or said to be missing (KIP-1043)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.classic_states import ClassicGroupState

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

NOT_FOUND_FROM = 6

ALL_GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe and alter configurations: what may be done to a group, as bits (KIP-430)."""


async def handle(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    """Answer one DescribeGroups."""
    groups = [_described(group_id, call) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _described(group_id: str, call: Call) -> DescribedGroup:
    code = call.group_error(group_id, Operation.DESCRIBE)
    if code is not ErrorCode.NONE:
        return DescribedGroup(error_code=code, group_id=group_id)
    group = call.cluster.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _classic(group)
    if call.version < NOT_FOUND_FROM:
        return DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {'not found' if group is None else 'is not a classic group'}.",
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
    )


def _classic(group: ClassicGroup) -> DescribedGroup:
    """Protocol and subscriptions are told of stable groups only: during a rebalance they are about to change."""
    protocol = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=[member.described(protocol) for member in group.members.values()],
    )
