"""A consumer group in a cluster without network, and members that do what they are told: time is a number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.testing.cluster.groups import migration
from kwire.testing.cluster.groups.consumer import ConsumerGroup
from kwire.testing.cluster.groups.surroundings import Client
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from uuid import UUID

GROUP = "group"
CLIENT = Client("client", "/127.0.0.1", 1)
REBALANCE_TIMEOUT_MS = 60_000


@dataclass
class Coordinator:
    """The group's coordinator at a moment."""

    settings: dict[str, object] = field(default_factory=dict)
    now_ms: float = 0.0

    def __post_init__(self) -> None:
        self.cluster = ClusterState(
            settings=BrokerSettings.of({"group_consumer_assignment_interval_ms": 0, **self.settings}),
            now_s=lambda: self.now_ms / 1000,
        )

    @property
    def group(self) -> ConsumerGroup:
        found = self.cluster.groups.get(GROUP)
        assert isinstance(found, ConsumerGroup)
        return found

    def topic(self, name: str, partitions: int) -> UUID:
        """A new topic's id."""
        return self.cluster.create_topic(name, partitions).topic_id

    def ask(self, member_id: str, epoch: int, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat."""
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
        for name, value in fields.items():
            setattr(request, name, value)
        return migration.heartbeat(self.cluster, request, CLIENT, self.now_ms)

    def pass_time(self, ms: float) -> None:
        """Let timers end that end by then."""
        self.now_ms += ms
        self.cluster.groups.expire(self.now_ms)


@dataclass
class Consumer:
    """A member that gives up and takes over at once, and tells so with its next heartbeat."""

    coordinator: Coordinator
    member_id: str
    topics: list[str] | None
    instance_id: str | None = None
    regex: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: dict[UUID, list[int]] = field(default_factory=dict)

    def join(self) -> ConsumerGroupHeartbeatResponse:
        """The first heartbeat."""
        self.epoch, self.owned = 0, {}
        answer = self.coordinator.ask(
            self.member_id,
            0,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=self.topics,
            subscribed_topic_regex=self.regex,
            server_assignor=self.assignor,
            topic_partitions=[],
        )
        return self._take(answer)

    def beat(self, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that tells what it owns."""
        owned = [TopicPartitions(topic_id=topic, partitions=some) for topic, some in self.owned.items()]
        told = {"topic_partitions": owned, "instance_id": self.instance_id, **fields}
        return self._take(self.coordinator.ask(self.member_id, self.epoch, **told))

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """The last heartbeat."""
        return self.coordinator.ask(self.member_id, epoch, instance_id=self.instance_id)

    @property
    def partitions(self) -> list[int]:
        """What it owns, of whatever topic."""
        return sorted(partition for some in self.owned.values() for partition in some)

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {entry.topic_id: entry.partitions for entry in answer.assignment.topic_partitions}
        return answer


def settle(*consumers: Consumer, rounds: int = 4) -> None:
    """Heartbeats in turns until nobody has anything to do."""
    for _ in range(rounds):
        for consumer in consumers:
            consumer.beat()
