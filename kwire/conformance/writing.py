"""Produce requests of the checks, and the topic with known records that all reading checks share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kwire.clock import wall_clock_ms
from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.conformance.expectations import NonconformanceError, expect_ok, only
from kwire.errors import KafkaError
from kwire.model import Header
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.protocol.records import Codec

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker, SuiteTopic

ALL_REPLICAS = -1
IDS_FROM = 13
"""The first version of Produce that names topics by id alone (KIP-516)."""

STEP_MS = 1000
"""The time between one of the known records and the next."""

AGE_MS = 3_600_000
"""The age of the first of them: no less than all steps together, so that no timestamp is in the future."""


def produce_request(
    topic: SuiteTopic,
    batch: bytes,
    *,
    acks: int = ALL_REPLICAS,
    transactional_id: str | None = None,
    partition: int = 0,
) -> ProduceRequest:
    """A request that appends one batch, for any version: the encoder drops either the name or the id."""
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=[data])],
    )


def the_partition(answer: ProduceResponse) -> PartitionProduceResponse:
    """The only partition in a Produce answer."""
    topic = only(answer.responses, "topic in the Produce answer")
    return only(topic.partition_responses, "partition in the Produce answer")


def append(
    broker: JudgedBroker,
    topic: SuiteTopic,
    batch: bytes,
    *,
    version: int | None = None,
    transactional_id: str | None = None,
) -> PartitionProduceResponse:
    """Append a batch. Returns the broker's answer."""
    return the_partition(broker.ask(produce_request(topic, batch, transactional_id=transactional_id), version))


@dataclass(frozen=True, slots=True)
class FilledTopic:
    """A topic whose one partition holds `records` at offsets 0, 1, 2, ..., in batches that start at `batch_starts`."""

    topic: SuiteTopic
    records: tuple[RecordToWrite, ...]
    batch_starts: tuple[int, ...]

    def time_ms(self, offset: int) -> int:
        """The timestamp of the record at an offset; behind the end, the steps continue."""
        return self.records[0].timestamp_ms + offset * STEP_MS

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return len(self.records)


def known_records() -> list[list[RecordToWrite]]:
    """The records, batch by batch: keys and values missing, empty and long; headers none, many, null."""
    many_headers = (Header("trace", b"1"), Header("trace", None), Header("", b""), Header("größe", "ß".encode()))
    shapes = [
        [RecordToWrite(b"value", b"key"), RecordToWrite(None, b"deleted"), RecordToWrite(b"no key")],
        [RecordToWrite(b"", b""), RecordToWrite(b"with headers", b"h", many_headers)],
        [RecordToWrite(b"long " * 2000, b"k" * 300)],
        [RecordToWrite(b"%d" % i, b"key-%d" % (i % 7)) for i in range(100)],
    ]
    times = count(wall_clock_ms() - AGE_MS, STEP_MS)
    return [[RecordToWrite(r.value, r.key, r.headers, next(times)) for r in batch] for batch in shapes]


_filled: WeakKeyDictionary[JudgedBroker, FilledTopic | Exception] = WeakKeyDictionary()
_filling = Lock()


def filled_topic(broker: JudgedBroker) -> FilledTopic:
    """The topic with known records, created on first use. If that fails, so does every check that needs it."""
    with _filling:
        found = _filled.get(broker)
        if found is None:
            try:
                found = _fill(broker)
            except (KafkaError, NonconformanceError) as error:
                found = NonconformanceError(f"there is no topic with known records to read from: {error}")
            _filled[broker] = found
    if isinstance(found, Exception):
        raise found
    return found


def _fill(broker: JudgedBroker) -> FilledTopic:
    topic = broker.topic()
    records: list[RecordToWrite] = []
    starts: list[int] = []
    for codec, batch in zip([Codec.NONE, Codec.LZ4, Codec.GZIP, Codec.NONE], known_records(), strict=True):
        placed = append(broker, topic, encode_batch(*batch, codec=codec))
        expect_ok(placed.error_code, "Produce")
        starts.append(len(records))
        records += batch
    return FilledTopic(topic, tuple(records), tuple(starts))
