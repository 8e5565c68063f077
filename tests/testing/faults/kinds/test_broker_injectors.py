"""Strikes on brokers, leaders and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.proxies.tamperings import Refuse
from kwire.testing.faults.targets import (
    AllBrokers,
    GroupCoordinator,
    LeaderOf,
    OneBroker,
    OneTopic,
    PartitionOf,
    WholeGroup,
)
from kwire.testing.faults.topic_settings import OLDER_KAFKA
from kwire.testing.invariants.ledger import Truncated

if TYPE_CHECKING:
    from tests.testing.faults.kinds.recording_testbed import Struck
else:
    from recording_testbed import Struck

ORDERS_0 = TopicPartition("orders", 0)


def test_a_killed_broker_is_refused_by_its_proxy_until_it_is_back() -> None:
    struck = Struck()
    heal = struck.strike("broker-kill", LeaderOf(ORDERS_0))
    assert (struck.told, struck.proxies[2].tampered) == (["kill_broker 2"], [Refuse()])
    heal()
    assert (struck.told[1:], struck.proxies[2].tampered) == (["start_broker 2"], [])
    assert struck.began == ["broker 2"]


def test_a_stopped_broker_is_started_again() -> None:
    struck = Struck()
    heal = struck.strike("broker-stop", GroupCoordinator())
    assert (struck.told, struck.proxies[1].tampered) == (["stop_broker 1"], [Refuse()])
    heal()
    assert (struck.told[1:], struck.proxies[1].tampered) == (["start_broker 1"], [])


def test_a_frozen_broker_keeps_its_port() -> None:
    struck = Struck()
    heal = struck.strike("broker-freeze", OneBroker(0))
    assert struck.proxies[0].tampered == []
    heal()
    assert struck.told == ["pause_broker 0", "resume_broker 0"]


def test_brokers_are_restarted_one_after_the_other_evenly_over_the_time() -> None:
    struck = Struck()
    struck.strike("rolling-restart", AllBrokers(), lasts_ms=60_000, rounds=2)()
    one_round = [f"{order} {broker}" for broker in range(3) for order in ("stop_broker", "start_broker")]
    assert struck.told == one_round * 2
    assert struck.recorder.now_ms() == pytest.approx(50_000)
    assert not any(proxy.tampered for proxy in struck.proxies)


def test_brokers_become_older_one_after_the_other_and_then_what_they_were() -> None:
    struck = Struck()
    struck.strike("rolling-downgrade", AllBrokers(), lasts_ms=60_000)()
    rounds = [
        [f"stop_broker {broker}", f"change_release {broker} {release}", f"start_broker {broker}"]
        for release in (OLDER_KAFKA, None)
        for broker in range(3)
    ]
    assert struck.told == [order for orders in rounds for order in orders]
    assert struck.recorder.now_ms() == pytest.approx(50_000)
    assert struck.began == [f"to Kafka {OLDER_KAFKA}, and back"]
    assert not any(proxy.tampered for proxy in struck.proxies)


def test_a_leader_moves() -> None:
    struck = Struck()
    struck.strike("leader-move", PartitionOf(ORDERS_0))()
    assert struck.told == ["prepare 1", "elect 1"]
    assert struck.began == ["to broker 1"]


def test_all_leaders_of_a_topic_move() -> None:
    struck = Struck()
    struck.strike("leader-move", OneTopic("orders"))
    assert struck.told == ["prepare 6", "elect 6"]


def test_the_coordinator_moves_with_its_partition() -> None:
    struck = Struck()
    struck.strike("coordinator-move", WholeGroup())
    assert struck.told == ["prepare 1", "elect 1"]


def test_quotas_strike_all_but_the_harness_and_are_taken_back() -> None:
    struck = Struck()
    heal = struck.strike("quota", AllBrokers(), fetch_rate_bytes_per_second=2_048, request_percent=5)
    assert struck.admin.quotas.now.pop(None) == {"consumer_byte_rate": 2_048, "request_percentage": 5}
    assert all(spared["request_percentage"] > 1_000 for spared in struck.admin.quotas.now.values())
    struck.admin.quotas.now[None] = {"consumer_byte_rate": 2_048, "request_percentage": 5}
    heal()
    assert not any(struck.admin.quotas.now.values())


def test_by_default_only_reading_is_throttled() -> None:
    struck = Struck()
    struck.strike("quota", AllBrokers())
    assert struck.admin.quotas.now[None] == {"consumer_byte_rate": 16 * 1024}


def test_in_an_unclean_election_the_follower_wakes_when_the_leader_is_dead() -> None:
    """Broker 1 coordinates, so the follower is broker 2."""
    struck = Struck()
    heal = struck.strike("unclean-election", PartitionOf(ORDERS_0))
    assert struck.told == [
        "configure orders {'unclean.leader.election.enable': 'true'}",
        "reassign orders-0 to (0, 2)",
        "pause_broker 2",
        "traffic pause orders",
        "kill_broker 0",
        "resume_broker 2",
        "traffic resume orders",
    ]
    assert struck.proxies[0].tampered == [Refuse()]
    assert [(event.partition, event.to) for event in struck.recorder.ledger.of(Truncated)] == [(ORDERS_0, 100)]
    heal()
    assert struck.proxies[0].tampered == []
    assert struck.told[7:] == [
        "start_broker 0",
        "reassign orders-0 to (0, 1, 2)",
        "configure orders {'unclean.leader.election.enable': None}",
    ]
