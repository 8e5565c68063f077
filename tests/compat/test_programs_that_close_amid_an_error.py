"""Programs of other clients close in a `finally`. What they have failed over is not committed: it comes again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kwire import TopicPartition
from kwire.compat.aiokafka import AIOKafkaConsumer
from kwire.compat.confluent_kafka import Consumer
from kwire.compat.kafka_python import KafkaConsumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.testing import Cluster

ORDERS = TopicPartition("orders", 0)
RECORDS = 20
BAD = 4


class BillingError(Exception):
    pass


def bill(offset: int | None) -> None:
    if offset == BAD:
        raise BillingError


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(RECORDS)))
    return kafka_cluster


def loop_of_kafka_python(servers: str) -> None:
    consumer = KafkaConsumer("orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest")
    with closing(consumer):
        for record in consumer:
            bill(record.offset)


def polls_of_kafka_python(servers: str) -> None:
    consumer = KafkaConsumer("orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest")
    with closing(consumer):
        for records in consumer.poll(10_000).values():
            for record in records:
                bill(record.offset)


def messages_of_confluent_kafka(servers: str, *, at_once: int) -> None:
    def messages() -> Iterator[int | None]:
        while True:
            yield from (message.offset() for message in consumer.consume(at_once, 10.0))

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    with closing(consumer):
        for offset in messages():
            bill(offset)


def loop_of_aiokafka(servers: str) -> None:
    async def main() -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            async for record in consumer:
                bill(record.offset)
        finally:
            await consumer.stop()

    asyncio.run(main())


def batches_of_aiokafka(servers: str) -> None:
    async def main() -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            for records in (await consumer.getmany(timeout_ms=10_000)).values():
                for record in records:
                    bill(record.offset)
        finally:
            await consumer.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("program", "processed"),
    [
        pytest.param(loop_of_kafka_python, BAD, id="kafka-python, loop"),
        pytest.param(polls_of_kafka_python, 0, id="kafka-python, poll"),
        pytest.param(lambda servers: messages_of_confluent_kafka(servers, at_once=1), BAD, id="confluent-kafka, one"),
        pytest.param(
            lambda servers: messages_of_confluent_kafka(servers, at_once=RECORDS), 0, id="confluent-kafka, many"
        ),
        pytest.param(loop_of_aiokafka, BAD, id="aiokafka, loop"),
        pytest.param(batches_of_aiokafka, 0, id="aiokafka, getmany"),
    ],
)
def test_what_a_program_failed_over_comes_again(
    cluster: Cluster, program: Callable[[str], None], processed: int
) -> None:
    with pytest.raises(BillingError):
        program(cluster.bootstrap_servers)
    found = cluster.committed("billing").get(ORDERS)
    assert (0 if found is None else found.offset) == processed
