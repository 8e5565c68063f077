"""JoinGroup (key 11): enter a rebalance of a classic group.

* 1 adds the rebalance timeout; 2 the throttle time; 3 throttles after answering.
* 4 hands out the member id with MEMBER_ID_REQUIRED, so that joining takes two requests (KIP-394).
* 5 adds the group instance id (KIP-345); 6 is flexible; 7 answers the protocol type (KIP-559).
* 8 adds the reason for joining (KIP-800); 9 lets the broker ask the leader to skip the assignment (KIP-814).
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


class JoinGroupRequestProtocol(Structure):
    """An assignor and the subscription as it wants it."""

    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(Request["JoinGroupResponse"], key=11, versions="0-9", flexible="6+"):
    """Who joins, and with which assignors."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: NullableString = field("5+", default=None)
    protocol_type: String = ""
    protocols: Array[JoinGroupRequestProtocol] = field(default=[])
    reason: NullableString = field("8+", default=None, ignorable=True)


class JoinGroupResponseMember(Structure):
    """A member and its subscription."""

    member_id: String = ""
    group_instance_id: NullableString = field("5+", default=None, ignorable=True)
    metadata: Bytes = b""


class JoinGroupResponse(Response, to=JoinGroupRequest):
    """The new generation; the leader alone learns the members."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: NullableString = field("7+", default=None, ignorable=True)
    protocol_name: NullableString = field(default="", null="7+")
    leader: String = ""
    skip_assignment: Bool = field("9+", default=False)
    member_id: String = ""
    members: Array[JoinGroupResponseMember] = field(default=[])
