"""Fetch without sessions: the right records, from the right offset, as many as asked for, when they are there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.conformance.broker import SuiteTopic
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok
from kwire.conformance.reading import at, expect_records, fetch, fetch_request, fetch_topic, records_of, the_partition
from kwire.conformance.registry import check
from kwire.conformance.writing import append, filled_topic
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.records import iter_batches

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker

IDS_FROM = 13
LEADER_EPOCH_FROM = 9
DIVERGING_FROM = 12
LATER_THAN_ANY_EPOCH = 1_000_000
WAIT_MS = 300
LONG_WAIT_MS = 5000


@check(FetchRequest, needs=[ProduceRequest])
def returns_the_records_as_written(broker: JudgedBroker, version: int) -> None:
    filled = filled_topic(broker)
    found = fetch(broker, filled.topic, at(0), version=version)
    expect_records(records_of(found), filled.records)
    expect_equal(found.high_watermark, filled.end, "the high watermark")
    expect_equal(found.last_stable_offset, filled.end, "the last stable offset")
    if version >= 5:
        expect_equal(found.log_start_offset, 0, "the log start offset")


@check(FetchRequest, needs=[ProduceRequest])
def starts_with_the_batch_that_holds_the_offset(broker: JudgedBroker, version: int) -> None:
    filled = filled_topic(broker)
    start = filled.batch_starts[1]
    inside = start + 1
    found = fetch(broker, filled.topic, at(inside), version=version)
    expect_records(records_of(found), filled.records[start:], start)


@check(FetchRequest)
def finds_nothing_at_the_end(broker: JudgedBroker, version: int) -> None:
    found = fetch(broker, broker.empty_topic(), at(0), version=version)
    expect_ok(found.error_code, "the end of the log")
    expect(not found.records, f"there are {len(found.records or b'')} bytes of records in an empty log")


@check(FetchRequest, needs=[ProduceRequest])
def refuses_an_offset_out_of_range(broker: JudgedBroker, version: int) -> None:
    filled = filled_topic(broker)
    found = fetch(broker, filled.topic, at(filled.end + 1), version=version)
    expect_error(found.error_code, ErrorCode.OFFSET_OUT_OF_RANGE, what="an offset behind the end")


@check(FetchRequest)
def refuses_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    wanted = ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = fetch(broker, SuiteTopic(broker.new_name(), uuid4()), at(0), version=version)
    expect_error(found.error_code, wanted, what="an unknown topic")


@check(FetchRequest)
def refuses_an_unknown_partition(broker: JudgedBroker, version: int) -> None:
    found = fetch(broker, broker.empty_topic(), at(0, partition=99), version=version)
    expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown partition")


@check(FetchRequest, versions=f"{LEADER_EPOCH_FROM}+")
def refuses_a_leader_epoch_from_the_future(broker: JudgedBroker, version: int) -> None:
    """KIP-320."""
    found = fetch(broker, broker.empty_topic(), at(0, leader_epoch=LATER_THAN_ANY_EPOCH), version=version)
    expect_error(found.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH, what="an epoch not heard of yet")


@check(FetchRequest, versions=f"{DIVERGING_FROM}+", needs=[ProduceRequest])
def shows_where_the_logs_diverge(broker: JudgedBroker, version: int) -> None:
    """KIP-595: a reader beyond the end of an epoch is told its end, instead of OFFSET_OUT_OF_RANGE."""
    filled = filled_topic(broker)
    records = records_of(fetch(broker, filled.topic, at(0)))
    expect(bool(records), "no records came from the start of a topic that has some")
    epoch = records[-1].partition_leader_epoch
    where = at(filled.end + 5)
    where.last_fetched_epoch = epoch
    found = fetch(broker, filled.topic, where, version=version)
    expect_ok(found.error_code, "a position of a diverging log")
    expect_equal(found.diverging_epoch.epoch, epoch, "the diverging epoch")
    expect_equal(found.diverging_epoch.end_offset, filled.end, "the end of the diverging epoch")


@check(FetchRequest, needs=[ProduceRequest])
def returns_a_whole_first_batch_whatever_the_limit(broker: JudgedBroker, version: int) -> None:
    """KIP-74: otherwise a batch larger than the limit would stop the reader for ever."""
    filled = filled_topic(broker)
    request = fetch_request(fetch_topic(filled.topic, at(0, max_bytes=1)))
    request.max_bytes = 1
    found = the_partition(broker.ask(request, version))
    expect_ok(found.error_code, "the partition")
    batches = list(iter_batches(found.records or b""))
    expect(bool(batches), "no whole batch came for a limit of one byte")
    expect_equal(batches[0].base_offset, 0, "the base offset of the first batch")


@check(FetchRequest, once=True)
def waits_for_as_long_as_asked(broker: JudgedBroker, version: int) -> None:
    request = fetch_request(fetch_topic(broker.empty_topic(), at(0)), max_wait_ms=WAIT_MS, min_bytes=1)
    with broker.connect() as connection:
        started_s = time.monotonic()
        the_partition(connection.ask(request, version))
        waited_ms = (time.monotonic() - started_s) * 1000
    expect(waited_ms >= 0.9 * WAIT_MS, f"asked to wait for {WAIT_MS} ms, it answered after {waited_ms:.0f} ms")


@check(FetchRequest, once=True, needs=[ProduceRequest])
def answers_as_soon_as_there_are_enough_bytes(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    request = fetch_request(fetch_topic(topic, at(0)), max_wait_ms=LONG_WAIT_MS, min_bytes=1)
    wanted = (RecordToWrite(b"at last"),)
    with broker.connect() as connection:
        connection.send(request, version)
        started_s = time.monotonic()
        expect_ok(append(broker, topic, encode_batch(*wanted)).error_code, "Produce")
        answer = connection.receive()
        waited_ms = (time.monotonic() - started_s) * 1000
    expect(waited_ms < 0.8 * LONG_WAIT_MS, f"the record was there, but the answer took {waited_ms:.0f} ms")
    expect(isinstance(answer, FetchRequest.response_type), f"the answer is a {type(answer).__name__}")
    expect_records(records_of(fetch(broker, topic, at(0), version=version)), wanted)
