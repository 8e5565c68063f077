"""ShareGroupDescribe (key 77): state and members of share groups (KIP-932).

* 1 is the first that brokers keep; 0 was for early access.
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"], key=77, versions="1", flexible="0+"):
    """The groups to describe."""

    group_ids: Array[String] = field(default=[])
    include_authorized_operations: Bool = False


class TopicPartitions(Structure):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Array[Int32] = field(default=[])


class Assignment(Structure):
    """Partitions, topic by topic."""

    topic_partitions: Array[TopicPartitions] = field(default=[])


class Member(Structure):
    """A member and what it reads."""

    member_id: String = ""
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = field(default=[])
    assignment: Assignment = field(default=Assignment())


class DescribedGroup(Structure):
    """A group, or why there is none."""

    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[Member] = field(default=[])
    authorized_operations: Int32 = -2147483648  # not asked for


class ShareGroupDescribeResponse(Response, to=ShareGroupDescribeRequest):
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = field(default=[])
