"""The leader's part in a classic group: it learns who is in it, shares out the partitions, and watches their topics.

The broker makes one member the leader of a generation; everybody else has an idle one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from kwire.assignors import ASSIGNORS, check_plan
from kwire.assignors.base import NO_RACKS, Assignor, MemberSubscription, PartitionRacks, RebalanceProtocol
from kwire.cluster import ClusterSnapshot
from kwire.errors import AssignorError, InconsistentGroupProtocolError, InvalidArgumentError
from kwire.managers.metadata import MetadataManager
from kwire.model import TopicPartition

Plan: TypeAlias = Mapping[str, Sequence[TopicPartition]]


class ClassicLeader:
    """Waits for metadata of all topics that any member wants, then assigns, once for each generation it leads."""

    def __init__(self, assignors: Iterable[Assignor], protocol: RebalanceProtocol, metadata: MetadataManager) -> None:
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = protocol is RebalanceProtocol.COOPERATIVE
        self._metadata = metadata
        self._protocol_name = ""
        self._members: Mapping[str, MemberSubscription] | None = None
        self._topics: frozenset[str] = frozenset()
        self._assigned_counts: dict[str, int] = {}

    @property
    def assignors(self) -> Iterable[Assignor]:
        return self._assignors.values()

    @property
    def has_to_assign(self) -> bool:
        return self._members is not None

    def lead(self, protocol_name: str, members: Mapping[str, MemberSubscription]) -> None:
        """This member leads the new generation."""
        self._protocol_name, self._members = protocol_name, members
        self._watch(frozenset[str]().union(*(member.topics for member in members.values())))

    def follow(self) -> None:
        """Somebody else leads, or this is no member any more."""
        self._members = None
        self._watch(frozenset())

    def stop(self) -> None:
        """The generation is over before it was assigned."""
        self._members = None

    def assign(self) -> Plan | None:
        """The plan, or None while the metadata does not cover every topic yet.

        Raises:
            InconsistentGroupProtocolError: The group chose an assignor that this member does not have.
            AssignorError: An assignor of the user's own failed, or made a plan that no group can follow.
        """
        if self._members is None or not self._metadata.has_looked_for(self._topics):
            return None  # what is newly watched is asked for at once, and the membership's poll comes back
        members, self._members = self._members, None
        assignor = self._assignors.get(self._protocol_name)
        if assignor is None:
            raise InconsistentGroupProtocolError(f"the group chose assignor {self._protocol_name!r}, unknown here")
        cluster = self._metadata.cluster
        self._assigned_counts = partition_counts(self._topics, cluster)
        racks = replica_racks(self._topics, cluster) if any(member.rack for member in members.values()) else NO_RACKS
        if assignor is ASSIGNORS.get(assignor.name):
            return assignor.assign(self._assigned_counts, members, partition_racks=racks)
        return self._assign_with_care(assignor, members, racks)

    def _assign_with_care(
        self, assignor: Assignor, members: Mapping[str, MemberSubscription], racks: PartitionRacks
    ) -> Plan:
        """Whatever the user's assignor does, this thread goes on, and no two members get the same partition."""
        try:
            plan = assignor.assign(self._assigned_counts, members, partition_racks=racks)
            check_plan(plan, self._assigned_counts, members, cooperative=self._cooperative)
        except InvalidArgumentError as error:
            raise AssignorError(f"assignor {assignor.name!r}: {error}") from error
        except Exception as error:
            raise AssignorError(f"assignor {assignor.name!r} failed: {type(error).__name__}: {error}") from error
        return plan

    @property
    def topics_changed(self) -> bool:
        """Whether partitions came or went since the plan; a topic that was missing then counts, too."""
        return partition_counts(self._topics, self._metadata.cluster) != self._assigned_counts

    def _watch(self, topics: frozenset[str]) -> None:
        self._topics, self._assigned_counts = topics, {}
        self._metadata.watch(topics)


def partition_counts(topics: Iterable[str], cluster: ClusterSnapshot) -> dict[str, int]:
    """How many partitions each topic has; topics that do not exist are left out."""
    return {topic: len(cluster.topics[topic].partitions) for topic in topics if topic in cluster.topics}


def replica_racks(topics: Iterable[str], cluster: ClusterSnapshot) -> dict[TopicPartition, frozenset[str]]:
    """On which racks each partition has replicas (KIP-881). Brokers that do not name theirs are on none."""
    racks = {node.id: node.rack for node in cluster.nodes.values() if node.rack}
    return {
        TopicPartition(topic, number): frozenset(racks[node_id] for node_id in partition.replicas if node_id in racks)
        for topic in topics
        if topic in cluster.topics
        for number, partition in cluster.topics[topic].partitions.items()
    }
