"""`TopicPartition` and `Message`, with confluent-kafka's API."""

from __future__ import annotations

from functools import total_ordering
from types import EllipsisType
from typing import Any

from kwire.compat.confluent_kafka.kafka_error import KafkaError
from kwire.model import Record, TimestampType
from kwire.model import TopicPartition as Partition

OFFSET_BEGINNING = -2
OFFSET_END = -1
OFFSET_STORED = -1000
OFFSET_INVALID = -1001
OFFSET_TAIL = -2000
"""Minus n: the n-th record before the end. librdkafka has OFFSET_TAIL(n) for this, confluent-kafka no name."""
TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME = 0, 1, 2

_CREATE_TIME = TimestampType.CREATE_TIME
_new = object.__new__


def _known(leader_epoch: int | None) -> int | None:
    """The leader epoch; None for a negative number."""
    return None if leader_epoch is None or leader_epoch < 0 else leader_epoch


@total_ordering
class TopicPartition:
    """A partition with an offset. Two are equal if topic and partition are, whatever the offsets."""

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = _known(leader_epoch)
        self.error: KafkaError | None = None

    @property
    def key(self) -> Partition:
        """The partition as kwire's type."""
        return Partition(self.topic, self.partition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and self.key == other.key

    def __lt__(self, other: TopicPartition) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


class Message:
    """A record, or an error in its place. Programs may make messages in their tests.

    It keeps kwire's record, and converts a field when it is asked for: most programs use three or four of them.
    """

    __slots__ = ("_error", "_headers", "_latency", "_record", "_timestamp")

    _record: Record[Any, Any]
    _headers: list[tuple[str, bytes | None]] | EllipsisType | None
    """... until they are asked for, which copies of it are, too."""

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,  # noqa: ANN401  bytes, until somebody sets it
        value: Any = None,  # noqa: ANN401
        headers: list[tuple[str, bytes | None]] | None = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] | None = None,
        latency: float | None = None,
        leader_epoch: int | None = None,
        delivery_count: int | None = None,  # noqa: ARG002  of share consumers
    ) -> None:
        timestamp = timestamp or (TIMESTAMP_NOT_AVAILABLE, 0)
        place = topic, partition, offset
        time = timestamp[1], TimestampType.NO_TIMESTAMP_TYPE
        self._record = Record(*place, *time, key, value, (), _known(leader_epoch), -1, -1)  # type: ignore[arg-type]  # None
        self._headers = headers
        self._error = error
        self._timestamp: tuple[int, int] | None = timestamp
        self._latency = latency

    @classmethod
    def of(cls, record: Record[bytes, bytes]) -> Message:
        """The message for a record. Not made by `__init__`, which would take several times as long."""
        self = _new(cls)
        self._record = record
        self._headers = ...
        self._error = self._timestamp = self._latency = None
        return self

    @classmethod
    def of_error(
        cls, error: KafkaError, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> Message:
        """The message that a poll returns for an error. Its value is the error's text, so that the message is
        truthy."""
        text = error.str().encode()
        return cls(topic, partition, offset, value=text, error=error, timestamp=(TIMESTAMP_NOT_AVAILABLE, -1))

    @classmethod
    def end_of(cls, partition: Partition, offset: int) -> Message:
        """The event of `enable.partition.eof`."""
        text = f"{partition}: no more messages, its end is at offset {offset}"
        return cls.of_error(KafkaError(KafkaError._PARTITION_EOF, text), *partition, offset)

    def __len__(self) -> int:
        """The length of the value's bytes, whatever the value was replaced by."""
        value = self._record.value
        return 0 if value is None else len(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # a program may change it

    def _content(self) -> tuple[object, ...]:
        record = self._record
        place = record.topic, record.partition, record.offset, record.leader_epoch
        return *place, record.key, record.value, self.headers(), self._error, self.timestamp()[1]

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str | None:
        return self._record.topic

    def partition(self) -> int | None:
        return self._record.partition

    def offset(self) -> int | None:
        return self._record.offset

    def key(self) -> Any:  # noqa: ANN401  bytes, until somebody sets it
        return self._record.key

    def value(self) -> Any:  # noqa: ANN401
        return self._record.value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """The headers: the same list each time, which a program may change."""
        if self._headers is ...:
            self._headers = list(self._record.headers) or None
        return self._headers

    def set_key(self, key: object) -> None:
        self._record = self._record._replace(key=key)

    def set_value(self, value: object) -> None:
        self._record = self._record._replace(value=value)

    def set_topic(self, topic: str) -> None:
        self._record = self._record._replace(topic=topic)

    def set_error(self, error: KafkaError | None) -> None:
        self._error = error

    def set_headers(self, headers: list[tuple[str, bytes | None]]) -> None:
        self._headers = headers

    deserialized_key = key
    deserialized_value = value

    def timestamp(self) -> tuple[int, int]:
        """The type of the timestamp, and the milliseconds since 1970."""
        if self._timestamp is not None:
            return self._timestamp
        kind, timestamp_ms = self._record.timestamp_type, self._record.timestamp
        return (TIMESTAMP_CREATE_TIME, timestamp_ms) if kind is _CREATE_TIME else _timestamp(kind, timestamp_ms)

    def leader_epoch(self) -> int | None:
        return self._record.leader_epoch

    def latency(self) -> float | None:
        return self._latency


def _timestamp(kind: TimestampType, timestamp_ms: int) -> tuple[int, int]:
    is_known = kind is not TimestampType.NO_TIMESTAMP_TYPE
    return (TIMESTAMP_LOG_APPEND_TIME, timestamp_ms) if is_known else (TIMESTAMP_NOT_AVAILABLE, -1)
