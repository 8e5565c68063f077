"""DescribeGroups (key 15): state and members of classic groups.

* 1 adds the throttle time; 2 throttles after answering; 3 adds authorized operations (KIP-430).
* 4 adds group instance ids (KIP-345); 5 is flexible.
* 6 answers GROUP_ID_NOT_FOUND, with a message, for a group that there is not, instead of a dead one (KIP-1043).
"""

from __future__ import annotations

from kwire.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Int16,
    Int32,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    field,
)


class DescribeGroupsRequest(Request["DescribeGroupsResponse"], key=15, versions="0-6", flexible="5+"):
    """The groups to describe."""

    groups: Array[String] = field(default=[])
    include_authorized_operations: Bool = field("3+", default=False)


class DescribedGroupMember(Structure):
    """A member, its subscription and its assignment; the last two are empty unless the group is stable."""

    member_id: String = ""
    group_instance_id: NullableString = field("4+", default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Structure):
    """A group, or why there is none."""

    error_code: Int16 = 0
    error_message: NullableString = field("6+", default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Array[DescribedGroupMember] = field(default=[])
    authorized_operations: Int32 = field("3+", default=-2147483648)  # not asked for


class DescribeGroupsResponse(Response, to=DescribeGroupsRequest):
    """The groups, in no particular order."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    groups: Array[DescribedGroup] = field(default=[])
