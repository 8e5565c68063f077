"""DeleteGroups (key 42): delete empty groups with their positions (KIP-229).

* 1 throttles after answering; 2 is flexible.
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Int32, Request, Response, String, Structure, field


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], key=42, versions="0-2", flexible="2+"):
    """The groups to delete."""

    groups_names: Array[String] = field(default=[])


class DeletableGroupResult(Structure):
    """What became of one group."""

    group_id: String = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Response, to=DeleteGroupsRequest):
    """What became of each group."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult] = field(default=[])
