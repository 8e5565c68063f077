"""Who leads a partition instead, in answers that refuse to read or write it (KIP-951). Called by Produce and Fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.testing.cluster.broker import Broker
    from kwire.testing.cluster.state import ClusterState


class LeaderHint(NamedTuple):
    """The leader the cluster knows of; both are -1 where there is none."""

    leader_id: int
    leader_epoch: int


def leader_hint(cluster: ClusterState, topic: str, index: int) -> LeaderHint:
    """The leader of a partition that the asked broker does not lead."""
    partition = cluster.partition(topic, index)
    return LeaderHint(-1, -1) if partition is None else LeaderHint(partition.leader, partition.leader_epoch)


def hinted_brokers(cluster: ClusterState, hints: Iterable[LeaderHint]) -> list[Broker]:
    """The brokers to name with their addresses: those that run."""
    ids = sorted({hint.leader_id for hint in hints})
    return [
        cluster.brokers[node_id] for node_id in ids if node_id in cluster.brokers and cluster.brokers[node_id].is_active
    ]
