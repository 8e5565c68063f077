"""The view of a cluster: its brokers, topics and offsets, as it answers now."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kwire.clock import Deadline
from kwire.config import Endpoint
from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.network.broker_client import BrokerClient
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

T = TypeVar("T")

EARLIEST, LATEST = -2, -1
"""The special times of ListOffsets."""
CONSUMER = -1
"""The replica id of a client, which is no replica."""

RETRY_PAUSE_S = 0.1
RETRY_TIMEOUT_S = 15.0
CREATION_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition as metadata describes it."""

    number: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic as metadata describes it."""

    name: str
    id: str
    is_internal: bool
    partitions: tuple[PartitionState, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


class ClusterView:
    """Asks a cluster for metadata and offsets. Raises `KafkaError` if there is no answer."""

    def __init__(self, client: BrokerClient) -> None:
        self.client = client

    def brokers(self) -> dict[int, Endpoint]:
        """All brokers, by id."""
        return _endpoints(self.client.ask(MetadataRequest(topics=[])))

    def topics(self) -> list[TopicState]:
        """All topics that this client may see."""
        answer = self.client.ask(MetadataRequest(topics=None))
        return sorted((_topic(topic) for topic in answer.topics if not topic.error_code), key=lambda topic: topic.name)

    def topics_named(self, names: Collection[str]) -> list[TopicState]:
        """These topics, in this order. Raises: InvalidArgumentError, if one does not exist."""
        found = self._metadata(names)
        for topic in found.topics:
            if ErrorCode.of(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise InvalidArgumentError(f"there is no topic {topic.name!r}, or this client may not see it")
            if topic.error_code:
                raise error_for(topic.error_code, f"topic {topic.name}", topics=[topic.name or ""])
        states = {topic.name: _topic(topic) for topic in found.topics}
        return [states[name] for name in names]

    def topic_to_write(self, name: str) -> TopicState:
        """The topic. One that does not exist is created, if brokers auto-create topics.

        Raises:
            InvalidArgumentError: The topic does not exist, and no broker has created it within a few seconds.
        """
        wanted = [MetadataRequestTopic(name=name)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=True)
        ask_until_final(
            lambda: self.client.ask(request),
            lambda answer: (topic.error_code for topic in answer.topics),
            timeout_s=CREATION_TIMEOUT_S,
        )
        (state,) = self.topics_named([name])
        return state

    def _metadata(self, names: Collection[str]) -> MetadataResponse:
        wanted = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        def codes(answer: MetadataResponse) -> Iterable[int]:
            own = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            return (topic.error_code for topic in answer.topics if ErrorCode.of(topic.error_code) not in own)

        return ask_until_final(lambda: self.client.ask(request), codes)

    def offsets(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset at this time or later, or at one of the special times; None where there is none, and for
        partitions without a leader."""
        answers = ask_until_final(
            lambda: self._ask_leaders(partitions, timestamp_ms),
            lambda answers: (each.error_code for each in answers.values()),
        )
        for partition, each in answers.items():
            if each.error_code:
                raise error_for(each.error_code, f"the offsets of {partition}", topics=[partition.topic])
        found = {partition: None if each.offset < 0 else each.offset for partition, each in answers.items()}
        return dict.fromkeys(partitions) | found

    def _ask_leaders(
        self, partitions: Collection[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        """What the leaders of this moment say: one that has moved is another the next time."""
        metadata = self._metadata({partition.topic for partition in partitions})
        leaders, brokers = _leaders(metadata.topics), _endpoints(metadata)
        asked: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            if leaders.get(partition, -1) in brokers:
                asked[leaders[partition]].append(partition)
        found: dict[TopicPartition, ListOffsetsPartitionResponse] = {}
        for leader, wanted in asked.items():
            found |= self._ask_leader(brokers[leader], wanted, timestamp_ms)
        return found

    def _ask_leader(
        self, leader: Endpoint, partitions: Sequence[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        by_topic: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for topic, number in partitions:
            by_topic[topic].append(ListOffsetsPartition(partition_index=number, timestamp=timestamp_ms))
        topics = [ListOffsetsTopic(name=name, partitions=wanted) for name, wanted in by_topic.items()]
        answer = self.client.ask(ListOffsetsRequest(replica_id=CONSUMER, topics=topics), leader)
        return {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }


def ask_until_final(
    ask: Callable[[], T], codes: Callable[[T], Iterable[int]], *, timeout_s: float = RETRY_TIMEOUT_S
) -> T:
    """The answer, once none of its error codes says that it helps to ask again; after a while as it is."""
    deadline = Deadline.after(timeout_s * 1000)
    while True:
        answer = ask()
        if deadline.expired or not any(ErrorCode.of(code).retriable for code in codes(answer)):
            return answer
        time.sleep(RETRY_PAUSE_S)


def _endpoints(metadata: MetadataResponse) -> dict[int, Endpoint]:
    return {broker.node_id: Endpoint(broker.host, broker.port) for broker in metadata.brokers}


def _leaders(topics: Iterable[MetadataResponseTopic]) -> Mapping[TopicPartition, int]:
    return {
        TopicPartition(topic.name or "", partition.partition_index): partition.leader_id
        for topic in topics
        for partition in topic.partitions
    }


def _topic(topic: MetadataResponseTopic) -> TopicState:
    return TopicState(
        name=topic.name or "",
        id=str(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionState(
                number=each.partition_index,
                leader=each.leader_id if each.leader_id >= 0 else None,
                leader_epoch=each.leader_epoch,
                replicas=tuple(each.replica_nodes),
                in_sync=tuple(each.isr_nodes),
                offline=tuple(each.offline_replicas),
            )
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ),
    )
