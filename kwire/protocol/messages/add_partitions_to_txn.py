"""AddPartitionsToTxn (key 24): a transaction is about to write to these partitions (KIP-98).

* 1 throttles after answering; 2 may answer PRODUCER_FENCED (KIP-588); 3 is flexible.
* 4 is for brokers among themselves: many transactions at once, and a mere look whether partitions are in (KIP-890).
* 5 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Bool, Int16, Int32, Int64, Request, Response, String, Structure, field


class AddPartitionsToTxnTopic(Structure):
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[Int32] = field(default=[])


class AddPartitionsToTxnTransaction(Structure):
    """A transaction and its partitions."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: Array[AddPartitionsToTxnTopic] = field(default=[])


class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"], key=24, versions="0-5", flexible="3+"):
    """The partitions; of one transaction up to version 3, of many from 4 on."""

    transactions: Array[AddPartitionsToTxnTransaction] = field("4+", default=[])
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = field("0-3", default=[])


class AddPartitionsToTxnPartitionResult(Structure):
    """What became of one partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Structure):
    """A topic and its partitions."""

    name: String = ""
    results_by_partition: Array[AddPartitionsToTxnPartitionResult] = field(default=[])


class AddPartitionsToTxnResult(Structure):
    """A transaction and its topics."""

    transactional_id: String = ""
    topic_results: Array[AddPartitionsToTxnTopicResult] = field(default=[])


class AddPartitionsToTxnResponse(Response, to=AddPartitionsToTxnRequest):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: Array[AddPartitionsToTxnResult] = field("4+", default=[])
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = field("0-3", default=[])
