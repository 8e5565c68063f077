"""ListGroups (key 16): the groups that one broker coordinates.

* 1 adds the throttle time; 2 throttles after answering; 3 is flexible.
* 4 adds states, and can ask for some only (KIP-518); 5 does the same for types (KIP-848).
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Int32, Request, Response, String, Structure, field


class ListGroupsRequest(Request["ListGroupsResponse"], key=16, versions="0-5", flexible="3+"):
    """Which groups; an empty filter lets all pass."""

    states_filter: Array[String] = field("4+", default=[])
    types_filter: Array[String] = field("5+", default=[])


class ListedGroup(Structure):
    """A group, as short as it gets."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: String = field("4+", default="", ignorable=True)
    group_type: String = field("5+", default="", ignorable=True)


class ListGroupsResponse(Response, to=ListGroupsRequest):
    """The groups of this broker."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    groups: Array[ListedGroup] = field(default=[])
