"""The cluster as metadata shows it: one immutable snapshot, replaced by every Metadata answer.

The metadata manager owns it; everybody else reads. A snapshot does not go back in time. If an answer names an older
leader epoch than the known one, the partition keeps the known leader (KIP-320), unless the topic was recreated. If an
answer names a former id of a topic, the topic stays as it is known: that broker has not heard of the new topic yet. But
an epoch or id that every later answer contradicts, while no leader serves the partition, was wrong and is dropped.
Otherwise nobody could read the partition any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from kwire.logs import part_logger
from kwire.model import NO_LEADER_EPOCH, ZERO_UUID, Node, PartitionInfo, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from kwire.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

log = part_logger("metadata")

MAX_CONTRADICTIONS = 10
"""When this many answers in a row have named an older epoch, it is believed. With the default back-off they take 7 s,
and brokers lag behind each other by less. If it is wrong all the same, the older leader refuses the fetch
(FENCED_LEADER_EPOCH), and metadata is asked for again. The same holds for a former id of a topic: a leader refuses
another id than its own (UNKNOWN_TOPIC_ID)."""
MAX_FORMER_IDS = 10
MAX_TOPICS_GONE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`leader_id` is -1 while the partition has no leader. `contradictions` counts the answers since this one that have
    named an older epoch."""

    leader_id: int
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    contradictions: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """`topic_id` is all zeros on brokers before 2.8."""

    name: str
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The ids that the topics of one name have had (KIP-516), the last of `former` just before `current`.
    `contradictions` counts the answers in a row that named a former one."""

    current: UUID
    former: tuple[UUID, ...] = ()
    contradictions: int = 0

    def after(self, named: UUID, *, in_doubt: bool) -> TopicIds:
        """The ids after an answer that says `named` is the topic's id."""
        if named == self.current:
            return replace(self, contradictions=0) if self.contradictions else self
        if named in self.former:
            contradictions = self.contradictions + in_doubt
            if contradictions < MAX_CONTRADICTIONS:
                return replace(self, contradictions=contradictions)
        former = [id_ for id_ in (*self.former, self.current) if id_ != named]
        return TopicIds(named, tuple(former[-MAX_FORMER_IDS:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Nodes, topics and leaders at one moment. `version` grows by one with each change. `ids` keeps topics that are
    gone, too: a topic that is created again under its old name is another one."""

    version: int = 0
    cluster_id: str | None = None
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    ids: Mapping[str, TopicIds] = field(default_factory=dict)

    def partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def leader_id(self, tp: TopicPartition) -> int | None:
        """The broker that leads the partition, or None while nobody does or nothing is known."""
        partition = self.partition(tp)
        if partition is None or partition.leader_id not in self.nodes:
            return None
        return partition.leader_id

    def leader_epoch(self, tp: TopicPartition) -> int:
        partition = self.partition(tp)
        return partition.leader_epoch if partition is not None else NO_LEADER_EPOCH

    def topic_id(self, topic: str) -> UUID:
        known = self.topics.get(topic)
        return known.topic_id if known is not None else ZERO_UUID

    def partition_infos(self, topic: str) -> list[PartitionInfo]:
        """The public description of a topic's partitions, in partition order; empty for an unknown topic."""
        known = self.topics.get(topic)
        if known is None:
            return []
        return [self._info(topic, number, partition) for number, partition in sorted(known.partitions.items())]

    def _info(self, topic: str, number: int, partition: PartitionMetadata) -> PartitionInfo:
        return PartitionInfo(
            topic=topic,
            partition=number,
            leader=self.nodes.get(partition.leader_id),
            leader_epoch=partition.leader_epoch if partition.leader_epoch >= 0 else None,
            replicas=partition.replicas,
            in_sync_replicas=partition.in_sync_replicas,
            offline_replicas=partition.offline_replicas,
            topic_id=self.topic_id(topic),
        )

    def updated(self, answer: MetadataResponse, *, in_doubt: bool = False) -> ClusterSnapshot:
        """The snapshot after a Metadata answer, which covers every topic of interest: those it lacks are forgotten.

        `in_doubt`: the answer was asked for because something in the snapshot has proved wrong. Otherwise the known
        leader serves requests, so it is right, whatever the answer says.
        """
        topics: dict[str, TopicMetadata] = {}
        ids = self._ids_after(answer, in_doubt=in_doubt)
        for topic in answer.topics:
            # A name is null only when a topic was asked for by an id nobody knows (Metadata v12).
            if topic.name is not None:
                self._put(topics, topic.name, topic, ids.get(topic.name), in_doubt=in_doubt)
        return replace(
            self,
            version=self.version + 1,
            cluster_id=answer.cluster_id if answer.cluster_id is not None else self.cluster_id,
            nodes={b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers},
            topics=topics,
            ids=ids,
        )

    def _ids_after(self, answer: MetadataResponse, *, in_doubt: bool) -> dict[str, TopicIds]:
        known_ids = self.ids if answer.cluster_id in {None, self.cluster_id} else {}  # another cluster has other topics
        there = [topic for topic in answer.topics if not topic.error_code and topic.topic_id != ZERO_UUID]
        named = {topic.name: topic.topic_id for topic in there if topic.name is not None}
        gone = [name for name in known_ids if name not in named]
        ids = {name: known_ids[name] for name in gone[-MAX_TOPICS_GONE:]}
        for name, topic_id in named.items():
            known = known_ids.get(name)
            ids[name] = known.after(topic_id, in_doubt=in_doubt) if known is not None else TopicIds(topic_id)
        return ids

    def without_nodes(self) -> ClusterSnapshot:
        """The snapshot of a client that starts from its bootstrap servers again (KIP-899): it knows no broker, and no
        leader. Topics and their epochs are kept, so that an older answer still counts as older."""
        return replace(self, version=self.version + 1, nodes={})

    def with_leaders(
        self, leaders: Mapping[TopicPartition, LeaderIdAndEpoch], endpoints: Iterable[NodeEndpoint]
    ) -> ClusterSnapshot:
        """The snapshot with the new leaders that a former leader has named (KIP-951). Only news counts: a newer epoch
        of a known partition, led by a broker whose address is known. Without news this is the same object."""
        nodes = {
            **self.nodes,
            **{e.node_id: Node(e.node_id, e.host, e.port, e.rack) for e in endpoints if e.node_id >= 0},
        }
        topics = dict(self.topics)
        for tp, leader in leaders.items():
            known = self.partition(tp)
            if known is not None and leader.leader_id in nodes and leader.leader_epoch > known.leader_epoch:
                newer = replace(known, leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
                partitions = {**topics[tp.topic].partitions, tp.partition: newer}
                topics[tp.topic] = replace(topics[tp.topic], partitions=partitions)
        if topics == self.topics:
            return self
        return replace(self, version=self.version + 1, nodes=nodes, topics=topics)

    def _put(
        self,
        topics: dict[str, TopicMetadata],
        name: str,
        topic: MetadataResponseTopic,
        ids: TopicIds | None,
        *,
        in_doubt: bool,
    ) -> None:
        known = self.topics.get(name)
        error = ErrorCode.of(topic.error_code)
        is_former = ids is not None and topic.topic_id in ids.former
        is_there = error is ErrorCode.NONE or (error.retriable and error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if error is ErrorCode.NONE and not is_former:
            topics[name] = _topic(name, topic, known, in_doubt=in_doubt)
        elif is_there and known is not None:
            topics[name] = known


def _topic(name: str, topic: MetadataResponseTopic, known: TopicMetadata | None, *, in_doubt: bool) -> TopicMetadata:
    same_topic = known is not None and known.topic_id == topic.topic_id
    before = known.partitions if known is not None and same_topic else {}
    return TopicMetadata(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions={
            p.partition_index: _newer(p, before.get(p.partition_index), in_doubt=in_doubt) for p in topic.partitions
        },
    )


def _newer(
    partition: MetadataResponsePartition, known: PartitionMetadata | None, *, in_doubt: bool
) -> PartitionMetadata:
    if known is not None and NO_LEADER_EPOCH < partition.leader_epoch < known.leader_epoch:
        contradictions = known.contradictions + in_doubt
        if contradictions < MAX_CONTRADICTIONS:
            return replace(known, contradictions=contradictions)
        log.warning("leader epoch %d is contradicted by all brokers: %d", known.leader_epoch, partition.leader_epoch)
    return PartitionMetadata(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        in_sync_replicas=tuple(partition.isr_nodes),
        offline_replicas=tuple(partition.offline_replicas),
    )
