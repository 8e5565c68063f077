"""LeaveGroup (key 13): members leave a classic group.

* 1 adds the throttle time; 2 throttles after answering; 3 lets many members leave at once (KIP-345); 4 is flexible.
* 5 adds the reason for leaving (KIP-800).
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Int32, NullableString, Request, Response, String, Structure, field


class MemberIdentity(Structure):
    """A member, by member id or by group instance id."""

    member_id: String = ""
    group_instance_id: NullableString = None
    reason: NullableString = field("5+", default=None, ignorable=True)


class LeaveGroupRequest(Request["LeaveGroupResponse"], key=13, versions="0-5", flexible="4+"):
    """One member (0-2) or many (3+)."""

    group_id: String = ""
    member_id: String = field("0-2", default="", compact=False)
    members: Array[MemberIdentity] = field("3+", default=[])


class MemberResponse(Structure):
    """What became of one member."""

    member_id: String = ""
    group_instance_id: NullableString = ""
    error_code: Int16 = 0


class LeaveGroupResponse(Response, to=LeaveGroupRequest):
    """What became of the request, and (3+) of each member."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    members: Array[MemberResponse] = field("3+", default=[])
