"""DescribeTransactions (key 65): the state of transactions, as their coordinator sees them (KIP-664)."""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Int32, Int64, Request, Response, String, Structure, field


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"], key=65, versions="0", flexible="0+"):
    """The transactions to describe."""

    transactional_ids: Array[String] = field(default=[])


class TopicData(Structure):
    """Partitions of one topic that the transaction writes to."""

    topic: String = ""
    partitions: Array[Int32] = field(default=[])


class TransactionState(Structure):
    """A transaction, or why there is none."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Array[TopicData] = field(default=[])


class DescribeTransactionsResponse(Response, to=DescribeTransactionsRequest):
    """The transactions."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState] = field(default=[])
