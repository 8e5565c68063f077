"""DeleteRecords (key 21): delete what lies in front of an offset (KIP-107).

* 1 throttles after answering; 2 is flexible.
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Int32, Int64, Request, Response, String, Structure, field


class DeleteRecordsPartition(Structure):
    """A partition and its new first offset; -1 is its high watermark."""

    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Structure):
    """A topic and its partitions."""

    name: String = ""
    partitions: Array[DeleteRecordsPartition] = field(default=[])


class DeleteRecordsRequest(Request["DeleteRecordsResponse"], key=21, versions="0-2", flexible="2+"):
    """From where on to keep each partition."""

    topics: Array[DeleteRecordsTopic] = field(default=[])
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Structure):
    """A partition and the first offset it has now, or an error."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Structure):
    """A topic and its partitions."""

    name: String = ""
    partitions: Array[DeleteRecordsPartitionResult] = field(default=[])


class DeleteRecordsResponse(Response, to=DeleteRecordsRequest):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult] = field(default=[])
