"""Whatever is wrong, the call says so in a sentence, within its time, and the consumer stays usable or closes."""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.errors import (
    BootstrapError,
    ConcurrentModificationError,
    ConfigError,
    IllegalStateError,
    InvalidArgumentError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.config import Settings
    from tests.integration.conftest import MakeTopic
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer
    from tests.integration.kafkas import SharedKafka

TP = TopicPartition("some-topic", 0)


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Listens, and does the same to everybody who connects. Not a Kafka."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection: socket.socket) -> None:
        with closing(connection):
            try:
                answer(connection)
            except OSError:
                return  # kwire hung up

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def hang_up(connection: socket.socket) -> None:
    connection.recv(10_000)


def speak_http(connection: socket.socket) -> None:
    connection.recv(10_000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def ask_for_tls(connection: socket.socket) -> None:
    connection.recv(10_000)
    connection.sendall(bytes([0x15, 3, 3, 0, 2, 2, 10]))  # a fatal alert: unexpected message


def echo(connection: socket.socket) -> None:
    while data := connection.recv(10_000):
        connection.sendall(data)


def say_nothing(connection: socket.socket) -> None:
    while connection.recv(10_000):
        pass


def unreachable(servers: str) -> Consumer[bytes, bytes]:
    return Consumer(
        bootstrap_servers=servers,
        group_id="nobody",
        request_timeout_ms=200,
        socket_connection_setup_timeout_ms=200,
        socket_connection_setup_timeout_max_ms=200,
    )


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            hang_up,
            "it hung up during the version handshake; is this a listener for PLAINTEXT?",
        ),
        (speak_http, "this port does not speak Kafka: it answers 'HTTP'"),
        (ask_for_tls, "it answers in TLS: this port wants an encrypted connection"),
        (echo, "broker 127.0.0.1:"),
        (
            say_nothing,
            "no answer to ApiVersions in time; is this a listener for PLAINTEXT?",
        ),
    ],
    ids=["hangs-up", "http", "tls", "echo", "black-hole"],
)
def test_what_is_no_kafka_is_named_with_the_reason(answer: Callable[[socket.socket], None], sentence: str) -> None:
    with server(answer) as address, unreachable(address) as consumer:
        consumer.assign([TP])
        with pytest.raises(BootstrapError, match=re.escape(sentence)) as caught:
            consumer.poll(0.6)
        assert str(caught.value).startswith(f"no broker can be reached: broker {address}")
        waiting = rf"topic 'some-topic', not known yet \(last error: .*broker {address}"
        with pytest.raises(KafkaTimeoutError, match=waiting):
            consumer.end_offsets([TP], timeout=0.3)


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("no-such-host.invalid:9092", "not known|resolution"),  # the resolver's words, which differ
        ("a..b:9092", "'a..b' with port 9092 is no address"),
        (f"{'a' * 64}:9092", "is no address"),
        ("127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1: Connection refused; broker 127.0.0.1:2: Connection refused"),
    ],
)
def test_what_cannot_be_reached_is_named_with_the_reason(servers: str, reason: str) -> None:
    """Some of these names made the resolver's wrapper raise UnicodeError, of which the network thread died."""
    with unreachable(servers) as consumer:
        consumer.subscribe(["some-topic"])
        with pytest.raises(BootstrapError, match=reason):
            consumer.poll(0.5)
        started_s = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=f"waiting for.*({reason})"):
            consumer.committed([TP], timeout=0.5)
        assert 0.4 < time.monotonic() - started_s < 2
    assert time.monotonic() - started_s < 3  # closing waits for nothing that cannot come


def test_one_bad_server_does_not_hide_a_good_one(kafka: SharedKafka, topic: MakeTopic) -> None:
    name = topic()
    with closing(unreachable(f"127.0.0.1:1,a..b:9,{kafka.bootstrap_servers}")) as consumer:
        assert len(consumer.partitions_for(name, timeout=20)) == 1


def test_a_black_hole_does_not_hide_a_good_server(kafka: SharedKafka, topic: MakeTopic) -> None:
    name = topic()
    with server(say_nothing) as hole, closing(unreachable(f"{hole},{kafka.bootstrap_servers}")) as consumer:
        assert len(consumer.partitions_for(name, timeout=20)) == 1


# --- topics that are not there -----------------------------------------------------------------------------------


def test_an_unknown_topic_is_named_by_what_waits_for_it(open_consumer: OpenConsumer, group_id: str) -> None:
    missing = TopicPartition(f"missing-{group_id}", 0)
    consumer = open_consumer(group_id=group_id, allow_auto_create_topics=False)
    assert consumer.partitions_for(missing.topic) == []
    with pytest.raises(
        KafkaTimeoutError, match=f"end_offsets took too long.*topic '{missing.topic}', which does not exist"
    ):
        consumer.end_offsets([missing], timeout=0.3)
    consumer.assign([missing])
    assert not consumer.poll(0.1)
    with pytest.raises(KafkaTimeoutError, match=f"position of {missing} took too long.*{missing.topic}"):
        consumer.position(missing, timeout=0.3)
    assert missing.topic not in consumer.list_topics()


