"""Metadata, DescribeCluster, DescribeTopicPartitions: all three describe the cluster and its topics alike."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.broker import EMPTY_PARTITIONS
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok, only, the
from kwire.conformance.registry import check
from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker
    from kwire.protocol.messages.metadata import MetadataResponseTopic

CONTROLLERS = 2
"""The endpoint type of controllers (KIP-919)."""


def request_for(version: int, *topics: MetadataRequestTopic) -> MetadataRequest:
    """A request for topics that does not create them, if the version can say so."""
    return MetadataRequest(topics=list(topics), allow_auto_topic_creation=version < 4)


def ask_for(broker: JudgedBroker, version: int, topic: MetadataRequestTopic) -> MetadataResponseTopic:
    return only(broker.ask(request_for(version, topic), version).topics, "topic in the answer")


@check(MetadataRequest)
def describes_a_topic(broker: JudgedBroker, version: int) -> None:
    topic = broker.empty_topic()
    answer = broker.ask(request_for(version, MetadataRequestTopic(name=topic.name)), version)
    found = only(answer.topics, "topic in the answer")
    expect_ok(found.error_code, "the topic")
    expect_equal(found.name, topic.name, "the name")
    indexes = sorted(partition.partition_index for partition in found.partitions)
    expect_equal(indexes, list(range(EMPTY_PARTITIONS)), "the partitions")
    for partition in found.partitions:
        expect_equal(partition.leader_id, broker.node_id, "the leader")
        expect_equal(partition.replica_nodes, [broker.node_id], "the replicas")
        expect_equal(partition.isr_nodes, [broker.node_id], "the replicas in sync")
        if version >= 7:
            expect(partition.leader_epoch >= 0, "there is no leader epoch (KIP-320)")
    if version >= 10:
        expect_equal(found.topic_id, topic.id, "the topic id")


@check(MetadataRequest)
def names_the_brokers(broker: JudgedBroker, version: int) -> None:
    answer = broker.ask(request_for(version, MetadataRequestTopic(name=broker.empty_topic().name)), version)
    own = the(answer.brokers, lambda node: node.node_id == broker.node_id, f"broker with id {broker.node_id}")
    expect(bool(own.host) and 0 < own.port < 1 << 16, f"nobody can connect to {own}")
    if version >= 1:
        expect(answer.controller_id >= 0, f"the controller is {answer.controller_id}")
    if version >= 2:
        expect(bool(answer.cluster_id), f"the cluster id is {answer.cluster_id!r}")


@check(MetadataRequest)
def lists_all_topics(broker: JudgedBroker, version: int) -> None:
    topic = broker.empty_topic()
    request = MetadataRequest(topics=[] if version == 0 else None, allow_auto_topic_creation=version < 4)
    found = {entry.name for entry in broker.ask(request, version).topics}
    expect(topic.name in found, f"{topic.name} is not among the {len(found)} topics listed")


@check(MetadataRequest, versions="1+")
def lists_no_topics_when_asked_for_none(broker: JudgedBroker, version: int) -> None:
    expect_equal(broker.ask(request_for(version), version).topics, [], "the topics")


@check(MetadataRequest, versions="4+")
def does_not_create_a_topic_against_the_will(broker: JudgedBroker, version: int) -> None:
    nowhere = broker.new_name()
    for _ in range(2):
        found = ask_for(broker, version, MetadataRequestTopic(name=nowhere))
        expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown topic")


@check(MetadataRequest)
def refuses_an_invalid_name(broker: JudgedBroker, version: int) -> None:
    found = ask_for(broker, version, MetadataRequestTopic(name="no such name!"))
    expect_error(found.error_code, ErrorCode.INVALID_TOPIC_EXCEPTION, what="an invalid topic name")


@check(MetadataRequest, versions="12+")
def finds_topics_by_id(broker: JudgedBroker, version: int) -> None:
    """KIP-516."""
    topic = broker.empty_topic()
    found = ask_for(broker, version, MetadataRequestTopic(name=None, topic_id=topic.id))
    expect_ok(found.error_code, "a topic by its id")
    expect_equal(found.name, topic.name, "the name")
    unknown = ask_for(broker, version, MetadataRequestTopic(name=None, topic_id=uuid4()))
    expect_error(unknown.error_code, ErrorCode.UNKNOWN_TOPIC_ID, what="an unknown topic id")


@check(DescribeClusterRequest, needs=[MetadataRequest])
def tells_the_same_cluster_as_metadata(broker: JudgedBroker, version: int) -> None:
    metadata = broker.metadata()
    answer = broker.ask(DescribeClusterRequest(), version)
    expect_ok(answer.error_code, "DescribeCluster")
    expect_equal(answer.cluster_id, metadata.cluster_id, "the cluster id")
    nodes = {(node.broker_id, node.host, node.port) for node in answer.brokers}
    expect_equal(nodes, {(node.node_id, node.host, node.port) for node in metadata.brokers}, "the brokers")


@check(DescribeClusterRequest, versions="1+")
def knows_that_it_is_no_controller(broker: JudgedBroker, version: int) -> None:
    """KIP-919."""
    answer = broker.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), version)
    expect_error(answer.error_code, ErrorCode.MISMATCHED_ENDPOINT_TYPE, what="a request for controllers")


@check(DescribeTopicPartitionsRequest)
def describes_partitions_page_by_page(broker: JudgedBroker, version: int) -> None:
    """KIP-966."""
    topic = broker.empty_topic()
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic.name)], response_partition_limit=2)
    pages: list[int] = []
    for wanted in (Cursor(topic_name=topic.name, partition_index=2), None):
        answer = broker.ask(request, version)
        found = only(answer.topics, "topic in the answer")
        expect_ok(found.error_code, "the topic")
        expect_equal(found.topic_id, topic.id, "the topic id")
        pages += [partition.partition_index for partition in found.partitions]
        expect_equal(answer.next_cursor, wanted, "where the next page starts")
        request.cursor = answer.next_cursor
    expect_equal(pages, list(range(EMPTY_PARTITIONS)), "the partitions")


@check(DescribeTopicPartitionsRequest)
def knows_no_partitions_of_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=broker.new_name())])
    found = only(broker.ask(request, version).topics, "topic in the answer")
    expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown topic")
    expect_equal(found.topic_id, ZERO_UUID, "the topic id")
