"""DescribeTopicPartitions (key 75): partitions of topics, page by page (KIP-966)."""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Bool,
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


class TopicRequest(Structure):
    """A topic."""

    name: String = ""


class Cursor(Structure):
    """The partition that a page starts with."""

    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"], key=75, versions="0", flexible="0+"):
    """The topics, and where the page starts."""

    topics: Array[TopicRequest] = field(default=[])
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Structure):
    """A partition, its leader and its replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: Array[Int32] = field(default=[])
    isr_nodes: Array[Int32] = field(default=[])
    eligible_leader_replicas: NullableArray[Int32] = None
    last_known_elr: NullableArray[Int32] = None
    offline_replicas: Array[Int32] = field(default=[])


class DescribeTopicPartitionsResponseTopic(Structure):
    """A topic and its partitions."""

    error_code: Int16 = 0
    name: NullableString = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: Array[DescribeTopicPartitionsResponsePartition] = field(default=[])
    topic_authorized_operations: Int32 = -2147483648  # not asked for


class DescribeTopicPartitionsResponse(Response, to=DescribeTopicPartitionsRequest):
    """One page, and where the next one starts; None behind the last."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic] = field(default=[])
    next_cursor: Cursor | None = None
