"""A poll of large records ends with a quarter of what may be fetched ahead, or 3 MiB, however many it may return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire import TopicPartition

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import OpenConsumer

MIB = 1024 * 1024
RECORDS = 120
RECORD_BYTES = 50_000
BUFFER_BYTES = 1_600_000
IN_ONE_POLL = BUFFER_BYTES // 4 // RECORD_BYTES + 1


def test_a_poll_of_large_records_has_enough_before_it_is_full(
    topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer
) -> None:
    name = topic()
    values = [b"%3d" % number + bytes(RECORD_BYTES - 3) for number in range(RECORDS)]
    for value in values:
        produce(name, [value])
    consumer = open_consumer(fetch_buffer_bytes=BUFFER_BYTES, max_partition_fetch_bytes=RECORD_BYTES)
    consumer.assign([TopicPartition(name, 0)])
    found: list[bytes | None] = []
    polls: list[int] = []
    while len(found) < RECORDS:
        polled = [record.value for record in consumer.poll(10.0)]
        polls.append(len(polled))
        found += polled
    assert found == values
    assert max(polls) <= IN_ONE_POLL


def test_polls_are_no_larger_than_what_stays_in_the_cache(
    topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer
) -> None:
    name = topic()
    produce(name, [bytes(RECORD_BYTES)] * 700, config={"compression.type": "lz4"})
    consumer = open_consumer(max_poll_records=10_000)
    consumer.assign([TopicPartition(name, 0)])
    polls: list[int] = []
    while sum(polls) < 700:
        polls.append(len(consumer.poll(10.0)))
    assert max(polls) * RECORD_BYTES < 10 * MIB, "3 MiB, and what was decoded with the last of it"
