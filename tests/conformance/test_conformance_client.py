"""The judge's own client, against a scripted peer: what a peer does wrong becomes an error with a reason, in time."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kwire.conformance.client import BrokerAddress, ClientConnection, RawConnection
from kwire.conformance.runner import UnreachableBrokerError, run
from kwire.errors import DisconnectError, InvalidArgumentError, KafkaTimeoutError, ProtocolError
from kwire.protocol.compiler import encode_message
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMEOUT_S = 5.0
AT_ONCE_S = 0.05
ANSWER = encode_message(ApiVersionsResponse(), 0)


def answer(correlation_id: int, body: bytes = ANSWER) -> bytes:
    return (4 + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body


@contextmanager
def peer(talk: Callable[[socket.socket], None]) -> Iterator[BrokerAddress]:
    """Somebody who listens, and talks to the first who connects; the connection is closed when it has said all."""

    def serve() -> None:
        accepted, _ = server.accept()
        with accepted:
            talk(accepted)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        thread = threading.Thread(target=serve)
        thread.start()
        yield BrokerAddress(*server.getsockname())
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


def says(*data: bytes) -> Callable[[socket.socket], None]:
    """Reads a request, says this, and waits for the other to close."""

    def talk(connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT_S)
        connection.recv(1000)
        for part in data:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass

    return talk


def is_silent(connection: socket.socket) -> None:
    connection.settimeout(TIMEOUT_S)
    while connection.recv(1000):
        pass


def test_answers_come_in_order_even_in_one_piece() -> None:
    with peer(says(answer(0) + answer(1))) as address, ClientConnection(address, TIMEOUT_S) as connection:
        for _ in range(2):
            connection.send(ApiVersionsRequest(), 0)
        assert [connection.receive(), connection.receive()] == [ApiVersionsResponse(), ApiVersionsResponse()]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (answer(7), "correlation id 7 came, but 0"),
        (answer(0, ANSWER + b"\0"), "1 bytes left over"),
        (answer(0, ANSWER[:-1]), "ApiVersionsResponse"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request", "does not speak Kafka"),
    ],
)
def test_an_answer_that_breaks_the_protocol_is_an_error(said: bytes, reason: str) -> None:
    with (
        peer(says(said)) as address,
        ClientConnection(address, TIMEOUT_S) as connection,
        pytest.raises(ProtocolError, match=reason),
    ):
        connection.ask(ApiVersionsRequest(), 0)


def test_a_peer_that_closes_is_an_error() -> None:
    with (
        peer(says(answer(0)[:-2])) as address,
        ClientConnection(address, TIMEOUT_S) as connection,
        pytest.raises(DisconnectError, match="closed the connection while an answer was due"),
    ):
        connection.ask(ApiVersionsRequest(), 0)


def test_a_peer_that_is_silent_is_an_error_in_time() -> None:
    with (
        peer(is_silent) as address,
        ClientConnection(address, AT_ONCE_S) as connection,
        pytest.raises(KafkaTimeoutError, match="did not answer in time"),
    ):
        connection.ask(ApiVersionsRequest(), 0)


def test_closing_is_noticed_and_silence_is_told_from_it() -> None:
    with peer(says(b"some last words")) as address, RawConnection(address, TIMEOUT_S) as connection:
        connection.send_bytes(b"?")
        assert connection.closes_within(TIMEOUT_S)
    with peer(is_silent) as address, RawConnection(address, TIMEOUT_S) as connection:
        assert not connection.closes_within(AT_ONCE_S)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", BrokerAddress("localhost", 9092)),
        ("[::1]:9092", BrokerAddress("::1", 9092)),
        ("one:1,two:2", BrokerAddress("one", 1)),
    ],
)
def test_addresses_are_read(text: str, address: BrokerAddress) -> None:
    assert BrokerAddress.parse(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":9092", "localhost:kafka", "localhost:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="HOST:PORT"):
        BrokerAddress.parse(text)


def test_nobody_there_is_told_apart_from_a_broker_that_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
    with pytest.raises(UnreachableBrokerError, match="cannot connect"):
        run(f"{host}:{port}")


def test_another_protocol_is_no_broker() -> None:
    with (
        peer(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address,
        pytest.raises(UnreachableBrokerError, match="does not speak Kafka"),
    ):
        run(str(address))
