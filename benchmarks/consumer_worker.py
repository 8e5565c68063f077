"""One turn of one consumer, in a process of its own: reads as the task says, prints its figures as a line of JSON.

    python consumer_worker.py TASK PARTICIPANT OPTIONS_AS_JSON

Tasks: `latency`, `throughput`, `idle`, `slow`. Started by `turns.run_worker`. Whatever a consumer hands out is
checked: a gap in a partition's offsets, or a record too few, ends the turn with an error instead of figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from confluent_kafka import Consumer as ConfluentConsumer
    from confluent_kafka import Message

POLL_S = 1.0
WARM_UP_S = 1.0  # the first records also pay for imports and connections, which `startup` measures
BATCH = 10_000
IDLE_TIMEOUT_S = 60.0
MIB = 1024 * 1024

Some = TypeVar("Some", Sequence["Row"], int)
Row = tuple[str, int, int, bytes]
"""Topic, partition, offset, value."""
Take = Callable[[Sequence[Row]], None]


class Reader(Protocol):
    """A consumer of any library, with its partitions assigned."""

    def read(self) -> Sequence[Row]:
        """What one call of the library hands out; waits `POLL_S` for it."""

    def read_until(self, end_s: float, take: Take) -> None:
        """One such call after the other."""
        while time.monotonic() < end_s:
            take(self.read())

    def read_values(self) -> int:
        """The same, but only the values, in the library's fastest way to get at them; how many there were."""

    def close(self) -> None: ...


class Kwire(Reader):
    """kwire, row by row."""

    def __init__(self, servers: str, partitions: Iterable[tuple[str, int]], *, start: str, settings: Settings) -> None:
        from kwire import Consumer, TopicPartition

        config = {"fetch.min.bytes": 1, "auto.offset.reset": start, "max.poll.records": BATCH, **settings}
        self._consumer: Consumer[bytes, bytes] = Consumer(config={**config, "bootstrap.servers": servers})
        self._consumer.assign([TopicPartition(*partition) for partition in partitions])

    def read(self) -> Sequence[Row]:
        return [(r.topic, r.partition, r.offset, r.value or b"") for r in self._consumer.poll(POLL_S)]

    def read_values(self) -> int:
        return len(self._consumer.poll(POLL_S).values())

    def close(self) -> None:
        self._consumer.close()


class Confluent(Reader):
    """librdkafka by way of confluent-kafka, with the settings it is fastest with. `limit` 1: `poll()`."""

    def __init__(
        self, servers: str, partitions: Iterable[tuple[str, int]], *, start: str, settings: Settings, limit: int
    ) -> None:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

        config = {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.min.bytes": 1,
            "fetch.queue.backoff.ms": 10,
            "queued.min.messages": 1_000_000,
            **settings,
        }
        self._limit = limit
        self._consumer: ConfluentConsumer = Consumer(config)
        offset = OFFSET_END if start == "latest" else OFFSET_BEGINNING
        self._consumer.assign([TopicPartition(*partition, offset) for partition in partitions])

    def read(self) -> Sequence[Row]:
        if self._limit > 1:
            return [_confluent_row(message) for message in self._consumer.consume(self._limit, POLL_S)]
        message = self._consumer.poll(POLL_S)
        return () if message is None else (_confluent_row(message),)

    def read_values(self) -> int:
        return len([message.value() for message in self._consumer.consume(self._limit, POLL_S)])

    def close(self) -> None:
        self._consumer.close()


def _confluent_row(message: Message[bytes, bytes]) -> Row:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if message.error() is not None or topic is None or partition is None or offset is None:
        raise SystemExit(f"confluent-kafka: {message.error()}")
    return topic, partition, offset, message.value() or b""


