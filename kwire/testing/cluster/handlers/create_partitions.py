"""CreatePartitions: topics grow (KIP-195)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kwire.testing.cluster.topic_names import TopicRefusedError
from kwire.testing.cluster.topic_rules import check_replicas, placements

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.state import ClusterState


async def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    """What became of each topic; one that is named twice does not grow."""
    named = Counter(wanted.name for wanted in request.topics)
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in named.items()
        if count > 1
    ]
    results += [
        _grow(call.cluster, wanted, only_validate=request.validate_only)
        for wanted in request.topics
        if named[wanted.name] == 1
    ]
    return CreatePartitionsResponse(results=results)


def _grow(cluster: ClusterState, wanted: CreatePartitionsTopic, *, only_validate: bool) -> CreatePartitionsTopicResult:
    try:
        replicas = _new_replicas(cluster, wanted)
    except TopicRefusedError as refused:
        return CreatePartitionsTopicResult(name=wanted.name, error_code=refused.code, error_message=refused.message)
    if not only_validate:
        cluster.grow_topic(wanted.name, wanted.count, replicas)
    return CreatePartitionsTopicResult(name=wanted.name)


def _new_replicas(cluster: ClusterState, wanted: CreatePartitionsTopic) -> list[list[int]]:
    topic = cluster.topics.get(wanted.name)
    if topic is None:
        raise TopicRefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    now = len(topic.partitions)
    if wanted.count == now:
        raise TopicRefusedError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if wanted.count < now:
        message = f"The topic {topic.name} currently has {now} partition(s); {wanted.count} would not be an increase."
        raise TopicRefusedError(ErrorCode.INVALID_PARTITIONS, message)
    more = wanted.count - now
    if wanted.assignments is None:
        return placements(cluster, now, more, len(topic.partitions[0].replicas))
    if len(wanted.assignments) != more:
        message = (
            f"Attempted to add {more} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified."
        )
        raise TopicRefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    for index, assignment in enumerate(wanted.assignments, start=now):
        check_replicas(cluster, index, assignment.broker_ids)
    return [list(assignment.broker_ids) for assignment in wanted.assignments]
