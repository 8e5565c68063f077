"""`poll(max_records=...)`, and how many records the polls behind a loop fetch at a time."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator
from itertools import islice

import pytest

from kwire import AsyncConsumer, Consumer, Record, TopicPartition
from kwire.errors import InvalidArgumentError
from kwire.testing import Cluster

RECORDS = 3_000
TP = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1, "invoices": 3}) as made:
        made.produce("orders", *(b"%d" % number for number in range(RECORDS)))
        for partition in range(3):
            made.produce("invoices", *(b"%d" % number for number in range(RECORDS)), partition=partition)
        yield made


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[Consumer[bytes, bytes]]:
    with Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as made:
        yield made


@pytest.fixture(autouse=True)
def _loops_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr("kwire.consumer.poll_size.QUICK_MS", math.inf)
    monkeypatch.setattr("kwire.consumer.delivery.LOOP_MS", math.inf)


def offsets(consumer: Consumer[bytes, bytes], max_records: int | None) -> list[int]:
    """Of the next poll that returns records."""
    while not (records := consumer.poll(10, max_records=max_records)):
        pass
    return [record.offset for record in records]


def test_each_poll_returns_as_many_as_it_asks_for(consumer: Consumer[bytes, bytes]) -> None:
    assert offsets(consumer, 2) == [0, 1]
    assert offsets(consumer, None) == [*range(2, 502)]
    assert offsets(consumer, 1) == [502]
    assert offsets(consumer, 1_000) == [*range(503, 1_503)]
    assert offsets(consumer, 1_000_000) == [*range(1_503, RECORDS)]


def test_the_polls_of_an_async_consumer_do_so_too(cluster: Cluster) -> None:
    async def read() -> list[int]:
        async with AsyncConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            found: list[int] = []
            for wanted in (1, 700, 20):
                while not (records := await consumer.poll(10, max_records=wanted)):
                    pass
                found.append(len(records))
            return found

    assert asyncio.run(read()) == [1, 700, 20]


@pytest.mark.parametrize("seed", range(12))
def test_polls_of_any_size_loops_and_pauses_return_each_record_once_and_in_order(cluster: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    partitions = [TopicPartition("invoices", number) for number in range(3)]
    next_ones = dict.fromkeys(partitions, 0)

    def see(record: Record[bytes, bytes]) -> None:
        assert record.offset == next_ones[record.topic_partition]
        next_ones[record.topic_partition] += 1

    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        while any(offset < RECORDS for offset in next_ones.values()):
            consumer.resume(partitions)
            if rng.random() < 0.5:
                consumer.pause(rng.sample(partitions, rng.randrange(3)))
            size = rng.choice((None, 1, 40, 501, 4_000))
            if rng.random() < 0.3 and not consumer.paused():
                for record in islice(consumer, size or 3):
                    see(record)
                    if all(offset == RECORDS for offset in next_ones.values()):
                        break
            else:
                records = consumer.poll(0.05, max_records=size)
                assert len(records) <= (size or 500)
                for record in records:
                    see(record)
                assert all(consumer.position(tp) == offset for tp, offset in next_ones.items() if offset)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(0, "at least 1, not 0"), (-1, "negative: -1"), (2**31, "above"), ("5", "whole number"), (True, "not True")],
)
def test_a_wrong_number_is_refused_and_no_record_is_lost(
    consumer: Consumer[bytes, bytes], wrong: int, why: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        consumer.poll(0, max_records=wrong)
    assert offsets(consumer, 1) == [0]


def test_a_loop_that_is_left_leaves_the_rest_to_polls_of_any_size(consumer: Consumer[bytes, bytes]) -> None:
    """The loop's polls have grown by then: beyond the 500 that a poll of the program returns."""
    for record in consumer:
        if record.offset == 1_600:
            break
    assert offsets(consumer, 3) == [1_601, 1_602, 1_603]
    assert offsets(consumer, None) == [*range(1_604, 2_104)]
    assert consumer.position(TP) == 2_104


def test_a_loop_that_goes_on_is_handed_each_record_once(consumer: Consumer[bytes, bytes]) -> None:
    found = []
    for record in consumer:
        found.append(record.offset)
        if record.offset % 700 == 0:
            consumer.pause([TP])  # ends the poll that the loop is in
            consumer.resume([TP])
        if record.offset == RECORDS - 1:
            break
    assert found == [*range(RECORDS)]


def test_a_loop_with_a_deserializer_polls_as_often_as_the_setting_says(cluster: Cluster) -> None:
    """A deserializer that gets slow would keep the member away from its group."""
    done: list[bytes] = []

    def read(data: bytes) -> bytes:
        done.append(data)
        return data

    with Consumer(
        "orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", value_deserializer=read
    ) as consumer:
        ahead = [len(done) - number for number, _ in enumerate(islice(consumer, RECORDS))]
    assert max(ahead) == 500


def test_a_quick_loop_polls_seldom(consumer: Consumer[bytes, bytes]) -> None:
    sizes = {}
    for record in consumer:
        sizes[record.offset] = consumer._session.polling.size.max_records
        if record.offset == RECORDS - 1:
            break
    assert [sizes[offset] for offset in (0, 499, 500, 1_499, 1_500, RECORDS - 1)] == [
        500,
        500,
        1_000,
        1_000,
        2_000,
        2_000,
    ]
