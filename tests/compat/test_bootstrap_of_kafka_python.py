"""The constructor connects. Programs that start before their broker make a consumer again and again, until it works."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kwire.compat import kafka_python as adapter
from kwire.compat.kafka_python import errors
from kwire.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NOWHERE = "127.0.0.1:1"
WAITS_MS = 60_000


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def closed_consumers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Those of kwire that are closed from now on."""
    from kwire.consumer.sync import Consumer

    closed: list[object] = []
    close = Consumer.close

    def noted(self: Consumer[bytes, bytes], timeout: float | None = None) -> None:
        close(self, timeout)
        closed.append(self)

    monkeypatch.setattr(Consumer, "close", noted)
    return closed


def test_without_a_broker_the_constructor_raises_a_timeout() -> None:
    """As kafka-python's, which is not run here: it leaves its sockets open."""
    begun_s = time.monotonic()
    with pytest.raises(errors.KafkaTimeoutError, match=NOWHERE):
        adapter.KafkaConsumer("orders", bootstrap_servers=NOWHERE, bootstrap_timeout_ms=500)
    assert time.monotonic() - begun_s > 0.4


def test_the_timeout_says_what_happened_and_the_consumer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 2 raises NoBrokersAvailable, and most programs catch that."""
    closed = closed_consumers(monkeypatch)
    with pytest.raises(errors.NoBrokersAvailable) as caught:
        adapter.KafkaConsumer("orders", bootstrap_servers=NOWHERE, bootstrap_timeout_ms=300)
    assert isinstance(caught.value, errors.KafkaTimeoutError)
    for part in (NOWHERE, "0.3 s", "Connection refused", "start the brokers"):
        assert part in str(caught.value)
    assert len(closed) == 1


def test_a_server_that_never_answers_is_told_as_well() -> None:
    with silent_server() as servers, pytest.raises(errors.NoBrokersAvailable, match=servers):
        adapter.KafkaConsumer("orders", bootstrap_servers=servers, bootstrap_timeout_ms=300)


def test_a_program_that_tries_until_there_is_a_broker_gets_its_records(cluster: Cluster) -> None:
    """The loop that most programs begin with."""
    servers, failures = [NOWHERE, NOWHERE, cluster.bootstrap_servers], 0
    consumer = None
    while consumer is None:
        try:
            consumer = adapter.KafkaConsumer(
                "orders",
                bootstrap_servers=servers[failures],
                auto_offset_reset="earliest",
                bootstrap_timeout_ms=200 if failures < 2 else WAITS_MS,
            )
        except errors.NoBrokersAvailable:
            failures += 1
    assert failures == 2
    assert consumer.bootstrap_connected()
    assert len([next(consumer) for _ in range(6)]) == 6
    consumer.close()
    assert not consumer.bootstrap_connected()


def test_one_server_of_several_is_enough(cluster: Cluster) -> None:
    consumer = adapter.KafkaConsumer(bootstrap_servers=[NOWHERE, cluster.bootstrap_servers])
    assert consumer.bootstrap_connected()
    consumer.close()


def test_a_refused_login_is_told_at_once() -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice"}
    with Cluster(security_protocol="SASL_PLAINTEXT", users={"alice": "secret"}) as cluster:
        begun_s = time.monotonic()
        with pytest.raises(errors.SaslAuthenticationFailedError) as caught:
            adapter.KafkaConsumer(
                bootstrap_servers=cluster.bootstrap_servers,
                sasl_plain_password="wrong",
                bootstrap_timeout_ms=WAITS_MS,
                **login,
            )
        assert time.monotonic() - begun_s < WAITS_MS / 2_000
    assert caught.value.errno == 58
    assert not isinstance(caught.value, errors.NoBrokersAvailable)  # to try again would not help
    assert isinstance(caught.value, errors.AuthenticationFailedError)  # of version 2


def test_a_timeout_of_none_waits_until_there_is_a_broker(cluster: Cluster) -> None:
    with adapter.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, bootstrap_timeout_ms=None) as consumer:
        assert consumer.bootstrap_connected()


def test_with_an_api_version_the_constructor_does_not_wait_and_polls_find_nothing() -> None:
    consumer = adapter.KafkaConsumer(
        "orders", bootstrap_servers=NOWHERE, api_version=(2, 6), consumer_timeout_ms=300, bootstrap_timeout_ms=WAITS_MS
    )
    assert consumer.poll() == {}
    assert consumer.poll(300) == {}
    assert list(consumer) == []
    consumer.close()


def test_polls_without_a_broker_are_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with adapter.KafkaConsumer("orders", bootstrap_servers=NOWHERE, api_version=(2, 6)) as consumer:
        assert not consumer.bootstrap_connected()
        assert consumer.poll(500) == {}
        assert not consumer.bootstrap_connected()
    assert any("Connection refused" in line for line in caplog.messages)


def test_a_broker_that_a_poll_has_reached_is_known(cluster: Cluster) -> None:
    settings: dict[str, object] = {"api_version": (2, 6), "auto_offset_reset": "earliest"}
    with adapter.KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer:
        assert next(consumer).topic == "orders"
        assert consumer.bootstrap_connected()


def test_what_a_signal_handler_raises_in_the_constructor_closes_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    class TimeIsUpError(Exception):
        pass

    def strike(*_: object) -> None:
        raise TimeIsUpError

    closed = closed_consumers(monkeypatch)
    before = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(TimeIsUpError):
            adapter.KafkaConsumer("orders", bootstrap_servers=NOWHERE, bootstrap_timeout_ms=WAITS_MS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(closed) == 1


def test_a_deserializer_is_not_closed_when_there_is_no_broker() -> None:
    """The next attempt is made with the same one."""
    closed = []

    class Closing:
        def deserialize(self, topic: str, headers: object, data: bytes) -> bytes:
            return data

        def close(self) -> None:
            closed.append(True)

    with pytest.raises(errors.NoBrokersAvailable):
        adapter.KafkaConsumer(bootstrap_servers=NOWHERE, bootstrap_timeout_ms=100, value_deserializer=Closing())
    assert closed == []


@pytest.mark.parametrize("name", ["bootstrap_timeout_ms", "consumer_timeout_ms"])
def test_a_time_that_is_no_number_is_refused_by_name(name: str) -> None:
    with pytest.raises(errors.KafkaConfigurationError, match=f"{name}='1000'"):
        adapter.KafkaConsumer(bootstrap_servers=NOWHERE, api_version=(2, 6), **{name: "1000"})
