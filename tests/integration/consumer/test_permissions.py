"""Permissions that Kafka takes away and grants: `poll` raises, and goes on by itself.

Everybody is ANONYMOUS here, and may do what no ACL speaks of; so an ACL that denies takes a permission away, and its
removal grants it again. What brokers answer in which moment, and how they drop members, is theirs: nothing is staged.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # as in kafkas.py
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.errors import AuthorizationError, GroupAuthorizationError, TopicAuthorizationError
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.kafkas import OwnKafka, Side, StartKafka
else:
    from kafkas import Side

TIMEOUT_S, DEADLINE_S = 30.0, 60.0
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
SETTINGS = {
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
}
BytesConsumer = Consumer[bytes, bytes]


@pytest.fixture(scope="module")
def authorizing(start_kafka: StartKafka, side: Side) -> Iterator[OwnKafka]:
    with start_kafka(1, settings={**SETTINGS, **(AUTHORIZER if side is Side.KAFKA else {})}) as kafka:
        yield kafka


class Scene:
    """A topic with a record, a group, and what may be done with them."""

    def __init__(self, kafka: OwnKafka) -> None:
        self._kafka = kafka
        self.servers = kafka.bootstrap_servers
        self.topic, self.group = (f"kwire-{uuid4().hex[:8]}" for _ in range(2))
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self._admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(TIMEOUT_S)

    def topic_or_group(self, kind: ResourceType) -> str:
        return self.topic if kind is ResourceType.TOPIC else self.group

    @contextmanager
    def denied(self, kind: ResourceType, operation: AclOperation) -> Iterator[None]:
        """Without that permission on the topic or the group."""
        if isinstance(self._kafka, Cluster):  # which has no ACLs over the wire
            about = {"topic" if kind is ResourceType.TOPIC else "group": self.topic_or_group(kind)}
            self._kafka.deny(**about, operation=operation.name)
            yield
            self._kafka.allow(**about, operation=operation.name)
            return
        name = self.topic_or_group(kind)
        what = (kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, AclPermissionType.DENY)
        binding = AclBinding(*what)
        self._admin.create_acls([binding])[binding].result(TIMEOUT_S)
        try:
            yield
        finally:
            deletion = AclBindingFilter(*what)
            self._admin.delete_acls([deletion])[deletion].result(TIMEOUT_S)

    def write(self, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        producer.produce(self.topic, value)
        assert producer.flush(TIMEOUT_S) == 0

    def consumer(self, protocol: str) -> BytesConsumer:
        config: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            config["heartbeat.interval.ms"] = 200
        made: BytesConsumer = Consumer(self.topic, config=config)
        return made


@pytest.fixture
def scene(authorizing: OwnKafka) -> Scene:
    return Scene(authorizing)


def until_raised(consumer: BytesConsumer, kind: type[AuthorizationError]) -> AuthorizationError:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        try:
            consumer.poll(0.1)
        except kind as error:
            return error
        except AuthorizationError:
            continue
    raise AssertionError(f"no {kind.__name__} in time")


def next_value(consumer: BytesConsumer) -> bytes | None:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        with suppress(AuthorizationError):  # one may have been on its way when the permission was granted
            for record in consumer.poll(0.5):
                return record.value
    raise AssertionError("no record in time")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("operation", [AclOperation.DESCRIBE, AclOperation.READ], ids=str)
def test_a_topic_is_read_once_it_may_be(scene: Scene, protocol: str, operation: AclOperation) -> None:
    scene.write(b"first")
    with scene.consumer(protocol) as consumer:
        with scene.denied(ResourceType.TOPIC, operation):
            error = until_raised(consumer, TopicAuthorizationError)
            assert isinstance(error, TopicAuthorizationError)
            assert error.topics == {scene.topic}
        assert next_value(consumer) == b"first"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_joined_once_it_may_be(scene: Scene, protocol: str) -> None:
    scene.write(b"first")
    with scene.consumer(protocol) as consumer:
        with scene.denied(ResourceType.GROUP, AclOperation.READ):
            for _ in range(2):
                assert scene.group in str(until_raised(consumer, GroupAuthorizationError))
        assert next_value(consumer) == b"first"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_goes_on_when_its_group_has_been_taken_away_for_a_while(scene: Scene, protocol: str) -> None:
    scene.write(b"first")
    with scene.consumer(protocol) as consumer:
        assert next_value(consumer) == b"first"
        consumer.commit_sync()
        with scene.denied(ResourceType.GROUP, AclOperation.READ):
            assert scene.group in str(until_raised(consumer, GroupAuthorizationError))
            with pytest.raises(GroupAuthorizationError):
                consumer.commit_sync({TopicPartition(scene.topic, 0): OffsetAndMetadata(1)})
        scene.write(b"second")
        assert next_value(consumer) == b"second"
        consumer.commit_sync()
