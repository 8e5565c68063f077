"""Where one broker has much, half of it is fetched over a second connection: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from kwire import TopicPartition
from kwire.fetching import overlap

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import OpenConsumer, Read

PARTITIONS = 4
EACH = 40
VALUE = bytes(100)


@pytest.fixture(params=["it goes on", "it ends and begins all the time"])
def topic_with_much(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, topic: MakeTopic) -> str:
    """An answer with records of two partitions is a large one here; some, or all, of the second's are too small to go
    on for."""
    monkeypatch.setattr(overlap, "MUCH_BYTES", 1)
    monkeypatch.setattr(overlap, "STOCK_ANSWERS", 1 << 30)
    monkeypatch.setattr(overlap, "LITTLE_BYTES", 1 if request.param == "it goes on" else 1 << 30)
    return topic(PARTITIONS)


def test_every_record_comes_once_and_in_order(
    topic_with_much: str, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    # So little at a time that many answers are needed.
    consumer = open_consumer(fetch_max_wait_ms=20, max_partition_fetch_bytes=1_000)
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for _ in range(3):  # a lag, nothing, and a lag again
        for number in range(PARTITIONS):
            for _ in range(EACH // 10):
                produce(topic_with_much, [VALUE] * 10, partition=number)
        if not offsets:
            consumer.assign([TopicPartition(topic_with_much, number) for number in range(PARTITIONS)])
        for record in read(consumer, PARTITIONS * EACH):
            offsets[record.partition].append(record.offset)
        assert not consumer.poll(0.1)
    assert offsets == {number: list(range(3 * EACH)) for number in range(PARTITIONS)}


def test_sought_and_resumed_partitions_are_read_from_where_they_are_wanted(
    topic_with_much: str, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    consumer = open_consumer(fetch_max_wait_ms=20)
    partitions = [TopicPartition(topic_with_much, number) for number in range(PARTITIONS)]
    for number in range(PARTITIONS):
        produce(topic_with_much, [b"a", b"b", b"c"], partition=number)
    consumer.assign(partitions)
    read(consumer, 3 * PARTITIONS)
    for tp in partitions:
        consumer.seek(tp, 1)
    assert sorted((r.partition, r.offset) for r in read(consumer, 8)) == [(n, at) for n in range(4) for at in (1, 2)]
    consumer.pause([partitions[1]])
    for number in (1, 3):
        produce(topic_with_much, [b"d"], partition=number)
    assert [(r.partition, r.offset) for r in read(consumer, 1)] == [(3, 3)]
    consumer.resume([partitions[1]])
    assert [(r.partition, r.offset) for r in read(consumer, 1)] == [(1, 3)]
