"""Produce: records go in as they are, are placed one after the other, and come out the same."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.conformance.broker import SuiteTopic
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok
from kwire.conformance.producers import idempotent_producer
from kwire.conformance.reading import at, expect_records, fetch, records_of
from kwire.conformance.registry import check
from kwire.conformance.writing import IDS_FROM, append, produce_request, the_partition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.records import Codec

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker

SOME = (RecordToWrite(b"one", b"k1"), RecordToWrite(b"two"), RecordToWrite(None, b"k3"))
INVALID_ACKS = 5
ZSTD_FROM = 7


@check(ProduceRequest, needs=[FetchRequest])
def appends_records_that_come_out_the_same(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    for start in (0, len(SOME)):
        placed = append(broker, topic, encode_batch(*SOME), version=version)
        expect_ok(placed.error_code, "Produce")
        expect_equal(placed.base_offset, start, "the base offset")
        expect_equal(placed.log_append_time_ms, -1, "the append time of a topic with the producer's times")
        if version >= 5:
            expect_equal(placed.log_start_offset, 0, "the log start offset")
    expect_records(records_of(fetch(broker, topic, at(0))), SOME + SOME)


@check(ProduceRequest, needs=[FetchRequest])
def takes_every_codec(broker: JudgedBroker, version: int) -> None:
    """KIP-110: zstd from version 7 on."""
    topic = broker.topic()
    codecs = [codec for codec in Codec if codec is not Codec.ZSTD or version >= ZSTD_FROM]
    for codec in codecs:
        placed = append(broker, topic, encode_batch(*SOME, codec=codec), version=version)
        expect_ok(placed.error_code, f"Produce of a batch with codec {codec.name}")
    expect_records(records_of(fetch(broker, topic, at(0))), SOME * len(codecs))


@check(ProduceRequest, versions=f"0-{ZSTD_FROM - 1}")
def refuses_zstd_from_old_clients(broker: JudgedBroker, version: int) -> None:
    """KIP-110: a client that speaks less than version 7 cannot know it."""
    placed = append(broker, broker.empty_topic(), encode_batch(*SOME, codec=Codec.ZSTD), version=version)
    expect_error(placed.error_code, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, what="zstd")


@check(ProduceRequest)
def refuses_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    nowhere = SuiteTopic(broker.new_name(), uuid4())
    wanted = ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    placed = append(broker, nowhere, encode_batch(*SOME), version=version)
    expect_error(placed.error_code, wanted, what="an unknown topic")


@check(ProduceRequest)
def refuses_an_unknown_partition(broker: JudgedBroker, version: int) -> None:
    request = produce_request(broker.empty_topic(), encode_batch(*SOME), partition=99)
    placed = the_partition(broker.ask(request, version))
    expect_error(placed.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown partition")


@check(ProduceRequest)
def refuses_a_damaged_batch(broker: JudgedBroker, version: int) -> None:
    damaged = bytearray(encode_batch(*SOME))
    damaged[-1] ^= 0xFF
    placed = append(broker, broker.empty_topic(), bytes(damaged), version=version)
    expect_error(placed.error_code, ErrorCode.CORRUPT_MESSAGE, what="a batch with a wrong checksum")


@check(ProduceRequest)
def refuses_acks_there_are_not(broker: JudgedBroker, version: int) -> None:
    request = produce_request(broker.empty_topic(), encode_batch(*SOME), acks=INVALID_ACKS)
    code = the_partition(broker.ask(request, version)).error_code
    expect_error(code, ErrorCode.INVALID_REQUIRED_ACKS, what=f"acks={INVALID_ACKS}")


@check(ProduceRequest, needs=[FetchRequest])
def does_not_answer_without_acks(broker: JudgedBroker, version: int) -> None:
    """With acks=0 the next answer on the connection is that to the next request; the records are there all the same."""
    topic = broker.topic()
    with broker.connect() as connection:
        connection.send_unanswered(produce_request(topic, encode_batch(*SOME), acks=0), version)
        connection.ask(ApiVersionsRequest(), 0)
    expect_records(records_of(fetch(broker, topic, at(0))), SOME)


@check(ProduceRequest, once=True)
def refuses_a_batch_that_is_too_large(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic(config={"max.message.bytes": "1000"})
    placed = append(broker, topic, encode_batch(RecordToWrite(b"x" * 2000)), version=version)
    expect_error(placed.error_code, ErrorCode.MESSAGE_TOO_LARGE, what="a batch above max.message.bytes")


@check(ProduceRequest, once=True)
def refuses_a_record_without_key_in_a_compacted_topic(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic(config={"cleanup.policy": "compact"})
    placed = append(broker, topic, encode_batch(RecordToWrite(b"no key")), version=version)
    expect_error(placed.error_code, ErrorCode.INVALID_RECORD, what="a record without a key")
    if version >= 8:
        indexes = [error.batch_index for error in placed.record_errors]
        expect_equal(indexes, [0], "the records at fault (KIP-467)")


@check(ProduceRequest, once=True, needs=[FetchRequest])
def stamps_the_append_time_where_the_topic_says_so(broker: JudgedBroker, version: int) -> None:
    """KIP-32: one time for the whole batch, told to the producer and to readers."""
    topic = broker.topic(config={"message.timestamp.type": "LogAppendTime"})
    placed = append(broker, topic, encode_batch(*SOME), version=version)
    expect_ok(placed.error_code, "Produce")
    expect(placed.log_append_time_ms > 0, f"the append time is {placed.log_append_time_ms}")
    times = {record.timestamp for record in records_of(fetch(broker, topic, at(0)))}
    expect_equal(times, {placed.log_append_time_ms}, "the records' time")


@check(ProduceRequest, needs=[FetchRequest, InitProducerIdRequest])
def keeps_an_idempotent_producer_in_sequence(broker: JudgedBroker, version: int) -> None:
    """KIP-98: a repeated batch is acknowledged but not written twice; a gap is refused."""
    topic = broker.topic()
    producer = idempotent_producer(broker)
    batch = encode_batch(*SOME, producer=producer, base_sequence=0)
    for attempt in ("the first time", "repeated"):
        placed = append(broker, topic, batch, version=version)
        expect_ok(placed.error_code, f"Produce {attempt}")
        expect_equal(placed.base_offset, 0, f"the base offset {attempt}")
    gap = encode_batch(*SOME, producer=producer, base_sequence=100)
    code = append(broker, topic, gap, version=version).error_code
    expect_error(code, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, what="a gap in the sequence")
    expect_records(records_of(fetch(broker, topic, at(0))), SOME)
