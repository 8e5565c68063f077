"""What `list_topics` answers, as confluent-kafka has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.compat.confluent_kafka.kafka_error import KafkaError
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
    """The answer of `list_topics`. Brokers are those that lead a partition."""

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


def cluster_metadata(topics: dict[str, list[PartitionInfo]]) -> ClusterMetadata:
    found = ClusterMetadata()
    for topic, infos in topics.items():
        found.topics[topic] = TopicMetadata(topic)
        if not infos:
            found.topics[topic].error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no topic {topic}")
        for info in infos:
            leader = info.leader
            if leader is not None:
                found.brokers[leader.id] = BrokerMetadata(leader.id, leader.host, leader.port)
            found.topics[topic].partitions[info.partition] = PartitionMetadata(
                info.partition,
                leader.id if leader is not None else -1,
                list(info.replicas),
                list(info.in_sync_replicas),
            )
    return found
