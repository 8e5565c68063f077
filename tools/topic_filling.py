"""Fills a topic for a proof or a benchmark, by librdkafka's producer: every record is acknowledged, or it fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from kwire.testing.kafka import ClusterError

TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.1
SETTINGS: Mapping[str, str | int | float | bool] = {
    "linger.ms": 50,
    "queue.buffering.max.messages": 1_000_000,
    # Report only refused records: there are millions.
    "delivery.report.only.error": True,
    "log_level": 0,
}


class Entry(NamedTuple):
    """A record to write."""

    partition: int
    value: bytes
    key: bytes | None = None


def fill(
    bootstrap_servers: str,
    topic: str,
    entries: Iterable[Entry],
    settings: Mapping[str, str | int | float | bool] | None = None,
) -> None:
    """Write the records to the topic, in this order.

    Args:
        settings: Settings of the producer that replace or extend `SETTINGS`, by librdkafka's names.

    Raises:
        ClusterError: The broker refused one, or did not acknowledge all in time.
    """
    producer = Producer({**SETTINGS, "bootstrap.servers": bootstrap_servers, **(settings or {})})
    for entry in entries:
        while True:
            try:
                producer.produce(topic, entry.value, entry.key, partition=entry.partition, on_delivery=_on_refused)
                break
            except BufferError:  # the queue is full
                producer.poll(POLL_INTERVAL_S)
    if left := producer.flush(TIMEOUT_S):
        raise ClusterError(f"{topic}: {left} records were not acknowledged within {TIMEOUT_S:.0f} s")


def _on_refused(error: KafkaError | None, message: Message[bytes, bytes]) -> None:
    if error is not None:
        raise ClusterError(f"{message.topic()}: a record was refused: {error}")
