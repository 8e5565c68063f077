"""What transactional producers of other libraries are given, and when nothing is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from kwire import (
    AsyncConsumer,
    Consumer,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    RebalanceConsumer,
    TopicPartition,
)
from kwire.compat.confluent_kafka import Consumer as ConsumerLikeConfluent
from kwire.compat.kafka_python import KafkaConsumer as ConsumerLikeKafkaPython
from kwire.compat.kafka_python import OffsetAndMetadata as OffsetLikeKafkaPython
from kwire.errors import CommitFailedError, IllegalStateError, InvalidArgumentError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.testing import Cluster
from kwire.transactions import librdkafka_group_metadata, send_offsets_to_transaction

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*Use files.. instead:DeprecationWarning"),  # kafka-python, on import
]

TP = TopicPartition("orders", 0)
WAIT_S = 15.0


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", b"1", b"2", b"3")
    return kafka_cluster


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[Consumer[bytes, bytes]]:
    with Consumer[bytes, bytes](
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
    ) as made:
        yield made


@pytest.fixture
def producer(cluster: Cluster) -> confluent_kafka.Producer:
    """Of confluent-kafka, its transaction begun."""
    made = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "billing", "log_level": 0}
    )
    made.init_transactions(WAIT_S)
    made.begin_transaction()
    return made


def test_librdkafka_has_the_same_bytes_for_a_member(cluster: Cluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "théâtre", "log_level": 0}
    for more in ({}, {"group.instance.id": "first"}):
        theirs = confluent_kafka.Consumer({**settings, **more, "auto.offset.reset": "earliest"})
        theirs.subscribe(["orders"])
        assert theirs.poll(WAIT_S) is not None
        known = theirs.consumer_group_metadata()
        generation = int.from_bytes(known[7:11], "little")
        member = ConsumerGroupMetadata(
            group_id="théâtre",
            generation_id=generation,
            member_id=theirs.memberid() or "",
            group_instance_id=more.get("group.instance.id"),
        )
        assert librdkafka_group_metadata(member) == known
        theirs.close()


def test_librdkafka_has_the_same_bytes_for_a_consumer_in_no_group() -> None:
    theirs = confluent_kafka.Consumer({"group.id": "billing", "log_level": 0})
    assert librdkafka_group_metadata(ConsumerGroupMetadata(group_id="billing")) == theirs.consumer_group_metadata()
    theirs.close()


def test_offsets_are_committed_with_the_transaction_alone(
    consumer: Consumer[bytes, bytes], producer: confluent_kafka.Producer
) -> None:
    """Their leader epoch as well."""
    consumer.poll(WAIT_S)
    wanted = OffsetAndMetadata(2, leader_epoch=0)
    send_offsets_to_transaction(producer, {TP: OffsetAndMetadata(3)}, consumer)
    producer.abort_transaction(WAIT_S)
    assert consumer.committed([TP]) == {TP: None}
    producer.begin_transaction()
    send_offsets_to_transaction(producer, {TP: wanted}, consumer)
    producer.commit_transaction(WAIT_S)
    assert consumer.committed([TP]) == {TP: wanted}


def test_a_consumer_whose_partitions_are_assigned_by_hand_commits_as_well(
    cluster: Cluster, producer: confluent_kafka.Producer
) -> None:
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, group_id="by-hand", enable_auto_commit=False
    ) as consumer:
        consumer.assign([TP])
        send_offsets_to_transaction(producer, {TP: OffsetAndMetadata(1)}, consumer)
        producer.commit_transaction(WAIT_S)
        assert consumer.committed([TP]) == {TP: OffsetAndMetadata(1)}


def test_an_async_consumer_will_do(cluster: Cluster, producer: confluent_kafka.Producer) -> None:
    async def process() -> None:
        async with AsyncConsumer[bytes, bytes](
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="awaiting",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            records = await consumer.poll(WAIT_S)
            send_offsets_to_transaction(producer, records.next_offsets(), consumer)
            producer.commit_transaction(WAIT_S)
            assert await consumer.committed([TP]) == records.next_offsets()

    asyncio.run(process())


def test_what_is_not_the_consumer_s_is_refused(
    consumer: Consumer[bytes, bytes], producer: confluent_kafka.Producer
) -> None:
    consumer.poll(WAIT_S)
    offsets = {TP: OffsetAndMetadata(1), TopicPartition("orders", 7): OffsetAndMetadata(1)}
    with pytest.raises(CommitFailedError, match=r"no longer this consumer's: orders-7; abort the transaction"):
        send_offsets_to_transaction(producer, offsets, consumer)
    producer.commit_transaction(WAIT_S)
    assert consumer.committed([TP]) == {TP: None}


def test_as_the_refusal_says_records_of_a_partition_that_stays_come_again(
    consumer: Consumer[bytes, bytes], producer: confluent_kafka.Producer
) -> None:
    """The abort undoes their results as well. It said to poll on alone: then the next poll went on after them."""
    records = consumer.poll(WAIT_S)
    gone = {TopicPartition("orders", 7): OffsetAndMetadata(1)}
    advice = "seek each partition of it that is still assigned back to its first offset there, and poll on"
    with pytest.raises(CommitFailedError, match=advice):
        send_offsets_to_transaction(producer, {**records.next_offsets(), **gone}, consumer)
    producer.abort_transaction(WAIT_S)
    for tp in consumer.assignment() & set(records.partitions()):
        consumer.seek(tp, records[tp][0].offset)
    assert consumer.poll(WAIT_S).values() == [b"1", b"2", b"3"]


class AIOKafkaProducer:
    """One of a library by the name of its module."""

    __module__ = "aiokafka.producer"

    async def send_offsets_to_transaction(self, offsets: object, group_id: str) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("producer", "complaint"),
    [
        (object(), "a object is no transactional producer of confluent-kafka or kafka-python"),
        (AIOKafkaProducer(), "kafka-python; aiokafka's does not tell brokers of the member's generation"),
    ],
)
def test_other_producers_are_refused(consumer: Consumer[bytes, bytes], producer: object, complaint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=complaint):
        send_offsets_to_transaction(producer, {}, consumer)


def test_a_consumer_that_commits_by_itself_is_refused(cluster: Cluster, producer: confluent_kafka.Producer) -> None:
    """The next poll would commit the records of a transaction that was aborted."""
    with (
        Consumer[bytes, bytes](bootstrap_servers=cluster.bootstrap_servers, group_id="by-itself") as consumer,
        pytest.raises(IllegalStateError, match="set enable_auto_commit=False"),
    ):
        send_offsets_to_transaction(producer, {TP: OffsetAndMetadata(1)}, consumer)


def test_a_callback_may_send_offsets(cluster: Cluster, producer: confluent_kafka.Producer) -> None:
    """Of what it has read, before it gives the partition back."""

    def on_revoked(consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        send_offsets_to_transaction(producer, dict.fromkeys(partitions, OffsetAndMetadata(2)), consumer)
        producer.commit_transaction(WAIT_S)

    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, group_id="leaving", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe(["orders"], on_revoked=on_revoked)
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.unsubscribe()
        assert consumer.committed([TP]) == {TP: OffsetAndMetadata(2)}


def test_an_offset_that_is_none_is_refused(
    consumer: Consumer[bytes, bytes], producer: confluent_kafka.Producer
) -> None:
    with pytest.raises(InvalidArgumentError, match="expected OffsetAndMetadata, not 5"):
        send_offsets_to_transaction(producer, {TP: 5}, consumer)  # type: ignore[dict-item]


def test_a_member_that_was_put_out_has_no_metadata_while_it_believes_to_have_partitions(
    cluster: Cluster, consumer: Consumer[bytes, bytes]
) -> None:
    consumer.poll(WAIT_S)
    before = consumer.group_metadata()
    cluster.control.on(HeartbeatRequest, times=1).answer(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    with pytest.raises(CommitFailedError, match=r"removed from group billing, .* poll to join again"):
        until(lambda: consumer.group_metadata() != before)
    assert consumer.assignment() == {TP}
    until(lambda: bool(consumer.poll(0.1).lost))
    assert consumer.group_metadata().generation_id == -1  # there is nothing that it could commit


def until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until_s


# --- programs of other clients --------------------------------------------------------------------------------------


def test_confluent_s_producer_takes_the_metadata_of_the_consumer_that_is_called_like_its_own(
    cluster: Cluster, producer: confluent_kafka.Producer
) -> None:
    consumer = ConsumerLikeConfluent(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "ported",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    assert consumer.memberid() is None
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert consumer.memberid()
    assert message.offset() == 0
    offset = confluent_kafka.TopicPartition("orders", 0, 1)
    producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata())
    producer.commit_transaction(WAIT_S)
    (found,) = consumer.committed(consumer.assignment())
    assert found.offset == 1
    consumer.close()


def test_kafka_python_s_producer_takes_what_the_consumer_that_is_called_like_its_own_answers(cluster: Cluster) -> None:
    from kafka import KafkaProducer

    made: Any = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="ported")
    made.init_transactions()
    made.begin_transaction()
    consumer = ConsumerLikeKafkaPython(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="ported",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    record = next(consumer)
    offsets = {TP: OffsetLikeKafkaPython(record.offset + 1, "", -1)}
    made.send_offsets_to_transaction(offsets, consumer.group_metadata())
    made.commit_transaction()
    assert consumer.committed(TP) == 1
    consumer.close()
    made.close()
