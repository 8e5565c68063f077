"""DescribeProducers: who writes to a partition, and who has a transaction open there (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.producers import ProducerStateEntry


async def handle(request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    """Answer each partition by itself."""
    topics = [
        TopicResponse(
            name=topic.name, partitions=[_describe(topic.name, index, call) for index in topic.partition_indexes]
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _describe(topic: str, index: int, call: Call) -> PartitionResponse:
    partition = call.cluster.led_by(call.broker, topic, index)
    if isinstance(partition, ErrorCode):
        return PartitionResponse(partition_index=index, error_code=partition)
    return PartitionResponse(
        partition_index=index, active_producers=[_state(producer) for producer in partition.log.producers]
    )


def _state(producer: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if producer.transaction_start is None else producer.transaction_start,
    )
