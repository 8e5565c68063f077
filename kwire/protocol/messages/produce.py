"""Produce (key 0): append records to partitions.

* 3 adds the transactional id, and records in format 2 (KIP-98); 4 may answer KAFKA_STORAGE_ERROR.
* 5 answers the log start offset; 7 allows zstd (KIP-110); 8 names the records at fault (KIP-467); 9 is flexible.
* 10 names the new leader and its address (KIP-951).
* 11 may answer TRANSACTION_ABORTABLE; 12 adds the partitions to the transaction as well (KIP-890).
* 13 names topics by id alone (KIP-516).

kwire reads; it declares this API for the in-process broker, tests and tools.
"""

from __future__ import annotations

from typing import ClassVar

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableRecords,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class PartitionProduceData(Structure):
    """A partition and the records to append."""

    index: Int32 = 0
    records: NullableRecords = None


class TopicProduceData(Structure):
    """A topic, by name (up to 12) or by id (13+), and what to append to it."""

    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_data: Array[PartitionProduceData] = field(default=[])


class ProduceRequest(Request["ProduceResponse"], key=0, versions="3-13", flexible="9+"):
    """Records, topic by topic, and how many replicas have to have them."""

    last_version_with_names: ClassVar[int] = 12
    """Later ones name topics by id alone."""

    transactional_id: NullableString = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Array[TopicProduceData] = field(default=[])


class BatchIndexAndErrorMessage(Structure):
    """A record at fault, by its place in the batch (KIP-467)."""

    batch_index: Int32 = 0
    batch_index_error_message: NullableString = None


class LeaderIdAndEpoch(Structure):
    """The leader the broker knows of (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Structure):
    """Where a partition's records went, or why not."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    record_errors: Array[BatchIndexAndErrorMessage] = field("8+", default=[], ignorable=True)
    error_message: NullableString = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", default=LeaderIdAndEpoch(), tag=0)


class TopicProduceResponse(Structure):
    """A topic, by name (up to 12) or by id (13+), and what became of its records."""

    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: Array[PartitionProduceResponse] = field(default=[])


class NodeEndpoint(Structure):
    """Where a new leader listens (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class ProduceResponse(Response, to=ProduceRequest):
    """What became of the records."""

    responses: Array[TopicProduceResponse] = field(default=[])
    throttle_time_ms: Int32 = 0
    node_endpoints: Array[NodeEndpoint] = field("10+", default=[], tag=0)
