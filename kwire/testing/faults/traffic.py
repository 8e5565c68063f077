"""Numbered records into every partition of some topics, as fast as is asked for, while the cluster is being struck.

    with Traffic(recorder, kafka.direct_servers, {"orders": 6}, rate_per_second=500) as traffic:
        traffic.start()
        ...
        unacknowledged = traffic.stop()

An idempotent producer (librdkafka's) that goes around the proxies. A record becomes `Sent` when it is acknowledged, at
the time at which the broker appended it: topics with LogAppendTime are assumed, so that no member can have polled it
before. What is never acknowledged may be in the log nevertheless; `broker_log.py` finds it there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kwire.model import TopicPartition
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.payload import identity, value_of
from kwire.testing.invariants.ledger import Sent

SIZE_BYTES = 100
TICK_S = 0.01
# After a longer pause of this thread's the rate is not made up for: a burst would be a fault of its own.
LONGEST_TICK_S = 0.5
FLUSH_TIMEOUT_S = 45.0
RENEWAL_TIMEOUT_S = 1.0
# With few keys, compaction finds something to do.
KEYS = 300

# Of everybody in the harness who writes to the brokers, or reads from them, besides the members.
CLIENT_ID = "kwire-faults"
SETTINGS: Mapping[str, str | int | float | bool] = {
    "client.id": CLIENT_ID,
    "enable.idempotence": True,
    "linger.ms": 5,
    # A broker may be down for minutes: what waits for it is sent when it is back.
    "message.timeout.ms": 900_000,
    "message.max.bytes": 128 * 1024 * 1024,
    "topic.metadata.refresh.interval.ms": 2_000,
    "reconnect.backoff.max.ms": 1_000,
    "retry.backoff.max.ms": 500,
}

# What librdkafka says on the way is about faults that somebody has ordered.
_silent = logging.getLogger(__name__)
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Traffic:
    """Any thread may call it. Lock: `_changed`, under which everything below it changes."""

    def __init__(
        self,
        recorder: Recorder,
        direct_servers: str,
        topics: Mapping[str, int],
        *,
        rate_per_second: int,
        size_bytes: int = SIZE_BYTES,
    ) -> None:
        self._recorder = recorder
        self._settings = {**SETTINGS, "bootstrap.servers": direct_servers, "logger": _silent}
        self._rate_per_second = rate_per_second
        self._size_bytes = size_bytes
        self._numbers = count()
        self._changed = threading.Condition()
        self._topics = dict(topics)
        self._paused: set[str] = set()
        self._in_flight: dict[str, TopicPartition] = {}
        self._failures: dict[str, str] = {}
        self._unplaced: dict[str, TopicPartition] = {}
        self._turn = 0
        self._stopping = threading.Event()
        self._producer = Producer(self._settings)
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def __enter__(self) -> Traffic:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.purge()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = FLUSH_TIMEOUT_S) -> int:
        """Nothing more is sent. Waits until all is acknowledged, or the time is over; how many records are not."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(KafkaException):  # a producer at its end: what it has not brought to an end stays so
            self._producer.flush(timeout_s)
        with self._changed:
            return len(self._in_flight) + len(self._failures)

    # --- topics that change ------------------------------------------------------------------------------------

    def pause(self, topic: str | None = None, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        """Nothing more is sent to a topic, or to any. Waits until what is under way is acknowledged or has failed;
        whether that came in time."""
        with self._changed:
            topics = set(self._topics) if topic is None else {topic}
            self._paused |= topics
            return self._changed.wait_for(
                lambda: not any(at.topic in topics for at in self._in_flight.values()), timeout_s
            )

    def resume(self, topic: str | None = None) -> None:
        with self._changed:
            self._paused -= set(self._topics) if topic is None else {topic}

    def set_partitions(self, topic: str, partitions: int) -> None:
        """It has so many from now on: it has grown, or was made anew."""
        with self._changed:
            self._topics[topic] = partitions

    def forget(self, topic: str) -> None:
        """It is deleted for good."""
        with self._changed:
            self._topics.pop(topic, None)

    # --- single records ----------------------------------------------------------------------------------------

    def send_large(self, partition: TopicPartition, size_bytes: int) -> None:
        """One record of that size, beside the others."""
        with self._changed:
            self._send(partition, size_bytes)

    def next_value(self, size_bytes: int = SIZE_BYTES) -> str:
        """A value that nobody else sends, for who writes by another producer. In the ledger stands its `identity`."""
        with self._changed:
            return value_of(next(self._numbers), size_bytes)

    @property
    def unplaced(self) -> Mapping[str, TopicPartition]:
        """Values that are acknowledged without an offset: the first answer was lost, and the second does not say."""
        with self._changed:
            return dict(self._unplaced)

    @property
    def failures(self) -> Mapping[str, str]:
        """Values that were not acknowledged, and why."""
        with self._changed:
            return dict(self._failures)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Thread: what is due, then the answers, then a little sleep."""
        owed, before_s = 0.0, time.monotonic()
        while not self._stopping.wait(TICK_S):
            now_s = time.monotonic()
            owed += min(now_s - before_s, LONGEST_TICK_S) * self._rate_per_second
            before_s = now_s
            owed -= self._send_due(int(owed))
            try:
                self._producer.poll(0)
            except KafkaException:  # it has lost its sequence: after an unclean election, or in a topic made anew
                self._renew()

    def _send_due(self, due: int) -> int:
        """To each partition in turn. What is paused is not made up for either."""
        with self._changed:
            partitions = [
                TopicPartition(topic, number)
                for topic, partitions in self._topics.items()
                if topic not in self._paused
                for number in range(partitions)
            ]
            for _ in range(due if partitions else 0):
                self._turn += 1
                self._send(partitions[self._turn % len(partitions)], self._size_bytes)
        return due

    def _send(self, partition: TopicPartition, size_bytes: int) -> None:
        number = next(self._numbers)
        value = value_of(number, size_bytes)
        known = identity(value)
        self._in_flight[known] = partition
        try:
            self._producer.produce(
                partition.topic,
                value.encode(),
                b"key-%d" % (number % KEYS),
                partition=partition.partition,
                on_delivery=partial(self._delivered, known, partition),
            )
        except (BufferError, KafkaException) as error:  # too much waits already, or the producer is at its end
            self._fail(known, str(error))

    def _delivered(
        self, value: str, partition: TopicPartition, error: KafkaError | None, message: Message[bytes, bytes]
    ) -> None:
        with self._changed:
            if error is not None:
                self._fail(value, error.str())
                return
            self._in_flight.pop(value, None)
            offset, (_kind, appended_ms) = message.offset(), message.timestamp()
            if offset is None or offset < 0:
                self._unplaced[value] = partition
            else:
                at_ms = self._recorder.at_ms(appended_ms)
                self._recorder.write(Sent(at_ms=at_ms, partition=partition, offset=offset, value=value))
            self._changed.notify_all()

    def _fail(self, value: str, why: str) -> None:
        self._in_flight.pop(value, None)
        self._failures[value] = why
        self._changed.notify_all()

    def _renew(self) -> None:
        """Another producer takes over. What the old one has not brought to an end is not sent again: it may be in the
        log already, and a value has to be there once."""
        with suppress(KafkaException):
            self._producer.purge()
            self._producer.flush(RENEWAL_TIMEOUT_S)
        with self._changed:
            self._producer = Producer(self._settings)
