"""Traffic meets a cluster in this process: what it calls sent is in the brokers' logs, whatever they went through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing import Cluster
from kwire.testing.faults.broker_log import log_starts, read_logs
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.payload import identity
from kwire.testing.faults.reconciliation import reconcile
from kwire.testing.faults.tally import Tally
from kwire.testing.faults.traffic import Traffic
from kwire.testing.invariants.ledger import Removed, Sent, Truncated, Vanished
from kwire.testing.invariants.logs import final_logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kwire.testing.faults.broker_log import BrokerLog
    from tests.testing.faults.group_run import until
else:
    from group_run import until

pytestmark = pytest.mark.slow

TOPIC = "orders"
PARTITIONS = 3
RATE_PER_SECOND = 1_000
ORDERS_0 = TopicPartition(TOPIC, 0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, settings={"auto.create.topics.enable": False}) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, config={"message.timestamp.type": "LogAppendTime"})
        yield cluster


class Run:
    """A recorder, its tally, and traffic that has been started."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.recorder = Recorder()
        self.tally = Tally()
        self.recorder.listen(self.tally.take)
        self.traffic = Traffic(
            self.recorder, cluster.bootstrap_servers, {TOPIC: PARTITIONS}, rate_per_second=RATE_PER_SECOND
        )

    def until_sent(self, more: int) -> None:
        wanted = self.tally.sent + more
        until(lambda: self.tally.sent >= wanted)

    def logs(self) -> dict[TopicPartition, BrokerLog]:
        return read_logs(self.cluster.bootstrap_servers, {TOPIC: PARTITIONS})

    def sent(self) -> dict[TopicPartition, dict[int, str]]:
        found: dict[TopicPartition, dict[int, str]] = {}
        for event in self.recorder.ledger.of(Sent):
            found.setdefault(event.partition, {})[event.offset] = event.value
        return found


def held(logs: Mapping[TopicPartition, BrokerLog]) -> dict[TopicPartition, dict[int, str]]:
    return {tp: {offset: record.value for offset, record in log.records.items()} for tp, log in logs.items()}


@pytest.fixture
def run(cluster: Cluster) -> Iterator[Run]:
    run = Run(cluster)
    with run.traffic as traffic:
        traffic.start()
        yield run


def test_what_is_acknowledged_is_what_the_brokers_hold(run: Run) -> None:
    run.until_sent(300)
    assert run.traffic.stop() == 0
    logs = run.logs()
    assert held(logs) == run.sent()
    assert len(logs) == PARTITIONS
    assert reconcile(run.recorder, logs, unplaced=run.traffic.unplaced).notes == ()
    appended_ms = {
        record.value: run.recorder.at_ms(record.appended_ms) for log in logs.values() for record in log.records.values()
    }
    assert all(event.at_ms == appended_ms[event.value] for event in run.recorder.ledger.of(Sent))


def test_a_leader_that_dies_takes_nothing_with_it(run: Run) -> None:
    run.until_sent(100)
    run.cluster.kill_broker(run.cluster.leader(TOPIC, 0))
    run.until_sent(300)
    assert run.traffic.stop() == 0
    reconcile(run.recorder, run.logs(), unplaced=run.traffic.unplaced)
    assert held(run.logs()) == run.sent()


def test_a_paused_topic_gets_nothing_until_it_goes_on(run: Run) -> None:
    run.until_sent(50)
    assert run.traffic.pause(TOPIC)
    ends = [run.cluster.end_offset(TOPIC, partition) for partition in range(PARTITIONS)]
    assert sum(ends) == run.tally.sent
    run.cluster.grow_topic(TOPIC, PARTITIONS + 1)
    run.traffic.set_partitions(TOPIC, PARTITIONS + 1)
    assert [run.cluster.end_offset(TOPIC, partition) for partition in range(PARTITIONS)] == ends
    run.traffic.resume(TOPIC)
    until(lambda: run.cluster.end_offset(TOPIC, PARTITIONS) > 0)


def test_a_large_record_is_known_by_its_number(run: Run) -> None:
    run.cluster.create_topic("large", 1, config={"max.message.bytes": "16777216"})
    run.traffic.send_large(TopicPartition("large", 0), 2 * 1024 * 1024)
    until(lambda: run.cluster.end_offset("large") == 1)
    run.traffic.stop()
    (record,) = read_logs(run.cluster.bootstrap_servers, {"large": 1})[TopicPartition("large", 0)].records.values()
    assert record.value.endswith(f":{2 * 1024 * 1024}")
    assert run.sent()[TopicPartition("large", 0)] == {0: record.value}


def test_nobody_else_gets_the_same_value(run: Run) -> None:
    mine = {identity(run.traffic.next_value()) for _ in range(100)}
    run.until_sent(100)
    run.traffic.stop()
    assert mine.isdisjoint(value for values in run.sent().values() for value in values.values())
    assert len(mine) == 100


def test_what_an_unclean_election_takes_is_found_to_be_lost_by_the_brokers(run: Run) -> None:
    run.until_sent(300)
    run.cluster.elect_uncleanly(TOPIC, 0, lose=20)
    run.until_sent(600)
    run.traffic.stop()
    logs = run.logs()
    found = reconcile(run.recorder, logs, unplaced=run.traffic.unplaced)
    assert found.lost_by_brokers[ORDERS_0] >= 1
    assert [event.partition for event in run.recorder.ledger.of(Truncated)] == [ORDERS_0]
    assert final_logs(run.recorder.ledger)[ORDERS_0].values == held(logs)[ORDERS_0]


def test_what_was_deleted_or_compacted_away_does_not_have_to_be_read(run: Run) -> None:
    run.until_sent(1_200)  # some keys have come twice by then
    run.traffic.stop()
    run.cluster.delete_records(TOPIC, 0, 10)
    assert log_starts(run.cluster.bootstrap_servers, {TOPIC: PARTITIONS})[ORDERS_0] == 10
    run.cluster.compact(TOPIC, 1)
    logs = run.logs()
    found = reconcile(run.recorder, logs, compacted={TOPIC: 0.0})
    assert [(event.partition, event.before) for event in run.recorder.ledger.of(Removed)] == [(ORDERS_0, 10)]
    assert {event.partition for event in run.recorder.ledger.of(Vanished)} == {TopicPartition(TOPIC, 1)}
    assert (list(found.compacted), found.lost_by_brokers) == ([TopicPartition(TOPIC, 1)], {})
    assert run.tally.unread() == {tp: len(values) for tp, values in held(logs).items()}


def test_a_topic_that_is_deleted_for_good_is_left_out(run: Run) -> None:
    run.until_sent(50)
    run.traffic.pause(TOPIC)
    run.traffic.forget(TOPIC)
    run.cluster.delete_topic(TOPIC)
    assert run.logs() == {}
    assert run.traffic.stop() == 0
