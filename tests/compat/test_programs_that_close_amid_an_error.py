"""Programs of other clients close in a `finally`. What they have failed over is not committed: it comes again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kwire import TopicPartition
from kwire.compat.aiokafka import AIOKafkaConsumer
from kwire.compat.confluent_kafka import Consumer
from kwire.compat.confluent_kafka.aio import AIOConsumer
from kwire.compat.kafka_python import KafkaConsumer
from kwire.protocol.messages.list_offsets import ListOffsetsRequest

if TYPE_CHECKING:
    from kwire.testing import Cluster

ORDERS = TopicPartition("orders", 0)
RECORDS = 20
BAD = 4


LOOKS: dict[str, Callable[[Consumer], object]] = {
    "assignment": Consumer.assignment,
    "memberid": Consumer.memberid,
    "position": lambda consumer: consumer.position(consumer.assignment()),
    "pause": lambda consumer: consumer.pause(consumer.assignment()),
}


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


def read_with_aiokafka(servers: str, read: Callable[[AIOKafkaConsumer], Awaitable[None]]) -> None:
    async def main() -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            await read(consumer)
        finally:
            await consumer.stop()

    asyncio.run(main())


async def loop_of_aiokafka(consumer: AIOKafkaConsumer) -> None:
    async for record in consumer:
        bill(record.offset)


async def batches_of_aiokafka(consumer: AIOKafkaConsumer) -> None:
    for records in (await consumer.getmany(timeout_ms=10_000)).values():
        for record in records:
            bill(record.offset)


def messages_of_an_aio_consumer(servers: str, *, at_once: int, by_with: bool) -> None:
    async def read(consumer: AIOConsumer) -> None:
        await consumer.subscribe(["orders"])
        while True:
            for message in await consumer.consume(at_once, 10.0):
                bill(message.offset())

    async def main() -> None:
        consumer = AIOConsumer({"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"})
        if by_with:
            async with consumer:
                await read(consumer)
        try:
            await read(consumer)
        finally:
            await consumer.close()

    asyncio.run(main())


def a_batch_and_a_look(servers: str, look: Callable[[Consumer], object]) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        for message in consumer.consume(RECORDS, 10.0):
            look(consumer)
            bill(message.offset())
    except BillingError:
        look(consumer)
        consumer.close()
        raise


@pytest.mark.parametrize(
    ("program", "processed"),
    [
        pytest.param(loop_of_kafka_python, BAD, id="kafka-python, loop"),
        pytest.param(polls_of_kafka_python, 0, id="kafka-python, poll"),
        pytest.param(lambda servers: messages_of_confluent_kafka(servers, at_once=1), BAD, id="confluent-kafka, one"),
        pytest.param(
            lambda servers: messages_of_confluent_kafka(servers, at_once=RECORDS), 0, id="confluent-kafka, many"
        ),
        *(
            pytest.param(
                partial(messages_of_an_aio_consumer, at_once=at_once, by_with=by_with),
                BAD if at_once == 1 else 0,
                id=f"AIOConsumer, {at_once}, {'with' if by_with else 'finally'}",
            )
            for at_once in (1, RECORDS)
            for by_with in (True, False)
        ),
        *(
            pytest.param(partial(a_batch_and_a_look, look=look), 0, id=f"confluent-kafka, many, {name}")
            for name, look in LOOKS.items()
        ),
        pytest.param(partial(read_with_aiokafka, read=loop_of_aiokafka), BAD, id="aiokafka, loop"),
        pytest.param(partial(read_with_aiokafka, read=batches_of_aiokafka), 0, id="aiokafka, getmany"),
    ],
)
def test_what_a_program_failed_over_comes_again(
    cluster: Cluster, program: Callable[[str], None], processed: int
) -> None:
    with pytest.raises(BillingError):
        program(cluster.bootstrap_servers)
    found = cluster.committed("billing").get(ORDERS)
    assert (0 if found is None else found.offset) == processed


def test_a_close_that_wakes_another_threads_look_up_commits_as_any_other(cluster: Cluster) -> None:
    """The adapter calls itself again in an `except` of its own, and that was taken for a failure of the program's."""
    servers = cluster.bootstrap_servers
    consumer = KafkaConsumer("orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest")
    assert sum(map(len, consumer.poll(10_000).values())) == RECORDS
    asked, hold = threading.Event(), cluster.control.on(ListOffsetsRequest)
    hold.observe(lambda *_: asked.set())
    hold.delay(200.0)
    thread = threading.Thread(target=look_up, args=(consumer,))
    thread.start()
    assert asked.wait(10.0)
    consumer.close()
    thread.join(10.0)
    assert cluster.committed("billing")[ORDERS].offset == RECORDS


def look_up(consumer: KafkaConsumer) -> None:
    with suppress(Exception):  # it is closed under its hands
        consumer.end_offsets([*consumer.assignment()])
