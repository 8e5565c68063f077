"""Fetch (key 1): records of many partitions.

* 4 adds the isolation level and aborted transactions, and records in format 2 (KIP-98); 5 the log start offset.
* 6 may answer KAFKA_STORAGE_ERROR; 7 adds incremental sessions (KIP-227); 8 throttles after answering.
* 9 adds the current leader epoch, which fences (KIP-320); 10 allows zstd (KIP-110).
* 11 adds the rack and the replica to read from (KIP-392).
* 12 is flexible, finds diverging logs and names the current leader (KIP-595).
* 13 names topics by id alone (KIP-516); 14 may answer OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).
* 15 moves the replica id into a tagged structure that consumers leave out (KIP-903).
* 16 adds the addresses of new leaders (KIP-951); 17 and 18 add facts about followers (KIP-853, KIP-1166).
"""

from __future__ import annotations

from typing import ClassVar

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableRecords,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class FetchPartition(Structure):
    """A partition and the position to read from."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field("17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = field("18+", default=9223372036854775807, tag=1, ignorable=True)  # not known


class FetchTopic(Structure):
    """A topic, by name (up to 12) or by id (13+), and what to read of it."""

    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: Array[FetchPartition] = field(default=[])


class ForgottenTopic(Structure):
    """Partitions that leave the session (KIP-227)."""

    topic: String = field("7-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: Array[Int32] = field(default=[])


class ReplicaState(Structure):
    """Which follower is asking (KIP-903); consumers leave it out."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchRequest(Request["FetchResponse"], key=1, versions="4-18", flexible="12+"):
    """What to read, how much, and how long to wait for it."""

    last_version_with_names: ClassVar[int] = 12
    """Later ones name topics by id alone."""

    replica_id: Int32 = field("0-14", default=-1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647  # no limit
    isolation_level: Int8 = 0
    session_id: Int32 = field("7+", default=0, ignorable=True)
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)
    topics: Array[FetchTopic] = field(default=[])
    forgotten_topics_data: Array[ForgottenTopic] = field("7+", default=[])
    rack_id: String = field("11+", default="", ignorable=True)
    cluster_id: NullableString = field("12+", default=None, tag=0, ignorable=True)
    replica_state: ReplicaState = field("15+", default=ReplicaState(), tag=1)


class AbortedTransaction(Structure):
    """A producer whose records from this offset on were aborted."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


class EpochEndOffset(Structure):
    """Where the log of the fetching replica departs from the leader's (KIP-595)."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Structure):
    """The leader the broker knows of (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Structure):
    """The snapshot a follower has to load (KIP-630)."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class PartitionData(Structure):
    """A partition: its marks, its records, or an error."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    aborted_transactions: NullableArray[AbortedTransaction] = field(default=[])
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: NullableRecords = None
    diverging_epoch: EpochEndOffset = field("12+", default=EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = field("12+", default=SnapshotId(), tag=2)


class FetchableTopicResponse(Structure):
    """A topic, by name (up to 12) or by id (13+), and what was read of it."""

    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: Array[PartitionData] = field(default=[])


class NodeEndpoint(Structure):
    """Where a new leader listens (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class FetchResponse(Response, to=FetchRequest):
    """Records, topic by topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("7+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0)
    responses: Array[FetchableTopicResponse] = field(default=[])
    node_endpoints: Array[NodeEndpoint] = field("16+", default=[], tag=0)