def test_an_unknown_partition_of_a_topic_is_named(topic: MakeTopic, open_consumer: OpenConsumer) -> None:
    absent = TopicPartition(topic(), 7)
    with pytest.raises(KafkaTimeoutError, match=f"partition {absent}, which does not exist"):
        open_consumer().end_offsets([absent], timeout=0.3)


def test_a_topic_name_that_no_broker_takes(open_consumer: OpenConsumer, group_id: str) -> None:
    consumer = open_consumer(group_id=group_id)
    with pytest.raises(InvalidTopicError, match=r"'no good!'.*use 1 to 249 of"):
        consumer.partitions_for("no good!")
    consumer.subscribe(["no good!"])
    with pytest.raises(InvalidTopicError):
        consumer.poll(10.0)


# --- arguments ---------------------------------------------------------------------------------------------------

BAD_CALLS: list[tuple[str, Callable[[BytesConsumer], object], str]] = [
    ("poll: negative", lambda c: c.poll(-1), "a timeout cannot be negative: -1"),
    ("poll: nan", lambda c: c.poll(math.nan), "a timeout cannot be negative: nan"),
    ("poll: text", lambda c: c.poll("1"), "a timeout is a number of seconds or a timedelta, not '1'"),  # type: ignore[arg-type]
    ("healthy: negative", lambda c: c.healthy(max_lag=-1), "max_lag cannot be negative: -1"),
    ("healthy: text", lambda c: c.healthy(max_lag="1"), "max_lag must be a whole number, not '1'"),  # type: ignore[arg-type]
    ("close: text", lambda c: c.close("1"), "a timeout is a number"),  # type: ignore[arg-type]
    ("seek: negative", lambda c: c.seek(TP, -1), "the offset for some-topic-0 cannot be negative: -1"),
    ("seek: fraction", lambda c: c.seek(TP, 1.5), "must be a whole number, not 1.5"),  # type: ignore[arg-type]
    ("seek: text", lambda c: c.seek(TP, "1"), "must be a whole number, not '1'"),  # type: ignore[arg-type]
    ("seek: too large", lambda c: c.seek(TP, 2**63), "cannot be above 9223372036854775807"),
    ("seek: not a partition", lambda c: c.seek("some-topic", 0), "expected a TopicPartition"),  # type: ignore[arg-type]
    ("commit: number", lambda c: c.commit_sync({TP: 1}), "expected OffsetAndMetadata, not 1"),  # type: ignore[dict-item]
    ("commit: list", lambda c: c.commit_sync([TP]), "expected a mapping of partitions"),  # type: ignore[arg-type]
    ("commit: text as key", lambda c: c.commit_sync({"t": OffsetAndMetadata(1)}), "expected a TopicPartition, not 't'"),  # type: ignore[dict-item]
    ("commit: text", lambda c: c.commit_sync({TP: OffsetAndMetadata("1")}), "a whole number, not '1'"),  # type: ignore[arg-type]
    ("commit: fraction", lambda c: c.commit_sync({TP: OffsetAndMetadata(1.5)}), "a whole number, not 1.5"),  # type: ignore[arg-type]
    ("commit: epoch", lambda c: c.commit_async({TP: OffsetAndMetadata(1, "", -3)}), "epoch .* cannot be negative: -3"),
    ("commit: no metadata", lambda c: c.commit_sync({TP: OffsetAndMetadata(1, None)}), "must be text, not None"),  # type: ignore[arg-type]
    ("commit: half a character", lambda c: c.commit_sync({TP: OffsetAndMetadata(1, "\ud800")}), "not valid Unicode"),
    ("commit: long", lambda c: c.commit_sync({TP: OffsetAndMetadata(1, "x" * 40_000)}), "takes 40000 bytes"),
    ("committed: single", lambda c: c.committed(TP), "a collection of partitions, not the single TopicPartition"),  # type: ignore[arg-type]
    ("committed: text", lambda c: c.committed("t"), "expected partitions, not 't'"),  # type: ignore[arg-type]
    ("ends: nothing", lambda c: c.end_offsets(None), "expected partitions, not None"),  # type: ignore[arg-type]
    ("ends: number as text", lambda c: c.end_offsets([TopicPartition("t", "0")]), "a whole number, not '0'"),  # type: ignore[arg-type]
    ("times: negative", lambda c: c.offsets_for_times({TP: -1}), "timestamp for some-topic-0 cannot be negative: -1"),
    ("times: list", lambda c: c.offsets_for_times([TP]), "expected a mapping"),  # type: ignore[arg-type]
    ("assign: negative", lambda c: c.assign([TopicPartition("t", -1)]), "cannot be negative: -1"),
    ("assign: blank", lambda c: c.assign([TopicPartition(" ", 0)]), "a topic name cannot be ' '"),
    ("assign: text", lambda c: c.assign("abc"), "expected partitions, not 'abc'"),  # type: ignore[arg-type]
    ("subscribe: number", lambda c: c.subscribe([5]), "a topic name must be a str, not 5"),  # type: ignore[list-item]
    ("subscribe: bytes", lambda c: c.subscribe(b"t"), "expected topic names or a compiled pattern"),  # type: ignore[arg-type]
    ("subscribe: bytes pattern", lambda c: c.subscribe(re.compile(b"t")), "must be one for text"),  # type: ignore[arg-type]
    ("subscribe: half a character", lambda c: c.subscribe("\ud800"), "not valid Unicode"),
    ("partitions_for: empty", lambda c: c.partitions_for(""), "a topic name cannot be ''"),
    ("pause: single", lambda c: c.pause(TP), "not the single TopicPartition"),  # type: ignore[arg-type]
    ("enforce_rebalance: number", lambda c: c.enforce_rebalance(5), "a reason is text, not 5"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "sentence"), [case[1:] for case in BAD_CALLS], ids=[case[0] for case in BAD_CALLS])