class OnLoop(Reader):
    """A consumer of asyncio. Its event loop is started for each call, and goes on in `read_until`, as in programs."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def read(self) -> Sequence[Row]:
        return self._runner.run(self._rows())

    def read_until(self, end_s: float, take: Take) -> None:
        async def reading() -> None:
            while time.monotonic() < end_s:
                take(await self._rows())

        self._runner.run(reading())

    async def _rows(self) -> Sequence[Row]:
        return [(r.topic, r.partition, r.offset, r.value or b"") for r in await self._next()]

    def read_values(self) -> int:
        return len([r.value for r in self._runner.run(self._next())])

    def close(self) -> None:
        self._runner.run(self._stop())
        self._runner.close()

    async def _next(self) -> Iterable[Any]:
        raise NotImplementedError

    async def _stop(self) -> None:
        raise NotImplementedError


class AsyncKwire(OnLoop):
    """kwire's `AsyncConsumer`."""

    def __init__(self, servers: str, partitions: Iterable[tuple[str, int]], *, start: str, settings: Settings) -> None:
        super().__init__()
        from kwire import AsyncConsumer, TopicPartition

        config = {"fetch.min.bytes": 1, "auto.offset.reset": start, "max.poll.records": BATCH, **settings}

        async def opened() -> AsyncConsumer[bytes, bytes]:
            consumer = await AsyncConsumer({**config, "bootstrap.servers": servers}).__aenter__()
            await consumer.assign([TopicPartition(*partition) for partition in partitions])
            return consumer

        self._consumer = self._runner.run(opened())

    async def _next(self) -> Iterable[Any]:
        return await self._consumer.poll(POLL_S)

    async def _stop(self) -> None:
        await self._consumer.close()


class Aiokafka(OnLoop):
    """aiokafka."""

    def __init__(self, servers: str, partitions: Iterable[tuple[str, int]], *, start: str, settings: Settings) -> None:
        super().__init__()
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def opened() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=servers,
                auto_offset_reset=start,
                enable_auto_commit=False,
                fetch_min_bytes=1,
                **{name.replace(".", "_"): value for name, value in settings.items()},
            )
            await consumer.start()
            consumer.assign([TopicPartition(*partition) for partition in partitions])
            return consumer

        self._consumer = self._runner.run(opened())

    async def _next(self) -> Iterable[Any]:
        batches = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
        return [record for batch in batches.values() for record in batch]

    async def _stop(self) -> None:
        await self._consumer.stop()


class KafkaPython(Reader):
    """kafka-python."""

    def __init__(self, servers: str, partitions: Iterable[tuple[str, int]], *, start: str, settings: Settings) -> None:
        from kafka import KafkaConsumer
        from kafka.structs import TopicPartition

        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            auto_offset_reset=start,
            enable_auto_commit=False,
            max_poll_records=BATCH,
            fetch_min_bytes=1,
            **{name.replace(".", "_"): value for name, value in settings.items()},
        )
        self._consumer.assign([TopicPartition(*partition) for partition in partitions])

    def read(self) -> Sequence[Row]:
        batches = self._consumer.poll(timeout_ms=POLL_S * 1000).values()
        return [(r.topic, r.partition, r.offset, r.value) for batch in batches for r in batch]

    def read_values(self) -> int:
        return sum(len([r.value for r in batch]) for batch in self._consumer.poll(timeout_ms=POLL_S * 1000).values())

    def close(self) -> None:
        self._consumer.close()


Settings = Mapping[str, str | int]


def opened(participant: str, options: Mapping[str, object], start: str) -> Reader:
    servers, settings = str(options["servers"]), _settings(options)
    partitions = partitions_of(str(options["topics"]), int(str(options["partitions"])))
    match participant:
        case "kwire":
            return Kwire(servers, partitions, start=start, settings=settings)
        case "confluent-kafka poll":
            return Confluent(servers, partitions, start=start, settings=settings, limit=1)
        case "confluent-kafka consume":
            return Confluent(servers, partitions, start=start, settings=settings, limit=BATCH)
        case "kwire, AsyncConsumer":
            return AsyncKwire(servers, partitions, start=start, settings=settings)
        case "aiokafka":
            return Aiokafka(servers, partitions, start=start, settings=settings)
        case "kafka-python":
            return KafkaPython(servers, partitions, start=start, settings=settings)
        case _:
            raise SystemExit(f"nobody is called {participant!r}")


def partitions_of(topics: str, count: int) -> list[tuple[str, int]]:
    """The first `count` partitions of each of these topics, separated by commas."""
    return [(topic, number) for topic in topics.split(",") for number in range(count)]


def _settings(options: Mapping[str, object]) -> Settings:
    found: Settings = json.loads(str(options.get("settings", "{}")))
    return found


