"""A client of `scripts/bench throughput`: reads one topic from its start to its end, in a process of its own.

`reader.py CLIENT BOOTSTRAP_SERVERS TOPIC RECORDS [EXTRA]`; the last line out is JSON, and so is EXTRA: `settings` of
TLS, under Java's names, whether another thread is `busy` all the time, whether the client keeps its `defaults`, and
whether a peer's calls are those of kwire's `adapter` for it. The clock starts with the client made and nothing
subscribed, as that of Kafka's ConsumerPerformance does, so joining the group is inside. What a program imports at its
top is not; what a client loads by itself later is. All who make a record for each record take key, value, offset and
timestamp out of it, in one loop. Tuned, all check the checksums of batches; librdkafka has to be asked for that.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import threading
import time
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from types import ModuleType

    import confluent_kafka
    from aiokafka import AIOKafkaConsumer

    from kwire import AsyncConsumer, Consumer, Records

POLL_S = 1.0
POLL_MS = 1000
PATIENCE_S = 30.0
BATCH = 10_000
"""The size of a poll where all are tuned, and of a table. In its defaults `consume()` is two to eight times as slow
with so many (measured), so it gets `DEFAULT_BATCH`."""
DEFAULT_BATCH = 500
"""What a poll returns at most by default, in Kafka's own client and in most others."""

SOCKET_BUFFER_BYTES = 2 * 1024 * 1024  # what ConsumerPerformance takes
# Of one partition in one answer. With Kafka's 1 MiB an answer has a thousand records of 1,000 bytes of each partition,
# and whatever is done once for each partition of an answer takes its share. All are given it where they are tuned, but
# for kwire, which takes it by itself.
PARTITION_BYTES = 4 * 1024 * 1024


# What makes each client as fast as it gets, as far as that is known. Not a setting of it where all keep their defaults.
TUNED: dict[str, dict[str, object]] = {
    "kwire": {"max_poll_records": BATCH},
    "confluent-kafka": {
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 10,
        "check.crcs": True,
        "max.partition.fetch.bytes": PARTITION_BYTES,
    },
    "kafka-python": {
        "max_poll_records": BATCH,
        "max_partition_fetch_bytes": PARTITION_BYTES,
        "receive_buffer_bytes": SOCKET_BUFFER_BYTES,
        "check_crcs": True,
    },
    "aiokafka": {"max_poll_records": BATCH, "max_partition_fetch_bytes": PARTITION_BYTES, "check_crcs": True},
}
# How the brokers are reached, under Java's names; nothing: in plain text. Only kwire and confluent-kafka look at it.
SECURITY: dict[str, str] = {}
ADAPTERS = {
    "confluent_kafka": "kwire.compat.confluent_kafka",
    "confluent_kafka.aio": "kwire.compat.confluent_kafka.aio",
    "aiokafka": "kwire.compat.aiokafka",
    "kafka": "kwire.compat.kafka_python",
}
# Where a peer's calls are imported from, if it is not the peer.
IMPORTED: dict[str, str] = {}
LIBRDKAFKA_NAMES = {"ssl.truststore.location": "ssl.ca.location"}


