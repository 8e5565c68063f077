"""Polls behind a seek: the network thread fetches what follows when the application comes back, not by its clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event
from uuid import uuid4

import pytest

from kwire import AsyncConsumer, Consumer, TopicPartition
from kwire.compat import confluent_kafka
from kwire.managers import fetch
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

TP = TopicPartition("orders", 0)
RECORDS = 2000
BATCH = 100
START = 1000
# So little is fetched ahead that what is sought is not in the buffer.
SETTINGS = {"auto_offset_reset": "earliest", "fetch_buffer_bytes": 1024 * 1024}
WANTED = list(range(START, RECORDS))


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "READ_AHEAD_DELAY_MS", 1e9)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as running:
        for _ in range(RECORDS // BATCH):  # behind the start, two megabytes: more than a first fetch brings
            running.produce("orders", *(NewRecord(bytes(2000)) for _ in range(BATCH)), partition=0)
        yield running


@pytest.fixture
def servers(cluster: Cluster) -> str:
    return cluster.bootstrap_servers


def opened(servers: str, **settings: object) -> Consumer[bytes, bytes]:
    consumer: Consumer[bytes, bytes] = Consumer(config={"bootstrap_servers": servers} | SETTINGS | settings)
    consumer.assign([TP])
    assert consumer.poll(10.0)
    consumer.seek(TP, START)
    return consumer


def test_what_follows_is_fetched_while_the_application_has_records_left(cluster: Cluster) -> None:
    is_fetched = Event()

    def see(request: FetchRequest, _call: object) -> None:
        if any(partition.fetch_offset > START for topic in request.topics for partition in topic.partitions):
            is_fetched.set()

    with opened(cluster.bootstrap_servers, max_poll_records=1) as consumer:
        assert [record.offset for record in consumer.poll(10.0)] == [START]
        cluster.control.on(FetchRequest).observe(see)
        assert [record.offset for record in consumer.poll(10.0)] == [START + 1]
        assert is_fetched.wait(10.0)


@pytest.mark.parametrize("max_records", [1, 50, RECORDS])
def test_polls_get_all_that_follows(servers: str, max_records: int) -> None:
    found: list[int] = []
    with opened(servers, max_poll_records=max_records) as consumer:
        while len(found) < len(WANTED):
            found += [record.offset for record in consumer.poll(10.0)]
    assert found == WANTED


def test_a_loop_gets_all_that_follows(servers: str) -> None:
    found: list[int] = []
    with opened(servers) as consumer:
        for record in consumer:
            found.append(record.offset)
            if record.offset == RECORDS - 1:
                break
    assert found == WANTED


def test_polls_on_an_event_loop_get_all_that_follows(servers: str) -> None:
    found: list[int] = []

    async def read() -> None:
        async with AsyncConsumer[bytes, bytes](config={"bootstrap_servers": servers} | SETTINGS) as consumer:
            await consumer.assign([TP])
            assert await consumer.poll(10.0)
            await consumer.seek(TP, START)
            while len(found) < len(WANTED):
                found.extend(record.offset for record in await consumer.poll(10.0))

    asyncio.run(read())
    assert found == WANTED


def test_a_poll_that_waits_for_more_than_has_come_gets_it(servers: str) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0)])
    assert consumer.consume(1, 10.0)
    consumer.seek(confluent_kafka.TopicPartition("orders", 0, START))
    messages = consumer.consume(len(WANTED), 4.0)  # it looks again after five seconds
    consumer.close()
    assert [message.offset() for message in messages] == WANTED
