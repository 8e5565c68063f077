"""DeleteRecords: let logs begin later (KIP-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.topics import Partition

HIGH_WATERMARK = -1


async def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    """Answer each partition by itself."""
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name, partitions=[_delete(topic.name, one, call) for one in topic.partitions]
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(topics=topics)


def _delete(name: str, wanted: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    partition = _partition(name, wanted.partition_index, call)
    if isinstance(partition, ErrorCode):
        answer.error_code = partition
        return answer
    end = partition.log.high_watermark
    offset = end if wanted.offset == HIGH_WATERMARK else wanted.offset
    if not 0 <= offset <= end:
        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return answer
    answer.low_watermark = partition.log.delete_records_before(offset)
    call.cluster.changed.notify(partition.key)
    return answer


def _partition(name: str, index: int, call: Call) -> Partition | ErrorCode:
    """The partition, if records of it may be deleted by hand, here; else why not."""
    topic = call.cluster.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    found = call.cluster.led_by(call.broker, name, index)
    if not isinstance(found, ErrorCode) and not topic.settings.is_retained:
        return ErrorCode.POLICY_VIOLATION
    return found