def test_a_bad_argument_is_refused_by_the_call_that_got_it(
    call: Callable[[BytesConsumer], object], sentence: str
) -> None:
    """Many of these once travelled to the network thread, which died of them. No broker is needed to refuse them."""
    with unreachable("127.0.0.1:1") as consumer:
        consumer.assign([TP])
        if sentence.startswith(("a topic is named", "expected topic", "must be one")):
            consumer.unsubscribe()
        with pytest.raises(InvalidArgumentError, match=sentence):
            call(consumer)
        consumer.paused()  # raises if the network thread has died


BAD_SETTINGS: list[tuple[Settings | dict[str, object], str]] = [
    ({"group.idd": "x"}, "group.id"),
    ({"max_poll_records": 0}, "max_poll_records=0.*1 to"),
    ({"auto_offset_reset": "middle"}, "auto_offset_reset='middle'"),
    ({"bootstrap_servers": "no-port"}, "'no-port' has no port"),
    ({"bootstrap_servers": ""}, "no server"),
    ({"group_id": "\ud800"}, "group_id='.ud800'.*not valid Unicode"),
    ({"enable_auto_commit": True}, "needs a group_id"),
]


@pytest.mark.parametrize(("settings", "sentence"), BAD_SETTINGS)
def test_a_bad_setting_is_refused_before_anything_is_started(settings: dict[str, object], sentence: str) -> None:
    threads = threading.active_count()
    with pytest.raises(ConfigError, match=sentence):
        Consumer(config={"bootstrap_servers": "localhost:1", **settings})
    assert threading.active_count() == threads


# --- calls at the wrong time -------------------------------------------------------------------------------------


@pytest.mark.threads(reason="tasks are not refused")
def test_a_second_thread_is_refused_and_changes_nothing() -> None:
    refused: list[KafkaError] = []
    with unreachable("127.0.0.1:1") as consumer:
        consumer.assign([TP])

        def use_it_too() -> None:
            # The main thread's poll has begun by the time it fails over there being no broker.
            while not refused and not over.is_set():
                try:
                    consumer.poll(0)
                except ConcurrentModificationError as error:
                    refused.append(error)
                except KafkaError:
                    pass

        over = threading.Event()
        thread = threading.Thread(target=use_it_too, name="second")
        with consumer._guard:  # as inside any call
            thread.start()
            over.wait(0.05)
            assert refused
        over.set()
        thread.join()
        assert consumer.assignment() == {TP}
    assert "used by thread 'MainThread'; thread 'second' must not use it at the same time" in str(refused[0])


def test_a_closed_consumer_says_so() -> None:
    consumer = unreachable("127.0.0.1:1")
    consumer.close()
    consumer.close()
    calls: list[Callable[[], object]] = [
        consumer.poll,
        consumer.assignment,
        consumer.commit_sync,
        consumer.list_topics,
        consumer.unsubscribe,
        lambda: consumer.subscribe("t"),
        lambda: consumer.assign([TP]),
        lambda: consumer.seek(TP, 0),
        lambda: consumer.position(TP),
        lambda: consumer.end_offsets([TP]),
    ]
    for call in calls:
        with pytest.raises(IllegalStateError, match="this consumer is closed"):
            call()
    assert list(consumer) == []
    assert "closed" in repr(consumer)
    consumer.wakeup()


def test_topics_and_partitions_by_hand_do_not_mix() -> None:
    with unreachable("127.0.0.1:1") as consumer:
        consumer.assign([TP])
        with pytest.raises(IllegalStateError, match=r"assigned by hand; unsubscribe\(\) before subscribing"):
            consumer.subscribe(["t"])
        consumer.unsubscribe()
        consumer.subscribe(["t"])
        with pytest.raises(IllegalStateError, match=r"topics are subscribed; unsubscribe\(\) before assigning"):
            consumer.assign([TP])
