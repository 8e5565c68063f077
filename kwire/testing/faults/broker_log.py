"""The logs of the brokers at the end of a run: every partition, read from start to end without the proxies.

    logs = read_logs(kafka.direct_servers, {"orders": 6})
    found = reconcile(recorder, logs)

The harness calls it when all faults are healed and sending has ended. `reconciliation.py` compares it with the ledger.
librdkafka reads the logs, not the client under test.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from kwire.model import TopicPartition
from kwire.testing.faults.payload import identity
from kwire.testing.faults.traffic import CLIENT_ID
from kwire.testing.kafka.jars import ClusterError

TIMEOUT_S = 60.0
MAX_RECORDS = 1_000  # of one call
POLL_S = 0.2
REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of a broker's log, with the identity of its value. `appended_ms` is wall-clock time."""

    value: str
    appended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLog:
    """The log of one partition, from its first offset up to and without its end; offsets may be missing."""

    start: int
    end: int
    records: Mapping[int, LogRecord] = field(default_factory=dict)


def read_logs(
    direct_servers: str, topics: Mapping[str, int], *, read_committed: bool = False, timeout_s: float = TIMEOUT_S
) -> dict[TopicPartition, BrokerLog]:
    """Args:
    topics: the number of partitions of each topic. A topic that was deleted is left out.
    read_committed: whether to leave aborted records out.

    Raises:
        ClusterError: not all logs could be read in time.
    """
    deadline_s = time.monotonic() + timeout_s
    consumer = _consumer(direct_servers, "read_committed" if read_committed else "read_uncommitted")
    try:
        ends = {tp: _bounds(consumer, tp, deadline_s) for tp in _partitions(topics)}
        return _read(consumer, {tp: bounds for tp, bounds in ends.items() if bounds is not None}, deadline_s)
    finally:
        consumer.close()


def log_starts(direct_servers: str, topics: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The first offset of each partition now."""
    consumer = _consumer(direct_servers, "read_uncommitted")
    try:
        deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
        found = {tp: _bounds(consumer, tp, deadline_s) for tp in _partitions(topics)}
        return {tp: bounds[0] for tp, bounds in found.items() if bounds is not None}
    finally:
        consumer.close()


def _consumer(direct_servers: str, isolation_level: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": direct_servers,
            "client.id": CLIENT_ID,
            "group.id": CLIENT_ID,  # which is never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "check.crcs": True,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "log_level": 0,
        }
    )


def _partitions(topics: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, partitions in topics.items() for number in range(partitions)]


def _bounds(consumer: Consumer, partition: TopicPartition, deadline_s: float) -> tuple[int, int] | None:
    """The start and the end of a partition; None if it does not exist."""
    while True:
        try:
            return consumer.get_watermark_offsets(Place(*partition), timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            if _is_unknown(error):
                return None
            if time.monotonic() > deadline_s:
                raise ClusterError(f"nobody tells where {partition} begins and ends: {error}") from error


def _is_unknown(error: KafkaException) -> bool:
    unknown = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
    return isinstance(error.args[0], KafkaError) and error.args[0].code() in unknown


def _read(
    consumer: Consumer, bounds: Mapping[TopicPartition, tuple[int, int]], deadline_s: float
) -> dict[TopicPartition, BrokerLog]:
    """Read all partitions at once. Nothing is appended meanwhile, so their ends do not move."""
    found: dict[TopicPartition, dict[int, LogRecord]] = {tp: {} for tp in bounds}
    left = set(bounds)
    consumer.assign([Place(*tp, OFFSET_BEGINNING) for tp in bounds])
    while left:
        for message in consumer.consume(MAX_RECORDS, POLL_S):
            _take(message, found, left)
        if time.monotonic() > deadline_s:
            raise ClusterError(f"the logs of {', '.join(map(str, sorted(left)))} could not be read to their ends")
    return {
        tp: BrokerLog(start=start, end=end, records=dict(sorted(found[tp].items())))
        for tp, (start, end) in bounds.items()
    }


def _take(
    message: Message[bytes, bytes], found: dict[TopicPartition, dict[int, LogRecord]], left: set[TopicPartition]
) -> None:
    topic, partition, offset, error = message.topic(), message.partition(), message.offset(), message.error()
    if topic is None or partition is None or offset is None:
        return  # news of the connection: librdkafka tries again
    at = TopicPartition(topic, partition)
    if error is None:
        text = (message.value() or b"").decode(errors="replace")
        found[at][offset] = LogRecord(identity(text), message.timestamp()[1])
    elif error.code() == KafkaError._PARTITION_EOF:
        left.discard(at)
