"""Odd things that one may ask of a log, for `test_answers_like_kafka.py`: each scenario tells a broker, and says what
came back in words that do not depend on names, ids and the clock."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import google_crc32c

from kwire.clock import wall_clock_ms
from kwire.conformance.batches import RecordToWrite, Writer, encode_batch
from kwire.conformance.broker import JudgedBroker, SuiteTopic
from kwire.conformance.checks.list_offsets import look_up
from kwire.conformance.producers import idempotent_producer
from kwire.conformance.reading import at, fetch, fetch_request, fetch_topic
from kwire.conformance.reading import the_partition as fetched
from kwire.conformance.writing import produce_request
from kwire.conformance.writing import the_partition as produced
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.fetch import FetchPartition, PartitionData
from kwire.protocol.record_batch import iter_batches

Scenario: TypeAlias = Callable[[JudgedBroker], object]
Answer: TypeAlias = tuple[object, ...]

RECORD = RecordToWrite(b"a", b"k")
LARGE = RecordToWrite(b"x" * 100)
CRC_AT, ATTRIBUTES_AT, MAX_TIMESTAMP_AT, COUNT_AT = 17, 21, 35, 57
CONTROL, LOG_APPEND_TIME = 0x20, 0x08
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
TWO_HOURS_MS = 7_200_000


def name_of(code: int) -> str:
    return ErrorCode.of(code).name


def produce(
    broker: JudgedBroker,
    topic: SuiteTopic,
    batch: bytes,
    *,
    version: int | None = None,
    transactional_id: str | None = None,
) -> Answer:
    """What Produce answers; a time of the log's own is only "now"."""
    request = produce_request(topic, batch, transactional_id=transactional_id)
    answer = produced(broker.ask(request, version))
    return (
        name_of(answer.error_code),
        answer.base_offset,
        "now" if answer.log_append_time_ms >= 0 else "none",
        answer.log_start_offset,
        [error.batch_index for error in answer.record_errors],
        bool(answer.error_message),
    )


def edited(batch: bytes, at_byte: int, new: bytes) -> bytes:
    """The batch with other bytes in one place, and a checksum that is right again."""
    changed = batch[:at_byte] + new + batch[at_byte + len(new) :]
    return changed[:CRC_AT] + struct.pack(">I", google_crc32c.value(changed[CRC_AT + 4 :])) + changed[CRC_AT + 4 :]


# --- one batch ---------------------------------------------------------------------------------------------------

ONE = encode_batch(RECORD)

BATCHES: Mapping[str, Callable[[], bytes]] = {
    "two batches": lambda: ONE + ONE,
    "no bytes": lambda: b"",
    "a batch that ends too early": lambda: ONE[:-3],
    "junk behind a batch": lambda: ONE + bytes(20),
    "a first offset that is not 0": lambda: struct.pack(">q", 5) + ONE[8:],
    "a wrong checksum": lambda: ONE[:-1] + b"\x55",
    "more records announced than there are": lambda: edited(ONE, COUNT_AT, struct.pack(">i", 3)),
    "a control batch": lambda: edited(ONE, ATTRIBUTES_AT, struct.pack(">h", CONTROL)),
    "a batch with the log's time": lambda: edited(ONE, ATTRIBUTES_AT, struct.pack(">h", LOG_APPEND_TIME)),
    "a record from the future": lambda: encode_batch(
        RECORD, RecordToWrite(b"f", None, (), wall_clock_ms() + TWO_HOURS_MS)
    ),
    "a producer without sequence": lambda: encode_batch(RECORD, producer=Writer(producer_id=5, epoch=0)),
}

