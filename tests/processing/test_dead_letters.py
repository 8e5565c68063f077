"""Records that have failed for good, on their way to a topic through somebody else's producer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from kwire import Consumer, Header, Record, TimestampType, TopicPartition
from kwire.errors import InvalidArgumentError, KafkaError, ProcessingError
from kwire.processing import Processor, Retry, dead_letter_topic
from kwire.processing.dead_letters import ProducingProducer, SendingProducer, headers_of
from kwire.testing import Cluster

RECORD: Record[bytes, bytes] = Record(
    "orders", 3, 42, -1, TimestampType.CREATE_TIME, b"key", b"value", (Header("trace", b"7"),), None, 3, 5
)
WHENCE = [
    ("trace", b"7"),
    ("__kwire.errors.topic", b"orders"),
    ("__kwire.errors.partition", b"3"),
    ("__kwire.errors.offset", b"42"),
    ("__kwire.errors.exception", b"builtins.ValueError"),
    ("__kwire.errors.message", "zu groß".encode()),
]


@contextmanager
def kafka_python(servers: str) -> Iterator[SendingProducer]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it reads its schemas in a way that is going out of use
        from kafka import KafkaProducer
    with closing(KafkaProducer(bootstrap_servers=servers, acks="all")) as producer:
        yield producer


@contextmanager
def confluent_kafka(servers: str) -> Iterator[ProducingProducer]:
    yield Producer({"log_level": 0, "bootstrap.servers": servers, "acks": "all"})


PRODUCERS: dict[str, Callable[[str], AbstractContextManager[SendingProducer | ProducingProducer]]] = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
}


class Delivering:
    """As confluent-kafka's: callbacks are called by `poll`. Its queue is full at first."""

    def __init__(self, error: object = None) -> None:
        self.written: list[tuple[str, object, object, object]] = []
        self._error = error
        self._callbacks: list[Callable[[object, object], None]] = []
        self._is_full = True

    def produce(
        self, topic: str, value: object, key: object, *, headers: object, on_delivery: Callable[[object, object], None]
    ) -> None:
        if self._is_full:
            raise BufferError("Local: Queue full")
        self.written.append((topic, key, value, headers))
        self._callbacks.append(on_delivery)

    def poll(self, timeout: float) -> int:
        self._is_full = False
        for callback in self._callbacks:
            callback(self._error, None)
        return len(self._callbacks)


def test_headers_tell_where_a_record_comes_from_and_what_it_failed_with() -> None:
    assert headers_of(RECORD, ValueError("zu groß")) == WHENCE


def test_a_full_queue_is_waited_for_and_so_is_the_delivery() -> None:
    producer = Delivering()
    dead_letter_topic(producer, "dead")(RECORD, ValueError("zu groß"))
    assert producer.written == [("dead", b"key", b"value", WHENCE)]


def test_what_is_not_delivered_is_an_error() -> None:
    with pytest.raises(KafkaError, match=r"dead: orders-3 offset 42 not written: too large"):
        dead_letter_topic(Delivering(error="too large"), "dead")(RECORD, ValueError())


def test_what_is_no_producer_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="a list is no producer"):
        dead_letter_topic([], "dead")  # type: ignore[arg-type]


class Sending:
    """As aiokafka's producer."""

    async def send(self, topic: str, value: object, key: object, headers: object) -> None: ...


class Producing:
    """As the producer of confluent-kafka that awaits."""

    async def produce(self, topic: str, value: object, key: object) -> None: ...

    async def poll(self, timeout: float) -> int:
        return 0


class ProducingOrSending(Sending):
    """A producer of somebody's own that blocks, and has a method that awaits as well."""

    def produce(self, topic: str, value: object, key: object) -> None: ...


def test_of_a_producer_only_the_method_that_is_used_must_block() -> None:
    producer: Any = ProducingOrSending()
    assert callable(dead_letter_topic(producer, "failed"))


