"""Making, growing, deleting and configuring topics: codes and messages are those of Kafka 4.3.1, seen there."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
import trio

from kwire.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.cluster.config_catalog import ConfigType
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

UNKNOWN_ID = UUID(int=77)


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    config: tuple[str, str | None] | None = None,
    assigned: tuple[tuple[int, list[int]], ...] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=config[0], value=config[1])] if config else [],
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in assigned],
    )


PARTITIONS = "Number of partitions was set to an invalid non-positive value."
MANUAL = "The manual partition assignment includes"
BAD_NAME = (
    "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
)
DEAD = "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
TOO_FEW = (
    "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 2 "
    "broker(s) are registered or some brokers have all their log directories cordoned."
)
GIVEN = "A manual partition assignment was specified, but"


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            topic("bad name"),
            17,
            BAD_NAME,
        ),
        (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (
            topic("x" * 250),
            17,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        (topic("here"), 36, "Topic 'here' already exists."),
        (topic("is_here"), 17, "Topic 'is_here' collides with existing topic: is.here"),
        (topic("zero", 0), 37, PARTITIONS),
        (topic("minus", -2), 37, PARTITIONS),
        (topic("wide", 1, 3), 38, TOO_FEW),
        (topic("none", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (topic("set", config=("nope", "1")), 40, "Unknown topic config name: nope"),
        (
            topic("set", config=("retention.ms", "abc")),
            40,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (topic("set", config=("retention.ms", None)), 40, "Null value not supported for topic configs: retention.ms"),
        (
            topic("set", config=("cleanup.policy", "abc")),
            40,
            "Invalid value abc for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            topic("set", config=("retention.ms", "-2")),
            40,
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (topic("put", -1, -1, assigned=((0, [7]),)), 39, f"{MANUAL} broker 7, but no such broker is registered."),
        (
            topic("put", -1, -1, assigned=((1, [0]),)),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (topic("put", -1, -1, assigned=((0, [1]),)), 39, DEAD),
        (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
        (topic("put", -1, -1, assigned=((0, []),)), 39, f"{MANUAL} an empty replica list."),
        (topic("put", -1, -1, assigned=((0, [0, 0]),)), 39, f"{MANUAL} the broker 0 more than once."),
        (topic("put", 3, -1, assigned=((0, [0]),)), 42, f"{GIVEN} numPartitions was not set to -1."),
        (topic("put", -1, 1, assigned=((0, [0]),)), 42, f"{GIVEN} replication factor was not set to -1."),
        (
            topic("put", -1, -1, assigned=((0, [0]), (0, [0]))),
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_in_kafka_s_words(wanted: CreatableTopic, code: int, message: str) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        cluster = ClusterState(2)
        cluster.kill_broker(1)
        cluster.create_topic("here")
        cluster.create_topic("is.here")
        client = MemoryClient(cluster, nursery)
        answer = await client.ask(CreateTopicsRequest(topics=[wanted]))
        found = answer.topics[0]
        assert (found.error_code, found.error_message) == (code, message)
        assert (found.num_partitions, found.replication_factor, found.configs) == (-1, -1, [])
        assert set(cluster.topics) == {"here", "is.here"}

    run()


@in_trio
async def test_a_topic_comes_with_its_defaults_and_its_own_settings(nursery: trio.Nursery) -> None:
    cluster = ClusterState(3, settings=BrokerSettings(num_partitions=4, default_replication_factor=2))
    client = MemoryClient(cluster, nursery)
    wanted = topic("orders", -1, -1, config=("retention.ms", "1000"))
    found = (await client.ask(CreateTopicsRequest(topics=[wanted]))).topics[0]
    assert (found.error_code, found.num_partitions, found.replication_factor) == (0, 4, 2)
    assert len(found.configs or ()) == 37
    settings = {each.name: (each.value, each.config_source) for each in found.configs or ()}
    assert settings["retention.ms"] == ("1000", 1)
    assert settings["cleanup.policy"] == ("delete", 5)
    assert found.topic_id == cluster.topics["orders"].topic_id
    assert cluster.topics["orders"].settings.retention_ms == 1000


@in_trio
async def test_a_topic_named_twice_is_not_made_at_all(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    answer = await MemoryClient(cluster, nursery).ask(CreateTopicsRequest(topics=[topic("twice"), topic("twice")]))
    assert [(each.error_code, each.error_message) for each in answer.topics] == [(42, "Duplicate topic name.")]
    assert not cluster.topics


@pytest.mark.parametrize(
    ("name", "count", "assigned", "code", "message"),
    [
        ("orders", 2, None, 37, "Topic already has 2 partition(s)."),
        ("orders", 1, None, 37, "The topic orders currently has 2 partition(s); 1 would not be an increase."),
        ("orders", -1, None, 37, "The topic orders currently has 2 partition(s); -1 would not be an increase."),
        ("nope", 3, None, 3, None),
        ("orders", 3, [[9]], 39, f"{MANUAL} broker 9, but no such broker is registered."),
        (
            "orders",
            3,
            [[0], [0]],
            39,
            "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
        ),
        ("orders", 3, [[1]], 39, DEAD.replace("partition 0", "partition 2")),
        ("orders", 3, [[]], 39, f"{MANUAL} an empty replica list."),
        ("orders", 5, None, 0, None),
        ("orders", 3, [[0]], 0, None),
    ],
)
def test_a_topic_grows_or_kafka_says_why_not(
    name: str, count: int, assigned: list[list[int]] | None, code: int, message: str | None
) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        cluster = ClusterState(2)
        cluster.kill_broker(1)
        cluster.create_topic("orders", 2)
        placed = None if assigned is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=placed)
        answer = await MemoryClient(cluster, nursery).ask(CreatePartitionsRequest(topics=[wanted]))
        assert [(each.error_code, each.error_message) for each in answer.results] == [(code, message)]
        assert len(cluster.topics["orders"].partitions) == (2 if code else count)

    run()


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        ([DeleteTopicState(name="nope")], 3, "This server does not host this topic-partition."),
        ([DeleteTopicState(topic_id=UNKNOWN_ID)], 100, "This server does not host this topic ID."),
        (
            [DeleteTopicState(name="orders", topic_id=UNKNOWN_ID)],
            42,
            "You may not specify both topic name and topic id.",
        ),
        ([DeleteTopicState()], 42, "Neither topic name nor id were specified."),
        ([DeleteTopicState(name="orders")] * 2, 42, "Duplicate topic name."),
        ([DeleteTopicState(name="orders")], 0, None),
    ],
)
def test_a_topic_goes_or_kafka_says_why_not(wanted: list[DeleteTopicState], code: int, message: str | None) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        cluster.create_topic("orders")
        answer = await MemoryClient(cluster, nursery).ask(DeleteTopicsRequest(topics=wanted))
        assert [(each.error_code, each.error_message) for each in answer.responses] == [(code, message)]
        assert ("orders" in cluster.topics) is bool(code)

    run()


@in_trio
async def test_metadata_creates_a_topic_for_the_next_who_asks(nursery: trio.Nursery) -> None:
    client = MemoryClient(ClusterState(), nursery)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True)
    codes = [(await client.ask(request)).topics[0].error_code for _ in range(2)]
    assert codes == [3, 0]


@in_trio
async def test_a_topic_whose_name_collides_is_not_made_by_asking_for_it(nursery: trio.Nursery) -> None:
    """Brokers answer as if it were to come; the controller then refuses it."""
    cluster = ClusterState()
    cluster.create_topic("the.orders")
    client = MemoryClient(cluster, nursery)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="the_orders")], allow_auto_topic_creation=True)
    codes = [topic.error_code for _ in range(2) for topic in (await client.ask(request)).topics]
    assert (codes, set(cluster.topics)) == ([3, 3], {"the.orders"})


@in_trio
async def test_metadata_creates_nothing_where_that_is_switched_off(nursery: trio.Nursery) -> None:
    client = MemoryClient(ClusterState(settings=BrokerSettings(auto_create_topics_enable=False)), nursery)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True)
    codes = [(await client.ask(request)).topics[0].error_code for _ in range(2)]
    assert codes == [3, 3]


@in_trio
async def test_a_partition_without_leader_says_so(nursery: trio.Nursery) -> None:
    cluster = ClusterState(2)
    cluster.create_topic("orders", 2, 1)
    cluster.kill_broker(1)
    answer = await MemoryClient(cluster, nursery).ask(MetadataRequest(topics=None))
    found = {each.partition_index: each for each in answer.topics[0].partitions}
    assert (found[0].error_code, found[0].leader_id, found[0].offline_replicas) == (0, 0, [])
    assert (found[1].error_code, found[1].leader_id, found[1].offline_replicas) == (5, -1, [1])


@pytest.mark.parametrize(
    ("kind", "name", "code", "count"),
    [
        (2, "orders", 0, 37),
        (2, "nope", 3, 0),
        (2, "bad name", 17, 0),
        (4, "", 0, 0),
        (4, "7", 42, 0),
        (4, "abc", 42, 0),
        (32, "any-group", 0, 4),
        (32, "", 42, 0),
        (99, "x", 42, 0),
    ],
)
def test_settings_are_shown_of_what_there_is(kind: int, name: str, code: int, count: int) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        cluster.create_topic("orders")
        wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        answer = await MemoryClient(cluster, nursery).ask(DescribeConfigsRequest(resources=[wanted]))
        assert [(each.error_code, len(each.configs)) for each in answer.results] == [(code, count)]

    run()


@in_trio
async def test_a_broker_shows_kafka_s_settings_and_which_of_them_can_be_changed_while_it_runs(
    nursery: trio.Nursery,
) -> None:
    wanted = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=None)
    answer = await MemoryClient(ClusterState(), nursery).ask(DescribeConfigsRequest(resources=[wanted]))
    shown = {each.name: (each.read_only, each.config_type) for each in answer.results[0].configs}
    assert shown["message.max.bytes"] == (False, ConfigType.INT)
    assert shown["auto.create.topics.enable"] == (True, ConfigType.BOOLEAN)
    assert shown["connections.max.reauth.ms"] == (True, ConfigType.LONG)
    assert not {"transaction.marker.delay.ms", "load.ms", "allow.everyone.if.no.acl.found"} & set(shown)


@in_trio
async def test_a_setting_tells_where_its_value_comes_from(nursery: trio.Nursery) -> None:
    """KIP-226."""
    cluster = ClusterState(settings=BrokerSettings(message_max_bytes=2_000_000))
    cluster.create_topic("orders", config={"retention.ms": "1000"})
    cluster.configure_group("billing", {"consumer.session.timeout.ms": "6000"})
    client = MemoryClient(cluster, nursery)

    async def shown(kind: int, name: str, key: str) -> list[tuple[str, str | None, int]]:
        wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
        answer = await client.ask(DescribeConfigsRequest(resources=[wanted], include_synonyms=True))
        return [(each.name, each.value, each.source) for each in answer.results[0].configs[0].synonyms]

    assert await shown(2, "orders", "retention.ms") == [
        ("retention.ms", "1000", 1),
        ("log.retention.ms", "604800000", 5),
    ]
    assert await shown(2, "orders", "max.message.bytes") == [("message.max.bytes", "2000000", 4)]
    assert await shown(4, "0", "message.max.bytes") == [("message.max.bytes", "2000000", 4)]
    assert await shown(32, "billing", "consumer.session.timeout.ms") == [
        ("consumer.session.timeout.ms", "6000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
