"""A broker that stands still for longer than its session is taken for dead, until it goes on (KIP-631)."""

from __future__ import annotations

import math

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

SESSION_MS = 3_000


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(clock: Clock) -> ClusterState:
    """Three brokers; one partition that broker 1 leads, and a group that it coordinates."""
    made = ClusterState(3, settings=BrokerSettings(broker_session_timeout_ms=SESSION_MS), now_s=clock)
    made.create_topic("orders", assignments=[[1, 2, 0]])
    made.move_coordinator("g", 1)
    return made


def pass_ms(cluster: ClusterState, clock: Clock, ms: float) -> float:
    """So much later, with what is due by then done; when the next is."""
    clock.now_s += ms / 1000
    return cluster._sessions.expire(cluster.now_ms())


def test_its_leaders_and_groups_move_once_its_session_is_over(cluster: ClusterState, clock: Clock) -> None:
    """Once, a paused broker led its partitions for as long as it stood still, and no producer got past it."""
    cluster.pause_broker(1)
    assert pass_ms(cluster, clock, SESSION_MS - 1) == SESSION_MS
    assert (cluster.leader("orders", 0), cluster.coordinator("g")) == (1, 1)
    assert pass_ms(cluster, clock, 1) == math.inf
    assert (cluster.leader("orders", 0), cluster.coordinator("g")) == (2, 2)
    assert [broker.node_id for broker in cluster.running()] == [0, 2]
    assert cluster.topics["orders"].partitions[0].isr == [2, 0]


def test_it_is_one_of_them_again_when_it_goes_on(cluster: ClusterState, clock: Clock) -> None:
    cluster.pause_broker(1)
    pass_ms(cluster, clock, SESSION_MS)
    cluster.resume_broker(1)
    assert (cluster.leader("orders", 0), cluster.coordinator("g")) == (2, 2)
    assert [broker.node_id for broker in cluster.running()] == [0, 1, 2]
    assert cluster.topics["orders"].partitions[0].isr == [2, 0, 1]


def test_it_does_not_take_what_it_was_sent_meanwhile(cluster: ClusterState, clock: Clock) -> None:
    """Requests wait in its sockets while it stands still. A commit among them was taken the moment it went on: newer
    commits, made with its successor, were undone."""
    cluster.pause_broker(1)
    pass_ms(cluster, clock, SESSION_MS)
    cluster.resume_broker(1)
    assert cluster.group_error("g", cluster.brokers[1]) is ErrorCode.NOT_COORDINATOR
    assert cluster.group_error("g", cluster.brokers[2]) is ErrorCode.NONE


def test_a_short_pause_changes_nothing(cluster: ClusterState, clock: Clock) -> None:
    cluster.pause_broker(1)
    pass_ms(cluster, clock, SESSION_MS - 1)
    cluster.resume_broker(1)
    assert pass_ms(cluster, clock, SESSION_MS) == math.inf
    assert (cluster.leader("orders", 0), cluster.coordinator("g")) == (1, 1)


def test_while_all_stand_still_nobody_is_there_to_notice(cluster: ClusterState, clock: Clock) -> None:
    for node_id in range(3):
        cluster.pause_broker(node_id)
    assert pass_ms(cluster, clock, 10 * SESSION_MS) == math.inf
    assert cluster.leader("orders", 0) == 1
    cluster.resume_broker(0)  # the controller from now on: the others have a session's time to be heard of
    assert pass_ms(cluster, clock, SESSION_MS - 1) < math.inf
    assert cluster.leader("orders", 0) == 1
    pass_ms(cluster, clock, 1)
    assert cluster.leader("orders", 0) == 0


def test_one_that_is_killed_while_it_stands_still_comes_back_as_any_other(cluster: ClusterState, clock: Clock) -> None:
    cluster.pause_broker(1)
    pass_ms(cluster, clock, SESSION_MS)
    cluster.kill_broker(1)
    cluster.start_broker(1)
    assert pass_ms(cluster, clock, SESSION_MS) == math.inf
    assert [broker.node_id for broker in cluster.running()] == [0, 1, 2]
