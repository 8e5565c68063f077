"""Real producers on the in-process cluster: librdkafka's and kafka-python's, idempotent and in transactions; kwire and
librdkafka read what they wrote."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire import Consumer
from kwire.model import TopicPartition
from kwire.protocol.messages.produce import ProduceRequest
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*Use files.. instead:DeprecationWarning"),  # kafka-python, on import
]

TOPIC, SOURCE, GROUP = "sums", "numbers", "adders"
WAIT_S = 15.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics={TOPIC: 1, SOURCE: 1}) as made:
        yield made


def producer(cluster: Cluster, **settings: object) -> confluent_kafka.Producer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1, "log_level": 0, **named}
    )


def transactional(cluster: Cluster, name: str = "adder") -> confluent_kafka.Producer:
    made = producer(cluster, transactional_id=name)
    made.init_transactions(WAIT_S)
    return made


def read_by_kwire(cluster: Cluster, count: int, isolation: str = "read_committed") -> list[bytes | None]:
    """The first `count` values, and whatever comes with them."""
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        values: list[bytes | None] = []
        deadline = time.monotonic() + WAIT_S
        while len(values) < count and time.monotonic() < deadline:
            values += [record.value for record in consumer.poll(1.0)]
        return values


@pytest.mark.parametrize("codec", CODECS)
def test_an_idempotent_producer_s_records_are_read_whatever_the_codec(cluster: Cluster, codec: str) -> None:
    sent = [f"{codec} {nth}".encode() for nth in range(500)]
    writer = producer(cluster, enable_idempotence=True, compression_type=codec)
    for value in sent:
        writer.produce(TOPIC, value)
    assert writer.flush(WAIT_S) == 0
    assert read_by_kwire(cluster, len(sent)) == sent


def test_a_lost_acknowledgement_does_not_double_records(cluster: Cluster) -> None:
    """The batch is in the log when the connection breaks; its repetition is acknowledged, and not written."""
    rule = cluster.control.on(ProduceRequest, times=2).cut(handled=True)
    writer = producer(cluster, enable_idempotence=True, retry_backoff_ms=10)
    sent = [b"%d" % nth for nth in range(20)]
    for value in sent:
        writer.produce(TOPIC, value)
        writer.poll(0)
    assert writer.flush(WAIT_S) == 0
    assert rule.fired == 2
    assert read_by_kwire(cluster, len(sent)) == sent
    assert cluster.end_offset(TOPIC) == len(sent)


def test_committed_transactions_are_read_and_aborted_ones_are_not(cluster: Cluster) -> None:
    writer = transactional(cluster)
    for nth in range(4):
        writer.begin_transaction()
        for row in range(5):
            writer.produce(TOPIC, b"%d-%d" % (nth, row))
        writer.flush(WAIT_S)
        if nth % 2:
            writer.abort_transaction(WAIT_S)
        else:
            writer.commit_transaction(WAIT_S)
    wanted = [b"%d-%d" % (nth, row) for nth in (0, 2) for row in range(5)]
    assert read_by_kwire(cluster, len(wanted)) == wanted
    assert len(read_by_kwire(cluster, 20, "read_uncommitted")) == 20


def test_positions_are_committed_with_the_transaction_alone(cluster: Cluster) -> None:
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    )
    writer = transactional(cluster)
    for offset, is_committed in ((10, True), (20, False), (30, True)):
        writer.begin_transaction()
        writer.produce(TOPIC, b"sum")
        position = confluent_kafka.TopicPartition(SOURCE, 0, offset)
        writer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), WAIT_S)
        if is_committed:
            writer.commit_transaction(WAIT_S)
        else:
            writer.abort_transaction(WAIT_S)
        (found,) = reader.committed([confluent_kafka.TopicPartition(SOURCE, 0)], WAIT_S)
        assert found.offset == (offset if is_committed else 10)
    reader.close()


def test_a_zombie_is_fenced(cluster: Cluster) -> None:
    zombie = transactional(cluster)
    zombie.begin_transaction()
    zombie.produce(TOPIC, b"zombie")
    zombie.flush(WAIT_S)
    heir = transactional(cluster)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        zombie.commit_transaction(WAIT_S)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    heir.begin_transaction()
    heir.produce(TOPIC, b"heir")
    heir.commit_transaction(WAIT_S)
    assert read_by_kwire(cluster, 1) == [b"heir"]


def test_a_transaction_survives_the_death_of_its_leader_and_coordinator(cluster: Cluster) -> None:
    cluster.create_topic("copied", partitions=1, replication=3)
    writer = transactional(cluster)
    writer.begin_transaction()
    writer.produce("copied", b"before")
    writer.flush(WAIT_S)
    cluster.kill_broker(cluster.leader("copied"))
    writer.produce("copied", b"after")
    writer.commit_transaction(WAIT_S)
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    reader.assign([confluent_kafka.TopicPartition("copied", 0, 0)])
    messages = reader.consume(2, WAIT_S)
    assert [message.value() for message in messages] == [b"before", b"after"]
    reader.close()


def test_kafka_python_writes_transactions_too(cluster: Cluster) -> None:
    from kafka import KafkaProducer

    writer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="py", compression_type="gzip")
    writer.init_transactions()
    for value, is_committed in ((b"kept", True), (b"dropped", False), (b"kept too", True)):
        writer.begin_transaction()
        writer.send(TOPIC, value).get(WAIT_S)
        if is_committed:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
    writer.close()
    assert read_by_kwire(cluster, 2) == [b"kept", b"kept too"]
