"""DescribeTopicPartitions: partitions in the order of their topics' names, page by page (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.handlers.metadata import offline_replicas, topic_operations
from kwire.testing.cluster.topic_names import name_problem
from kwire.testing.cluster.topics import NO_LEADER

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.state import ClusterState
    from kwire.testing.cluster.topics import Partition, Topic

MAX_PARTITIONS = 2000
"""max.request.partition.size.limit."""


async def handle(request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
    """One page; all topics if none is named."""
    cursor = request.cursor or Cursor()
    names = sorted({topic.name for topic in request.topics} or set(call.cluster.topics))
    room = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if name < cursor.topic_name:
            continue
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = call.cluster.topics.get(name)
        if not call.may(Operation.DESCRIBE, name):
            if request.topics:
                response.topics.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, call))
            continue
        if topic is None:
            response.topics.append(_unknown(name, call))
            continue
        first = cursor.partition_index if name == cursor.topic_name else 0
        response.topics.append(_describe(call, topic, first, room))
        room -= len(response.topics[-1].partitions)
        after = first + len(response.topics[-1].partitions)
        if after < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=after)
            break
    return response


def _unknown(name: str, call: Call) -> DescribeTopicPartitionsResponseTopic:
    is_bad = name_problem(name) is not None
    return _refused(name, ErrorCode.INVALID_TOPIC_EXCEPTION if is_bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, call)


def _refused(name: str, code: ErrorCode, call: Call) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=topic_operations(call, name)
    )


def _describe(call: Call, topic: Topic, first: int, room: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(call.cluster, partition) for partition in topic.partitions[first : first + room]],
        topic_authorized_operations=topic_operations(call, topic.name),
    )


def _partition(cluster: ClusterState, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    leaderless = partition.leader == NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline_replicas(cluster, partition),
    )
