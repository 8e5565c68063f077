"""Metadata: brokers that run, topics, leaders. Asking for a topic by name may create it, as far as settings allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.testing.cluster.access import Operation, bits
from kwire.testing.cluster.topic_names import TopicRefusedError, name_problem, topic_problem
from kwire.testing.cluster.topic_rules import placements
from kwire.testing.cluster.topics import NO_LEADER

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.state import ClusterState
    from kwire.testing.cluster.topics import Partition, Topic

NOT_ASKED_FOR = -(1 << 31)
TOPIC_OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
"""What there is to be done with a topic."""

EVERY_CLUSTER_OPERATION = 8096


async def handle(request: MetadataRequest, call: Call) -> MetadataResponse:
    """The cluster as it is; all brokers know the same."""
    cluster = call.cluster
    if any(wanted.name is None and wanted.topic_id == ZERO_UUID for wanted in request.topics or ()):
        return MetadataResponse(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
            topics=[MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, name="")],
        )
    found = _topics(request, call)
    if request.include_topic_authorized_operations:
        for topic in found:
            topic.topic_authorized_operations = topic_operations(call, topic.name or "")
    running = cluster.running()
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in running
        ],
        cluster_id=cluster.cluster_id,
        controller_id=running[0].node_id if running else -1,
        topics=found,
        cluster_authorized_operations=EVERY_CLUSTER_OPERATION
        if request.include_cluster_authorized_operations
        else NOT_ASKED_FOR,
    )


def _topics(request: MetadataRequest, call: Call) -> list[MetadataResponseTopic]:
    is_everything = request.topics is None or (call.version == 0 and not request.topics)
    if is_everything:
        topics = call.cluster.topics.values()
        return [describe(call.cluster, topic) for topic in topics if call.may(Operation.DESCRIBE, topic.name)]
    wanted = {(topic.name, topic.topic_id): topic for topic in request.topics or ()}
    return [_topic(request, topic, call) for topic in wanted.values()]


def _topic(request: MetadataRequest, wanted: MetadataRequestTopic, call: Call) -> MetadataResponseTopic:
    cluster = call.cluster
    if wanted.topic_id != ZERO_UUID:  # KIP-516; the name is not looked at then
        by_id = cluster.topic_by_id(wanted.topic_id)
        if by_id is None:
            return _unknown(None, ErrorCode.UNKNOWN_TOPIC_ID, wanted)
        if not call.may(Operation.DESCRIBE, by_id.name):
            return _unknown(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
        return describe(cluster, by_id)
    name = wanted.name or ""
    if not call.may(Operation.DESCRIBE, name):  # nor is told whether it exists
        return _unknown(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
    if name in cluster.topics:
        return describe(cluster, cluster.topics[name])
    if name_problem(name) is not None:
        return _unknown(name, ErrorCode.INVALID_TOPIC_EXCEPTION, wanted)
    if request.allow_auto_topic_creation and cluster.settings.auto_create_topics_enable:
        if not call.may(Operation.CREATE, name):
            return _unknown(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
        return _created(cluster, name, wanted)
    return _unknown(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted)


def _created(cluster: ClusterState, name: str, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    """Kafka creates it afterwards: this answer does not know it yet, the next one does."""
    if topic_problem(cluster.topics, name) is not None:  # found then, and told to nobody
        return _unknown(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted)
    try:
        cluster.create_topic(name, assignments=placements(cluster, 0, cluster.settings.num_partitions))
    except TopicRefusedError as refused:
        return _unknown(name, refused.code, wanted)
    return _unknown(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted)


def _unknown(name: str | None, code: ErrorCode, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=wanted.topic_id)


def topic_operations(call: Call, topic: str) -> int:
    """What the client may do with the topic, as bits (KIP-430)."""
    return bits(operation for operation in TOPIC_OPERATIONS if call.may(operation, topic))


def describe(cluster: ClusterState, topic: Topic) -> MetadataResponseTopic:
    """A topic that is there."""
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(cluster, partition) for partition in topic.partitions],
    )


def _partition(cluster: ClusterState, partition: Partition) -> MetadataResponsePartition:
    leaderless = partition.leader == NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(cluster, partition),
    )


def offline_replicas(cluster: ClusterState, partition: Partition) -> list[int]:
    """The replicas whose broker does not run, for all that the others know."""
    return [node_id for node_id in partition.replicas if not cluster.brokers[node_id].is_active]
