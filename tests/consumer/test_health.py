"""What is healthy, and what is not: the rules, on descriptions made for them, and a consumer that lives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kwire import Consumer
from kwire.description.consumer_description import ConsumerDescription
from kwire.description.health import FATAL, Bounds, health_of
from kwire.description.values import (
    Cause,
    CauseKind,
    GroupDescription,
    PartitionDescription,
    SubscriptionDescription,
)
from kwire.errors import InternalError
from kwire.testing import Cluster

BOUNDS = Bounds(session_timeout_s=45.0, max_poll_interval_s=300.0)


def described(
    *causes: CauseKind,
    last_poll_s: float | None = 0.1,
    last_heartbeat_s: float | None = 1.0,
    generation: int | None = 3,
    lag: int | None = 0,
    protocol: str = "classic",
) -> ConsumerDescription:
    return ConsumerDescription(
        client_id="billing-1",
        subscription=SubscriptionDescription(topics=("orders",)),
        group=GroupDescription(
            group_id="billing", protocol=protocol, generation=generation, last_heartbeat_s=last_heartbeat_s
        ),
        last_poll_s=last_poll_s,
        causes=tuple(Cause(kind=kind, text=kind.value) for kind in causes),
        partitions=(PartitionDescription(topic="orders", partition=0, lag=lag),),
    )


def reasons(description: ConsumerDescription, bounds: Bounds = BOUNDS) -> list[CauseKind]:
    health = health_of(description, bounds)
    assert bool(health) is (not health.reasons)
    return [cause.kind for cause in health.reasons]


@pytest.mark.parametrize("kind", [kind for kind in CauseKind if kind not in FATAL])
def test_what_passes_by_itself_is_healthy(kind: CauseKind) -> None:
    assert reasons(described(kind)) == []


@pytest.mark.parametrize("kind", sorted(FATAL))
def test_what_does_not_is_not(kind: CauseKind) -> None:
    assert reasons(described(kind)) == [kind]


def test_no_poll_for_longer_than_it_may_take() -> None:
    assert reasons(described(last_poll_s=300.0)) == []
    assert reasons(described(last_poll_s=300.1)) == [CauseKind.POLL_OVERDUE]


def test_one_that_has_not_polled_yet_is_healthy() -> None:
    assert reasons(described(last_poll_s=None, generation=None, last_heartbeat_s=None)) == []


def test_no_heartbeat_for_longer_than_the_session() -> None:
    assert reasons(described(last_heartbeat_s=45.0)) == []
    assert reasons(described(last_heartbeat_s=45.1)) == [CauseKind.HEARTBEAT_OVERDUE]


def test_what_a_session_lasts_by_is_the_brokers_setting_with_the_consumer_protocol() -> None:
    """The text named a setting that cannot be given then."""
    (cause,) = health_of(described(last_heartbeat_s=45.1, protocol="consumer"), BOUNDS).reasons
    assert "longer than group.consumer.session.timeout.ms by default (45" in cause.text


def test_heartbeats_are_not_missed_where_none_are_due() -> None:
    assert reasons(described(last_heartbeat_s=99.0, generation=None)) == []
    assert reasons(described(CauseKind.JOINING, last_heartbeat_s=99.0)) == []


@pytest.mark.parametrize("kind", [CauseKind.NO_COORDINATOR, CauseKind.BROKER_DOWN])
def test_who_was_never_a_member_has_to_reach_the_coordinator(kind: CauseKind) -> None:
    """With brokers that nobody ever reached a consumer was healthy for ever."""
    searching = Cause(kind=kind, text="the coordinator is not known", for_s=45.0)
    stranger = described(generation=None, last_heartbeat_s=None)
    assert reasons(replace(stranger, causes=(searching,))) == []
    searching = replace(searching, for_s=45.1)
    assert reasons(replace(stranger, causes=(searching,))) == [kind]
    assert reasons(replace(described(), causes=(searching,))) == []
    assert stranger.group is not None
    joining = replace(stranger, group=replace(stranger.group, is_coordinator_connected=True), causes=(searching,))
    assert reasons(joining) == []


def test_a_lag_counts_if_the_caller_gives_a_bound() -> None:
    bounds = Bounds(session_timeout_s=45.0, max_poll_interval_s=300.0, max_lag=10)
    assert reasons(described(lag=11)) == []
    assert reasons(described(lag=10), bounds) == []
    assert reasons(described(lag=None), bounds) == []
    assert reasons(described(lag=11), bounds) == [CauseKind.LAG]


def test_a_consumer_lives_until_its_network_thread_dies() -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        consumer: Consumer[bytes, bytes] = Consumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="billing"
        )
        with consumer:
            consumer.poll(0.01)
            assert consumer.healthy()
            assert str(consumer.healthy()) == "healthy"
        assert not consumer.healthy()
        other: Consumer[bytes, bytes] = Consumer(bootstrap_servers=cluster.bootstrap_servers)
        with other:
            other._session.link.mailbox.fail(InternalError("it has died"))
            health = other.healthy()
    assert "it has died" in str(health)
    assert json.loads(json.dumps(health.as_dict()))["healthy"] is False
