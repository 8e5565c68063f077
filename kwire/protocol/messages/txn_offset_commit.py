"""TxnOffsetCommit (key 28): store consumed positions as part of a transaction (KIP-98).

* 1 throttles after answering; 2 adds leader epochs (KIP-320).
* 3 is flexible and says which member commits, so that the group can fence it (KIP-447).
* 4 may answer TRANSACTION_ABORTABLE; 5 adds the group to the transaction as well (KIP-890).
"""

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


class TxnOffsetCommitRequestPartition(Structure):
    """A position: the next offset to read."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: NullableString = ""


class TxnOffsetCommitRequestTopic(Structure):
    """A topic and its positions."""

    name: String = ""
    partitions: Array[TxnOffsetCommitRequestPartition] = field(default=[])


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"], key=28, versions="0-5", flexible="3+"):
    """Positions, the transaction they belong to, and who commits them."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: NullableString = field("3+", default=None)
    topics: Array[TxnOffsetCommitRequestTopic] = field(default=[])


class TxnOffsetCommitResponsePartition(Structure):
    """What became of one position."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Structure):
    """A topic and its partitions."""

    name: String = ""
    partitions: Array[TxnOffsetCommitResponsePartition] = field(default=[])


class TxnOffsetCommitResponse(Response, to=TxnOffsetCommitRequest):
    """What became of each position."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic] = field(default=[])
