"""kwire and librdkafka read the same topics, written by librdkafka, and answer the same, record for record."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs leave them out; its documentation does not
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kwire import Record, TimestampType, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesRecord, OpenConsumer, Read
    from tests.integration.kafkas import FakeKafka, SharedKafka
else:
    from kafkas import FakeKafka

DEADLINE_S = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_CODEC = 20_000
PARTITIONS = 3

Headers = tuple[tuple[str, bytes | None], ...]


class Line(NamedTuple):
    """One record, as both clients can tell it."""

    topic: str
    partition: int
    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int | None


CONFLUENT_TIMESTAMP_TYPES = {
    TimestampType.NO_TIMESTAMP_TYPE: confluent_kafka.TIMESTAMP_NOT_AVAILABLE,
    TimestampType.CREATE_TIME: confluent_kafka.TIMESTAMP_CREATE_TIME,
    TimestampType.LOG_APPEND_TIME: confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
}


def line_of(record: BytesRecord) -> Line:
    return Line(
        record.topic,
        record.partition,
        record.offset,
        CONFLUENT_TIMESTAMP_TYPES[record.timestamp_type],
        record.timestamp,
        record.key,
        record.value,
        tuple((header.key, header.value) for header in record.headers),
        record.leader_epoch,
    )


def confluent_line_of(message: confluent_kafka.Message[bytes, bytes]) -> Line:
    assert message.error() is None, message.error()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: Headers = tuple((pair[0], _as_bytes(pair[1])) for pair in message.headers() or ())
    return Line(
        topic, partition, offset, *message.timestamp(), message.key(), message.value(), headers, message.leader_epoch()
    )


def _as_bytes(value: str | bytes | None) -> bytes | None:
    assert not isinstance(value, str)
    return value


def read_with_confluent(
    servers: str, tps: Sequence[TopicPartition], ends: Mapping[TopicPartition, int], **more: str
) -> set[Line]:
    """Everything in these partitions. librdkafka says where a partition ends, also behind what it may not show."""
    settings: dict[str, str | bool] = {
        "bootstrap.servers": servers,
        "group.id": "not-used",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(tp.topic, tp.partition, 0) for tp in tps])
    lines: set[Line] = set()
    unfinished = {tp for tp in tps if ends[tp]}
    until_s = time.monotonic() + DEADLINE_S
    try:
        while unfinished:
            assert time.monotonic() < until_s, f"librdkafka has not finished {unfinished}"
            for message in consumer.consume(10_000, timeout=0.1):
                error = message.error()
                if error is None:
                    lines.add(confluent_line_of(message))
                else:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    unfinished.discard(TopicPartition(str(message.topic()), int(message.partition() or 0)))
    finally:
        consumer.close()
    return lines


def some_headers(chance: random.Random) -> list[tuple[str, bytes | None]]:
    """Repeated names, names of many bytes, none at all; values that are empty or null."""
    names = ("trace", "trace", "", "größe", "x" * 200)
    return [
        (chance.choice(names), chance.choice((b"", None, b"1", b"\x00" * 130)))
        for _ in range(chance.choice((0, 0, 1, 3)))
    ]


def write_everything(produce: Produce, topic: str, count: int, codec: str, seed: int) -> None:
    chance = random.Random(seed)
    produce(
        topic,
        [
            chance.choice((None, b"", b"v%d" % i, bytes(chance.randbytes(4)) * chance.choice((1, 9, 40))))
            for i in range(count)
        ],
        keys=[chance.choice((None, b"", b"k%d" % chance.randrange(50))) for _ in range(count)],
        headers=[some_headers(chance) for _ in range(count)],
        # librdkafka takes 0 for "now", and Kafka refuses what lies ahead; in between, times go back and forth.
        timestamps_ms=[chance.randrange(1, 1_700_000_000_000) for _ in range(count)],
        compression=codec,
        config={"linger.ms": 50, "queue.buffering.max.messages": 200_000},
    )


def partitions_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


@pytest.mark.slow
@pytest.mark.only("kafka", reason="for the other the fewer records of the tests below are enough")
def test_100_000_records_in_every_codec_are_the_same(
    kafka: SharedKafka, topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic(PARTITIONS)
    for seed, codec in enumerate(CODECS):
        write_everything(produce, name, RECORDS_PER_CODEC, codec, seed)

    consumer = open_consumer(max_poll_records=10_000)
    consumer.assign(partitions_of(name))
    mine = [line_of(record) for record in read(consumer, RECORDS_PER_CODEC * len(CODECS))]

    assert len(mine) == len(set(mine)) == RECORDS_PER_CODEC * len(CODECS)
    theirs = read_with_confluent(
        kafka.bootstrap_servers, partitions_of(name), consumer.end_offsets(partitions_of(name))
    )
    assert set(mine) == theirs
    for tp in partitions_of(name):
        offsets = [line.offset for line in mine if line.partition == tp.partition]
        assert offsets == list(range(len(offsets)))


@pytest.mark.slow
def test_a_topic_with_log_append_time_is_the_same(
    kafka: SharedKafka, topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic(PARTITIONS, config={"message.timestamp.type": "LogAppendTime"})
    for seed, codec in enumerate(CODECS):
        write_everything(produce, name, 500, codec, seed)

    consumer = open_consumer()
    consumer.assign(partitions_of(name))
    mine = {line_of(record) for record in read(consumer, 500 * len(CODECS))}

    assert {line.timestamp_type for line in mine} == {confluent_kafka.TIMESTAMP_LOG_APPEND_TIME}
    ends = consumer.end_offsets(partitions_of(name))
    assert mine == read_with_confluent(kafka.bootstrap_servers, partitions_of(name), ends)


def ends_of_ended_transactions(
    open_consumer: OpenConsumer, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Markers are written after the producer was told of the end; until then the last stable offset stays behind."""
    levels = [open_consumer(isolation_level=level) for level in ("read_committed", "read_uncommitted")]
    until_s = time.monotonic() + DEADLINE_S
    while True:
        stable, ends = (consumer.end_offsets(partitions) for consumer in levels)
        if stable == ends:
            return ends
        assert time.monotonic() < until_s, f"{stable} of {ends}"


