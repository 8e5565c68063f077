"""Ranges of offsets are read to their ends: exactly, together, past what nobody may see, and loudly where they are
gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from os import urandom as random_bytes
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kwire import TopicPartition
from kwire.config import ConsumerConfig
from kwire.consumer.range_consumer import RangeConsumer
from kwire.errors import InvalidArgumentError, KafkaTimeoutError, OffsetOutOfRangeError
from kwire.subscription.partition import FIRST_FETCH_BYTES

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.kafkas import SharedKafka, StartKafka

TIMEOUT_MS = 30_000.0
Ranges = dict[TopicPartition, tuple[int, int]]


def consumer_of(kafka: SharedKafka, **settings: object) -> RangeConsumer:
    fixed = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "none"}
    return RangeConsumer(ConsumerConfig.of({**fixed, **settings}))


@pytest.fixture
def consumer(kafka: SharedKafka) -> Iterator[RangeConsumer]:
    with consumer_of(kafka) as ranges:
        yield ranges


def values(consumer: RangeConsumer, ranges: Ranges) -> dict[TopicPartition, list[bytes | None]]:
    """All values by partition, in the order they came."""
    found: dict[TopicPartition, list[bytes | None]] = {tp: [] for tp in ranges}
    for chunk in consumer.read(ranges, timeout_ms=TIMEOUT_MS):
        found[chunk.topic_partition] += list(chunk.values())
    return found


def test_a_range_in_the_middle_is_read_exactly(consumer: RangeConsumer, topic: MakeTopic, produce: Produce) -> None:
    tp = TopicPartition(topic(), 0)
    produce(tp.topic, [b"%d" % n for n in range(1_000)])
    assert values(consumer, {tp: (123, 877)}) == {tp: [b"%d" % n for n in range(123, 877)]}


def test_a_range_that_begins_below_zero_is_refused(consumer: RangeConsumer, topic: MakeTopic) -> None:
    """The network thread ended over it."""
    tp = TopicPartition(topic(), 0)
    with pytest.raises(InvalidArgumentError, match=r"no offsets below 0: .* at -3"):
        values(consumer, {tp: (-3, 10)})
    assert values(consumer, {}) == {}


def test_several_partitions_are_read_together(consumer: RangeConsumer, topic: MakeTopic, produce: Produce) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        produce(name, [b"%d-%d" % (partition, n) for n in range(100)], partition=partition)
    ranges = {TopicPartition(name, partition): (10 * partition, 50 + partition) for partition in range(3)}
    assert values(consumer, ranges) == {
        tp: [b"%d-%d" % (tp.partition, n) for n in range(start, end)] for tp, (start, end) in ranges.items()
    }


def test_batches_that_do_not_fit_into_the_first_fetch_are_read_of_all_partitions(
    consumer: RangeConsumer, topic: MakeTopic, produce: Produce
) -> None:
    """A broker sends a batch beyond the size that was asked for only if it is the first of an answer."""
    name, wanted = topic(partitions=3), [random_bytes(FIRST_FETCH_BYTES * 3 // 2) for _ in range(3)]
    for partition in range(3):
        produce(name, wanted, partition=partition)
    found = values(consumer, {TopicPartition(name, partition): (0, 3) for partition in range(3)})
    assert found == {TopicPartition(name, partition): wanted for partition in range(3)}


def test_one_set_of_ranges_after_the_other(consumer: RangeConsumer, topic: MakeTopic, produce: Produce) -> None:
    tp = TopicPartition(topic(), 0)
    produce(tp.topic, [b"%d" % n for n in range(100)])
    for start, end in ((0, 100), (50, 60), (60, 60), (0, 1)):
        assert values(consumer, {tp: (start, end)}) == {tp: [b"%d" % n for n in range(start, end)]}


def test_what_is_left_in_the_middle_does_not_reach_the_next(
    consumer: RangeConsumer, topic: MakeTopic, produce: Produce
) -> None:
    tp = TopicPartition(topic(), 0)
    for part in range(10):
        produce(tp.topic, [b"%d" % (part * 10 + n) for n in range(10)])
    reading = consumer.read({tp: (0, 100)}, timeout_ms=TIMEOUT_MS)
    next(reading)
    reading.close()  # type: ignore[attr-defined]  # a generator, which `Iterator` does not say
    assert values(consumer, {tp: (90, 95)}) == {tp: [b"%d" % n for n in range(90, 95)]}


def test_bounds_are_looked_up(consumer: RangeConsumer, topic: MakeTopic, produce: Produce) -> None:
    tp = TopicPartition(topic(), 0)
    produce(tp.topic, [b"x"] * 7)
    assert consumer.bounds(tp, timeout_ms=TIMEOUT_MS) == (0, 7)


def transaction(kafka: SharedKafka, topic: str, payload: list[bytes], *, commit: bool) -> None:
    producer = Producer(
        {"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{topic}-{commit}"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in payload:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0  # what is not sent when a transaction ends is never written
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


def test_a_range_ends_behind_what_nobody_may_see(kafka: SharedKafka, topic: MakeTopic) -> None:
    tp = TopicPartition(topic(), 0)
    transaction(kafka, tp.topic, [b"kept"] * 3, commit=True)
    transaction(kafka, tp.topic, [b"aborted"] * 3, commit=False)
    end = 3 + 1 + 3 + 1  # with a marker for each
    with consumer_of(kafka, isolation_level="read_committed") as ranges:
        until_s = time.monotonic() + TIMEOUT_MS / 1000
        while ranges.bounds(tp, timeout_ms=TIMEOUT_MS) != (
            0,
            end,
        ):  # markers are written after the producer was told of the end
            assert time.monotonic() < until_s
        assert values(ranges, {tp: (0, end)}) == {tp: [b"kept"] * 3}
        assert values(ranges, {tp: (4, end)}) == {tp: []}
    with consumer_of(kafka) as ranges:
        assert values(ranges, {tp: (0, end)}) == {tp: [b"kept"] * 3 + [b"aborted"] * 3}


def test_a_start_that_the_log_does_not_have_is_an_error(
    consumer: RangeConsumer, topic: MakeTopic, produce: Produce
) -> None:
    tp = TopicPartition(topic(), 0)
    produce(tp.topic, [b"x"] * 7)
    with pytest.raises(OffsetOutOfRangeError) as raised:
        values(consumer, {tp: (100, 200)})
    assert raised.value.offsets == {tp: 100}
    assert values(consumer, {tp: (0, 7)}) == {tp: [b"x"] * 7}, "it is of use after that"


def test_an_end_that_the_log_never_reaches_is_waited_for_no_longer_than_said(
    consumer: RangeConsumer, topic: MakeTopic, produce: Produce
) -> None:
    tp = TopicPartition(topic(), 0)
    produce(tp.topic, [b"x"] * 7)
    reading = consumer.read({tp: (0, 10)}, timeout_ms=300)
    assert len(next(reading)) == 7
    with pytest.raises(KafkaTimeoutError, match=rf"nothing came of {tp} \(from \S+ \(id 0\)\) within 300 ms"):
        next(reading)


def test_a_broker_that_goes_away_in_the_middle_is_waited_for(start_kafka: StartKafka) -> None:
    with start_kafka(1) as kafka:
        tp = TopicPartition("t", 0)
        producer = Producer(
            {
                "log_level": 0,
                "bootstrap.servers": kafka.bootstrap_servers,
                "batch.size": 16_384,
                "enable.idempotence": True,
            }
        )
        for n in range(20_000):
            producer.produce("t", b"%0100d" % n, partition=0)
        assert producer.flush(30) == 0
        with consumer_of(kafka, max_partition_fetch_bytes=65_536, fetch_buffer_bytes=131_072) as ranges:
            reading = ranges.read({tp: (0, 20_000)}, timeout_ms=60_000.0)
            found = list(next(reading).values())
            kafka.restart_broker(0)
            for chunk in reading:
                found += chunk.values()
    assert found == [b"%0100d" % n for n in range(20_000)]


def test_a_group_is_refused(kafka: SharedKafka) -> None:
    with pytest.raises(InvalidArgumentError, match="leave group_id out"):
        consumer_of(kafka, group_id="g")
