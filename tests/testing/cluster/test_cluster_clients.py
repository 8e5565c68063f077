"""Real clients against the in-process cluster: librdkafka, kafka-python and kwire produce, consume in groups, commit,
and get over brokers that die. They were written by others, against Kafka: what they take for Kafka will do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire import Consumer, TopicPartition
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing import Cluster
from kwire.testing.cluster.releases import LATEST, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 300
HEARTBEAT_MS = 100
DEADLINE_S = 30.0
VALUES = {b"%d" % number for number in range(RECORDS)}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    # librdkafka acts on a rebalance with its next heartbeat, and the consumer protocol's interval is the broker's.
    with Cluster(brokers=3, settings={"group.consumer.heartbeat.interval.ms": HEARTBEAT_MS}) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster


def fill(cluster: Cluster) -> None:
    for partition in range(PARTITIONS):
        mine = [value for value in sorted(VALUES) if int(value) % PARTITIONS == partition]
        cluster.produce(TOPIC, *mine, partition=partition)


def committed_offsets(cluster: Cluster, group_id: str) -> list[int]:
    found = cluster.committed(group_id)
    return [found[TopicPartition(TOPIC, index)].offset for index in range(PARTITIONS)]


def gather(read: Callable[[], list[bytes]], wanted: int = RECORDS) -> list[bytes]:
    """Read until there is as much as wanted. Fails after a while."""
    found: list[bytes] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(found) < wanted:
        assert time.monotonic() < deadline_s, f"{len(found)} of {wanted} records came"
        found += read()
    return found


def quiet(cluster: Cluster, **settings: object) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **settings}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_produces_with_every_codec_and_kwire_reads(cluster: Cluster, codec: str) -> None:
    producer = confluent_kafka.Producer(quiet(cluster, **{"compression.type": codec, "enable.idempotence": True}))
    for value in VALUES:
        producer.produce(TOPIC, value, key=value)
    assert producer.flush(DEADLINE_S) == 0
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([TOPIC])
        found = gather(lambda: [record.value or b"" for record in consumer.poll(0.5)])
    assert sorted(found) == sorted(VALUES)


@pytest.mark.parametrize(
    ("protocol", "strategy"),
    [("classic", "range"), ("classic", "roundrobin"), ("classic", "cooperative-sticky"), ("consumer", None)],
)
def test_librdkafka_s_group_reads_everything_once_and_commits(
    cluster: Cluster, protocol: str, strategy: str | None
) -> None:
    settings: dict[str, object] = {"group.id": "g", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    settings["enable.auto.commit"] = False  # what it has just committed by itself it refuses to commit again
    if strategy is not None:
        settings |= {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": HEARTBEAT_MS}
    members = [confluent_kafka.Consumer(quiet(cluster, **settings)) for _ in range(2)]
    for member in members:
        member.subscribe([TOPIC])

    def read() -> list[bytes]:
        messages = [message for member in members for message in member.consume(RECORDS, 0.05)]
        assert [message.error() for message in messages if message.error()] == []
        return [message.value() or b"" for message in messages]

    # Both have their share first: a client that reads and closes in the middle of a rebalance commits nothing.
    gather(lambda: [*read(), b""] if sorted(len(member.assignment()) for member in members) == [1, 2] else read(), 1)
    fill(cluster)
    found = gather(read)
    for member in members:
        member.commit(asynchronous=False)
        member.close()
    assert sorted(found) == sorted(VALUES)
    assert committed_offsets(cluster, "g") == [RECORDS // PARTITIONS] * PARTITIONS


def test_librdkafka_s_transactions_show_when_they_are_committed(cluster: Cluster) -> None:
    producer = confluent_kafka.Producer(quiet(cluster, **{"transactional.id": "t"}))
    producer.init_transactions(DEADLINE_S)
    for outcome in ("kept", "dropped", "kept too"):
        producer.begin_transaction()
        producer.produce(TOPIC, outcome.encode(), partition=0)
        if outcome == "dropped":
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        found = gather(lambda: [record.value or b"" for record in consumer.poll(0.5)], wanted=2)
    assert found == [b"kept", b"kept too"]


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_kafka_python_produces_reads_in_a_group_and_commits(cluster: Cluster) -> None:
    from kafka import KafkaConsumer, KafkaProducer  # under the mark's filter: its import warns

    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    for value in VALUES:
        producer.send(TOPIC, value, partition=int(value) % PARTITIONS)
    producer.flush(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    )

    def read() -> list[bytes]:
        return [record.value for records in consumer.poll(500).values() for record in records]

    found = gather(read)
    consumer.commit()
    consumer.close()
    assert sorted(found) == sorted(VALUES)
    assert committed_offsets(cluster, "g") == [RECORDS // PARTITIONS] * PARTITIONS


@pytest.mark.parametrize(
    ("release", "protocol"), [*((name, "classic") for name in RELEASES), (LATEST.name, "consumer")]
)
def test_kwire_reads_and_commits_against_every_release(release: str, protocol: str) -> None:
    with Cluster(brokers=2, release=release) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        fill(cluster)
        with Consumer[bytes, bytes](
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            group_protocol=protocol,
        ) as consumer:
            consumer.subscribe([TOPIC])
            found = gather(lambda: [record.value or b"" for record in consumer.poll(0.5)])
            consumer.commit_sync()
        assert sorted(found) == sorted(VALUES)
        assert committed_offsets(cluster, "g") == [RECORDS // PARTITIONS] * PARTITIONS


def test_kwire_gets_over_dead_brokers_moved_leaders_and_moved_coordinators(cluster: Cluster) -> None:
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([TOPIC])

        def next_three(round_: int) -> None:
            for partition in range(PARTITIONS):
                cluster.produce(TOPIC, b"%d" % round_, partition=partition)
            found = gather(lambda: [record.value or b"" for record in consumer.poll(0.5)], wanted=PARTITIONS)
            assert found == [b"%d" % round_] * PARTITIONS
            consumer.commit_sync(timeout=DEADLINE_S)
            assert committed_offsets(cluster, "g") == [round_ + 1] * PARTITIONS

        next_three(0)
        for partition in range(PARTITIONS):
            cluster.move_leader(TOPIC, partition, (cluster.leader(TOPIC, partition) + 1) % 3)
        next_three(1)
        cluster.move_coordinator("g")
        next_three(2)
        cluster.kill_broker(cluster.coordinator("g"))
        next_three(3)
        cluster.cut_connections()
        next_three(4)


def test_kwire_repeats_a_commit_whose_answer_was_lost(cluster: Cluster) -> None:
    cluster.produce(TOPIC, b"1")
    rule = cluster.control.on(OffsetCommitRequest, times=1).cut(handled=True)
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([TOPIC])
        gather(lambda: [record.value or b"" for record in consumer.poll(0.5)], wanted=1)
        consumer.commit_sync(timeout=DEADLINE_S)
    assert rule.fired == 1
    assert cluster.committed("g")[TopicPartition(TOPIC, 0)].offset == 1
