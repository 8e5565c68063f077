"""The harness's own runners in a group of a cluster in this process: what they tell, and the orders that they take.

Whether kwire keeps its promises is for other tests; here it has to be seen that a whole run comes out of its parts.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.testing import Cluster
from kwire.testing.faults.member_plan import MAX_POLL_RECORDS_IF_SLOW
from kwire.testing.invariants.catching_up import CHILD
from kwire.testing.invariants.ledger import Committed, Killed, LowWater, Polled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.testing.faults.group_run import ALL, DEADLINE_S, PARTITIONS, SESSION_TIMEOUT_MS, TOPIC, Run, plan, until
else:
    from group_run import ALL, DEADLINE_S, PARTITIONS, SESSION_TIMEOUT_MS, TOPIC, Run, plan, until

pytestmark = pytest.mark.slow

OWN_RUNNERS = [("kwire", "classic"), ("kwire", "consumer"), ("confluent", "classic"), ("confluent", "consumer")]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {
        "auto.create.topics.enable": False,
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.session.timeout.ms": SESSION_TIMEOUT_MS,
        "group.min.session.timeout.ms": 1_000,
    }
    with Cluster(brokers=1, settings=settings) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, config={"message.timestamp.type": "LogAppendTime"})
        yield cluster


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path) -> Iterator[Run]:
    run = Run(cluster.bootstrap_servers, tmp_path)
    with run.members, run.traffic:
        yield run


@pytest.mark.parametrize(("client", "protocol"), OWN_RUNNERS)
def test_a_group_loses_a_member_and_nothing_else(run: Run, client: str, protocol: str) -> None:
    run.traffic.start()
    first = run.members.start(plan(client, protocol))
    # Who gives up a partition while librdkafka asks where it begins: it asks again half a second later, though somebody
    # else has the partition by then, and reads it; when it gets it back it returns the first records. On Kafka as well.
    until(lambda: run.read_by(first) == set(ALL))
    second = run.members.start(plan(client, protocol, 1))
    assert run.members.wait_settled(ALL, DEADLINE_S)
    until(lambda: min(run.polled_by(first), run.polled_by(second)) > 50)
    run.kill(second)
    assert run.members.wait_settled(ALL, DEADLINE_S)
    assert run.members.owned(first) == frozenset(ALL)
    run.members.start(plan(client, protocol, 1))
    assert run.members.wait_settled(ALL, DEADLINE_S)
    assert run.end() == []
    assert [event.member for event in run.recorder.ledger.of(Killed)] == [second]
    assert {event.partition for event in run.recorder.ledger.of(Committed)} == set(ALL)


def stands_still(run: Run) -> int:
    """Wait until nothing is polled of two hundred records more; answer how many were polled before them."""
    polled, sent = run.tally.polled, run.tally.sent
    until_s = time.monotonic() + DEADLINE_S
    while run.tally.sent <= sent + 200:
        assert time.monotonic() < until_s
        time.sleep(0.01)
        if run.tally.polled > polled:
            polled, sent = run.tally.polled, run.tally.sent
    return polled


@pytest.mark.parametrize("client", ["kwire", "confluent"])
def test_an_own_runner_is_as_slow_and_as_stuck_as_it_is_told(run: Run, client: str) -> None:
    run.traffic.start()
    name = run.members.start(plan(client, "classic"))
    until(lambda: run.polled_by(name) > 100)
    run.members.stick(name)
    stuck_at, began_s = stands_still(run), time.monotonic()
    run.members.slow(name, 5)
    until(lambda: run.tally.polled > stuck_at + 3 * MAX_POLL_RECORDS_IF_SLOW)
    assert time.monotonic() - began_s > 2 * MAX_POLL_RECORDS_IF_SLOW * 0.005
    run.members.slow(name, 0)
    assert run.end() == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_catches_up_with_a_dead_members_lag_is_killed_over_it(run: Run, protocol: str) -> None:
    def start(number: int) -> str:
        return run.members.start(replace(plan("kwire", protocol, number), catches_up=True))

    first, second = start(0), start(1)
    assert run.members.wait_settled(ALL, DEADLINE_S)
    run.traffic.start()  # not before: who gets a partition that has records already catches up with those
    until(lambda: run.has_committed(second))  # where nothing is committed, there is no lag
    run.kill(second)
    assert run.members.wait(lambda: run.members.is_at(first, "catching-up"), DEADLINE_S)
    run.kill(first)
    last = start(2)
    assert run.members.wait(lambda: run.members.is_at(last, "between-commits"), DEADLINE_S)
    assert run.end() == []
    ledger = run.recorder.ledger
    assert {event.member for event in ledger.of(Polled) if event.cursor == CHILD} == {first, last}
    assert next(ledger.of(LowWater), None) is not None
