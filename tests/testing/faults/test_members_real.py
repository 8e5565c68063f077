"""kwire, librdkafka and Java's client in one group of a real Kafka: each tells its life in lines that are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire.testing.invariants.ledger import Committed, Killed, Polled
from kwire.testing.kafka import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.testing.faults.group_run import ALL, DEADLINE_S, PARTITIONS, SESSION_TIMEOUT_MS, TOPIC, Run, plan, until
else:
    from group_run import ALL, DEADLINE_S, PARTITIONS, SESSION_TIMEOUT_MS, TOPIC, Run, plan, until

pytestmark = [pytest.mark.integration, pytest.mark.faults, pytest.mark.slow]

CLIENTS = ("kwire", "java", "confluent")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    settings = {
        "auto.create.topics.enable": "false",
        "log.message.timestamp.type": "LogAppendTime",
        "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    }
    with KafkaCluster(settings=settings) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.direct_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(DEADLINE_S)
        run = Run(kafka.bootstrap_servers, tmp_path)
        with run.members, run.traffic:
            yield run


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_mixed_group_loses_each_of_its_members_in_turn(run: Run, protocol: str) -> None:
    run.traffic.start()
    names = [run.members.start(plan(client, protocol, number)) for number, client in enumerate(CLIENTS)]
    assert run.members.wait_settled(ALL, DEADLINE_S)
    until(lambda: min(map(run.polled_by, names)) > 20)
    for number, client in enumerate(CLIENTS):
        run.kill(names[number])
        assert run.members.wait_settled(ALL, DEADLINE_S)
        names.append(run.members.start(plan(client, protocol, number)))
        assert run.members.wait_settled(ALL, DEADLINE_S)
    until(lambda: min(map(run.polled_by, names)) > 0)
    assert run.end() == []
    assert [event.member for event in run.recorder.ledger.of(Killed)] == names[:3]
    assert {event.member for event in run.recorder.ledger.of(Polled)} == set(names)
    assert {event.member for event in run.recorder.ledger.of(Committed)} == set(names)
