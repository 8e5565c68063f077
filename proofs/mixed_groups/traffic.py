"""A steady stream of numbered records into every partition of a topic, written by librdkafka.

`prove.py` runs one beside its group. What was acknowledged is the truth that the members are judged by: an
idempotent producer, so each partition's offsets count its records, without gaps and without repetitions.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from proofs.mixed_groups.rules import Produced

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import KafkaError, Message

FLUSH_TIMEOUT_S = 30.0


class Traffic:
    """Writes one record to each partition every `interval_s`, from `__enter__` to `stop`."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, *, interval_s: float) -> None:
        self._topic = topic
        self._interval_s = interval_s
        settings = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 3}
        self._producer = Producer(settings)
        self._times_ms: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
        self._errors: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def stop(self) -> Produced:
        """Everything that was written, once all of it is acknowledged.

        Raises:
            KafkaException: something was not.
        """
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if left or self._errors:
            raise KafkaException(f"{left} records not acknowledged; {self._errors[:1]}")
        return Produced(times_ms=self._times_ms)

    def _run(self) -> None:
        number = 0
        next_s = time.monotonic()
        while not self._stopping.is_set():
            for partition in self._times_ms:
                self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._note)
                number += 1
            self._producer.poll(0)
            next_s += self._interval_s
            self._stopping.wait(next_s - time.monotonic())

    def _note(self, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset != len(self._times_ms[partition]):
            self._errors.append(f"offset {offset} of partition {partition}: {error}")
        else:
            _, created_ms = message.timestamp()
            self._times_ms[partition].append(created_ms)
