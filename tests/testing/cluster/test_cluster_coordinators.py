"""Which broker coordinates what: stable, moved by deaths and by hand, and busy loading for a while."""

from __future__ import annotations

import pytest

from kwire.errors import InvalidArgumentError
from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.coordinators import KeyType
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

GROUP = KeyType.GROUP


def cluster_at(clock: list[float], brokers: int = 3, load_ms: int = 0) -> ClusterState:
    return ClusterState(brokers, settings=BrokerSettings(load_ms=load_ms), now_s=lambda: clock[0])


def test_groups_spread_over_the_brokers_and_stay_where_they_are() -> None:
    cluster = cluster_at([0.0])
    homes = {name: cluster.coordinator(name) for name in (f"group-{i}" for i in range(50))}
    assert set(homes.values()) == {0, 1, 2}
    assert homes == {name: cluster_at([9.0]).coordinator(name) for name in homes}


def test_only_the_coordinator_answers() -> None:
    cluster = cluster_at([0.0])
    home = cluster.coordinator("billing")
    codes = {broker.node_id: cluster.group_error("billing", broker) for broker in cluster.brokers.values()}
    assert codes.pop(home) is ErrorCode.NONE
    assert set(codes.values()) == {ErrorCode.NOT_COORDINATOR}


def test_another_broker_takes_over_from_a_dead_one_and_stays_when_the_first_comes_back() -> None:
    cluster = cluster_at([0.0])
    home = cluster.coordinator("billing")
    cluster.kill_broker(home)
    successor = cluster.coordinator("billing")
    assert successor not in (home, -1)
    cluster.start_broker(home)
    assert cluster.coordinator("billing") == successor
    cluster.kill_broker(successor)
    assert cluster.coordinator("billing") not in (successor, -1)


def test_nobody_coordinates_a_cluster_without_brokers() -> None:
    cluster = cluster_at([0.0], brokers=1)
    cluster.kill_broker(0)
    assert cluster.coordinator("billing") == -1


def test_a_new_coordinator_loads_before_it_answers() -> None:
    clock = [0.0]
    cluster = cluster_at(clock, load_ms=500)
    before = cluster.coordinator("billing")
    assert cluster.group_error("billing", cluster.brokers[before]) is ErrorCode.NONE
    cluster.move_coordinator("billing")
    after = cluster.brokers[cluster.coordinator("billing")]
    assert after.node_id != before
    assert cluster.group_error("billing", after) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.group_error("billing", cluster.brokers[before]) is ErrorCode.NOT_COORDINATOR
    clock[0] = 0.5
    assert cluster.group_error("billing", after) is ErrorCode.NONE


def test_a_single_broker_loads_again_after_its_restart() -> None:
    clock = [0.0]
    cluster = cluster_at(clock, brokers=1, load_ms=500)
    broker = cluster.brokers[0]
    assert cluster.group_error("billing", broker) is ErrorCode.NONE
    cluster.kill_broker(0)
    cluster.coordinator("billing")
    cluster.start_broker(0)
    assert cluster.group_error("billing", broker) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_broker_there_is_not_coordinates_nothing() -> None:
    with pytest.raises(InvalidArgumentError, match="there is no broker 7"):
        cluster_at([0.0]).move_coordinator("billing", 7)


def test_groups_and_transactions_move_apart() -> None:
    cluster = cluster_at([0.0])
    before = cluster.coordinators.of(KeyType.TRANSACTION, "billing", 0)
    cluster.move_coordinator("billing")
    assert cluster.coordinators.of(KeyType.TRANSACTION, "billing", 0) is before
