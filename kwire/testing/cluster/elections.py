"""Leader elections, as Kafka's controller holds them: when a broker dies or returns, and on request.

A leader is one of the replicas in sync; the last of them stays in sync when it dies, because only it has all records.
Every change of leader, also to none, is a new leader epoch (KIP-101). Called by `state` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.errors import InvalidArgumentError
from kwire.testing.cluster.topics import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.testing.cluster.broker import Broker
    from kwire.testing.cluster.topics import Partition


def broker_died(partition: Partition, node_id: int, brokers: Mapping[int, Broker]) -> bool:
    """The broker has died. Returns whether anything changed for this partition."""
    if node_id not in partition.isr:
        return False
    if len(partition.isr) > 1:
        partition.isr.remove(node_id)
    if partition.leader == node_id:
        elect(partition, brokers)
    return True


def broker_returned(partition: Partition, node_id: int, brokers: Mapping[int, Broker]) -> bool:
    """The broker is back and has caught up. Returns whether anything changed for this partition."""
    if node_id not in partition.replicas:
        return False
    if partition.leader == NO_LEADER:
        elect(partition, brokers)
    if partition.leader != NO_LEADER and node_id not in partition.isr:
        partition.isr.append(node_id)
    return True


def elect(partition: Partition, brokers: Mapping[int, Broker]) -> None:
    """Make the first replica in sync that runs the leader; without one, the partition has no leader."""
    candidates = [node for node in partition.replicas if node in partition.isr and brokers[node].is_active]
    lead(partition, candidates[0] if candidates else NO_LEADER)


def lead(partition: Partition, node_id: int) -> None:
    """Begin a leader epoch with this leader, unless it leads already."""
    if partition.leader != node_id:
        partition.leader = node_id
        partition.leader_epoch += 1
        if node_id != NO_LEADER:
            partition.log.begin_epoch(partition.leader_epoch)


def move(partition: Partition, node_id: int, brokers: Mapping[int, Broker]) -> None:
    """Make this broker the leader; it becomes a replica if it is none, as after a reassignment.

    Raises:
        InvalidArgumentError: The broker does not run.
    """
    if node_id not in brokers or not brokers[node_id].is_active:
        raise InvalidArgumentError(f"broker {node_id} does not run and cannot lead {partition.topic}-{partition.index}")
    if node_id not in partition.replicas:
        replaced = partition.isr[0] if partition.leader == NO_LEADER else partition.leader
        partition.replicas = [node_id if replica == replaced else replica for replica in partition.replicas]
        partition.isr = [node_id if replica == replaced else replica for replica in partition.isr]
    if partition.leader == NO_LEADER:
        partition.isr = [replica for replica in partition.isr if brokers[replica].is_active]
    if node_id not in partition.isr:
        partition.isr.append(node_id)
    lead(partition, node_id)


def elect_uncleanly(partition: Partition, brokers: Mapping[int, Broker], lose: int) -> None:
    """Elect a replica that lacks the last `lose` records and the whole batch that these begin in; the same broker if
    there is no other (a lost disk).

    Raises:
        InvalidArgumentError: No replica runs, or `lose` is below 0.
    """
    if lose < 0:
        raise InvalidArgumentError(f"lose is how many records are lost, not {lose}")
    running = [node for node in partition.replicas if brokers[node].is_active]
    if not running:
        raise InvalidArgumentError(f"no replica of {partition.topic}-{partition.index} runs")
    others = [node for node in running if node != partition.leader]
    log = partition.log
    log.truncate_to(max(log.log_start_offset, log.log_end_offset - lose))
    partition.leader = (others or running)[0]
    partition.leader_epoch += 1
    partition.isr = [partition.leader]
    log.begin_epoch(partition.leader_epoch)
