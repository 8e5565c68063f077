"""ListOffsets: offsets by time, and the times below zero that mean a place in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.log import Found

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.topics import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
KNOWN_FROM = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
"""The first version in which a special time may be asked for."""

EPOCHS_FROM = 4
READ_COMMITTED = 1
NOT_FOUND = Found(-1, -1, -1)


class _Asked(NamedTuple):
    request: ListOffsetsRequest
    topic: ListOffsetsTopic
    call: Call


async def handle(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    """Answer each partition by itself."""
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name, partitions=[_look_up(_Asked(request, topic, call), one) for one in topic.partitions]
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _look_up(asked: _Asked, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    if not asked.call.may(Operation.DESCRIBE, asked.topic.name):
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer
    if sum(one.partition_index == wanted.partition_index for one in asked.topic.partitions) > 1:
        answer.error_code = ErrorCode.INVALID_REQUEST
        return answer
    if wanted.timestamp < 0 and asked.call.version < KNOWN_FROM.get(wanted.timestamp, 1 << 15):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return answer
    partition = asked.call.cluster.led_by(
        asked.call.broker, asked.topic.name, wanted.partition_index, wanted.current_leader_epoch
    )
    if isinstance(partition, ErrorCode):
        answer.error_code = partition
        return answer
    found = _find(partition, wanted.timestamp, committed_only=asked.request.isolation_level == READ_COMMITTED)
    answer.timestamp, answer.offset = found.timestamp_ms, found.offset
    if asked.call.version >= EPOCHS_FROM:
        answer.leader_epoch = found.leader_epoch
    return answer


def _find(partition: Partition, timestamp: int, *, committed_only: bool) -> Found:
    log = partition.log
    end = log.last_stable_offset if committed_only else log.high_watermark
    match timestamp:
        case -1:  # LATEST
            return Found(-1, end, partition.leader_epoch)
        case -2 | -4:  # EARLIEST, EARLIEST_LOCAL: nothing is kept elsewhere (KIP-405)
            return Found(-1, log.log_start_offset, log.epochs.at(log.log_start_offset))
        case -5 | -6:  # LATEST_TIERED (KIP-1005), EARLIEST_PENDING (KIP-1023): there is no remote storage
            return NOT_FOUND
        case -3:  # MAX_TIMESTAMP (KIP-734)
            found = log.largest_timestamp()
        case _:
            found = log.offset_for_timestamp(timestamp)
    return NOT_FOUND if found is None or found.offset >= end else found
