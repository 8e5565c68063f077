"""Writes records of many sizes at an even pace, in lz4 batches, each with a checksum and the time of its making."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from confluent_kafka import KafkaException, Producer

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

SIZES_BYTES = (50, 1_500)
KEYS = 1_000
TICK_S = 0.01
MAX_TICK_S = 0.5
FLUSH_S = 60.0
WORDS = (
    b"order paid shipped returned amount street customer number of a day in November and what they say of it ".split()
)
_CHECK_BYTES, _TIME_BYTES = 8, 19


def value_of(at_ns: int, size_bytes: int, chance: random.Random) -> bytes:
    """A checksum of the rest, the time, and words."""
    words = bytearray()
    while len(words) < size_bytes:
        words += chance.choice(WORDS) + b" "
    rest = b"%019d" % at_ns + words
    return b"%08x" % crc32(rest) + rest


def sent_at_ns(value: bytes | None) -> int | None:
    """When it was made; None if that is not what was written."""
    if value is None or b"%08x" % crc32(value[_CHECK_BYTES:]) != value[:_CHECK_BYTES]:
        return None
    return int(value[_CHECK_BYTES : _CHECK_BYTES + _TIME_BYTES])


class Writer:
    """A thread; `ends` says how far the log of each partition is acknowledged."""

    def __init__(self, servers: str, topic: str, partitions: int, *, per_second: int, seed: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "log_level": 0,
            }
        )
        self._topic, self._partitions, self._per_second = topic, partitions, per_second
        self._chance = random.Random(seed)
        self._ends = [0] * partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self.failed = 0

    @property
    def ends(self) -> tuple[int, ...]:
        return tuple(self._ends)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> int:
        """Nothing more is sent; how many records were not acknowledged."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        return self._producer.flush(FLUSH_S) + self.failed

    def _run(self) -> None:
        owed, before_s = 0.0, time.monotonic()
        while not self._stopping.wait(TICK_S):
            now_s = time.monotonic()
            owed += min(now_s - before_s, MAX_TICK_S) * self._per_second
            before_s = now_s
            while owed >= 1:
                owed -= 1
                self._send()
            self._producer.poll(0)

    def _send(self) -> None:
        chance = self._chance
        partition = chance.randrange(self._partitions)
        value = value_of(time.time_ns(), chance.randint(*SIZES_BYTES), chance)
        try:
            self._producer.produce(
                self._topic,
                value,
                key=b"key-%d" % chance.randrange(KEYS),
                partition=partition,
                headers=[("kind", b"soak")],
                on_delivery=partial(self._delivered, partition),
            )
        except (BufferError, KafkaException):  # too much waits: no broker takes it just now
            self.failed += 1

    def _delivered(self, partition: int, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is not None:
            self.failed += 1
        elif (offset := message.offset()) is not None and offset >= 0:
            self._ends[partition] = max(self._ends[partition], offset + 1)
