"""Permissions that are missing, taken away and granted: what `poll` raises, and that it goes on by itself afterwards.

The cluster in the process answers as brokers with an authorizer do. Nothing but polls happens between the error and the
records: no new subscription, no other consumer.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, TopicPartition
from kwire.errors import AuthorizationError, GroupAuthorizationError, TopicAuthorizationError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.control import Rule

GROUP, SECRET, OPEN = "billing", "secret", "open"
DEADLINE_S = 20.0
HEARTBEAT_MS = 50

BytesConsumer = Consumer[bytes, bytes]


class Authorizer:
    """Takes permissions away from everybody, as far as the answers to these requests go, and gives them back."""

    def __init__(self, cluster: Cluster) -> None:
        self._control = cluster.control
        self._rules: list[Rule] = []

    def deny_group(self, kind: type[Request[Message]]) -> None:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        nobody = [Coordinator(key=GROUP, error_code=code, node_id=-1)]
        answers: dict[type[Request[Message]], Message] = {
            FindCoordinatorRequest: FindCoordinatorResponse(coordinators=nobody),
            JoinGroupRequest: JoinGroupResponse(error_code=code, protocol_name=None),
            HeartbeatRequest: HeartbeatResponse(error_code=code),
            ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse(error_code=code),
        }
        self._rules.append(self._control.on(kind).answer(answers[kind]))

    def deny_topic_in(self, kind: type[Request[Message]], change: Callable[[Message], None]) -> None:
        self._rules.append(self._control.on(kind).edit(change))

    def deny_subscribing(self) -> None:
        """What a coordinator of Kafka 4.1 says to a subscription with a topic that the member may not describe."""
        refusal = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        named = self._control.on(
            ConsumerGroupHeartbeatRequest, where=lambda request, _: SECRET in (request.subscribed_topic_names or ())
        )
        self._rules.append(named.answer(refusal))

    def deny_reading(self, topic_id: UUID) -> None:
        """A client with DESCRIBE and without READ."""
        partition = PartitionData(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, high_watermark=-1)
        topic = FetchableTopicResponse(topic_id=topic_id, partitions=[partition])
        self._rules.append(
            self._control.on(FetchRequest).answer(
                lambda request: FetchResponse(session_id=request.session_id, responses=[topic])
            )
        )

    def grant(self) -> None:
        for rule in self._rules:
            assert rule.fired
            rule.remove()


def hide_secret(answer: Message) -> None:
    """What a client without DESCRIBE is told of a topic: that it may not know."""
    assert isinstance(answer, MetadataResponse)
    for topic in answer.topics:
        if topic.name == SECRET:
            topic.error_code, topic.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []


def refuse_listing(answer: Message) -> None:
    assert isinstance(answer, ListOffsetsResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.error_code, partition.offset = ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1


def refuse_looking_up(answer: Message) -> None:
    assert isinstance(answer, OffsetFetchResponse)
    for group in answer.groups:
        group.error_code, group.topics = ErrorCode.GROUP_AUTHORIZATION_FAILED, []


def refuse_committing(answer: Message) -> None:
    assert isinstance(answer, OffsetCommitResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"group.consumer.heartbeat.interval.ms": HEARTBEAT_MS, "group.initial.rebalance.delay.ms": 0}
    with Cluster(topics={SECRET: 1, OPEN: 1}, settings=settings) as cluster:
        cluster.produce(SECRET, b"a", b"b")
        cluster.produce(OPEN, b"c")
        yield cluster


@pytest.fixture
def authorizer(cluster: Cluster) -> Authorizer:
    return Authorizer(cluster)


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def consumer(cluster: Cluster, protocol: str) -> Iterator[BytesConsumer]:
    """A member of the group, with no topics yet."""
    config: dict[str, object] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": GROUP,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 50,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 40,
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        config["heartbeat.interval.ms"] = HEARTBEAT_MS
    made: BytesConsumer = Consumer(config=config)
    with made:
        yield made


def until_raised(consumer: BytesConsumer, kind: type[AuthorizationError]) -> AuthorizationError:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        try:
            consumer.poll(0.05)
        except kind as error:
            return error
    raise AssertionError(f"no {kind.__name__} in time")


def values_of(consumer: BytesConsumer, count: int) -> list[bytes | None]:
    """So many records, whatever is raised meanwhile: an error may have been on its way when the right was granted."""
    found: list[bytes | None] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline_s:
        with suppress(AuthorizationError):
            found += [record.value for record in consumer.poll(0.2)]
    return found


def test_a_topic_that_may_not_be_described_is_named_and_read_once_it_may(
    consumer: BytesConsumer, authorizer: Authorizer, protocol: str
) -> None:
    authorizer.deny_topic_in(MetadataRequest, hide_secret)
    if protocol == "consumer":
        authorizer.deny_subscribing()
    consumer.subscribe([SECRET])
    for _ in range(3):
        error = until_raised(consumer, TopicAuthorizationError)
        assert isinstance(error, TopicAuthorizationError)
        assert error.topics == {SECRET}
        assert SECRET in str(error)
    authorizer.grant()
    assert values_of(consumer, 2) == [b"a", b"b"]


def test_a_topic_that_may_be_read_flows_beside_one_that_may_not(
    consumer: BytesConsumer, authorizer: Authorizer
) -> None:
    authorizer.deny_topic_in(MetadataRequest, hide_secret)
    consumer.subscribe([SECRET, OPEN])
    until_raised(consumer, TopicAuthorizationError)
    assert values_of(consumer, 1) == [b"c"]
    consumer.commit_sync()
    authorizer.grant()
    assert values_of(consumer, 2) == [b"a", b"b"]


def test_a_topic_that_may_not_be_read_keeps_its_position_until_it_may(
    consumer: BytesConsumer, authorizer: Authorizer, cluster: Cluster
) -> None:
    consumer.subscribe([SECRET])
    assert values_of(consumer, 2) == [b"a", b"b"]
    authorizer.deny_reading(consumer.partitions_for(SECRET)[0].topic_id)
    error = until_raised(consumer, TopicAuthorizationError)
    cluster.produce(SECRET, b"d")
    assert SECRET in str(error)
    assert consumer.position(TopicPartition(SECRET, 0)) == 2
    authorizer.grant()
    assert values_of(consumer, 1) == [b"d"]


def test_a_position_that_may_not_be_asked_for_is_found_once_it_may(
    consumer: BytesConsumer, authorizer: Authorizer
) -> None:
    authorizer.deny_topic_in(ListOffsetsRequest, refuse_listing)
    consumer.subscribe([SECRET])
    assert SECRET in str(until_raised(consumer, TopicAuthorizationError))
    authorizer.grant()
    assert values_of(consumer, 2) == [b"a", b"b"]


@pytest.mark.parametrize("where", ["look-up", "join"])
def test_a_group_that_may_not_be_joined_is_named_and_joined_once_it_may(
    consumer: BytesConsumer, authorizer: Authorizer, protocol: str, where: str
) -> None:
    join = JoinGroupRequest if protocol == "classic" else ConsumerGroupHeartbeatRequest
    authorizer.deny_group(FindCoordinatorRequest if where == "look-up" else join)
    consumer.subscribe([SECRET])
    for _ in range(3):
        assert GROUP in str(until_raised(consumer, GroupAuthorizationError))
    authorizer.grant()
    assert values_of(consumer, 2) == [b"a", b"b"]


def test_offsets_that_may_not_be_looked_up_are_found_once_they_may(
    consumer: BytesConsumer, authorizer: Authorizer
) -> None:
    authorizer.deny_topic_in(OffsetFetchRequest, refuse_looking_up)
    consumer.subscribe([SECRET])
    until_raised(consumer, GroupAuthorizationError)
    authorizer.grant()
    assert values_of(consumer, 2) == [b"a", b"b"]


def test_a_member_whose_group_is_taken_away_goes_on_where_it_was_once_it_is_back(
    consumer: BytesConsumer, authorizer: Authorizer, cluster: Cluster, protocol: str
) -> None:
    consumer.subscribe([SECRET])
    assert values_of(consumer, 2) == [b"a", b"b"]
    consumer.commit_sync()
    authorizer.deny_group(HeartbeatRequest if protocol == "classic" else ConsumerGroupHeartbeatRequest)
    assert GROUP in str(until_raised(consumer, GroupAuthorizationError))
    authorizer.grant()
    cluster.produce(SECRET, b"d")
    assert values_of(consumer, 1) == [b"d"]
    assert consumer.group_metadata().member_id


def test_a_commit_that_is_not_permitted_says_so_and_a_later_one_is_taken(
    consumer: BytesConsumer, authorizer: Authorizer, cluster: Cluster
) -> None:
    consumer.subscribe([SECRET])
    assert values_of(consumer, 2) == [b"a", b"b"]
    authorizer.deny_topic_in(OffsetCommitRequest, refuse_committing)
    with pytest.raises(GroupAuthorizationError, match=GROUP):
        consumer.commit_sync()
    authorizer.grant()
    consumer.commit_sync()
    assert cluster.committed(GROUP)[TopicPartition(SECRET, 0)].offset == 2


def test_calls_about_a_topic_that_may_not_be_described_say_so(consumer: BytesConsumer, authorizer: Authorizer) -> None:
    authorizer.deny_topic_in(MetadataRequest, hide_secret)
    for call in (
        lambda: consumer.partitions_for(SECRET),
        lambda: consumer.end_offsets([TopicPartition(SECRET, 0)]),
    ):
        with pytest.raises(TopicAuthorizationError) as raised:
            call()
        assert raised.value.topics == {SECRET}
    authorizer.grant()
    assert len(consumer.partitions_for(SECRET)) == 1
