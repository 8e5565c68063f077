"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, to find out whether a log was truncated (KIP-320).

* 2 adds the current leader epoch, which fences, and the throttle time.
* 3 adds the replica id, and with it a consumer needs no more than the right to describe the topic; 4 is flexible.
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Int32, Int64, Request, Response, String, Structure, field


class OffsetForLeaderPartition(Structure):
    """A partition and the epoch whose end is wanted."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Structure):
    """A topic and its partitions."""

    topic: String = ""
    partitions: Array[OffsetForLeaderPartition] = field(default=[])


class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"], key=23, versions="2-4", flexible="4+"):
    """The epochs to look up."""

    replica_id: Int32 = field("3+", default=-2, ignorable=True)
    topics: Array[OffsetForLeaderTopic] = field(default=[])


class EpochEndOffset(Structure):
    """The largest epoch up to the one asked for, and its end."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Structure):
    """A topic and its partitions."""

    topic: String = ""
    partitions: Array[EpochEndOffset] = field(default=[])


class OffsetForLeaderEpochResponse(Response, to=OffsetForLeaderEpochRequest):
    """Where the epochs ended."""

    throttle_time_ms: Int32 = 0
    topics: Array[OffsetForLeaderTopicResult] = field(default=[])
