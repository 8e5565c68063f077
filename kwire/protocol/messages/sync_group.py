"""SyncGroup (key 14): the leader hands in the assignment, every member gets its share.

* 1 adds the throttle time; 2 throttles after answering; 3 adds the group instance id (KIP-345); 4 is flexible.
* 5 repeats the protocol type and name, so that the broker can refuse a mismatch (KIP-559).
"""

from __future__ import annotations

from kwire.protocol.schema import (
    Array,
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


class SyncGroupRequestAssignment(Structure):
    """What one member is to read."""

    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(Request["SyncGroupResponse"], key=14, versions="0-5", flexible="4+"):
    """The assignments from the leader, nothing from the others."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = field("3+", default=None)
    protocol_type: NullableString = field("5+", default=None, ignorable=True)
    protocol_name: NullableString = field("5+", default=None, ignorable=True)
    assignments: Array[SyncGroupRequestAssignment] = field(default=[])


class SyncGroupResponse(Response, to=SyncGroupRequest):
    """What this member is to read."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: NullableString = field("5+", default=None, ignorable=True)
    protocol_name: NullableString = field("5+", default=None, ignorable=True)
    assignment: Bytes = b""