@pytest.mark.slow
@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_transactions_are_the_same(
    kafka: SharedKafka, transactions: str, open_consumer: OpenConsumer, isolation_level: str
) -> None:
    """Committed, aborted, interleaved with records outside transactions; each end leaves a control batch behind."""
    partitions = partitions_of(transactions)
    ends = ends_of_ended_transactions(open_consumer, partitions)
    consumer = open_consumer(isolation_level=isolation_level)
    consumer.assign(partitions)

    mine: set[Line] = set()
    until_s = time.monotonic() + DEADLINE_S
    while any(consumer.position(tp) < ends[tp] for tp in partitions):
        mine |= {line_of(record) for record in consumer.poll(0.5)}
        assert time.monotonic() < until_s, {tp: (consumer.position(tp), ends[tp]) for tp in partitions}

    assert mine == read_with_confluent(kafka.bootstrap_servers, partitions, ends, isolation_level=isolation_level)
    aborted = [line for line in mine if (line.value or b"").startswith(b"aborted")]
    assert bool(aborted) == (isolation_level == "read_uncommitted")
    assert any((line.value or b"").startswith(b"committed") for line in mine)


@pytest.fixture
def transactions(kafka: SharedKafka, topic: MakeTopic) -> Iterator[str]:
    """A topic whose two transactional producers commit, abort, and leave nothing open."""
    name = topic(PARTITIONS)
    producers = [
        Producer(
            {
                "log_level": 0,
                "bootstrap.servers": kafka.bootstrap_servers,
                "transactional.id": f"{name}-{number}",
                "linger.ms": 1,
            }
        )
        for number in range(2)
    ]
    for producer in producers:
        producer.init_transactions(30)
    for round_number in range(6):
        for producer in producers:
            producer.begin_transaction()
        outcome = "aborted" if round_number % 2 else "committed"
        for number, producer in enumerate(producers):
            # The second does the opposite, on the same partitions at the same time.
            what = outcome if number == 0 else {"aborted": "committed", "committed": "aborted"}[outcome]
            for i in range(60):
                producer.produce(name, f"{what}-{round_number}-{number}-{i}".encode(), partition=i % PARTITIONS)
            producer.flush(30)
        for number, producer in enumerate(producers):
            if (outcome == "committed") == (number == 0):
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
    yield name
    for producer in producers:
        producer.flush(30)


