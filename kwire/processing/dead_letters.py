"""`dead_letter_topic`: records that have failed for good go to a topic, through a producer that the user has.

    Processor(consumer, bill, on_failure=dead_letter_topic(producer, "orders-dead"))

kwire has no producer; kafka-python's and confluent-kafka's are known by the one method each of them has. Contract: many
workers may call it at once, and it returns when the broker has acknowledged the record: nothing is committed that is
neither done nor kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from kwire.clock import Deadline
from kwire.errors import InvalidArgumentError, KafkaError, KafkaTimeoutError, RecordDeserializationError
from kwire.model import K, Record, V
from kwire.unfinished import is_coroutine

ACKNOWLEDGED_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.1
# The headers of Kafka Streams for failed records (KIP-1034), with kwire's name in place of theirs.
_PREFIX = "__kwire.errors."

# Characters of an exception's text. Some have a whole record in it, or an answer of a server.
_LONGEST_TEXT = 2_000

Headers: TypeAlias = list[tuple[str, str | bytes | None]]
Written: TypeAlias = str | bytes | None
"""A key or a value. A producer with serializers takes whatever these take."""


class FutureOfSend(Protocol):
    """What `SendingProducer.send` answers."""

    def get(self, timeout: float) -> object: ...


class SendingProducer(Protocol):
    """As `kafka.KafkaProducer` is: bytes, unless it has serializers of its own."""

    def send(self, topic: str, value: Written, key: Written, headers: Headers) -> FutureOfSend: ...


class ProducingProducer(Protocol):
    """As `confluent_kafka.Producer` is."""

    def produce(
        self,
        topic: str,
        value: Written,
        key: Written,
        *,
        headers: Headers,
        on_delivery: Callable[[object, object], None],
    ) -> object: ...

    def poll(self, timeout: float) -> int: ...


class DeadLetterTopic(Protocol):
    """A `DeadLetter` for records of any kind."""

    def __call__(self, record: Record[K, V], error: Exception) -> None: ...


def dead_letter_topic(producer: SendingProducer | ProducingProducer, topic: str) -> DeadLetterTopic:
    """A function for `Processor(on_failure=...)` that sends failed records to a topic.

    Key, value and headers are sent as deserialized: a producer with matching serializers makes the same bytes of them.
    Of a record that cannot be deserialized the bytes of the log are sent. So serializers have to return bytes as they
    are, and None as well: otherwise a tombstone becomes a value. Further headers say where the record comes from, and
    what it failed with.

    Args:
        producer: A producer of kafka-python or confluent-kafka, with acks=all. The user closes it.
        topic: The topic for failed records.

    Raises:
        InvalidArgumentError: The producer has neither `produce()` nor `send()`, or it has to be awaited.
    """
    if hasattr(producer, "produce"):
        _check_blocks(producer, "produce")
        return _ByProduce(cast("ProducingProducer", producer), topic)
    if hasattr(producer, "send"):
        _check_blocks(producer, "send")
        return _BySend(producer, topic)
    raise InvalidArgumentError(f"a {type(producer).__name__} is no producer: it has neither produce() nor send()")


def _check_blocks(producer: object, name: str) -> None:
    """Raise an error for the producers that have this method, too, as a coroutine function."""
    if is_coroutine(getattr(producer, name)):
        raise InvalidArgumentError(
            f"{name}() of a {type(producer).__name__} has to be awaited: give dead_letter_topic a producer of "
            "kafka-python or confluent-kafka whose methods block. Or, with an async handler, write a function "
            "`async def keep(record, error)` that awaits this one, and give it as on_failure="
        )


def key_and_value_of(record: Record[K, V], error: Exception) -> tuple[Written, Written]:
    """As deserialized, or as they are in the log."""
    if isinstance(error, RecordDeserializationError):
        return error.key_data, error.value_data
    return cast("Written", record.key), cast("Written", record.value)


def headers_of(record: Record[K, V], error: Exception) -> Headers:
    """The record's own, and where it comes from and what it failed with."""
    told = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": _text_of(error),
    }
    # Half a surrogate pair, as texts of JSON may have it, is not to be encoded otherwise.
    encoded = ((_PREFIX + name, text.encode(errors="backslashreplace")) for name, text in told.items())
    return [*record.headers, *encoded]


def _text_of(error: Exception) -> str:
    """What it says, cut to what a broker takes beside the record; nothing if its `__str__` fails."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  whatever it is, the record has to get to its topic
        return ""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT]}... ({len(text)} characters in all)"


@dataclass(frozen=True, slots=True)
class _BySend:
    producer: SendingProducer
    topic: str

    def __call__(self, record: Record[K, V], error: Exception) -> None:
        # kafka-python knows no header without a value.
        headers: Headers = [(name, value or b"") for name, value in headers_of(record, error)]
        key, value = key_and_value_of(record, error)
        self.producer.send(self.topic, value=value, key=key, headers=headers).get(timeout=ACKNOWLEDGED_WITHIN_S)


@dataclass(frozen=True, slots=True)
class _ByProduce:
    producer: ProducingProducer
    topic: str

    def __call__(self, record: Record[K, V], error: Exception) -> None:
        deadline = Deadline.after(1000.0 * ACKNOWLEDGED_WITHIN_S)
        is_told = threading.Event()
        told: list[object] = []

        def on_delivery(failure: object, _message: object) -> None:
            told.append(failure)
            is_told.set()

        while not self._is_taken(record, error, on_delivery):
            self._poll(deadline)
        while not is_told.is_set():  # a thread that polls serves the others' callbacks too
            self._poll(deadline)
        if told[0] is not None:
            raise KafkaError(f"{self.topic}: {record.topic_partition} offset {record.offset} not written: {told[0]}")

    def _is_taken(self, record: Record[K, V], error: Exception, on_delivery: Callable[[object, object], None]) -> bool:
        key, value = key_and_value_of(record, error)
        headers = headers_of(record, error)
        try:
            self.producer.produce(self.topic, value=value, key=key, headers=headers, on_delivery=on_delivery)
        except BufferError:  # its queue is full
            return False
        return True

    def _poll(self, deadline: Deadline) -> None:
        if deadline.expired:
            raise KafkaTimeoutError(f"{self.topic}: not written within {ACKNOWLEDGED_WITHIN_S:.0f} s")
        self.producer.poll(_LOOK_AGAIN_S)
