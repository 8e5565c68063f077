"""Records at a steady pace, from a process of its own, for `scripts/bench latency` and `memory`.

    python feed.py SERVERS TOPIC PARTITIONS RECORDS_PER_SECOND BYTES COMPRESSION

The first 8 bytes of each record are the moment it was produced, on the clock that all processes of a machine share
(`time.monotonic_ns`). Ends when it is killed, or when its parent closes its standard input.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

FLUSH_S = 10.0
TICK_S = 0.001


@contextmanager
def feed(
    servers: str, topic: str, *, partitions: int, per_second: int, value_bytes: int, compression: str = "none"
) -> Iterator[subprocess.Popen[bytes]]:
    """Keep records coming meanwhile."""
    options = [str(each) for each in (partitions, per_second, value_bytes, compression)]
    command = [sys.executable, __file__, servers, topic, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def values(value_bytes: int) -> Iterator[bytes]:
    """All but the same: compressed, a batch is a small part of its size, which is hard on clients that bound memory."""
    filler = os.urandom(value_bytes // 2) + bytes(value_bytes)
    while True:
        yield time.monotonic_ns().to_bytes(8, "big") + filler[: value_bytes - 8]


def produce(
    servers: str,
    topic: str,
    partitions: int,
    per_second: int,
    value_bytes: int,
    compression: str,
    over: threading.Event,
) -> None:
    linger_ms = 0 if per_second <= 1_000 else 10
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": linger_ms,
            "compression.type": compression,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    source, sent, begin_s = values(value_bytes), 0, time.monotonic()
    while not over.is_set():
        due = int((time.monotonic() - begin_s) * per_second)
        while sent < due:
            try:
                producer.produce(topic, next(source), partition=sent % partitions)
            except BufferError:  # the queue is full
                producer.poll(TICK_S)
                continue
            sent += 1
        producer.poll(0)
        time.sleep(max(0.0, begin_s + (sent + 1) / per_second - time.monotonic(), TICK_S if per_second > 1_000 else 0))
    producer.flush(FLUSH_S)


def main(arguments: list[str]) -> None:
    over = threading.Event()

    def watch() -> None:
        sys.stdin.buffer.read()
        over.set()

    threading.Thread(target=watch, daemon=True).start()
    servers, topic, partitions, per_second, value_bytes, compression = arguments
    produce(servers, topic, int(partitions), int(per_second), int(value_bytes), compression, over)


if __name__ == "__main__":
    main(sys.argv[1:])