class AnyRecord(Protocol):
    """The interface that records of kwire, aiokafka and kafka-python share."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...


class StalledError(Exception):
    """Nothing came for a while, and the topic is not at its end."""


class Reading:
    """The records that were read, and the times."""

    def __init__(self, wanted: int) -> None:
        self.records = self.size_bytes = self.offsets = self.first_records = 0
        self._wanted = wanted
        self._began_s = self._first_s = self._last_s = 0.0

    @property
    def left(self) -> int:
        """So many records are still to be read."""
        return self._wanted - self.records

    def begin(self) -> None:
        """Start the clock."""
        self._began_s = self._first_s = self._last_s = time.perf_counter()

    def more(self) -> bool:
        """Whether to go on.

        Raises:
            StalledError: There should be more, and nothing comes.
        """
        if self.records >= self._wanted:
            return False
        if time.perf_counter() > self._last_s + PATIENCE_S:
            raise StalledError(f"nothing came for {PATIENCE_S:.0f} s, after {self.records:,} of {self._wanted:,}")
        return True

    def add(self, counted: tuple[int, int, int]) -> None:
        """The records of one poll: how many, their bytes, the sum of their offsets."""
        records, size_bytes, offsets = counted
        if not records:
            return
        self._last_s = time.perf_counter()
        if not self.records:
            self._first_s, self.first_records = self._last_s, records
        self.records += records
        self.size_bytes += size_bytes
        self.offsets += offsets

    def to_json(self) -> dict[str, float]:
        return {
            "seconds": self._last_s - self._began_s,
            "steady_seconds": self._last_s - self._first_s,
            "steady_records": self.records - self.first_records,
            "records": self.records,
            "size_bytes": self.size_bytes,
            "offsets": self.offsets,
            "peak_bytes": peak_bytes(),
        }


def touch(records: Iterable[AnyRecord]) -> tuple[int, int, int]:
    """Take the fields out of every record."""
    count = size_bytes = offsets = 0
    timestamp_ms = -1
    for record in records:
        key, value, timestamp_ms = record.key, record.value, record.timestamp
        offsets += record.offset
        size_bytes += len(value)  # type: ignore[arg-type]  # none is null, and a check would cost all the same
        if key is not None:
            size_bytes += len(key)
        count += 1
    return count, size_bytes, offsets if timestamp_ms >= 0 or not count else -1


# --- the clients --------------------------------------------------------------------------------------------------


def kwire_settings(bootstrap_servers: str) -> dict[str, object]:
    return {
        **TUNED["kwire"],
        **SECURITY,
        "bootstrap.servers": bootstrap_servers,
        "group.id": new_group(),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }


def kwire_consumer(bootstrap_servers: str) -> Consumer[bytes, bytes]:
    from kwire import Consumer

    return Consumer(kwire_settings(bootstrap_servers))


def kwire_columns(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    load_arrow()
    with kwire_consumer(bootstrap_servers) as consumer:
        reading.begin()
        consumer.subscribe([topic])
        while reading.more():
            reading.add(touch_columns(consumer.poll(POLL_S, max_records=BATCH)))


def load_arrow() -> None:
    """Who works with tables imports Arrow where the program begins, as others import their client there."""
    import pyarrow.compute  # noqa: F401


def touch_columns(records: Records[bytes, bytes]) -> tuple[int, int, int]:
    """The same as `touch`, by column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def total(column: pa.ChunkedArray) -> int:
        return int(pc.sum(column).as_py() or 0)

    table = records.to_arrow()
    size_bytes = total(pc.binary_length(table["value"])) + total(pc.binary_length(table["key"]))
    return table.num_rows, size_bytes, total(table["offset"])


