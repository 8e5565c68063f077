"""ConsumerGroupDescribe (key 69): state and members of groups of the consumer protocol (KIP-848).

* 1 tells members of the classic protocol from the others, as a group may hold both while it migrates (KIP-1099).
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Bool,
    Int8,
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


class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"], key=69, versions="0-1", flexible="0+"):
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
    """A member, what it owns and what it is to own."""

    member_id: String = ""
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = field(default=[])
    subscribed_topic_regex: NullableString = None
    assignment: Assignment = field(default=Assignment())
    target_assignment: Assignment = field(default=Assignment())
    member_type: Int8 = field("1+", default=-1, ignorable=True)


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


class ConsumerGroupDescribeResponse(Response, to=ConsumerGroupDescribeRequest):
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = field(default=[])
