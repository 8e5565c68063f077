"""OffsetFetch: committed positions of one group (up to version 7) or of many (KIP-709).

A group that does not exist has none, which is no error. From version 10 on topics go by id (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.model import ZERO_UUID, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

MANY_GROUPS_FROM = 8
IDS_FROM = 10
ERROR_FROM = 2
NO_OFFSET = -1


async def handle(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """Answer one OffsetFetch."""
    if call.version >= MANY_GROUPS_FROM:
        return OffsetFetchResponse(groups=[_group(asked, call, request.require_stable) for asked in request.groups])
    answer = _group(_as_one_of_many(request), call, request.require_stable)
    if not answer.error_code:
        return OffsetFetchResponse(topics=_as_of_one_group(answer.topics))
    if call.version >= ERROR_FROM:
        return OffsetFetchResponse(error_code=answer.error_code)
    return OffsetFetchResponse(topics=_refused(request, answer.error_code))


# --- any version as version 8 and back ---------------------------------------------------------------------------


def _as_one_of_many(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    if topics is None:
        return OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    many = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=many)


def _as_of_one_group(topics: list[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(name=topic.name, partitions=[_as_of_one(found) for found in topic.partitions])
        for topic in topics
    ]


def _as_of_one(found: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=found.partition_index,
        committed_offset=found.committed_offset,
        committed_leader_epoch=found.committed_leader_epoch,
        metadata=found.metadata,
        error_code=found.error_code,
    )


def _refused(request: OffsetFetchRequest, code: int) -> list[OffsetFetchResponseTopic]:
    """Version 1 has no error for the whole answer, so each partition says it."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=NO_OFFSET, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in (request.topics or [])
    ]


# --- one group ---------------------------------------------------------------------------------------------------


def _group(asked: OffsetFetchRequestGroup, call: Call, require_stable: bool) -> OffsetFetchResponseGroup:
    code = _error(asked, call)
    if code is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
    topics = asked.topics if asked.topics is not None else _all_topics(asked.group_id, call)
    # Kafka puts topics with unknown ids behind the others.
    ordered = sorted(topics, key=lambda topic: _name(topic, call) is None)
    answers = [_topic(asked.group_id, topic, call, require_stable) for topic in ordered]
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=answers)


def _error(asked: OffsetFetchRequestGroup, call: Call) -> ErrorCode:
    code = call.group_error(asked.group_id, Operation.DESCRIBE)
    group = call.cluster.groups.get(asked.group_id)
    if code is ErrorCode.NONE and group is not None:
        try:
            group.check_fetch(member_id=asked.member_id, generation=asked.member_epoch)
        except GroupRefusal as refusal:
            return refusal.code
    return code


def _all_topics(group_id: str, call: Call) -> list[OffsetFetchRequestTopics]:
    """The topics that have positions, and those partitions of them that do."""
    indexes: dict[str, list[int]] = {}
    for partition in call.cluster.groups.offsets.of_group(group_id):
        if not call.may(Operation.DESCRIBE, partition.topic):
            continue
        indexes.setdefault(partition.topic, []).append(partition.partition)
    ids = {name: topic.topic_id for name, topic in call.cluster.topics.items()}
    return [
        OffsetFetchRequestTopics(name=name, topic_id=ids.get(name, ZERO_UUID), partition_indexes=found)
        for name, found in indexes.items()
        if call.version < IDS_FROM or name in ids
    ]


def _name(topic: OffsetFetchRequestTopics, call: Call) -> str | None:
    if call.version < IDS_FROM:
        return topic.name
    found = call.cluster.topic_by_id(topic.topic_id)
    return found.name if found is not None else None


def _topic(
    group_id: str, topic: OffsetFetchRequestTopics, call: Call, require_stable: bool
) -> OffsetFetchResponseTopics:
    name = _name(topic, call)
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            _none(index, ErrorCode.UNKNOWN_TOPIC_ID)
            if name is None
            else _position(group_id, TopicPartition(name, index), call, require_stable)
            for index in topic.partition_indexes
        ],
    )


def _position(
    group_id: str, partition: TopicPartition, call: Call, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if not call.may(Operation.DESCRIBE, partition.topic):
        return _none(partition.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    offsets = call.cluster.groups.offsets
    if require_stable and offsets.is_pending(group_id, partition):
        return _none(partition.partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)  # KIP-447
    found = offsets.get(group_id, partition)
    if found is None:
        return _none(partition.partition, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=partition.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )


def _none(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=code)
