"""Who leads a partition when brokers die, return, or are told to: leaders come from the replicas in sync."""

from __future__ import annotations

import pytest

from kwire.errors import InvalidArgumentError
from kwire.testing.cluster.state import ClusterState
from kwire.testing.cluster.topics import NO_LEADER, Partition


def replicated() -> tuple[ClusterState, Partition]:
    """Three brokers, and one partition on all of them that broker 0 leads."""
    cluster = ClusterState(3, now_s=lambda: 0.0)
    return cluster, cluster.create_topic("orders", 1, 3).partitions[0]


def test_a_dead_leader_is_followed_by_a_replica_in_sync_in_a_new_epoch() -> None:
    cluster, partition = replicated()
    cluster.kill_broker(0)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, [1, 2])


def test_a_dead_follower_leaves_the_replicas_in_sync_and_the_epoch_alone() -> None:
    cluster, partition = replicated()
    cluster.kill_broker(2)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (0, 0, [0, 1])


def test_the_last_replica_in_sync_stays_it_and_nobody_else_leads() -> None:
    """Its records are the newest: who returns earlier must wait for it, or records would be lost."""
    cluster, partition = replicated()
    for node_id in (0, 1, 2):
        cluster.kill_broker(node_id)
    assert (partition.leader, partition.isr) == (NO_LEADER, [2])
    cluster.start_broker(0)
    assert partition.leader == NO_LEADER
    cluster.start_broker(2)
    assert (partition.leader, partition.isr) == (2, [2])
    assert partition.leader_epoch == 4


def test_a_returning_broker_is_in_sync_again_and_leads_nothing_that_is_led() -> None:
    cluster, partition = replicated()
    cluster.kill_broker(0)
    cluster.start_broker(0)
    assert (partition.leader, partition.isr) == (1, [1, 2, 0])


def test_starting_what_runs_and_killing_what_is_dead_changes_nothing() -> None:
    cluster, partition = replicated()
    sessions = cluster.brokers[1].fetch_sessions
    cluster.start_broker(1)
    assert cluster.brokers[1].fetch_sessions is sessions
    for _ in range(2):
        cluster.kill_broker(0)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, [1, 2])


def test_a_leader_can_be_moved_also_to_a_broker_that_had_no_replica() -> None:
    cluster = ClusterState(3, now_s=lambda: 0.0)
    partition = cluster.create_topic("orders", 1, 1).partitions[0]
    cluster.move_leader("orders", 0, 2)
    assert (partition.leader, partition.leader_epoch, partition.replicas, partition.isr) == (2, 1, [2], [2])
    cluster.kill_broker(1)
    with pytest.raises(InvalidArgumentError, match="broker 1 does not run"):
        cluster.move_leader("orders", 0, 1)


@pytest.mark.parametrize(("replication", "leader"), [(1, 0), (3, 1)])
def test_an_unclean_election_loses_the_last_records(replication: int, leader: int) -> None:
    cluster = ClusterState(3, now_s=lambda: 0.0)
    partition = cluster.create_topic("orders", 1, replication).partitions[0]
    cluster.produce("orders", 0, [b"1", b"2"])
    cluster.produce("orders", 0, [b"3"])
    cluster.elect_uncleanly("orders", 0, lose=1)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (leader, 1, [leader])
    assert cluster.end_offset("orders", 0) == 2
    cluster.produce("orders", 0, [b"other 3"])
    assert cluster.end_offset("orders", 0) == 3


def test_a_leader_can_be_moved_away_from_a_broker_that_is_down() -> None:
    """The partition had in-sync replicas that were none."""
    cluster = ClusterState(3, now_s=lambda: 0.0)
    partition = cluster.create_topic("orders", 1, 1).partitions[0]
    cluster.kill_broker(0)
    cluster.move_leader("orders", 0, 1)
    assert (partition.leader, partition.replicas, partition.isr) == (1, [1], [1])
    cluster.start_broker(0)
    assert (partition.leader, partition.replicas, partition.isr) == (1, [1], [1])


def test_what_is_lost_is_not_below_0() -> None:
    cluster = ClusterState(now_s=lambda: 0.0)
    cluster.create_topic("orders")
    with pytest.raises(InvalidArgumentError, match="lose is how many records are lost, not -3"):
        cluster.elect_uncleanly("orders", 0, lose=-3)


def test_new_topics_avoid_brokers_that_are_down_where_they_can() -> None:
    cluster = ClusterState(2, now_s=lambda: 0.0)
    cluster.kill_broker(0)
    led = [partition.leader for partition in cluster.create_topic("orders", 2, 2).partitions]
    assert led == [1, 1]
    assert cluster.create_topic("lonely", 1, 1).partitions[0].leader == NO_LEADER
