"""The topics of `scripts/bench throughput`: what is in them, and the process that writes one.

`measure.py` starts this file as a process of its own: the peak memory of a process is passed on to those it
starts, and Java's is measured from outside. Written by librdkafka: what is read was made by somebody else. The last
line out is what readers have to find, as JSON.
"""

from __future__ import annotations

import functools
import json
import random
import sys
import time
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4  # of a topic, if it does not say otherwise
TIMEOUT_S = 120.0
FIRST_TIMESTAMP_MS = 1_767_225_600_000
RECORDS_PER_MS = 100
POLL_EVERY = 1_000
PRODUCER_SETTINGS: dict[str, str | int | float | bool] = {
    "acks": 1,
    "linger.ms": 100,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
}
HEADERS: tuple[tuple[str, str | bytes | None], ...] = (
    ("source", b"shop-7"),
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("content-type", b"application/json"),
    ("schema-id", b"1207"),
    ("tenant", b"north"),
    ("attempt", b"0"),
)
DIFFERENT_ORDERS = 10_000  # then they come again
WORDS = (
    "order",
    "customer",
    "amount",
    "status",
    "paid",
    "open",
    "shipped",
    "warehouse",
    "street",
    "city",
    "false",
    "null",
)
POOL_BYTES = 1 << 20
STRIDE = 7_919  # from where one value begins in the pool to where the next one does


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One topic. Sizes of values are even between `least_bytes` and `most_bytes`."""

    name: str
    title: str
    records: int
    least_bytes: int
    most_bytes: int
    compression: str = "none"
    has_keys: bool = False
    headers: int = 0
    """So many of `HEADERS` each record has."""
    is_json: bool = False
    """Values are orders in JSON, and not pieces of a text."""
    partitions: int = PARTITIONS
    batch_bytes: int = 131_072
    """How full the producer makes its batches."""
    batch_records: int = 10_000
    """How many records it puts into one, at most."""

    def scaled(self, scale: float) -> int:
        """How many records to write; the same number to each partition."""
        return max(1, round(self.records * scale / self.partitions)) * self.partitions


JSON = Case(
    name="json",
    title="JSON of 230 B, key, lz4 in 16 KiB, 12 partitions",
    records=1_500_000,
    least_bytes=170,
    most_bytes=300,
    compression="lz4",
    has_keys=True,
    is_json=True,
    batch_bytes=16_384,
    partitions=12,
)
MIXED_SHAPE = "50 to 2,000 B, key, header"
MIXED = Case(
    name="mixed",
    title=f"{MIXED_SHAPE}, lz4",
    records=1_000_000,
    least_bytes=50,
    most_bytes=2_000,
    compression="lz4",
    has_keys=True,
    headers=1,
)
CASES = {
    case.name: case
    for case in (
        Case(name="plain", title="100 B", records=5_000_000, least_bytes=100, most_bytes=100),
        Case(name="lz4", title="1,000 B, lz4", records=1_000_000, least_bytes=1000, most_bytes=1000, compression="lz4"),
        Case(
            name="zstd",
            title="100 B, key, header, zstd",
            records=2_000_000,
            least_bytes=100,
            most_bytes=100,
            compression="zstd",
            has_keys=True,
            headers=1,
        ),
        Case(name="random", title="50 to 2,000 B", records=1_000_000, least_bytes=50, most_bytes=2_000),
        MIXED,
        # As Java's producers make them by default.
        replace(MIXED, name="small-batches", title=f"{MIXED.title} in 16 KiB", batch_bytes=16_384),
        replace(MIXED, name="snappy", title=f"{MIXED_SHAPE}, snappy", records=600_000, compression="snappy"),
        replace(MIXED, name="gzip", title=f"{MIXED_SHAPE}, gzip", records=300_000, compression="gzip"),
        replace(MIXED, name="many-partitions", title=f"{MIXED.title}, 50 partitions", partitions=50),
        JSON,
        replace(
            JSON,
            name="headers",
            title="JSON of 230 B, key, six headers, zstd, 12 partitions",
            records=900_000,
            compression="zstd",
            headers=6,
            batch_bytes=131_072,
        ),
        Case(
            name="documents",
            title="5 to 35 KB, key, two headers, snappy in 512 KiB, 6 partitions",
            records=120_000,
            least_bytes=5_000,
            most_bytes=35_000,
            compression="snappy",
            has_keys=True,
            headers=2,
            batch_bytes=524_288,
            partitions=6,
        ),
        Case(
            name="one-by-one",
            title="200 B, a batch each",  # as producers make them that wait for nothing
            records=500_000,
            least_bytes=200,
            most_bytes=200,
            batch_records=1,
        ),
        Case(name="tiny", title="10 B", records=2_000_000, least_bytes=10, most_bytes=10),
        Case(name="huge", title="100 KB", records=10_000, least_bytes=100_000, most_bytes=100_000),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a topic: the number of records, the bytes of keys and values, the sum of all offsets."""

    records: int
    size_bytes: int
    offsets: int


