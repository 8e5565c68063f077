"""OffsetForLeaderEpoch: where leader epochs ended, so that readers notice when the log was cut (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kwire.testing.cluster.access import Operation

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    """Answer each partition by itself."""
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=[_end(topic.topic, wanted, call) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _end(topic: str, wanted: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    if not call.may(Operation.DESCRIBE, topic):
        return EpochEndOffset(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=wanted.partition)
    partition = call.cluster.led_by(call.broker, topic, wanted.partition, wanted.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(error_code=partition, partition=wanted.partition)
    end = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)
