"""Heartbeat (key 12): a member of a classic group is alive, and learns of a rebalance.

* 1 adds the throttle time; 2 throttles after answering; 3 adds the group instance id (KIP-345); 4 is flexible.
"""

from __future__ import annotations

from kwire.protocol.schema import Int16, Int32, NullableString, Request, Response, String, field


class HeartbeatRequest(Request["HeartbeatResponse"], key=12, versions="0-4", flexible="4+"):
    """I am alive."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = field("3+", default=None)


class HeartbeatResponse(Response, to=HeartbeatRequest):
    """Go on, or an error that says what to do instead."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
