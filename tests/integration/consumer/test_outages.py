"""Brokers that stop, die, freeze and come back. The clusters here are the test's own."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, TopicPartition
from kwire.errors import KafkaTimeoutError
from tests.network_clients import network_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire import Record
    from tests.integration.consumer.conftest import BytesConsumer
    from tests.integration.kafkas import OwnKafka, StartKafka

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
NAMES = (f"outage-{number}" for number in count())


class Traffic:
    """Writes numbered records to one topic and knows which were acknowledged."""

    def __init__(self, cluster: OwnKafka, partitions: int, replication_factor: int) -> None:
        self.topic = next(NAMES)
        self._partitions = partitions
        self._next = 0
        servers: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "log_level": 0,
        }
        # Impatient, or most of the time here would go into librdkafka finding out that a broker has frozen.
        impatient = {"request.timeout.ms": 1_000, "socket.timeout.ms": 2_000}
        self._producer = Producer(
            {"log_level": 0, **servers, **impatient, "acks": "all", "enable.idempotence": "true", "linger.ms": 5}
        )
        admin = AdminClient(servers)
        admin.create_topics([NewTopic(self.topic, partitions, replication_factor)])[self.topic].result(DEADLINE_S)

    def write(self, number: int) -> set[bytes]:
        """So many more records, spread over the partitions and acknowledged by all replicas."""
        values = {b"%d" % i for i in range(self._next, self._next + number)}
        self._next += number
        for i, value in enumerate(sorted(values)):
            self._producer.produce(self.topic, value, partition=i % self._partitions)
        assert self._producer.flush(DEADLINE_S) == 0
        return values


def read_until(consumer: BytesConsumer, wanted: set[bytes]) -> list[Record[bytes, bytes]]:
    """Poll until all these values were seen."""
    records: list[Record[bytes, bytes]] = []
    missing = set(wanted)
    until_s = time.monotonic() + DEADLINE_S
    while missing:
        for record in consumer.poll(0.5):
            records.append(record)
            missing.discard(record.value or b"")
        assert time.monotonic() < until_s, f"{len(missing)} of {len(wanted)} records missing"
    return records


def open_on(cluster: OwnKafka, topic: str | None = None, group_id: str | None = None) -> BytesConsumer:
    return Consumer(
        *([topic] if topic is not None else []),
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        request_timeout_ms=2_000,
        reconnect_backoff_max_ms=200,
        metadata_max_age_ms=2_000,
    )


@pytest.fixture(scope="module")
def lone_broker(start_kafka: StartKafka) -> Iterator[OwnKafka]:
    with start_kafka() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three_brokers(start_kafka: StartKafka) -> Iterator[OwnKafka]:
    with start_kafka(3) as cluster:
        yield cluster


@contextmanager
def stopped(cluster: OwnKafka) -> Iterator[None]:
    """Without the only broker, which comes back whatever happens meanwhile: other tests need it."""
    cluster.stop_broker(0)
    try:
        yield
    finally:
        cluster.start_broker(0)


@pytest.mark.parametrize("group_id", [None, "survives"])
def test_the_only_broker_restarts(lone_broker: OwnKafka, group_id: str | None) -> None:
    """Nothing is lost and nothing comes twice; while it is away, polling is quiet and cheap."""
    traffic = Traffic(lone_broker, 2, 1)
    wanted = traffic.write(100)
    consumer = open_on(lone_broker, traffic.topic if group_id else None, group_id)
    with consumer:
        if group_id is None:
            consumer.assign([TopicPartition(traffic.topic, number) for number in range(2)])
        records = read_until(consumer, wanted)
        if group_id is not None:
            consumer.commit_sync()

        with stopped(lone_broker):
            started_s, cpu_before_s = time.monotonic(), time.process_time()
            assert not consumer.poll(1.0)
            assert 0.9 < time.monotonic() - started_s < 2
            assert time.process_time() - cpu_before_s < 0.2
            # In its last answer the broker, which leads no more, may have said so.
            with pytest.raises(KafkaTimeoutError, match="end_offsets took too long; it was still waiting for"):
                consumer.end_offsets(consumer.assignment(), timeout=1.0)

        wanted |= traffic.write(100)
        records += read_until(consumer, wanted - {record.value or b"" for record in records})
        assert sorted(record.value or b"" for record in records) == sorted(wanted)
        assert consumer.assignment() == {TopicPartition(traffic.topic, number) for number in range(2)}


def test_closing_while_the_only_broker_is_away(lone_broker: OwnKafka) -> None:
    traffic = Traffic(lone_broker, 1, 1)
    wanted = traffic.write(10)
    before = network_threads()
    consumer = open_on(lone_broker, traffic.topic, "closing")
    read_until(consumer, wanted)
    with stopped(lone_broker):
        started_s = time.monotonic()
        consumer.close(timeout=1.0)
        assert time.monotonic() - started_s < 2
    assert network_threads() <= before


@pytest.mark.parametrize("fate", ["kill", "pause"])
def test_one_of_three_brokers_dies_or_freezes(three_brokers: OwnKafka, fate: str) -> None:
    """Leaders and the coordinator move; every record arrives once, in a group that keeps its member."""
    traffic = Traffic(three_brokers, 6, 3)
    wanted = traffic.write(300)
    harm, heal = HARM[fate]
    with open_on(three_brokers, traffic.topic, f"fate-{fate}") as consumer:
        records = read_until(consumer, wanted)
        member = consumer.group_metadata()
        harm(three_brokers, 1)
        try:
            more = traffic.write(300)
            records += read_until(consumer, more)
        finally:
            heal(three_brokers, 1)
        three_brokers.wait_ready()
        last = traffic.write(300)
        records += read_until(consumer, last)
        assert sorted(record.value or b"" for record in records) == sorted(wanted | more | last)
        assert consumer.group_metadata() == member
        consumer.commit_sync(timeout=30)


HARM: dict[str, tuple[Callable[[OwnKafka, int], None], Callable[[OwnKafka, int], None]]] = {
    "kill": (lambda kafka, broker: kafka.kill_broker(broker), lambda kafka, broker: kafka.start_broker(broker)),
    "pause": (lambda kafka, broker: kafka.pause_broker(broker), lambda kafka, broker: kafka.resume_broker(broker)),
}
