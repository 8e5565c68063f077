"""Brokers without room for fetch sessions (KIP-227): each request names all partitions, and all are served in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.integration.consumer.conftest import BytesConsumer
    from tests.integration.kafkas import OWN_KAFKAS, OwnKafka, Side
else:
    from kafkas import OWN_KAFKAS

pytestmark = pytest.mark.slow

TIMEOUT_S = 60.0
PARTITIONS = 12
RECORDS_EACH = 2_000
VALUE = b"v" * 1_000
BATCH_BYTES = 16_384
ANSWER_BYTES = 100_000  # of two million in each partition


@pytest.fixture(scope="module")
def without_sessions(side: Side) -> Iterator[OwnKafka]:
    with OWN_KAFKAS[side](settings={"max.incremental.fetch.session.cache.slots": "0"}) as kafka:
        yield kafka


def backlog(kafka: OwnKafka, topics: int) -> list[TopicPartition]:
    """Topics with twelve partitions together, and as many records in each."""
    names = [f"backlog-{uuid4().hex[:8]}" for _ in range(topics)]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    made = [NewTopic(name, PARTITIONS // topics, replication_factor=1) for name in names]
    for future in admin.create_topics(made).values():
        future.result(TIMEOUT_S)
    producer = Producer(
        {"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers, "batch.size": BATCH_BYTES, "linger.ms": 50}
    )
    partitions = [TopicPartition(name, number) for name in names for number in range(PARTITIONS // topics)]
    for tp in partitions:
        for _ in range(RECORDS_EACH):
            producer.produce(tp.topic, VALUE, partition=tp.partition)
    assert producer.flush(TIMEOUT_S) == 0
    return partitions


def others_before(consumer: BytesConsumer, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
    """How many records of others come before each partition's first."""
    found: dict[TopicPartition, int] = {}
    count = 0
    while len(found) < len(partitions):
        for record in consumer.poll(TIMEOUT_S):
            found.setdefault(TopicPartition(record.topic, record.partition), count)
            count += 1
    return found


@pytest.mark.parametrize("topics", [1, 2])
def test_each_partition_of_a_backlog_is_served_once_before_any_is_served_twice(
    without_sessions: OwnKafka, topics: int
) -> None:
    """The last of them came after all records of all the others."""
    partitions = backlog(without_sessions, topics)
    consumer: BytesConsumer = Consumer(
        bootstrap_servers=without_sessions.bootstrap_servers,
        auto_offset_reset="earliest",
        fetch_max_bytes=ANSWER_BYTES,
    )
    with consumer:
        consumer.assign(partitions)
        before = others_before(consumer, partitions)
    assert max(before.values()) <= len(partitions) * ANSWER_BYTES // len(VALUE), before
