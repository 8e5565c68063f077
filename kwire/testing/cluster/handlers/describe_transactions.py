"""DescribeTransactions: transactions as their coordinator sees them (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kwire.testing.cluster.access import Operation

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.transaction import Transaction

OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50
"""Where Kafka keeps positions; a transaction shows the group's partition of it (offsets.topic.num.partitions)."""


async def handle(request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    """Answer each transactional id by itself."""
    return DescribeTransactionsResponse(
        transaction_states=[_describe(name, call) for name in request.transactional_ids]
    )


def _describe(name: str, call: Call) -> TransactionState:
    code = call.transaction_error(name, Operation.DESCRIBE) if name else ErrorCode.INVALID_REQUEST
    found = call.cluster.transactions.find(name, call.cluster.now_ms()) if code is ErrorCode.NONE else None
    if found is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if code is ErrorCode.NONE else code
        return TransactionState(error_code=code, transactional_id=name)
    return TransactionState(
        transactional_id=name,
        transaction_state=found.status.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_at_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=_topics(found),
    )


def _topics(transaction: Transaction) -> list[TopicData]:
    by_name: dict[str, list[int]] = {}
    for name, index in transaction.partitions:
        by_name.setdefault(name, []).append(index)
    for group in transaction.groups:
        partitions = by_name.setdefault(OFFSETS_TOPIC, [])
        partition = _java_hash(group) % OFFSETS_PARTITIONS
        if partition not in partitions:
            partitions.append(partition)
    return [TopicData(topic=name, partitions=indexes) for name, indexes in by_name.items()]


def _java_hash(text: str) -> int:
    """Java's String.hashCode, without its sign, as Kafka's Utils.abs takes it."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