@pytest.mark.parametrize("kind", [Sending, Producing])
def test_a_producer_that_has_to_be_awaited_is_refused_at_once(kind: type[object]) -> None:
    """It failed over the first dead letter, perhaps a week later, and the processor stopped."""
    producer: Any = kind()
    with pytest.raises(InvalidArgumentError, match=r"has to be awaited: .*async def.* on_failure="):
        dead_letter_topic(producer, "dead")


@pytest.mark.parametrize("text", ["\ud800", "a\udcff", "ok"])
def test_any_text_of_an_exception_can_be_written(text: str) -> None:
    """One with half a surrogate pair, as `json.loads` may return, stopped the processor."""
    written = dict(headers_of(RECORD, ValueError(text)))["__kwire.errors.message"]
    assert written == text.encode(errors="backslashreplace")


class UntoldError(Exception):
    """An exception that cannot say what it is about."""

    def __str__(self) -> str:
        raise AttributeError("no attribute 'reason'")


def test_an_exception_whose_text_cannot_be_had_does_not_keep_the_record_from_its_topic() -> None:
    written = dict(headers_of(RECORD, UntoldError()))
    assert written["__kwire.errors.message"] == b""
    assert str(written["__kwire.errors.exception"]).endswith("UntoldError'")


def test_a_long_text_of_an_exception_is_cut() -> None:
    """With its record's whole value in it, a message was larger than the topic takes."""
    written = dict(headers_of(RECORD, ValueError("\u00fc" * 1_000_000)))["__kwire.errors.message"]
    assert isinstance(written, bytes)
    assert 1_000 < len(written) < 10_000
    assert written.decode().endswith("ü... (1000000 characters in all)")


@pytest.mark.slow
@pytest.mark.parametrize("library", PRODUCERS)
def test_dead_letters_arrive_in_their_topic_before_anything_is_committed(
    cluster: Cluster,
    new_consumer: Callable[..., Consumer[bytes, bytes]],
    orders: Callable[..., None],
    wait_until: Callable[[Callable[[], bool]], None],
    library: str,
) -> None:
    orders(20, keys=4)
    cluster.create_topic("dead", partitions=1)

    def handle(record: Record[bytes, bytes]) -> None:
        if record.offset % 5 == 0:
            raise ValueError(f"number {record.offset}")

    retry = Retry(max_attempts=1)
    with PRODUCERS[library](cluster.bootstrap_servers) as producer:
        bury = dead_letter_topic(producer, "dead")
        with Processor(new_consumer(), handle, ordering="key", retry=retry, on_failure=bury) as processor:
            wait_until(lambda: processor.status().handled == 20)
    assert processor.status().dead_lettered == 4
    assert cluster.committed("billing")[TopicPartition("orders", 0)].offset == 20
    reader: Consumer[bytes, bytes] = Consumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", group_id=None
    )
    found: dict[bytes | None, dict[str, bytes | None]] = {}
    with reader:
        reader.assign([TopicPartition("dead", 0)])
        while len(found) < 4:
            found.update({record.value: dict(record.headers) for record in reader.poll(10.0)})
    assert found.keys() == {b"0", b"5", b"10", b"15"}
    assert found[b"5"]["__kwire.errors.offset"] == b"5"
    assert found[b"5"]["__kwire.errors.message"] == b"number 5"


@pytest.mark.slow
def test_a_topic_that_takes_nothing_ends_the_processor(
    cluster: Cluster, new_consumer: Callable[..., Consumer[bytes, bytes]], orders: Callable[..., None]
) -> None:
    orders(3)

    def handle(_record: Record[bytes, bytes]) -> None:
        raise ValueError

    producer = Producer(
        {
            "log_level": 0,
            "bootstrap.servers": cluster.bootstrap_servers,
            "message.timeout.ms": 300,
            "allow.auto.create.topics": False,
        }
    )
    bury = dead_letter_topic(producer, "nowhere")
    with pytest.raises(ProcessingError, match="nowhere: orders-0 offset 0 not written"):
        Processor(new_consumer(), handle, retry=Retry(max_attempts=1), on_failure=bury).run()
    assert cluster.committed("billing")[TopicPartition("orders", 0)].offset == 0
