"""ShareAcknowledge (key 79): say what became of records of a share group (KIP-932).

* 1 is the first that brokers keep; 0 was for early access; 2 can renew what it still works on (KIP-1222).
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class AcknowledgementBatch(Structure):
    """A range of offsets and what became of them: one type for all, or one for each."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Array[Int8] = field(default=[])


class AcknowledgePartition(Structure):
    """A partition and its ranges."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[AcknowledgementBatch] = field(default=[])


class AcknowledgeTopic(Structure):
    """A topic and its partitions."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[AcknowledgePartition] = field(default=[])


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"], key=79, versions="1-2", flexible="0+"):
    """What is done."""

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Bool = field("2+", default=False)
    topics: Array[AcknowledgeTopic] = field(default=[])


class LeaderIdAndEpoch(Structure):
    """The leader the broker knows of."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class PartitionData(Structure):
    """What became of one partition's ranges."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = field(default=LeaderIdAndEpoch())


class ShareAcknowledgeTopicResponse(Structure):
    """A topic and its partitions."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = field(default=[])


class NodeEndpoint(Structure):
    """Where a new leader listens."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class ShareAcknowledgeResponse(Response, to=ShareAcknowledgeRequest):
    """What became of the acknowledgements."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = field("2+", default=0, ignorable=True)
    responses: Array[ShareAcknowledgeTopicResponse] = field(default=[])
    node_endpoints: Array[NodeEndpoint] = field(default=[])
