"""ShareFetch (key 78): acquire records of a share group, and acknowledge earlier ones (KIP-932).

* 1 is the first that brokers keep; 0 was for early access.
* 2 can ask for no more records than wanted (KIP-1206), and renew what it still works on (KIP-1222).
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
    Records,
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


class FetchPartition(Structure):
    """A partition to acquire records of."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[AcknowledgementBatch] = field(default=[])


class FetchTopic(Structure):
    """A topic and its partitions."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[FetchPartition] = field(default=[])


class ForgottenTopic(Structure):
    """Partitions that leave the session."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = field(default=[])


class ShareFetchRequest(Request["ShareFetchResponse"], key=78, versions="1-2", flexible="0+"):
    """What to acquire, how much, and what is done."""

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647  # no limit
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = field("2+", default=0, ignorable=True)
    is_renew_ack: Bool = field("2+", default=False)
    topics: Array[FetchTopic] = field(default=[])
    forgotten_topics_data: Array[ForgottenTopic] = field(default=[])


class LeaderIdAndEpoch(Structure):
    """The leader the broker knows of."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Structure):
    """A range of offsets that this member now holds."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class PartitionData(Structure):
    """A partition: its records and which of them are acquired, or an error."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = field(default=LeaderIdAndEpoch())
    records: Records = None  # None cannot be sent; it is only what Kafka starts from
    acquired_records: Array[AcquiredRecords] = field(default=[])


class ShareFetchableTopicResponse(Structure):
    """A topic and its partitions."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = field(default=[])


class NodeEndpoint(Structure):
    """Where a new leader listens."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class ShareFetchResponse(Response, to=ShareFetchRequest):
    """Records, topic by topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: Array[ShareFetchableTopicResponse] = field(default=[])
    node_endpoints: Array[NodeEndpoint] = field(default=[])