def kwire_rows(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    with kwire_consumer(bootstrap_servers) as consumer:
        reading.begin()
        consumer.subscribe([topic])
        while reading.more():
            reading.add(touch(consumer.poll(POLL_S)))


def kwire_records(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    with kwire_consumer(bootstrap_servers) as consumer:
        reading.begin()
        consumer.subscribe([topic])
        records = iter(consumer)
        while reading.more():
            reading.add(touch(islice(records, min(BATCH, reading.left))))


def kwire_async_consumer(bootstrap_servers: str) -> AsyncConsumer[bytes, bytes]:
    from kwire import AsyncConsumer

    return AsyncConsumer(kwire_settings(bootstrap_servers))


def kwire_async_rows(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    asyncio.run(kwire_async_polls(bootstrap_servers, topic, reading, touch))


def kwire_async_columns(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    load_arrow()
    asyncio.run(kwire_async_polls(bootstrap_servers, topic, reading, touch_columns))


async def kwire_async_polls(
    bootstrap_servers: str,
    topic: str,
    reading: Reading,
    take: Callable[[Records[bytes, bytes]], tuple[int, int, int]],
) -> None:
    async with kwire_async_consumer(bootstrap_servers) as consumer:
        reading.begin()
        await consumer.subscribe([topic])
        while reading.more():
            reading.add(take(await consumer.poll(POLL_S)))


def kwire_async_records(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    asyncio.run(kwire_async_loop(bootstrap_servers, topic, reading))


async def kwire_async_loop(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    async with kwire_async_consumer(bootstrap_servers) as consumer:
        reading.begin()
        await consumer.subscribe([topic])
        records = aiter(consumer)
        while reading.more():
            reading.add(await touch_each(records, min(BATCH, reading.left)))


async def touch_each(records: AsyncIterator[AnyRecord], most: int) -> tuple[int, int, int]:
    """The same as `touch`, of records that are awaited one by one."""
    count = size_bytes = offsets = 0
    timestamp_ms = -1
    async for record in records:
        key, value, timestamp_ms = record.key, record.value, record.timestamp
        offsets += record.offset
        size_bytes += len(value)  # type: ignore[arg-type]  # as in `touch`
        if key is not None:
            size_bytes += len(key)
        count += 1
        if count == most:
            break
    return count, size_bytes, offsets if timestamp_ms >= 0 or not count else -1


def confluent_settings(bootstrap_servers: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": new_group(),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **TUNED["confluent-kafka"],
        **{LIBRDKAFKA_NAMES.get(name, name): value for name, value in SECURITY.items()},
    }


def peer(name: str) -> ModuleType:
    return import_module(IMPORTED.get(name, name))


def confluent_consumer(bootstrap_servers: str) -> confluent_kafka.Consumer:
    consumer: confluent_kafka.Consumer = peer("confluent_kafka").Consumer(confluent_settings(bootstrap_servers))
    return consumer


def confluent_batch() -> int:
    return BATCH if TUNED["confluent-kafka"] else DEFAULT_BATCH


def confluent_consume(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    consumer = confluent_consumer(bootstrap_servers)
    batch = confluent_batch()
    reading.begin()
    consumer.subscribe([topic])
    while reading.more():
        reading.add(touch_messages(consumer.consume(batch, POLL_S)))
    consumer.close()


def touch_messages(messages: Iterable[confluent_kafka.Message]) -> tuple[int, int, int]:
    """The same as `touch`, of librdkafka's messages."""
    count = size_bytes = offsets = 0
    for message in messages:
        key, value, _ = message.key(), message.value(), message.timestamp()
        offsets += message.offset()  # type: ignore[operator]  # as in `touch`
        size_bytes += len(value)  # type: ignore[arg-type]
        if key is not None:
            size_bytes += len(key)
        count += 1
    return count, size_bytes, offsets


def confluent_poll(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    consumer = confluent_consumer(bootstrap_servers)
    poll = consumer.poll
    reading.begin()
    consumer.subscribe([topic])
    while reading.more():
        count = size_bytes = offsets = 0
        # The clock is looked at as often as in the others.
        while count < BATCH and (message := poll(POLL_S if not count else 0.01)) is not None:
            key, value, _ = message.key(), message.value(), message.timestamp()
            offsets += message.offset()  # type: ignore[operator]
            size_bytes += len(value)  # type: ignore[arg-type]
            if key is not None:
                size_bytes += len(key)
            count += 1
        reading.add((count, size_bytes, offsets))
    consumer.close()


def kafka_python(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    consumer = peer("kafka").KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=new_group(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **TUNED["kafka-python"],
    )
    reading.begin()
    consumer.subscribe([topic])
    while reading.more():
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            reading.add(touch(records))
    consumer.close()


def aiokafka(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    asyncio.run(aiokafka_rows(bootstrap_servers, topic, reading))


async def aiokafka_rows(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    async with aiokafka_consumer(bootstrap_servers) as consumer:
        reading.begin()
        consumer.subscribe([topic])
        while reading.more():
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                reading.add(touch(records))


def aiokafka_consumer(bootstrap_servers: str) -> AIOKafkaConsumer:
    consumer: AIOKafkaConsumer = peer("aiokafka").AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=new_group(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **TUNED["aiokafka"],
    )
    return consumer


def aiokafka_records(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    asyncio.run(aiokafka_loop(bootstrap_servers, topic, reading))


async def aiokafka_loop(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    async with aiokafka_consumer(bootstrap_servers) as consumer:
        reading.begin()
        consumer.subscribe([topic])
        while reading.more():
            reading.add(await touch_each(consumer, min(BATCH, reading.left)))


def confluent_aio(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    asyncio.run(confluent_aio_consume(bootstrap_servers, topic, reading))


async def confluent_aio_consume(bootstrap_servers: str, topic: str, reading: Reading) -> None:
    consumer = peer("confluent_kafka.aio").AIOConsumer(confluent_settings(bootstrap_servers))
    batch = confluent_batch()
    reading.begin()
    await consumer.subscribe([topic])
    while reading.more():
        reading.add(touch_messages(await consumer.consume(batch, POLL_S)))
    await consumer.close()


CLIENTS: dict[str, Callable[[str, str, Reading], None]] = {
    "kwire-columns": kwire_columns,
    "kwire-rows": kwire_rows,
    "kwire-records": kwire_records,
    "kwire-async-columns": kwire_async_columns,
    "kwire-async-rows": kwire_async_rows,
    "kwire-async-records": kwire_async_records,
    "confluent-consume": confluent_consume,
    "confluent-poll": confluent_poll,
    "confluent-aio": confluent_aio,
    "aiokafka": aiokafka,
    "aiokafka-records": aiokafka_records,
    "kafka-python": kafka_python,
}


def peak_bytes() -> int:
    """This process's own peak: the system's account of a child begins with the memory of its parent."""
    try:
        status = Path("/proc/self/status").read_text()
    except FileNotFoundError:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if sys.platform == "darwin" else used * 1024
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def compute() -> None:
    """What an application does beside reading: pure Python, without end, and without giving the interpreter away."""
    while True:
        sum(number * number for number in range(1_000))


def new_group() -> str:
    return f"bench-{uuid4().hex[:12]}"


def main() -> None:
    client, bootstrap_servers, topic, records, *extra = sys.argv[1:]
    wanted = json.loads(extra[0]) if extra else {}
    SECURITY.update(wanted.get("settings", {}))
    if wanted.get("defaults"):
        for settings in TUNED.values():
            settings.clear()
    if wanted.get("adapter"):
        IMPORTED.update(ADAPTERS)
    if wanted.get("busy"):
        threading.Thread(target=compute, daemon=True).start()
    reading = Reading(int(records))
    CLIENTS[client](bootstrap_servers, topic, reading)
    print(json.dumps(reading.to_json()))


if __name__ == "__main__":
    main()
