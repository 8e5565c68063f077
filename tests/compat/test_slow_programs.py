"""A program that takes long for each record polls between two of them, however many are at hand.

So its member stays in the group, what it has done is committed, and rebalances go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kwire import AsyncConsumer, Consumer
from kwire.compat.aiokafka import AIOKafkaConsumer
from kwire.compat.confluent_kafka import Consumer as ConfluentConsumer
from kwire.compat.kafka_python import KafkaConsumer
from kwire.consumer.session import ConsumerSession
from kwire.testing import Cluster

SETTINGS: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}


def with_kwire(servers: str) -> Iterator[object]:
    with Consumer("orders", bootstrap_servers=servers, **SETTINGS) as consumer:
        yield from consumer


def with_confluent_kafka(servers: str) -> Iterator[object]:
    consumer = ConfluentConsumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        while True:
            if (message := consumer.poll(1.0)) is not None:
                yield message
    finally:
        consumer.close()


def with_kafka_python(servers: str) -> Iterator[object]:
    with KafkaConsumer("orders", bootstrap_servers=servers, **SETTINGS) as consumer:
        yield from consumer


async def with_async_for(
    kind: type[AsyncConsumer[Any, Any]] | type[AIOKafkaConsumer], servers: str
) -> AsyncIterator[object]:
    async with kind("orders", bootstrap_servers=servers, **SETTINGS) as consumer:
        async for record in consumer:
            yield record


async def with_aiokafka_getone(servers: str) -> AsyncIterator[object]:
    async with AIOKafkaConsumer("orders", bootstrap_servers=servers, **SETTINGS) as consumer:
        while True:
            yield await consumer.getone()


async def with_aiokafka_getmany(servers: str) -> AsyncIterator[object]:
    async with AIOKafkaConsumer("orders", bootstrap_servers=servers, **SETTINGS) as consumer:
        while True:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=1)).values():
                yield records[0]


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each poll. All of them come late: the body of a loop always takes too long."""
    found: list[None] = []
    poll = ConsumerSession.poll

    def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        found.append(None)
        return poll(*args, **kwargs)

    monkeypatch.setattr(ConsumerSession, "poll", counted)
    monkeypatch.setattr("kwire.consumer.delivery.LOOP_MS", 0.0)
    return found


@pytest.mark.parametrize("program", [with_kwire, with_confluent_kafka, with_kafka_python])
def test_each_record_is_polled_for(
    program: Callable[[str], Iterator[object]], polls: list[None], cluster: Cluster
) -> None:
    records = program(cluster.bootstrap_servers)
    next(records)
    for _ in range(5):
        before = len(polls)
        next(records)
        assert len(polls) > before
    records.close()  # type: ignore[attr-defined]  # a generator's


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(partial(with_async_for, AsyncConsumer), id="with_async_kwire"),
        with_aiokafka_getone,
        pytest.param(partial(with_async_for, AIOKafkaConsumer), id="with_aiokafka_for"),
        with_aiokafka_getmany,
    ],
)
def test_each_record_is_awaited_by_a_poll(
    program: Callable[[str], AsyncIterator[object]], polls: list[None], cluster: Cluster
) -> None:
    async def read() -> None:
        records = program(cluster.bootstrap_servers)
        await anext(records)
        for _ in range(5):
            before = len(polls)
            await anext(records)
            assert len(polls) > before
        await records.aclose()  # type: ignore[attr-defined]  # a generator's

    asyncio.run(read())
