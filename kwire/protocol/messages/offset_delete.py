"""OffsetDelete (key 47): delete positions of a group for topics that it does not read any more (KIP-496)."""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Int32, Request, Response, String, Structure, field


class OffsetDeleteRequestPartition(Structure):
    """A partition."""

    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Structure):
    """A topic and its partitions."""

    name: String = ""
    partitions: Array[OffsetDeleteRequestPartition] = field(default=[])


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], key=47, versions="0"):
    """The positions to delete."""

    group_id: String = ""
    topics: Array[OffsetDeleteRequestTopic] = field(default=[])


class OffsetDeleteResponsePartition(Structure):
    """What became of one position."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Structure):
    """A topic and its partitions."""

    name: String = ""
    partitions: Array[OffsetDeleteResponsePartition] = field(default=[])


class OffsetDeleteResponse(Response, to=OffsetDeleteRequest):
    """What became of each position."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic] = field(default=[])