@functools.cache
def pool() -> bytes:
    """Text that compresses about as well as business data does; the same each time."""
    chance = random.Random("kwire")
    parts: list[str] = []
    length = 0
    while length < POOL_BYTES:
        parts.append(f'"{chance.choice(WORDS)}":{chance.randrange(100_000)},')
        length += len(parts[-1])
    return "".join(parts)[:POOL_BYTES].encode()


@functools.cache
def orders() -> list[bytes]:
    """What shops send; the same each time."""
    chance = random.Random("orders")
    return [json.dumps(order(chance, number)).encode() for number in range(DIFFERENT_ORDERS)]


def order(chance: random.Random, number: int) -> dict[str, object]:
    return {
        "order_id": f"{chance.getrandbits(64):016x}",
        "customer": chance.randrange(1_000_000),
        "placed_ms": FIRST_TIMESTAMP_MS + number,
        "status": chance.choice(("open", "paid", "shipped")),
        "city": chance.choice(("Berlin", "Zürich", "Oslo", "Lisboa")),
        "items": [
            {
                "sku": f"SKU-{chance.randrange(100_000):05d}",
                "quantity": chance.randrange(1, 9),
                "cents": chance.randrange(50_000),
            }
            for _ in range(chance.randrange(1, 4))
        ],
    }


def values(case: Case, records: int) -> Iterator[bytes]:
    """Orders, or pieces of the pool, each from another place."""
    if case.is_json:
        yield from islice(cycle(orders()), records)
        return
    text = pool()
    chance = random.Random(case.name)
    last = len(text) - case.most_bytes
    for number in range(records):
        size = case.least_bytes
        if size != case.most_bytes:
            size = chance.randint(case.least_bytes, case.most_bytes)
        start = number * STRIDE % last
        yield text[start : start + size]


def write(bootstrap_servers: str, topic: str, case: Case, records: int) -> Content:
    """Make the topic and write it.

    Raises:
        KafkaException: The broker does not take it.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})  # bound, or it is gone before the answer comes
    admin.create_topics([NewTopic(topic, case.partitions, 1)])[topic].result(TIMEOUT_S)
    producer = Producer(
        {
            **PRODUCER_SETTINGS,
            "bootstrap.servers": bootstrap_servers,
            "compression.type": case.compression,
            "batch.size": case.batch_bytes,
            "batch.num.messages": case.batch_records,
        }
    )
    size_bytes = 0
    for number, value in enumerate(values(case, records)):
        key = b"customer-%07d" % (number * 31 % 100_000) if case.has_keys else None
        size_bytes += len(value) + len(key or b"")
        send(producer, topic, number, case, key, value)
    if left := producer.flush(TIMEOUT_S):
        raise KafkaException(f"{left} records of {topic} were not acknowledged")
    return Content(records=records, size_bytes=size_bytes, offsets=sum_of_offsets(records, case.partitions))


def send(producer: Producer, topic: str, number: int, case: Case, key: bytes | None, value: bytes) -> None:
    headers = list(HEADERS[: case.headers])
    partition = number % case.partitions
    timestamp_ms = FIRST_TIMESTAMP_MS + number // RECORDS_PER_MS
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            producer.produce(topic, value, key, partition=partition, timestamp=timestamp_ms, headers=headers)
            break
        except BufferError:  # the queue is full: others would call it back-pressure
            if time.monotonic() > deadline_s:
                raise
            producer.poll(0.1)
    if number % POLL_EVERY == 0:
        producer.poll(0)


def sum_of_offsets(records: int, partitions: int) -> int:
    """Each partition begins at 0 and has the same number of records."""
    each = records // partitions
    return partitions * (each * (each - 1) // 2)


def main() -> None:
    bootstrap_servers, topic, name, records = sys.argv[1:]
    content = write(bootstrap_servers, topic, CASES[name], int(records))
    found = {"records": content.records, "size_bytes": content.size_bytes, "offsets": content.offsets}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
