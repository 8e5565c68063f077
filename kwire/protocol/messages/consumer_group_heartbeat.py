"""ConsumerGroupHeartbeat (key 68): join, stay in, change and leave a group of the consumer protocol (KIP-848).

* 1 adds subscriptions by regular expression, and wants the member to make up its own id (KIP-1082).

Fields that did not change since the last heartbeat are None, or -1 for the timeout.
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


class TopicPartitions(Structure):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = field(default=[])


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"], key=68, versions="0-1", flexible="0+"):
    """Where the member stands and what it wants."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: NullableArray[String] = None
    subscribed_topic_regex: NullableString = field("1+", default=None)
    server_assignor: NullableString = None
    topic_partitions: NullableArray[TopicPartitions] = None


class Assignment(Structure):
    """What the member is to own."""

    topic_partitions: Array[TopicPartitions] = field(default=[])


class ConsumerGroupHeartbeatResponse(Response, to=ConsumerGroupHeartbeatRequest):
    """The member's epoch and, when it changed, its target assignment."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
