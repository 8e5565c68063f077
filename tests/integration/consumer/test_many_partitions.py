"""Where there are many partitions, those with something to say are fetched over a connection of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire import TopicPartition
from kwire.fetching import idle_partitions
from kwire.managers import fetch

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import OpenConsumer, Read

PARTITIONS = 12


@pytest.fixture(params=["they stay lively", "they are quiet again at once"])
def topic_of_many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, topic: MakeTopic) -> str:
    """Ten partitions are many here; those that have spoken stay with the lively ones, or go back with the next look."""
    monkeypatch.setattr(fetch, "MANY_PARTITIONS", 10)
    if request.param.endswith("at once"):
        monkeypatch.setattr(idle_partitions, "IDLE_AFTER_MS", 0.0)
    return topic(PARTITIONS)


def test_each_partition_is_read_whether_it_speaks_all_the_time_or_for_once(
    topic_of_many: str, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    consumer = open_consumer(fetch_max_wait_ms=20)
    consumer.assign([TopicPartition(topic_of_many, number) for number in range(PARTITIONS)])
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    for number in [0, 1, *range(PARTITIONS), 0, 1]:
        produce(topic_of_many, [b"a", b"b"], partition=number)
        first = offsets[number]
        assert [(r.partition, r.offset) for r in read(consumer, 2)] == [(number, first), (number, first + 1)]
        offsets[number] += 2


def test_sought_and_resumed_ones_are_read_on_from_where_they_are_wanted(
    topic_of_many: str, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    consumer = open_consumer(fetch_max_wait_ms=20)
    partitions = [TopicPartition(topic_of_many, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    produce(topic_of_many, [b"a", b"b", b"c"], partition=3)
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]
    consumer.seek(partitions[3], 1)
    assert [r.offset for r in read(consumer, 2)] == [1, 2]
    consumer.pause([partitions[3]])
    produce(topic_of_many, [b"d"], partition=3)
    produce(topic_of_many, [b"x"], partition=4)
    assert [(r.partition, r.offset) for r in read(consumer, 1)] == [(4, 0)]
    consumer.resume([partitions[3]])
    assert [(r.partition, r.offset) for r in read(consumer, 1)] == [(3, 3)]
