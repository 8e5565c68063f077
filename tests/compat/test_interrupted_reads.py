"""Ctrl-C, or a time limit, in the middle of a call of another client: what has not been returned is neither lost nor
committed."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import pytest

from kwire.clock import Deadline
from kwire.compat import kafka_python
from kwire.compat.aiokafka import AIOKafkaConsumer, structs
from kwire.compat.confluent_kafka import Consumer as ConfluentConsumer
from kwire.compat.confluent_kafka import Message
from kwire.compat.kafka_python.consumer.fetcher import record_of
from kwire.consumer.steps import Steps
from kwire.testing import Cluster

Read: TypeAlias = "tuple[int, int]"  # partition and offset
ALL = {(number % 2, number // 2) for number in range(6)}


class Reader(Protocol):
    """One kind of call of one client."""

    def read(self) -> list[Read]: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class Confluent:
    def __init__(self, servers: str) -> None:
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe(["orders"])

    def read(self) -> list[Read]:
        message = self._consumer.poll(1.0)
        return [] if message is None else _read([message])

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class ConfluentConsume(Confluent):
    def read(self) -> list[Read]:
        return _read(self._consumer.consume(4, 1.0))


class KafkaPython:
    def __init__(self, servers: str) -> None:
        self._consumer = kafka_python.KafkaConsumer(
            "orders",
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=1000,
        )

    def read(self) -> list[Read]:
        return [(record.partition, record.offset) for record in (next(self._consumer),)]

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonPoll(KafkaPython):
    def read(self) -> list[Read]:
        polled = self._consumer.poll(1000, max_records=4)
        return [(record.partition, record.offset) for records in polled.values() for record in records]


class Aiokafka:
    def __init__(self, servers: str) -> None:
        self._runner = asyncio.Runner()

        async def make() -> AIOKafkaConsumer:
            return AIOKafkaConsumer(
                "orders",
                bootstrap_servers=servers,
                group_id="g",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )

        self._consumer = self._runner.run(make())
        self._runner.run(self._consumer.start())

    def read(self) -> list[Read]:
        record = self._runner.run(self._consumer.getone())
        return [(record.partition, record.offset)]

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


class AiokafkaMany(Aiokafka):
    def read(self) -> list[Read]:
        polled = self._runner.run(self._consumer.getmany(timeout_ms=1000, max_records=4))
        return [(record.partition, record.offset) for records in polled.values() for record in records]


def _read(messages: list[Message]) -> list[Read]:
    found = []
    for message in messages:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        found.append((partition, offset))
    return found


KINDS: tuple[Callable[[str], Reader], ...] = (
    Confluent,
    ConfluentConsume,
    KafkaPython,
    KafkaPythonPoll,
    Aiokafka,
    AiokafkaMany,
)


class TimeIsUpError(BaseException):
    """What a signal handler raises."""


@pytest.fixture(params=range(6))
def strike(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal comes once, while so many records have been made into those of another client."""
    left = iter([False] * request.param + [True])

    def struck(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: object) -> Any:  # noqa: ANN401
            if next(left, False):
                raise TimeIsUpError
            return make(*arguments)

        return made

    monkeypatch.setattr(Message, "of", struck(Message.of))
    monkeypatch.setattr("kwire.compat.kafka_python.consumer.group.record_of", struck(record_of))
    monkeypatch.setattr("kwire.compat.aiokafka.consumer.record_of", struck(structs.record_of))


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def reader(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Reader]:
    found = request.param(cluster.bootstrap_servers)
    yield found
    found.close()


def test_what_was_not_returned_is_neither_lost_nor_committed(strike: None, reader: Reader, cluster: Cluster) -> None:
    found: list[Read] = []
    strikes = 0
    for _ in range(10):
        if len(found) == len(ALL):
            break
        try:
            found += reader.read()
        except TimeIsUpError:
            strikes += 1
            if found:
                reader.commit()
            committed = {tp.partition: at.offset for tp, at in cluster.committed("g").items()}
            returned = {partition: 1 + max(at for number, at in found if number == partition) for partition, _ in found}
            assert {partition: at for partition, at in committed.items() if at} == returned
    assert strikes == 1
    assert Counter(found) == Counter(ALL)


def test_a_consume_that_is_struck_while_it_waits_for_more_has_taken_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ConfluentConsume(cluster.bootstrap_servers)
    polling = reader._consumer._kwire.consumer._session.polling
    wait = polling.wait

    def struck(seen: int, deadline: Deadline) -> Steps[None]:
        if polling._delivery.due_count(polling._mailbox.view) == len(ALL):
            raise TimeIsUpError
        return wait(seen, deadline)

    monkeypatch.setattr(polling, "wait", struck)
    with pytest.raises(TimeIsUpError):
        reader._consumer.consume(100, 20.0)
    monkeypatch.undo()
    assert sorted(_read(reader._consumer.consume(6, 20.0))) == sorted(ALL)
    reader.close()


@pytest.mark.slow
def test_what_a_consume_holds_is_not_committed_before_it_returns(cluster: Cluster) -> None:
    """A process that is killed while it waits for the rest of a batch would lose the first part."""
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 1}
    with ConfluentConsumer({"bootstrap.servers": cluster.bootstrap_servers, **settings}) as consumer:
        consumer.subscribe(["orders"])
        assert len(consumer.consume(2, 20.0)) == 2
        committed: list[int] = []
        stop = threading.Event()

        def look() -> None:
            while not stop.wait(0.05):
                committed.append(sum(at.offset for at in cluster.committed("g").values()))

        watch = threading.Thread(target=look)
        watch.start()
        try:
            messages = consumer.consume(100, 1.5)
        finally:
            stop.set()
            watch.join()
        assert len(messages) == 4
        assert max(committed) == 2
