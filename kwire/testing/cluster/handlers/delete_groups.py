"""DeleteGroups: groups without members go, with their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kwire.testing.cluster.access import Operation

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    """Answer one DeleteGroups; a group named twice is deleted once."""
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=_delete(name, call)) for name in names]
    )


def _delete(group_id: str, call: Call) -> ErrorCode:
    code = call.group_error(group_id, Operation.DELETE)
    return call.cluster.groups.delete(group_id) if code is ErrorCode.NONE else code