CONFIGURED: Mapping[str, tuple[Mapping[str, str], bytes]] = {
    "no key for a compacted topic": ({"cleanup.policy": "compact"}, encode_batch(RECORD, RecordToWrite(b"v"))),
    "more than the topic takes": ({"max.message.bytes": "100"}, encode_batch(RecordToWrite(b"v" * 200))),
    "recompressed with gzip": ({"compression.type": "gzip"}, encode_batch(RECORD, RECORD)),
    "recompressed with zstd": ({"compression.type": "zstd"}, encode_batch(RECORD, RECORD)),
    "recompressed with lz4": ({"compression.type": "lz4"}, encode_batch(RECORD, RECORD)),
    "inflated": ({"compression.type": "uncompressed"}, encode_batch(RECORD, RECORD)),
}


def one_batch(make: Callable[[], bytes], broker: JudgedBroker) -> object:
    return produce(broker, broker.topic(), make())


def one_batch_for(config: Mapping[str, str], batch: bytes, broker: JudgedBroker) -> object:
    """What is answered, what is stored, and whether a Fetch from before zstd gets it (KIP-110)."""
    topic = broker.topic(config=config)
    answer = produce(broker, topic, batch)
    stored = [
        (found.codec, found.record_count, found.last_offset_delta)
        for found in iter_batches(fetch(broker, topic, at(0)).records or b"")
    ]
    return answer, stored, name_of(fetch(broker, topic, at(0), version=9).error_code)


def a_wrong_largest_time(broker: JudgedBroker) -> object:
    """It is mended on the way into the log."""
    topic = broker.topic()
    batch = encode_batch(RecordToWrite(b"v", None, (), 1_000))
    answer = produce(broker, topic, edited(batch, MAX_TIMESTAMP_AT, struct.pack(">q", 99_999_999)))
    return answer, [batch.max_timestamp for batch in iter_batches(fetch(broker, topic, at(0)).records or b"")]


# --- several batches ---------------------------------------------------------------------------------------------

NUMBERED: Mapping[str, tuple[tuple[int, int], ...]] = {  # epochs above the producer's own, and sequences
    "gaps and repetitions": ((0, 7), (0, 8), (0, 10), (0, 8), (0, 7), (0, 0), (0, 9)),
    "epochs that come and go": ((0, 0), (2, 1), (2, 0), (1, 0), (2, 1), (2, 1)),
}


def numbered(steps: tuple[tuple[int, int], ...], broker: JudgedBroker) -> object:
    topic, producer = broker.topic(), idempotent_producer(broker)
    return [
        produce(
            broker,
            topic,
            encode_batch(
                RECORD,
                producer=Writer(producer_id=producer.producer_id, epoch=producer.epoch + epoch),
                base_sequence=sequence,
            ),
        )
        for epoch, sequence in steps
    ]


def the_log_s_time(broker: JudgedBroker) -> object:
    """The last record has the largest time, and a repetition is answered with the first one's."""
    topic, producer = broker.topic(config={"message.timestamp.type": "LogAppendTime"}), idempotent_producer(broker)
    batch = encode_batch(RECORD, RECORD, RECORD, producer=producer, base_sequence=0)
    answers = [produce(broker, topic, batch) for _ in range(2)]
    return answers, look_up(broker, 11, topic.name, MAX_TIMESTAMP).offset


def times_are_looked_up(broker: JudgedBroker) -> object:
    topic, start_ms = broker.topic(), wall_clock_ms() - 1_000
    for times in ((0, 50, 20), (50, 10), (5,)):
        produce(broker, topic, encode_batch(*[RecordToWrite(b"v", None, (), start_ms + time) for time in times]))
    asked = [MAX_TIMESTAMP, *(start_ms + time for time in (0, 1, 20, 21, 50, 51))]
    return [look_up(broker, 11, topic.name, time_ms).offset for time_ms in asked]


# --- fetching ----------------------------------------------------------------------------------------------------


def told(found: PartitionData) -> Answer:
    """All that Fetch says about a partition."""
    return (
        name_of(found.error_code),
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
        found.aborted_transactions,
        len(found.records or b""),
        found.diverging_epoch,
        found.preferred_read_replica,
    )


