"""The proxies in front of a real Kafka of three brokers: clients stay behind them, whatever the brokers say."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, TopicPartition
from kwire.errors import CorruptRecordError
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing.faults.proxies.chain import ProxiedBrokers
from kwire.testing.faults.proxies.tamperings import BitPlace, FlipBit
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.jars import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.integration, pytest.mark.faults, pytest.mark.slow]

TIMEOUT_S = 30.0
BROKERS = 3
TOPIC = "orders"
LATER = "later"
VALUES = [b"%05d" % n * 20 for n in range(900)]


class Scene(NamedTuple):
    """A Kafka and what stands in front of it."""

    kafka: KafkaCluster
    proxied: ProxiedBrokers


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """With two topics of three partitions: one is full, the other, which is for later, empty."""
    with (
        ProxiedBrokers(BROKERS, cache=cache_dir()) as proxied,
        KafkaCluster(BROKERS, advertised=proxied.addresses) as kafka,
    ):
        proxied.lead_to(kafka.client_addresses)
        assert kafka.bootstrap_servers == proxied.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": proxied.bootstrap_servers})
        for topic in (TOPIC, LATER):
            admin.create_topics([NewTopic(topic, BROKERS, BROKERS)])[topic].result(TIMEOUT_S)
        produce(proxied.bootstrap_servers, TOPIC)
        yield Scene(kafka, proxied)


@pytest.fixture
def proxied(scene: Scene) -> ProxiedBrokers:
    return scene.proxied


def produce(servers: str, topic: str) -> None:
    """All values, compressed, in turns to the partitions."""
    producer = Producer({"log_level": 0, "bootstrap.servers": servers, "compression.type": "lz4"})
    for n, value in enumerate(VALUES):
        producer.produce(topic, value, partition=n % BROKERS)
    assert producer.flush(TIMEOUT_S) == 0


def read_all(proxied: ProxiedBrokers, group_id: str) -> tuple[list[bytes | None], list[CorruptRecordError]]:
    """Every value once, sorted, and what was wrong on the way."""
    values: list[bytes | None] = []
    errors: list[CorruptRecordError] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    consumer: Consumer[bytes, bytes] = Consumer(
        bootstrap_servers=proxied.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
    )
    with consumer:
        consumer.subscribe([TOPIC])
        while len(values) < len(VALUES):
            assert time.monotonic() < deadline_s, f"{len(values)} records"
            try:
                values += [record.value for record in consumer.poll(0.1)]
            except CorruptRecordError as error:
                errors.append(error)
    return sorted(values, key=lambda value: value or b""), errors


def test_brokers_tell_clients_of_the_proxies_alone(proxied: ProxiedBrokers) -> None:
    brokers = AdminClient({"bootstrap.servers": proxied.bootstrap_servers}).list_topics(timeout=TIMEOUT_S).brokers
    assert {(str(broker.host), broker.port) for broker in brokers.values()} == set(proxied.addresses)


def test_a_group_reads_all_through_the_proxies(proxied: ProxiedBrokers) -> None:
    assert read_all(proxied, "plain") == (VALUES, [])


@pytest.mark.parametrize("place", [BitPlace.PAYLOAD, BitPlace.CRC, BitPlace.BATCH_HEADER])
def test_a_flipped_bit_is_told_with_its_place_and_read_again(proxied: ProxiedBrokers, place: BitPlace) -> None:
    for proxy in proxied:
        proxy.tamper(FlipBit(api_key=FetchRequest.api_key, place=place, seed=4))
    values, errors = read_all(proxied, f"flipped-{place.value}")
    assert values == VALUES
    assert proxied.healed  # all have struck
    assert {error.topic for error in errors} == {TOPIC}
    assert sorted(error.partition for error in errors if error.partition is not None) == [0, 1, 2]


def test_a_consumer_that_was_cut_off_from_all_brokers_reads_on(scene: Scene) -> None:
    consumer: Consumer[bytes, bytes] = Consumer(bootstrap_servers=scene.proxied.bootstrap_servers)
    with consumer:
        consumer.assign([TopicPartition(LATER, partition) for partition in range(BROKERS)])
        consumer.seek_to_beginning(consumer.assignment())
        assert list(consumer.poll(0.1)) == []
        scene.proxied.cut_off()
        produce(scene.kafka.direct_servers, LATER)  # past the proxies
        assert list(consumer.poll(0.5)) == []
        scene.proxied.heal()
        deadline_s = time.monotonic() + TIMEOUT_S
        values: list[bytes | None] = []
        while len(values) < len(VALUES):
            assert time.monotonic() < deadline_s, f"{len(values)} records"
            values += [record.value for record in consumer.poll(0.1)]
    assert sorted(values, key=lambda value: value or b"") == VALUES
