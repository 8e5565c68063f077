"""The demo: a broker, 10,000 sample records, and kwire reading them in a consumer group.

Run by `scripts/demo`. The broker is the in-process one of `kwire.testing`, which needs no Java; with `--kafka` it is a
real one. The records are written with librdkafka's producer, so what kwire reads was written by somebody else. Exits 0
when every record arrived, once and in order within its partition.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from kwire import Consumer
from kwire.errors import KafkaError
from kwire.testing import Cluster
from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kafka.jars import MissingSoftwareError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.model import Record, TopicPartition

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 10_000
SHOWN = 5
PATIENCE_S = 30.0


@dataclass(slots=True)
class Tally:
    """What was read from one partition."""

    records: int = 0
    value_bytes: int = 0
    next_offset: int = 0
    lag: int | None = None


@dataclass(slots=True)
class Reading:
    """What was read altogether."""

    first: list[Record[bytes, bytes]] = field(default_factory=list)
    partitions: dict[TopicPartition, Tally] = field(default_factory=dict)
    polls: int = 0
    duration_s: float = 0.0

    @property
    def records(self) -> int:
        return sum(tally.records for tally in self.partitions.values())


def write_samples(bootstrap_servers: str) -> None:
    """A topic and its records: a customer as key, an order as value, two headers."""
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(PATIENCE_S)
    producer = Producer({**settings, "compression.type": "lz4", "linger.ms": 20})
    producer.list_topics(TOPIC, timeout=PATIENCE_S)  # or the first records wait for it and come last
    for number in range(RECORDS):
        order = f'{{"order": {number}, "cents": {number * 37 % 20_000}}}'
        customer = f"user-{number * 7919 % 500}"
        headers: list[tuple[str, str | bytes | None]] = [("via", b"web"), ("n", str(number).encode())]
        producer.produce(TOPIC, order.encode(), customer.encode(), headers=headers)
        producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        raise ClusterError(f"{left} records were not acknowledged within {PATIENCE_S:.0f} s")


def read_samples(bootstrap_servers: str) -> Reading:
    """Reads until all are there, or none came for a while."""
    reading = Reading()
    with Consumer[bytes, bytes](
        TOPIC, bootstrap_servers=bootstrap_servers, group_id="demo", auto_offset_reset="earliest"
    ) as consumer:
        began_s = last_s = time.monotonic()
        while reading.records < RECORDS and time.monotonic() < last_s + PATIENCE_S:
            records = consumer.poll(1.0)
            if not records:
                continue
            if reading.polls == 0:
                began_s = time.monotonic()  # joining the group is not reading
            reading.polls += 1
            for record in records:
                count(reading, record)
            last_s = time.monotonic()
        reading.duration_s = last_s - began_s
        for partition, tally in reading.partitions.items():
            tally.lag = consumer.current_lag(partition)
    return reading


def count(reading: Reading, record: Record[bytes, bytes]) -> None:
    tally = reading.partitions.setdefault(record.topic_partition, Tally())
    if record.offset != tally.next_offset:
        raise SystemExit(f"{record.topic_partition}: got offset {record.offset}, expected {tally.next_offset}")
    tally.next_offset = record.offset + 1
    tally.records += 1
    tally.value_bytes += len(record.value or b"")
    if len(reading.first) < SHOWN:
        reading.first.append(record)


def show(console: Console, reading: Reading) -> None:
    first = Table("partition", "offset", "key", "value", "headers", title="The first records", title_justify="left")
    for record in reading.first:
        headers = " ".join(f"{header.key}={text(header.value)}" for header in record.headers)
        first.add_row(str(record.partition), str(record.offset), text(record.key), text(record.value), headers)
    console.print(first)

    partitions = Table("partition", title="What was read", title_justify="left")
    for column in ("records", "value bytes", "next offset", "lag"):
        partitions.add_column(column, justify="right")
    for partition, tally in sorted(reading.partitions.items()):
        lag = "?" if tally.lag is None else f"{tally.lag:,}"
        partitions.add_row(
            str(partition), f"{tally.records:,}", f"{tally.value_bytes:,}", f"{tally.next_offset:,}", lag
        )
    console.print(partitions)
    rate = reading.records / reading.duration_s if reading.duration_s else 0.0
    console.print(f"{reading.records:,} records in {reading.polls} polls, {rate:,.0f} records/s", highlight=False)


def text(data: bytes | None) -> str:
    return "-" if data is None else data.decode(errors="replace")


@contextmanager
def broker(*, real: bool) -> Iterator[str]:
    """A cluster of one broker, as long as the context lasts; its address."""
    if real:
        with KafkaCluster() as kafka:
            yield kafka.bootstrap_servers
    else:
        with Cluster() as cluster:
            yield cluster.bootstrap_servers


def run(console: Console, *, real: bool) -> int:
    began_s = time.monotonic()
    with broker(real=real) as bootstrap_servers:
        kind = "A real Kafka broker" if real else "A broker in this process"
        console.print(f"{kind} is up at {bootstrap_servers} ({time.monotonic() - began_s:.1f} s).", highlight=False)
        write_samples(bootstrap_servers)
        console.print(f"librdkafka wrote {RECORDS:,} records to {PARTITIONS} partitions.\n", highlight=False)
        reading = read_samples(bootstrap_servers)
    show(console, reading)
    if reading.records != RECORDS:
        console.print(f"expected {RECORDS:,} records: {RECORDS - reading.records:,} did not arrive", style="red")
        return 1
    console.print(
        "All there, in order. The broker is stopped." + ("" if real else " The same from a real one: --kafka.")
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description="10,000 records, read in a consumer group.")
    parser.add_argument(
        "--kafka", action="store_true", help="read from a real Kafka (needs Java 17 or newer, and Maven)"
    )
    real: bool = parser.parse_args(arguments).kafka
    try:
        return run(Console(), real=real)
    except (ClusterError, KafkaError) as error:
        print(f"scripts/demo: {error}", file=sys.stderr)
        return 2 if isinstance(error, MissingSoftwareError) else 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
