"""OffsetDelete: positions go, of topics that the group does not read any more (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.groups.classic import ClassicGroup

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.groups.group import Group


async def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    """Answer one OffsetDelete."""
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    code = call.group_error(request.group_id, Operation.DELETE)
    if code is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=code)
    group = call.cluster.groups.get(request.group_id)
    if group is None:
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and not (group.is_empty or group.uses_consumer_protocol):
        # What members of another protocol type read is unknown.
        return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
    topics = [_topic(group, topic, call) for topic in request.topics]
    return OffsetDeleteResponse(topics=sorted(topics, key=lambda topic: not _is_missing(topic.partitions[:1])))


def _topic(group: Group, topic: OffsetDeleteRequestTopic, call: Call) -> OffsetDeleteResponseTopic:
    partitions = [
        OffsetDeleteResponsePartition(
            partition_index=partition.partition_index,
            error_code=_delete(group, TopicPartition(topic.name, partition.partition_index), call),
        )
        for partition in topic.partitions
    ]
    partitions.sort(key=lambda found: not _is_missing([found]))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def _is_missing(partitions: list[OffsetDeleteResponsePartition]) -> bool:
    """Whether this is about what does not exist: Kafka sorts it out before it asks the coordinator, so it is first."""
    return any(found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for found in partitions)


def _delete(group: Group, partition: TopicPartition, call: Call) -> ErrorCode:
    if call.cluster.partition(partition.topic, partition.partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if group.subscribes(partition.topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    call.cluster.groups.offsets.delete(group.group_id, partition)
    return ErrorCode.NONE