class Watched:
    """A reader whose answers are checked: each partition's offsets go up by one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._next: dict[tuple[str, int], int] = {}
        self.count = 0

    def read(self) -> Sequence[Row]:
        return self._checked(self._reader.read())

    def read_until(self, end_s: float, take: Take) -> None:
        self._reader.read_until(end_s, lambda rows: take(self._checked(rows)))

    def _checked(self, rows: Sequence[Row]) -> Sequence[Row]:
        for topic, partition, offset, _ in rows:
            expected = self._next.get((topic, partition), offset)
            if offset != expected:
                raise SystemExit(f"{topic}-{partition}: offset {offset} instead of {expected}")
            self._next[topic, partition] = offset + 1
        self.count += len(rows)
        return rows

    def read_values(self) -> int:
        """Unchecked but for their number: checking would take longer than reading."""
        found = self._reader.read_values()
        self.count += found
        return found

    def read_some(self) -> Sequence[Row]:
        """At least one record."""
        return self._some(self.read)

    def read_some_values(self) -> int:
        return self._some(self.read_values)

    def _some(self, read: Callable[[], Some]) -> Some:
        deadline_s = time.monotonic() + IDLE_TIMEOUT_S
        while not (found := read()):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"no record within {IDLE_TIMEOUT_S:.0f} s, after {self.count}")
        return found


# --- tasks -----------------------------------------------------------------------------------------------------------


def latency(reader: Watched, options: Mapping[str, object]) -> dict[str, float]:
    """From `produce()` of a record, whose time is its first 8 bytes, until it is in the application's hands."""
    reader.read_some()
    _drop_until(reader, time.monotonic() + WARM_UP_S)
    took_ns: list[int] = []

    def take(rows: Sequence[Row]) -> None:
        now_ns = time.monotonic_ns()
        took_ns.extend(now_ns - int.from_bytes(value[:8], "big") for _, _, _, value in rows)

    cpu_s = time.process_time()
    reader.read_until(time.monotonic() + float(str(options["seconds"])), take)
    cpu_s = time.process_time() - cpu_s
    took_ns.sort()
    return {
        "p50_ms": percentile(took_ns, 0.5) / 1e6,
        "p99_ms": percentile(took_ns, 0.99) / 1e6,
        "records": len(took_ns),
        "cpu_ms_per_1000": 1e6 * cpu_s / len(took_ns),
    }


def _drop_until(reader: Watched, end_s: float) -> None:
    reader.read_until(end_s, lambda _: None)


def percentile(ordered: Sequence[int], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def throughput(reader: Watched, options: Mapping[str, object]) -> dict[str, float]:
    """All records there are. Counted from the first on: what it takes to get there is a figure of its own."""
    wanted = int(str(options["records"]))
    begin_s = time.monotonic()
    at_first = reader.read_some_values()
    first_s, cpu_s = time.monotonic(), time.process_time()
    while reader.count < wanted:
        reader.read_some_values()
    took_s, cpu_s = time.monotonic() - first_s, time.process_time() - cpu_s
    if reader.count > wanted:
        raise SystemExit(f"{reader.count} records instead of {wanted}")
    rest = wanted - at_first
    return {
        "million_per_s": rest / took_s / 1e6,
        "cpu_s_per_million": cpu_s / rest * 1e6,
        "to_first_record_s": first_s - begin_s,
    }


def idle(reader: Watched, options: Mapping[str, object]) -> dict[str, float]:
    """Nothing to read, and somebody who keeps asking."""
    _drop_until(reader, time.monotonic() + 2 * WARM_UP_S)
    cpu_s, begin_s = time.process_time(), time.monotonic()
    _drop_until(reader, begin_s + float(str(options["seconds"])))
    cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - begin_s
    if reader.count:
        raise SystemExit(f"{reader.count} records where there are none")
    return {"core_percent": 100 * cpu_s / took_s}


def slow(reader: Watched, options: Mapping[str, object]) -> dict[str, float]:
    """So many records a second, while many more come in. Memory is counted from the first look at the topic on."""
    per_second, end_s = float(str(options["rate"])), time.monotonic() + float(str(options["seconds"]))
    before_bytes = peak_bytes()
    due_s = time.monotonic()
    while time.monotonic() < end_s:
        due_s = max(due_s, time.monotonic()) + len(reader.read_some()) / per_second
        time.sleep(max(0.0, min(due_s, end_s) - time.monotonic()))
    return {"grown_mib": (peak_bytes() - before_bytes) / MIB, "records": reader.count}


def peak_bytes() -> int:
    """The most memory this process ever had resident."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


TASKS: Mapping[str, tuple[Callable[[Watched, Mapping[str, object]], dict[str, float]], str]] = {
    "latency": (latency, "latest"),
    "throughput": (throughput, "earliest"),
    "idle": (idle, "earliest"),
    "slow": (slow, "earliest"),
}


def main(task: str, participant: str, options: Mapping[str, object]) -> None:
    run, start = TASKS[task]
    reader = opened(participant, options, start)
    figures = run(Watched(reader), options)
    print(json.dumps(figures), flush=True)
    reader.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
