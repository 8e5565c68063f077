"""The result of `list_topics`, with the types of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.compat.confluent_kafka.kafka_error import KafkaError
from kwire.events import FoundTopics
from kwire.model import PartitionInfo


@dataclass(eq=False, repr=False)
class PartitionMetadata:
    """One partition in the answer of `list_topics`."""

    id: int
    leader: int
    replicas: list[int]
    isrs: list[int]
    error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"PartitionMetadata({self.id}{_behind(self.error)})"

    def __str__(self) -> str:
        return str(self.id)


@dataclass(eq=False, repr=False)
class TopicMetadata:
    """One topic in the answer of `list_topics`."""

    topic: str
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)
    error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"TopicMetadata({self.topic}, {len(self.partitions)} partitions{_behind(self.error)})"

    def __str__(self) -> str:
        return self.topic


@dataclass(eq=False, repr=False)
class BrokerMetadata:
    """One broker in the answer of `list_topics`."""

    id: int
    host: str
    port: int

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


@dataclass(eq=False, repr=False)
class ClusterMetadata:
    """The answer of `list_topics`. The broker that has answered is unknown."""

    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    brokers: dict[int, BrokerMetadata] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = -1
    orig_broker_id: int = -1
    orig_broker_name: str | None = None

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"

    def __str__(self) -> str:
        return str(self.cluster_id)


def _behind(error: KafkaError | None) -> str:
    return "" if error is None else f", {error}"


def cluster_metadata(found: FoundTopics, topics: Iterable[str], error: KafkaError | None = None) -> ClusterMetadata:
    """The metadata of the cluster and of these topics. A topic that was not found has `error`, or
    UNKNOWN_TOPIC_OR_PART."""
    return ClusterMetadata(
        topics={topic: _topic(topic, found.get(topic, []), error or no_topic(topic)) for topic in topics},
        brokers={node.id: BrokerMetadata(node.id, node.host, node.port) for node in found.nodes},
        cluster_id=found.cluster_id,
        controller_id=found.controller_id,
    )


def no_topic(topic: str) -> KafkaError:
    return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no topic {topic}")


def _topic(topic: str, infos: list[PartitionInfo], error: KafkaError) -> TopicMetadata:
    if not infos:
        return TopicMetadata(topic, error=error)
    return TopicMetadata(topic, {info.partition: _partition(info) for info in infos})


def _partition(info: PartitionInfo) -> PartitionMetadata:
    leader = -1 if info.leader is None else info.leader.id
    return PartitionMetadata(info.partition, leader, list(info.replicas), list(info.in_sync_replicas))
