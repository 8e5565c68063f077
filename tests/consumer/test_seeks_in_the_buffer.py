"""A seek to a record that is buffered costs no fetch: above all the one over a record that cannot be deserialized.

It dropped the buffer, and waited for the fetch that was under way: at the end of the log, half a second for each bad
record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.errors import RecordDeserializationError
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECORDS = 40

NewConsumer: TypeAlias = Callable[..., Consumer[bytes, object]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 2}) as running:
        yield running


@pytest.fixture
def fetches(cluster: Cluster) -> list[int]:
    """Grows with each fetch that asks for other than the log's end."""
    seen: list[int] = []

    def see(request: FetchRequest, _call: object) -> None:
        for topic in request.topics:
            seen.extend(each.fetch_offset for each in topic.partitions if each.fetch_offset < RECORDS)

    cluster.control.on(FetchRequest).observe(see)
    return seen


def open_consumer(cluster: Cluster, **settings: object) -> Consumer[bytes, object]:
    config: dict[str, object] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "value_deserializer": json.loads,
        "max_poll_records": 10,
    }
    consumer: Consumer[bytes, object] = Consumer(config=config | settings)
    consumer.assign([TP])
    return consumer


def fill(cluster: Cluster, *bad: int) -> None:
    values = [b"{bad" if number in bad else b"%d" % number for number in range(RECORDS)]
    for start in range(0, RECORDS, 8):
        cluster.produce("orders", *map(NewRecord, values[start : start + 8]), partition=0)


def polled(consumer: Consumer[bytes, object]) -> list[int]:
    return [record.offset for record in consumer.poll(10.0)]


def test_stepping_over_what_cannot_be_deserialized_asks_for_nothing_again(cluster: Cluster, fetches: list[int]) -> None:
    bad = (3, 4, 15, 16, 23, 39)
    fill(cluster, *bad)
    found: list[int] = []
    with open_consumer(cluster) as consumer:
        while len(found) + len(bad) < RECORDS or consumer.position(TP) < RECORDS:
            try:
                found += polled(consumer)
            except RecordDeserializationError as error:
                consumer.seek(TP, error.offset + 1)
        consumer.commit_sync()
    assert found == [offset for offset in range(RECORDS) if offset not in bad]
    assert fetches == [0]
    assert cluster.committed("billing")[TP].offset == RECORDS


@pytest.mark.parametrize("target", [0, 3, 10, 25, OffsetAndMetadata(7, leader_epoch=0)])
def test_a_seek_back_or_on_goes_on_there(cluster: Cluster, fetches: list[int], target: int | OffsetAndMetadata) -> None:
    fill(cluster)
    with open_consumer(cluster) as consumer:
        assert polled(consumer) == list(range(10))
        consumer.seek(TP, target)
        first = target if isinstance(target, int) else target.offset
        assert consumer.position(TP) == first
        consumer.commit_sync()
        assert polled(consumer) == list(range(first, first + 10))
    assert cluster.committed("billing")[TP].offset == first
    assert fetches == [0]


@pytest.mark.slow
def test_a_seek_in_a_loop_goes_on_there(cluster: Cluster) -> None:
    fill(cluster)
    found: list[int] = []
    with open_consumer(cluster) as consumer:
        for record in consumer:
            found.append(record.offset)
            if record.offset == 5 and found.count(5) == 1:
                consumer.seek(TP, 2)
            if record.offset == 12:
                break
    assert found == [0, 1, 2, 3, 4, 5, *range(2, 13)]


@pytest.mark.parametrize(
    ("position", "first"),
    [(OffsetAndMetadata(0, leader_epoch=0), 0), (RECORDS, RECORDS), (RECORDS + 1, 0)],
    ids=["a leader epoch in front", "the end", "behind it: out of range, so from the start"],
)
def test_other_seeks_are_for_the_brokers(cluster: Cluster, position: OffsetAndMetadata | int, first: int) -> None:
    fill(cluster)
    with open_consumer(cluster) as consumer:
        assert polled(consumer) == list(range(10))
        epoch = consumer._session.link.mailbox.view.epochs[TP]
        consumer.seek(TP, position)
        is_in_buffer = position == RECORDS
        assert (consumer._session.link.mailbox.view.epochs[TP] == epoch) is is_in_buffer
        if is_in_buffer:
            cluster.produce("orders", NewRecord(b"40"), partition=0)
        assert polled(consumer)[0] == first


@pytest.mark.slow
def test_a_seek_of_a_paused_partition_is_kept_until_it_goes_on(cluster: Cluster) -> None:
    fill(cluster)
    with open_consumer(cluster) as consumer:
        assert polled(consumer) == list(range(10))
        consumer.pause([TP])
        consumer.seek(TP, 20)
        assert not consumer.poll(0.1)
        consumer.resume([TP])
        assert polled(consumer) == list(range(20, 30))


def test_a_seek_of_one_partition_leaves_the_other_where_it_is(cluster: Cluster) -> None:
    fill(cluster)
    cluster.produce("orders", *(NewRecord(b"%d" % number) for number in range(RECORDS)), partition=1)
    found: dict[int, list[int]] = {0: [], 1: []}
    with open_consumer(cluster) as consumer:
        consumer.assign([TP, OTHER])
        first = next(iter(consumer.poll(10.0))).partition
        sought = TopicPartition("orders", first)
        consumer.seek(sought, 0)
        while len(found[0]) < RECORDS or len(found[1]) < RECORDS:
            for record in consumer.poll(10.0):
                found[record.partition].append(record.offset)
    assert found == {0: list(range(RECORDS)), 1: list(range(RECORDS))}