def filled(broker: JudgedBroker, count: int, record: RecordToWrite = RECORD, partitions: int = 1) -> SuiteTopic:
    """A topic with so many batches in partition 0."""
    topic = broker.topic(partitions)
    for _ in range(count):
        produce(broker, topic, encode_batch(record))
    return topic


def places_to_fetch_from(broker: JudgedBroker) -> object:
    topic = filled(broker, 3)
    found = [
        told(fetch(broker, topic, at(offset), version=version))
        for offset in (-1, -5, 0, 3, 4)
        for version in (4, 12, 18)
    ]
    found += [told(fetch(broker, topic, at(offset), isolation=1)) for offset in (0, 3)]
    return [*found, told(fetch(broker, topic, at(0, partition=9)))]


def epochs_to_fetch_after(broker: JudgedBroker) -> object:
    """KIP-595: what is told to who says which epoch it has read last."""
    topic = filled(broker, 3)

    def place(offset: int, epoch: int) -> FetchPartition:
        where = at(offset)
        where.last_fetched_epoch = epoch
        return where

    return [told(fetch(broker, topic, place(offset, epoch))) for epoch in (0, 1) for offset in (0, 3, 5)]


def room_for_part_of_it(broker: JudgedBroker) -> object:
    """The first batch comes whole, whatever was asked for (KIP-74)."""
    topic = filled(broker, 4, LARGE)
    found = []
    for of_partition in (1, 100, 200, 400, 600):
        for of_all in (1, 300, 1 << 20):
            request = fetch_request(fetch_topic(topic, at(0, max_bytes=of_partition)))
            request.max_bytes = of_all
            found.append(len(fetched(broker.ask(request)).records or b""))
    return found


def room_for_two_partitions(broker: JudgedBroker) -> object:
    topic = filled(broker, 2, LARGE, partitions=2)
    produced(broker.ask(produce_request(topic, encode_batch(LARGE), partition=1)))
    found = []
    for of_all in (1, 300, 360, 520, 1 << 20):
        request = fetch_request(fetch_topic(topic, at(0), at(0, partition=1)))
        request.max_bytes = of_all
        found.append([len(each.records or b"") for each in broker.ask(request).responses[0].partitions])
    return found


# --- deleting ----------------------------------------------------------------------------------------------------


def records_are_deleted(broker: JudgedBroker) -> object:
    """Also where there are none, in a partition that is not there, and in a topic that may only be compacted."""
    topic, compacted = filled(broker, 3), broker.topic(config={"cleanup.policy": "compact"})
    found = [delete(broker, topic, offset, 0, 9) for offset in (4, -2, 1, 0, -1)]
    return [*found, delete(broker, compacted, 0, 0)]


def delete(broker: JudgedBroker, topic: SuiteTopic, offset: int, *partitions: int) -> object:
    wanted = [DeleteRecordsPartition(partition_index=index, offset=offset) for index in partitions]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic.name, partitions=wanted)], timeout_ms=1_000)
    answered = sorted(broker.ask(request).topics[0].partitions, key=lambda each: each.partition_index)
    return [(name_of(each.error_code), each.low_watermark) for each in answered]


LOG_SCENARIOS: Mapping[str, Scenario] = {
    **{name: partial(one_batch, make) for name, make in BATCHES.items()},
    **{name: partial(one_batch_for, *case) for name, case in CONFIGURED.items()},
    **{name: partial(numbered, steps) for name, steps in NUMBERED.items()},
    "a wrong largest time": a_wrong_largest_time,
    "the log's time": the_log_s_time,
    "times are looked up": times_are_looked_up,
    "places to fetch from": places_to_fetch_from,
    "epochs to fetch after": epochs_to_fetch_after,
    "room for part of it": room_for_part_of_it,
    "room for two partitions": room_for_two_partitions,
    "records are deleted": records_are_deleted,
}
