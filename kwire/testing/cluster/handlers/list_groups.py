"""ListGroups: the groups of one broker, by state (KIP-518) and type (KIP-848) if so asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kwire.testing.cluster.access import Operation

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.groups.group import Group


async def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """Answer one ListGroups. A group whose coordinator is still loading is not there yet."""
    here = [g for g in call.cluster.groups.all() if call.group_error(g.group_id, Operation.DESCRIBE) is ErrorCode.NONE]
    return ListGroupsResponse(groups=[_listed(group) for group in here if _passes(request, group)])


def _passes(request: ListGroupsRequest, group: Group) -> bool:
    states = {state.strip().lower() for state in request.states_filter}
    kinds = {kind.strip().lower() for kind in request.types_filter}
    return (not states or group.state_name.lower() in states) and (not kinds or group.kind in kinds)


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state_name,
        group_type=group.kind,
    )
