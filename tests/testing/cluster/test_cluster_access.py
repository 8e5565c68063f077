"""Permissions: what is denied is answered as by Kafka's authorizer, and comes back when it is given back."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.errors import InvalidArgumentError
from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing import Cluster
from kwire.testing.cluster.access import AccessRule, AccessRules, Operation, Resource
from kwire.testing.cluster.sasl.server import SaslServer
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
ALICE, BOB = "User:alice", "User:bob"


# --- rules --------------------------------------------------------------------------------------------------------


def rule(is_allowed: bool, name: str, operation: Operation = Operation.ALL, principal: str = "User:*") -> AccessRule:
    return AccessRule(
        is_allowed=is_allowed, resource=Resource.TOPIC, name=name, operation=operation, principal=principal
    )


def may(rules: AccessRules, operation: Operation, name: str, principal: str = ALICE) -> bool:
    return rules.allows(principal, operation, Resource.TOPIC, name)


def test_what_no_rule_is_about_is_as_the_cluster_says() -> None:
    assert may(AccessRules(), Operation.READ, "orders")
    assert not may(AccessRules(allowed_otherwise=False), Operation.READ, "orders")


def test_the_newest_rule_decides() -> None:
    rules = AccessRules()
    rules.add(rule(False, "*"))
    rules.add(rule(True, "orders-*", principal=ALICE))
    rules.add(rule(False, "orders-secret", Operation.READ))
    assert not may(rules, Operation.READ, "payments")
    assert may(rules, Operation.READ, "orders-eu")
    assert not may(rules, Operation.READ, "orders-eu", BOB)
    assert not may(rules, Operation.READ, "orders-secret")
    assert may(rules, Operation.WRITE, "orders-secret")


def test_who_may_read_may_describe_and_who_may_not_read_still_may() -> None:
    rules = AccessRules(allowed_otherwise=False)
    rules.add(rule(True, "orders", Operation.READ))
    assert may(rules, Operation.DESCRIBE, "orders")
    assert not may(rules, Operation.WRITE, "orders")
    rules = AccessRules()
    rules.add(rule(False, "orders", Operation.READ))
    assert may(rules, Operation.DESCRIBE, "orders")


def test_a_rule_about_a_topic_is_not_about_a_group() -> None:
    rules = AccessRules()
    rules.add(rule(False, "*"))
    assert rules.allows(ALICE, Operation.READ, Resource.GROUP, "orders")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "name a topic, a group or a transactional_id"),
        ({"topic": ""}, "a rule is about a name, a prefix"),
        ({"topic": "a*b"}, "a rule is about a name, a prefix"),
        ({"topic": "a", "operation": "EAT"}, "an operation is one of ALL, READ"),
        ({"topic": "a", "principal": "alice"}, "principals look like 'User:alice', not 'alice'"),
    ],
)
def test_rules_that_cannot_be_are_refused(arguments: dict[str, str], told: str) -> None:
    with Cluster() as cluster, pytest.raises(InvalidArgumentError, match=told):
        cluster.deny(**arguments)


# --- answers ------------------------------------------------------------------------------------------------------


def cluster_without(*rules: AccessRule) -> ClusterState:
    cluster = ClusterState()
    cluster.create_topic("orders", 1)
    cluster.produce("orders", 0, [b"1"])
    cluster.create_topic("payments", 1)
    for one in rules:
        cluster.access.add(one)
    return cluster


def no_topic(operation: Operation = Operation.ALL) -> ClusterState:
    return cluster_without(rule(False, "orders", operation))


def no_group(operation: Operation = Operation.ALL) -> ClusterState:
    return cluster_without(AccessRule(is_allowed=False, resource=Resource.GROUP, name="g", operation=operation))


@in_trio
async def test_metadata_by_name_by_id_and_of_all(nursery: trio.Nursery) -> None:
    cluster = no_topic()
    client = MemoryClient(cluster, nursery)
    topic_id = cluster.topics["orders"].topic_id
    by_name = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    assert [(one.name, one.error_code, one.topic_id) for one in by_name.topics] == [("orders", NO_TOPIC, ZERO_UUID)]
    unknown = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders2")]))
    assert unknown.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)]))
    assert [(one.name, one.error_code, one.topic_id) for one in by_id.topics] == [(None, NO_TOPIC, topic_id)]
    everything = await client.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True), 12)
    assert "orders" not in [one.name for one in everything.topics]
    cluster.access.add(rule(True, "orders"))
    again = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    assert [(one.error_code, len(one.partitions)) for one in again.topics] == [(0, 1)]


@in_trio
async def test_a_topic_is_not_made_by_asking_without_the_permission(nursery: trio.Nursery) -> None:
    cluster = cluster_without(rule(False, "new", Operation.CREATE))
    answer = await MemoryClient(cluster, nursery).ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
    assert answer.topics[0].error_code == NO_TOPIC
    assert "new" not in cluster.topics


@in_trio
async def test_metadata_tells_what_may_be_done(nursery: trio.Nursery) -> None:
    cluster = no_topic(Operation.WRITE)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], include_topic_authorized_operations=True)
    answer = await MemoryClient(cluster, nursery).ask(asked)
    assert answer.topics[0].topic_authorized_operations == 3576 - (1 << Operation.WRITE)


@in_trio
async def test_describing_partitions(nursery: trio.Nursery) -> None:
    client = MemoryClient(no_topic(), nursery)
    named = await client.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")]))
    assert [(one.name, one.error_code) for one in named.topics] == [("orders", NO_TOPIC)]
    assert [one.name for one in (await client.ask(DescribeTopicPartitionsRequest())).topics] == ["payments"]


def fetch_of(cluster: ClusterState, *topics: str, wait_ms: int = 0) -> FetchRequest:
    wanted = [
        FetchTopic(
            topic_id=cluster.topics[name].topic_id,
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)],
        )
        for name in topics
    ]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=10_000, topics=wanted)


@in_trio
async def test_fetching_what_may_not_be_read_does_not_wait(nursery: trio.Nursery) -> None:
    cluster = no_topic(Operation.READ)
    client = MemoryClient(cluster, nursery)
    before_s = trio.current_time()
    answer = await client.ask(fetch_of(cluster, "orders", wait_ms=500))
    assert trio.current_time() == before_s
    assert [p.error_code for one in answer.responses for p in one.partitions] == [NO_TOPIC]
    both = await client.ask(fetch_of(cluster, "orders", "payments", wait_ms=500))
    assert trio.current_time() == pytest.approx(before_s + 0.5)  # the other one is waited for as ever
    assert [p.error_code for one in both.responses for p in one.partitions] == [NO_TOPIC, 0]
    cluster.access.add(rule(True, "orders"))
    again = await client.ask(fetch_of(cluster, "orders"))
    assert again.responses[0].partitions[0].records


@in_trio
async def test_looking_up_offsets_and_epochs(nursery: trio.Nursery) -> None:
    client = MemoryClient(no_topic(Operation.DESCRIBE), nursery)
    offsets = await client.ask(
        ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])])
    )
    assert offsets.topics[0].partitions[0].error_code == NO_TOPIC
    epochs = await client.ask(
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(leader_epoch=0)])]
        )
    )
    assert epochs.topics[0].partitions[0].error_code == NO_TOPIC


@in_trio
async def test_writing(nursery: trio.Nursery) -> None:
    cluster = no_topic(Operation.WRITE)
    data = [TopicProduceData(topic_id=cluster.topics["orders"].topic_id, partition_data=[PartitionProduceData()])]
    answer = await MemoryClient(cluster, nursery).ask(ProduceRequest(acks=1, topic_data=data))
    assert answer.responses[0].partition_responses[0].error_code == NO_TOPIC


def commit_of(*topics: str) -> OffsetCommitRequest:
    positions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name=name, partitions=positions) for name in topics]
    )


def codes_of_commit(answer: object) -> dict[str, int]:
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}  # type: ignore[attr-defined]


@in_trio
async def test_committing(nursery: trio.Nursery) -> None:
    cluster = no_topic(Operation.READ)
    client = MemoryClient(cluster, nursery)
    assert codes_of_commit(await client.ask(commit_of("payments", "orders"), 9)) == {"orders": NO_TOPIC, "payments": 0}
    cluster.access.add(AccessRule(is_allowed=False, resource=Resource.GROUP, name="g", operation=Operation.READ))
    answer = await client.ask(commit_of("payments", "missing"), 9)
    assert codes_of_commit(answer) == {"payments": NO_GROUP, "missing": NO_GROUP}


def positions_of(*topics: str) -> OffsetFetchRequest:
    wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in topics]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted or None)])


@in_trio
async def test_looking_up_positions(nursery: trio.Nursery) -> None:
    cluster = cluster_without()
    client = MemoryClient(cluster, nursery)
    await client.ask(commit_of("orders", "payments"), 9)
    cluster.access.add(rule(False, "orders", Operation.DESCRIBE))
    found = (await client.ask(positions_of("orders", "payments"), 9)).groups[0]
    assert codes_of_commit(found) == {"orders": NO_TOPIC, "payments": 0}
    everything = (await client.ask(positions_of(), 9)).groups[0]
    assert codes_of_commit(everything) == {"payments": 0}
    cluster.access.add(AccessRule(is_allowed=False, resource=Resource.GROUP, name="g", operation=Operation.DESCRIBE))
    assert (await client.ask(positions_of("payments"), 9)).groups[0].error_code == NO_GROUP


@in_trio
async def test_members_of_a_group(nursery: trio.Nursery) -> None:
    cluster = no_group(Operation.READ)
    client = MemoryClient(cluster, nursery)
    join = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000)
    assert (await client.ask(join)).error_code == NO_GROUP
    assert (await client.ask(HeartbeatRequest(group_id="g"))).error_code == NO_GROUP
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    assert (await client.ask(beat)).error_code == NO_GROUP
    cluster.access.add(AccessRule(is_allowed=True, resource=Resource.GROUP, name="g"))
    cluster.access.add(rule(False, "orders", Operation.DESCRIBE))
    assert (await client.ask(beat)).error_code == NO_TOPIC
    cluster.access.add(rule(True, "orders"))
    assert (await client.ask(beat)).error_code == 0


@in_trio
async def test_coordinators_and_descriptions_of_a_group(nursery: trio.Nursery) -> None:
    cluster = cluster_without()
    client = MemoryClient(cluster, nursery)
    await client.ask(commit_of("orders"), 9)
    assert [one.group_id for one in (await client.ask(ListGroupsRequest())).groups] == ["g"]
    cluster.access.add(AccessRule(is_allowed=False, resource=Resource.GROUP, name="g", operation=Operation.DESCRIBE))
    assert (await client.ask(ListGroupsRequest())).groups == []
    assert (await client.ask(DescribeGroupsRequest(groups=["g"]))).groups[0].error_code == NO_GROUP
    found = await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]))
    assert [one.error_code for one in found.coordinators] == [NO_GROUP, 0]
    one = await client.ask(FindCoordinatorRequest(key_type=0, key="g"), 3)
    assert (one.error_code, one.error_message) == (NO_GROUP, "Group authorization failed.")


@in_trio
async def test_the_principal_of_the_connection_counts(nursery: trio.Nursery) -> None:
    settings = BrokerSettings(allow_everyone_if_no_acl_found=False)
    cluster = ClusterState(settings=settings, sasl=SaslServer({"alice": "a", "bob": "b"}, random=Random(0)))
    cluster.create_topic("orders", 1)
    cluster.access.add(rule(True, "orders", Operation.READ, ALICE))
    codes = {}
    for name, password in (("alice", "a"), ("bob", "b")):
        client = MemoryClient(cluster, nursery)
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        await client.ask(SaslAuthenticateRequest(auth_bytes=f"\0{name}\0{password}".encode()))
        answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
        codes[name] = answer.topics[0].error_code
    assert codes == {"alice": 0, "bob": NO_TOPIC}
