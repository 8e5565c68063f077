"""DescribeProducers (key 61): who writes to a partition, to find transactions that hang (KIP-664)."""

from __future__ import annotations

from kwire.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    field,
)


class TopicRequest(Structure):
    """A topic and its partitions."""

    name: String = ""
    partition_indexes: Array[Int32] = field(default=[])


class DescribeProducersRequest(Request["DescribeProducersResponse"], key=61, versions="0", flexible="0+"):
    """The partitions to look at."""

    topics: Array[TopicRequest] = field(default=[])


class ProducerState(Structure):
    """A producer, as the partition's leader remembers it."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Structure):
    """A partition and its producers."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    active_producers: Array[ProducerState] = field(default=[])


class TopicResponse(Structure):
    """A topic and its partitions."""

    name: String = ""
    partitions: Array[PartitionResponse] = field(default=[])


class DescribeProducersResponse(Response, to=DescribeProducersRequest):
    """The producers of each partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse] = field(default=[])