@pytest.fixture
def clean(kafka: SharedKafka, admin: AdminClient, produce: Produce) -> Callable[[str], object]:
    """Has a topic of one partition compacted, sooner or later."""
    if isinstance(kafka, FakeKafka):
        return kafka.compact
    # Makes the broker look for something to compact all the time, instead of every 15 s.
    often = ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)
    brokers = admin.list_topics(timeout=DEADLINE_S).brokers
    settings = [ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[often]) for number in brokers]
    for done in admin.incremental_alter_configs(settings).values():
        done.result(DEADLINE_S)
    # Without a new segment the cleaner has nothing to do; this record is behind what is compared.
    return lambda topic: produce(topic, [b"roll"], keys=[b"roll"])


@pytest.mark.slow
def test_a_compacted_topic_with_gaps_is_the_same(
    kafka: SharedKafka,
    clean: Callable[[str], object],
    topic: MakeTopic,
    produce: Produce,
    open_consumer: OpenConsumer,
) -> None:
    """Compaction leaves holes in the offsets, within batches and instead of whole ones.

    The cleaner runs when it likes: read until there are holes, and until both clients have read the same log.
    """
    name = topic(
        config={
            "cleanup.policy": "compact",
            "segment.ms": "1",
            "min.cleanable.dirty.ratio": "0.0",
            "max.compaction.lag.ms": "1",
            "delete.retention.ms": "60000",
        }
    )
    tp = TopicPartition(name, 0)
    for _ in range(3):
        produce(name, [b"%d" % i for i in range(300)], keys=[b"k%d" % (i % 7) for i in range(300)])
    consumer = open_consumer(fetch_max_wait_ms=20)
    consumer.assign([tp])
    end = consumer.end_offsets([tp])[tp]

    def read_all() -> set[Line]:
        consumer.seek_to_beginning([tp])
        lines: set[Line] = set()
        while consumer.position(tp) < end:
            lines |= {line_of(record) for record in consumer.poll(0.5)}
            assert time.monotonic() < until_s, f"at {consumer.position(tp)} of {end}"
        return {line for line in lines if line.offset < end}

    def read_all_with_confluent() -> set[Line]:
        lines = read_with_confluent(kafka.bootstrap_servers, [tp], {tp: end})
        return {line for line in lines if line.offset < end}

    until_s = time.monotonic() + DEADLINE_S
    while len(mine := read_all()) == end or mine != read_all_with_confluent():
        clean(name)
        assert time.monotonic() < until_s, f"{len(mine)} of {end} records: not compacted, or not the same"
    assert len(mine) < end


def test_a_record_knows_what_it_is(topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer, read: Read) -> None:
    name = topic()
    produce(name, [None], keys=[b"key"], headers=[[("a", b"1"), ("a", None)]], timestamps_ms=[1234])
    consumer = open_consumer()
    consumer.assign([TopicPartition(name, 0)])

    (record,) = read(consumer, 1)

    assert isinstance(record, Record)
    assert record.topic_partition == TopicPartition(name, 0)
    assert (record.offset, record.timestamp, record.timestamp_type) == (0, 1234, TimestampType.CREATE_TIME)
    assert (record.key, record.value, record.headers) == (b"key", None, (("a", b"1"), ("a", None)))
    assert (record.serialized_key_size, record.serialized_value_size) == (3, -1)
    assert record.leader_epoch == 0
