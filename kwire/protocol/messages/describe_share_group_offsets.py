"""DescribeShareGroupOffsets (key 90): where share groups stand in their topics (KIP-932).

* 1 adds the lag (KIP-1226).
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class DescribeShareGroupOffsetsRequestTopic(Structure):
    """A topic and its partitions."""

    topic_name: String = ""
    partitions: Array[Int32] = field(default=[])


class DescribeShareGroupOffsetsRequestGroup(Structure):
    """A group and its topics; None for all."""

    group_id: String = ""
    topics: NullableArray[DescribeShareGroupOffsetsRequestTopic] = field(default=[])


class DescribeShareGroupOffsetsRequest(
    Request["DescribeShareGroupOffsetsResponse"], key=90, versions="0-1", flexible="0+"
):
    """The groups to describe."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup] = field(default=[])


class DescribeShareGroupOffsetsResponsePartition(Structure):
    """A partition and the first offset that is not done with."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = field("1+", default=-1, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = None


class DescribeShareGroupOffsetsResponseTopic(Structure):
    """A topic and its partitions."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Array[DescribeShareGroupOffsetsResponsePartition] = field(default=[])


class DescribeShareGroupOffsetsResponseGroup(Structure):
    """A group and its topics."""

    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsResponseTopic] = field(default=[])
    error_code: Int16 = 0
    error_message: NullableString = None


class DescribeShareGroupOffsetsResponse(Response, to=DescribeShareGroupOffsetsRequest):
    """Where each group stands."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup] = field(default=[])
