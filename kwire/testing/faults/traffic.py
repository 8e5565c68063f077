"""Traffic: it sends numbered records to every partition of some topics, at a given rate, while faults strike.

    with Traffic(recorder, kafka.direct_servers, {"orders": 6}, rate_per_second=500) as traffic:
        traffic.start()
        ...
        unacknowledged = traffic.stop()

The producer is idempotent (librdkafka's), and does not use the proxies. A record becomes `Sent` when it is
acknowledged, at the time at which the broker appended it: topics with LogAppendTime are assumed, so that no member can
have polled it before. A record without an acknowledgement may be in the log nevertheless; `broker_log.py` finds it
there.
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
# After a longer pause of this thread, missing records are not made up for: a burst would be a fault of its own.
MAX_TICK_S = 0.5
FLUSH_TIMEOUT_S = 45.0
RENEWAL_TIMEOUT_S = 1.0
# With few keys, compaction removes records.
KEYS = 300

# The client id of everything in the harness that writes to brokers, or reads from them, except the members.
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

# Its log lines are only about the faults of the schedule.
_silent = logging.getLogger(__name__)
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Traffic:
    """The producer of a run. Any thread may call it; the lock `_changed` guards the attributes below it."""

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
        """Stop sending. Waits until all records are acknowledged, or the time is over. Returns how many are not."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(KafkaException):  # a producer at its end: what it has not brought to an end stays so
            self._producer.flush(timeout_s)
        with self._changed:
            return len(self._in_flight) + len(self._failures)

    # --- topics that change ------------------------------------------------------------------------------------

    def pause(self, topic: str | None = None, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        """Stop sending to a topic, or to all. Waits until records in flight are acknowledged or have failed. Returns
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
        """Set the number of partitions of a topic that has grown or was created again."""
        with self._changed:
            self._topics[topic] = partitions

    def forget(self, topic: str) -> None:
        """Forget a topic that is deleted for good."""
        with self._changed:
            self._topics.pop(topic, None)

    # --- single records ----------------------------------------------------------------------------------------

    def send_large(self, partition: TopicPartition, size_bytes: int) -> None:
        """Send one record of this size beside the others."""
        with self._changed:
            self._send(partition, size_bytes)

    def next_value(self, size_bytes: int = SIZE_BYTES) -> str:
        """A unique value, for a record from another producer. The ledger has its `identity`."""
        with self._changed:
            return value_of(next(self._numbers), size_bytes)

    @property
    def unplaced(self) -> Mapping[str, TopicPartition]:
        """Values that were acknowledged without an offset: the first answer was lost, and the second has no offset."""
        with self._changed:
            return dict(self._unplaced)

    @property
    def failures(self) -> Mapping[str, str]:
        """Values that were not acknowledged, with the error."""
        with self._changed:
            return dict(self._failures)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Thread: send what is due, process acknowledgements, sleep a little."""
        owed, before_s = 0.0, time.monotonic()
        while not self._stopping.wait(TICK_S):
            now_s = time.monotonic()
            owed += min(now_s - before_s, MAX_TICK_S) * self._rate_per_second
            before_s = now_s
            owed -= self._send_due(int(owed))
            try:
                self._producer.poll(0)
            except KafkaException:  # it has lost its sequence: after an unclean election, or in a recreated topic
                self._renew()

    def _send_due(self, due: int) -> int:
        """Send to each partition in turn. Records for paused topics are not made up for."""
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
        """Replace the producer. Records in flight are not sent again: they may be in the log already, and values have
        to be unique."""
        with suppress(KafkaException):
            self._producer.purge()
            self._producer.flush(RENEWAL_TIMEOUT_S)
        with self._changed:
            self._producer = Producer(self._settings)
