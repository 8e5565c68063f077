"""Fetch requests of the checks, and comparison of the records with those that were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.expectations import NonconformanceError, expect, expect_equal, expect_ok, only
from kwire.errors import CorruptRecordError
from kwire.model import Header
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kwire.protocol.records import StoredRecord, read_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.conformance.batches import RecordToWrite
    from kwire.conformance.broker import JudgedBroker, SuiteTopic

MAX_BYTES = 1 << 20
READ_COMMITTED = 1


def fetch_topic(topic: SuiteTopic, *partitions: FetchPartition) -> FetchTopic:
    """A topic for a Fetch request of any version."""
    return FetchTopic(topic=topic.name, topic_id=topic.id, partitions=list(partitions))


def at(offset: int, *, partition: int = 0, leader_epoch: int = -1, max_bytes: int = MAX_BYTES) -> FetchPartition:
    """A position to fetch from."""
    return FetchPartition(
        partition=partition, fetch_offset=offset, current_leader_epoch=leader_epoch, partition_max_bytes=max_bytes
    )


def fetch_request(*topics: FetchTopic, max_wait_ms: int = 0, min_bytes: int = 0, isolation: int = 0) -> FetchRequest:
    """A Fetch request without a session."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=MAX_BYTES,
        isolation_level=isolation,
        topics=list(topics),
    )


def the_partition(answer: FetchResponse) -> PartitionData:
    """The only partition in a Fetch answer, which must not be an error as a whole."""
    expect_ok(answer.error_code, "Fetch")
    topic = only(answer.responses, "topic in the Fetch answer")
    return only(topic.partitions, "partition in the Fetch answer")


def fetch(
    broker: JudgedBroker, topic: SuiteTopic, where: FetchPartition, *, version: int | None = None, isolation: int = 0
) -> PartitionData:
    """Fetch one partition on a connection of its own; its error code is not checked."""
    return the_partition(broker.ask(fetch_request(fetch_topic(topic, where), isolation=isolation), version))


def records_of(found: PartitionData) -> list[StoredRecord]:
    """The records of a partition, after a check of their checksums.

    Raises:
        NonconformanceError: The partition has an error, or its records are damaged.
    """
    expect_ok(found.error_code, "the partition")
    try:
        return read_records(found.records or b"")
    except CorruptRecordError as error:
        raise NonconformanceError(f"the records are damaged: {error}") from error


def expect_records(found: Sequence[StoredRecord], wanted: Sequence[RecordToWrite], first_offset: int = 0) -> None:
    """Raises: NonconformanceError, unless the records are exactly these, from this offset on."""
    expect_equal([record.offset for record in found], list(range(first_offset, first_offset + len(wanted))), "offsets")
    for stored, written in zip(found, wanted, strict=True):
        where = f"of the record at offset {stored.offset}"
        expect_equal(stored.key, written.key, f"the key {where}")
        expect_equal(stored.value, written.value, f"the value {where}")
        expect_equal([Header(*header) for header in stored.headers], list(written.headers), f"the headers {where}")
        expect_equal(stored.timestamp, written.timestamp_ms, f"the timestamp {where}")
        expect(stored.partition_leader_epoch >= 0, f"the broker did not fill in the leader epoch {where}")
