"""Leader hints: answers that refuse to read or write a partition name its leader (KIP-951). Called by Produce and
Fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.testing.cluster.broker import Broker
    from kwire.testing.cluster.state import ClusterState


class LeaderHint(NamedTuple):
    """The leader of a partition and its epoch; both -1 if there is none."""

    leader_id: int
    leader_epoch: int


def leader_hint(cluster: ClusterState, topic: str, index: int) -> LeaderHint:
    """The leader of a partition that the asked broker does not lead."""
    partition = cluster.partition(topic, index)
    return LeaderHint(-1, -1) if partition is None else LeaderHint(partition.leader, partition.leader_epoch)


def hinted_brokers(cluster: ClusterState, hints: Iterable[LeaderHint]) -> list[Broker]:
    """The brokers of these hints that run, whose addresses the answer names."""
    ids = sorted({hint.leader_id for hint in hints})
    return [
        cluster.brokers[node_id] for node_id in ids if node_id in cluster.brokers and cluster.brokers[node_id].is_active
    ]
