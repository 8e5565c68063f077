"""What the tests of `kwire.Consumer` share: consumers that are closed when a test is over, and bounded ways to wait."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol, TypeAlias, Unpack
from uuid import uuid4

import pytest

from kwire import Consumer, Record, TopicPartition
from kwire.config import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.config import Deserialize
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.lag_story import Story
    from tests.integration.kafkas import SharedKafka
    from tests.over_event_loops import consumer_class
else:
    from lag_story import Story
    from over_event_loops import consumer_class

DEADLINE_S = 30.0

BytesConsumer: TypeAlias = Consumer[bytes, bytes]
BytesRecord: TypeAlias = Record[bytes, bytes]


class BytesSettings(Settings, total=False):
    """The settings of a consumer of bytes."""

    value_deserializer: Deserialize[bytes]


class OpenConsumer(Protocol):
    """Makes a consumer of the test's Kafka that starts at the beginning; closed after the test."""

    def __call__(self, *topics: str, **settings: Unpack[BytesSettings]) -> BytesConsumer: ...


class Read(Protocol):
    """Polls until there are `count` records, or more if a poll brings more."""

    def __call__(self, consumer: BytesConsumer, count: int) -> list[BytesRecord]: ...


class PollUntil(Protocol):
    """Polls all these consumers in turn until the condition holds; answers the records that came."""

    def __call__(self, condition: Callable[[], bool], *consumers: BytesConsumer) -> list[BytesRecord]: ...


@pytest.fixture(autouse=True)
def facade(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With `--facade` the tests' `Consumer` is an `AsyncConsumer`, used from an event loop."""
    chosen: str = request.config.getoption("--facade")
    for module in (request.module, sys.modules[__name__]):
        if hasattr(module, "Consumer"):
            monkeypatch.setattr(module, "Consumer", consumer_class(chosen))
    return chosen


@pytest.fixture
def group_id() -> str:
    """A group nobody else uses."""
    return f"kwire-{uuid4().hex[:8]}"


@pytest.fixture
def open_consumer(kafka: SharedKafka) -> Iterator[OpenConsumer]:
    opened: list[BytesConsumer] = []

    def make(*topics: str, **settings: Unpack[BytesSettings]) -> BytesConsumer:
        defaults: BytesSettings = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
        consumer: BytesConsumer = Consumer(*topics, **(defaults | settings))
        opened.append(consumer)
        return consumer

    yield make
    for consumer in opened:
        consumer.close()


@pytest.fixture
def read() -> Read:
    def read_records(consumer: BytesConsumer, count: int) -> list[BytesRecord]:
        records: list[BytesRecord] = []
        until_s = time.monotonic() + DEADLINE_S
        while len(records) < count:
            records += consumer.poll(1.0)
            assert time.monotonic() < until_s, f"{len(records)} of {count} records after {DEADLINE_S} s"
        return records

    return read_records


@pytest.fixture
def poll_until() -> PollUntil:
    def poll(condition: Callable[[], bool], *consumers: BytesConsumer) -> list[BytesRecord]:
        records: list[BytesRecord] = []
        until_s = time.monotonic() + DEADLINE_S
        while not condition():
            for consumer in consumers:
                records += consumer.poll(0.02)
            assert time.monotonic() < until_s, f"still not so after {DEADLINE_S} s: {consumers}"
        return records

    return poll


@pytest.fixture
def one_partition() -> Callable[[str], list[TopicPartition]]:
    """Partition 0 of a topic, as a list."""
    return lambda topic: [TopicPartition(topic, 0)]


@pytest.fixture(params=["classic", "consumer"])
def story(
    request: pytest.FixtureRequest,
    kafka: SharedKafka,
    topic: MakeTopic,
    group_id: str,
    produce: Produce,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
) -> Story:
    """One partition, under each of the group protocols."""
    return Story(kafka, topic(), group_id, request.param, produce, open_consumer, poll_until)
