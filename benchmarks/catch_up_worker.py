"""One turn of `scripts/bench catch-up`, in a process of its own; prints its figures as a line of JSON.

    python catch_up_worker.py catch-up PARTICIPANT OPTIONS_AS_JSON

Every record's value is taken, and all offsets in front of the log's end at the start have to come, each once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from confluent_kafka import Message

POLL_S = 1.0
BATCH = 10_000
IDLE_TIMEOUT_S = 60.0
Part = tuple[int, int, int]
"""Partition, first offset, offset behind the last: without a gap in between."""


class Reader(Protocol):
    """A member of the group."""

    def read(self) -> Sequence[Part]:
        """What one poll hands out, all values taken."""

    def close(self) -> None: ...


class Kwire:
    """kwire."""

    def __init__(self, servers: str, group: str, topic: str, *, newest_first: bool) -> None:
        from kwire import Consumer

        self._consumer: Consumer[bytes, bytes] = Consumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            enable_auto_commit=False,
            max_poll_records=BATCH,
            enable_parallel_rebalance=newest_first,
        )

    def read(self) -> Sequence[Part]:
        records = self._consumer.poll(POLL_S)
        records.values()
        return [
            (chunk.topic_partition.partition, int(offsets[0]), int(offsets[-1]) + 1)
            for chunk in records.chunks()
            if len(offsets := chunk.columns.offsets)
        ]

    def close(self) -> None:
        self._consumer.commit_sync()
        self._consumer.close()


class Confluent:
    """librdkafka by way of confluent-kafka, with the settings it is fastest with."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.queue.backoff.ms": 10,
                "queued.min.messages": 1_000_000,
            }
        )
        self._consumer.subscribe([topic])

    def read(self) -> Sequence[Part]:
        return list(_parts(self._consumer.consume(BATCH, POLL_S)))

    def close(self) -> None:
        self._consumer.commit(asynchronous=False)
        self._consumer.close()


def _parts(messages: Sequence[Message[bytes, bytes]]) -> Iterator[Part]:
    """Runs of one partition."""
    current: tuple[int, int, int] | None = None
    for message in messages:
        partition, offset = message.partition(), message.offset()
        if message.error() is not None or partition is None or offset is None:
            raise SystemExit(f"confluent-kafka: {message.error()}")
        message.value()
        if current is not None and current[0] == partition and current[2] == offset:
            current = (partition, current[1], offset + 1)
        else:
            if current is not None:
                yield current
            current = (partition, offset, offset + 1)
    if current is not None:
        yield current


class Probe:
    """One record that is written when the member is at work."""

    def __init__(self, servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self._producer.list_topics(topic)  # so that it is connected
        self._topic = topic
        self.sent_s = 0.0

    def send(self) -> None:
        self.sent_s = time.monotonic()
        self._producer.produce(self._topic, b"fresh", partition=0)
        self._producer.flush(IDLE_TIMEOUT_S)


def measure(
    reader: Reader, probe: Probe, ends: Sequence[int], now: Callable[[], float] = time.monotonic
) -> dict[str, float]:
    """Read until everything has come that was there, and the probe behind it."""
    begin_s = last_s = now()
    cpu_s = time.process_time()
    left = dict(enumerate(ends))
    fresh_s = lag_s = 0.0
    while any(left.values()) or not fresh_s:
        parts = reader.read()
        now_s = now()
        if not parts:
            if now_s - last_s > IDLE_TIMEOUT_S:
                raise SystemExit(f"nothing came for {IDLE_TIMEOUT_S:.0f} s; left: {left}")
            continue
        last_s = now_s
        for partition, first, stop in parts:
            left[partition] -= max(0, min(stop, ends[partition]) - first)
            if partition == 0 and stop > ends[0]:
                fresh_s = now_s - probe.sent_s
        if not probe.sent_s:
            probe.send()
        if not any(left.values()) and not lag_s:
            lag_s = now_s - begin_s
    if any(left.values()):
        raise SystemExit(f"records came twice: {left}")
    return {"fresh_s": fresh_s, "lag_s": lag_s, "cpu_s": time.process_time() - cpu_s}


def ends_of(servers: str, topic: str, partitions: int) -> list[int]:
    """Where the partitions end."""
    from kwire import Consumer, TopicPartition

    with Consumer[bytes, bytes](bootstrap_servers=servers) as consumer:
        found = consumer.end_offsets([TopicPartition(topic, number) for number in range(partitions)])
    return [found[TopicPartition(topic, number)] for number in range(partitions)]


def main(participant: str, options: dict[str, str]) -> None:
    servers, group, topic = options["servers"], options["group"], options["topic"]
    ends, probe = ends_of(servers, topic, int(options["partitions"])), Probe(servers, topic)
    if participant == "confluent-kafka":
        reader: Reader = Confluent(servers, group, topic)
    else:
        reader = Kwire(servers, group, topic, newest_first=participant != "kwire")
    figures = measure(reader, probe, ends)
    reader.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[2], json.loads(sys.argv[3]))
