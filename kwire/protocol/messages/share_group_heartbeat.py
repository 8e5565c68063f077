"""ShareGroupHeartbeat (key 76): join, stay in and leave a share group (KIP-932).

* 1 is the first that brokers keep; 0 was for early access.

Fields that did not change since the last heartbeat are None.
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"], key=76, versions="1", flexible="0+"):
    """Where the member stands and what it wants."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: NullableString = None
    subscribed_topic_names: NullableArray[String] = None


class TopicPartitions(Structure):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = field(default=[])


class Assignment(Structure):
    """What the member is to read."""

    topic_partitions: Array[TopicPartitions] = field(default=[])


class ShareGroupHeartbeatResponse(Response, to=ShareGroupHeartbeatRequest):
    """The member's epoch and, when it changed, its assignment."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
