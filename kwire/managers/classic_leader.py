"""The leader's part in a classic group: it learns who is in it, shares out the partitions, and watches their topics.

The broker makes one member the leader of a generation; everybody else has an idle one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from kwire.assignors import ASSIGNORS, check_plan
from kwire.assignors.base import NO_RACKS, Assignor, MemberSubscription, PartitionRacks, RebalanceProtocol
from kwire.clock import Backoff
from kwire.cluster import ClusterSnapshot
from kwire.errors import AssignorError, InconsistentGroupProtocolError, InvalidArgumentError
from kwire.managers.classic_plan_scope import Counts, PlanScope, PlanScopeLookUp
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.metadata import MetadataManager
from kwire.managers.unsent import NOTHING_TO_SEND, PollResult
from kwire.model import TopicPartition

Plan: TypeAlias = Mapping[str, Sequence[TopicPartition]]


class ClassicLeader:
    """Waits for metadata of all topics that any member wants, then assigns, once for each generation it leads.

    A static leader that is restarted leads on without assigning (KIP-814). It asks the coordinator what the plan
    covers: partitions that were added while it was away have no owner, and nobody else looks for them.

    Args:
        on_plan_known: called when it is known what the plan covers; `topics_changed` may be true from then on.
    """

    def __init__(
        self,
        assignors: Iterable[Assignor],
        protocol: RebalanceProtocol,
        metadata: MetadataManager,
        coordinator: FindCoordinatorManager,
        backoff: Backoff,
        on_plan_known: Callable[[], None],
    ) -> None:
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = protocol is RebalanceProtocol.COOPERATIVE
        self._metadata = metadata
        self._protocol_name = ""
        self._members: Mapping[str, MemberSubscription] | None = None
        self._topics: frozenset[str] = frozenset()
        self._own: frozenset[str] = frozenset()
        self._assigned_counts: Counts = {}
        self._placed_by, self._racks = ClusterSnapshot(), NO_RACKS
        """The cluster and the racks that the plan was made for; without racks, if no member names its own."""
        self._plan_scope = PlanScopeLookUp(coordinator, backoff, self._on_plan_scope)
        self._on_plan_known = on_plan_known

    @property
    def assignors(self) -> Iterable[Assignor]:
        return self._assignors.values()

    def lead(self, protocol_name: str, members: Mapping[str, MemberSubscription], own: frozenset[str]) -> None:
        """This member leads the new generation.

        Args:
            own: The topics that it joined with.
        """
        self._protocol_name, self._members, self._own = protocol_name, members, own
        self._watch(topics_of(members))

    def lead_on(self, topics: frozenset[str], own: frozenset[str]) -> None:
        """This member led this generation before it was restarted; its plan stands.

        Args:
            topics: What the members want, as far as it is known.
            own: The topics that it joined with.
        """
        self._members, self._own = None, own
        self._watch(topics | own)
        self._plan_scope.ask()

    def follow(self) -> None:
        """Somebody else leads, or this is no member any more."""
        self._members = None
        self._watch(frozenset())

    def stop(self) -> None:
        """The generation is over before it was assigned."""
        self._members = None

    def assign(self) -> Plan | None:
        """The plan, or None: somebody else leads, it was asked for before, or a topic is not known yet.

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
        self._placed_by, self._racks = cluster, racks
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
        """Whether partitions have been added, deleted or moved to other racks since the plan was made. A topic that did
        not exist then, and does now, counts as well."""
        if self._plan_scope.is_asked or not self._metadata.has_looked_for(self._topics):
            return False
        if self._racks_changed:
            return True
        return partition_counts(self._topics, self._metadata.cluster) != self._assigned_counts

    @property
    def _racks_changed(self) -> bool:
        """Whether replicas of any partition are elsewhere (KIP-881). A broker that is away for a moment has no rack in
        metadata, and nothing has moved."""
        before, now = self._placed_by, self._metadata.cluster
        moved = {tp for tp in self._racks if _replicas(now, tp) != _replicas(before, tp)} if now is not before else ()
        if not moved:
            return False
        racks = replica_racks({tp.topic for tp in moved}, now)
        return any(tp in racks and racks[tp] != self._racks[tp] for tp in moved)

    def _watch(self, topics: frozenset[str]) -> None:
        self._topics, self._assigned_counts, self._racks = topics, {}, NO_RACKS
        self._plan_scope.cancel()
        self._metadata.watch(topics, own=self._own)

    # --- a plan made before a restart -----------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        """Asks what the plan covers, once there is metadata to compare it with."""
        return self._plan_scope.poll(now_ms) if self._metadata.has_looked_for(self._topics) else NOTHING_TO_SEND

    def _on_plan_scope(self, scope: PlanScope | None) -> None:
        """Compare with this scope from now on. None: with what there is now, as the Java client always does."""
        if scope is None:
            scope = PlanScope(self._topics, partition_counts(self._topics, self._metadata.cluster))
        self._watch(self._topics | scope.topics)
        self._assigned_counts = {topic: count for topic, count in scope.counts.items() if topic in self._topics}
        self._on_plan_known()


def _replicas(cluster: ClusterSnapshot, tp: TopicPartition) -> frozenset[int]:
    partition = cluster.partition(tp)
    return frozenset(partition.replicas if partition is not None else ())


def topics_of(members: Mapping[str, MemberSubscription]) -> frozenset[str]:
    """The topics that any of them wants."""
    return frozenset[str]().union(*(member.topics for member in members.values()))


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
