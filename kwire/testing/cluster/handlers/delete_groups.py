"""DeleteGroups: groups without members go, with their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    """Answer one DeleteGroups; a group named twice is deleted once."""
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=_delete(name, call)) for name in names]
    )


def _delete(group_id: str, call: Call) -> ErrorCode:
    code = call.cluster.group_error(group_id, call.broker)
    return call.cluster.groups.delete(group_id) if code is ErrorCode.NONE else code
