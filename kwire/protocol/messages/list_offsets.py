"""ListOffsets (key 2): offsets by time, and the special times earliest, latest and friends.

* 1 answers one offset with its timestamp; 2 adds the isolation level (KIP-98); 3 throttles after answering.
* 4 adds leader epochs, which fence (KIP-320); 5 may answer OFFSET_NOT_AVAILABLE; 6 is flexible.
* 7 knows the maximum timestamp, -3 (KIP-734); 8 the local log start, -4 (KIP-405); 9 the last tiered, -5 (KIP-1005).
* 10 adds a timeout for offsets in remote storage (KIP-1075); 11 knows the earliest pending upload, -6 (KIP-1023).
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int8, Int16, Int32, Int64, Request, Response, String, Structure, field


class ListOffsetsPartition(Structure):
    """A partition and a time in milliseconds, or a special time below zero."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
    timestamp: Int64 = 0


class ListOffsetsTopic(Structure):
    """A topic and the partitions to look up."""

    name: String = ""
    partitions: Array[ListOffsetsPartition] = field(default=[])


class ListOffsetsRequest(Request["ListOffsetsResponse"], key=2, versions="1-11", flexible="6+"):
    """Partitions and the times to look up."""

    replica_id: Int32 = 0
    isolation_level: Int8 = field("2+", default=0)
    topics: Array[ListOffsetsTopic] = field(default=[])
    timeout_ms: Int32 = field("10+", default=0, ignorable=True)


class ListOffsetsPartitionResponse(Structure):
    """The first offset at or after the time, or -1."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Structure):
    """A topic and the offsets found in it."""

    name: String = ""
    partitions: Array[ListOffsetsPartitionResponse] = field(default=[])


class ListOffsetsResponse(Response, to=ListOffsetsRequest):
    """The offsets found."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: Array[ListOffsetsTopicResponse] = field(default=[])
