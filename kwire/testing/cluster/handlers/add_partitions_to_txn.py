"""AddPartitionsToTxn: make partitions part of a transaction, or ask whether they are (KIP-98, KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kwire.testing.cluster.transaction import ProducerIdAndEpoch, TransactionRefusedError
from kwire.testing.cluster.transaction_checks import fenced_code
from kwire.testing.cluster.transactions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.testing.cluster.call import Call

FENCED_FROM = 2
MANY_FROM = 4
"""From this version on brokers ask, for many transactions at once."""


async def handle(request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
    """One transaction up to version 3, many from 4 on."""
    if call.version >= MANY_FROM:
        results = [
            AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=_results(one, call))
            for one in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(transaction, call))


def _results(transaction: AddPartitionsToTxnTransaction, call: Call) -> list[AddPartitionsToTxnTopicResult]:
    places = partitions_of((topic.name, topic.partitions) for topic in transaction.topics)
    unknown = [place for place in places if call.cluster.partition(*place) is None]
    if unknown and not transaction.verify_only:
        # All or nothing: the rest was not tried.
        return _topics(
            transaction.topics,
            lambda name, index: (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if (name, index) in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED
            ),
        )
    return _topics(transaction.topics, _codes(transaction, places, call))


def _codes(
    transaction: AddPartitionsToTxnTransaction, places: list[tuple[str, int]], call: Call
) -> Callable[[str, int], ErrorCode]:
    """What each partition is answered."""
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    name, transactions = transaction.transactional_id, call.cluster.transactions

    def attempt(places: list[tuple[str, int]]) -> ErrorCode:
        code = call.transaction_error(name)
        if code is not ErrorCode.NONE:
            return code
        act = transactions.verify if transaction.verify_only else transactions.add
        try:
            act(name, producer, call.cluster.now_ms(), partitions=places)
        except TransactionRefusedError as refusal:
            return fenced_code(refusal.code, call.version, knows_fenced_from=FENCED_FROM)
        return ErrorCode.NONE

    if transaction.verify_only:
        return lambda topic, index: attempt([(topic, index)])
    outcome = attempt(places)
    return lambda _topic, _index: outcome


def _topics(
    topics: list[AddPartitionsToTxnTopic], code: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code(topic.name, index))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
