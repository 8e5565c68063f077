"""TLS on a connected stream, against the TLS of the standard library: every byte, every end, every refusal."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
import trio
import trustme

from kwire.config import ConsumerConfig
from kwire.errors import DisconnectError, KafkaError, SslAuthenticationError
from kwire.model import Node
from kwire.network.tcp import TcpStream
from kwire.network.tls import TlsStream
from kwire.network.tls_context import make_context
from kwire.network.tls_errors import broken
from kwire.network.tls_handshake import shake_hands

T = TypeVar("T")

NAME = "broker.example"
NODE = Node(1, NAME, 9093)
CA = trustme.CA()
CERTIFICATE = CA.issue_cert(NAME)

Server = Callable[["trio.SSLStream[trio.SocketStream]"], Awaitable[None]]


def server_context(certificate: trustme.LeafCert = CERTIFICATE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def client_context(**settings: object) -> ssl.SSLContext:
    trusted = {"ssl_truststore_certificates": CA.cert_pem.bytes().decode()}
    config = ConsumerConfig.of(
        {"bootstrap.servers": "localhost:9093", "security.protocol": "SSL", **trusted, **settings}
    )
    return make_context(config)[0]


def pair() -> tuple[TcpStream, trio.SocketStream]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return TcpStream(ours), trio.SocketStream(trio.socket.from_stdlib_socket(theirs))


async def never() -> TcpStream:
    raise OSError("no second connection in this test")


async def connected(
    server: Server, client: Callable[[TlsStream], Awaitable[T]], context: ssl.SSLContext | None = None
) -> T:
    """What the client returns, of a connection whose other end the server has."""
    ours, theirs = pair()

    async def serve() -> None:
        async with theirs:
            await server(trio.SSLStream(theirs, context or server_context(), server_side=True, https_compatible=True))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        stream = await shake_hands(ours, client_context(), NODE, never)
        found = await client(stream)
        await stream.aclose()
        nursery.cancel_scope.cancel()
    return found


async def received(stream: TlsStream, size: int) -> bytes:
    """So many bytes, as the framing takes them: into what is left of one buffer."""
    buffer, filled = memoryview(bytearray(size)), 0
    while filled < size:
        count = await stream.receive_into(buffer[filled:], size - filled)
        assert count, f"the end after {filled} of {size} bytes"
        filled += count
    return bytes(buffer)


@pytest.mark.parametrize("size", [1, 4, 100, 16_384, 16_385, 100_000, 5_000_000])
def test_all_that_is_sent_comes_back_as_it_was(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]

    async def echo(stream: trio.SSLStream[trio.SocketStream]) -> None:
        async for chunk in stream:
            await stream.send_all(chunk)

    async def client(stream: TlsStream) -> bytes:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, data)
            return await received(stream, size)

    assert trio.run(connected, echo, client) == data


def test_what_does_not_go_out_at_once_is_sent_by_send_all_and_nothing_twice() -> None:
    first, second = b"1" * 3_000_000, b"2" * 1_000_000
    seen = bytearray()
    begin = trio.Event()

    async def slow_reader(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.do_handshake()
        await begin.wait()
        while len(seen) < len(first) + len(second):
            seen.extend(await stream.receive_some())

    async def client(stream: TlsStream) -> list[int]:
        counts = [stream.send_now(first), stream.send_now(second)]
        begin.set()
        await stream.send_all(first)
        await stream.send_all(second)
        while len(seen) < len(first) + len(second):
            await trio.sleep(0)
        return counts

    assert trio.run(connected, slow_reader, client) == [0, 0]
    assert bytes(seen) == first + second


def test_a_small_request_goes_out_at_once() -> None:
    async def server(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.send_all(await stream.receive_some())

    async def client(stream: TlsStream) -> tuple[int, bytes]:
        return stream.send_now(b"request"), await received(stream, 7)

    assert trio.run(connected, server, client) == (7, b"request")


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_the_end_of_the_connection_is_told_after_all_that_came_before_it(says_goodbye: bool) -> None:
    async def server(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.send_all(b"last words")
        if says_goodbye:
            await stream.unwrap()
        await stream.transport_stream.aclose()

    async def client(stream: TlsStream) -> tuple[bytes, int]:
        buffer = memoryview(bytearray(100))
        return await received(stream, 10), await stream.receive_into(buffer, 1)

    assert trio.run(connected, server, client) == (b"last words", 0)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_connection_with_tls_is_reset_as_one_without(
    tcp_pair: tuple[TcpStream, socket.socket], is_reset: bool
) -> None:
    ours, theirs = tcp_pair
    broker = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))

    async def client() -> None:
        stream = await shake_hands(ours, client_context(), NODE, never)
        if is_reset:
            stream.reset_when_closed()
        await stream.aclose()

    async def scenario() -> bytes:
        tls = trio.SSLStream(broker, server_context(), server_side=True, https_compatible=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client)
            await tls.do_handshake()
        return bytes(await broker.receive_some())

    if is_reset:
        with pytest.raises(trio.BrokenResourceError):
            trio.run(scenario)
    else:
        assert trio.run(scenario) == b""


# --- who is accepted ------------------------------------------------------------------------------------------


async def refused(context: ssl.SSLContext, **settings: object) -> KafkaError:
    """Why the client does not get on with a server of this context."""

    async def dial() -> TcpStream:
        ours, theirs = pair()
        nursery.start_soon(serve, theirs)
        return ours

    async def serve(theirs: trio.SocketStream) -> None:
        stream = trio.SSLStream(theirs, context, server_side=True)
        async with theirs:
            with suppress(trio.BrokenResourceError):
                await stream.do_handshake()

    async with trio.open_nursery() as nursery:
        ours = await dial()
        with pytest.raises(KafkaError) as caught:
            await shake_hands(ours, client_context(**settings), NODE, dial)
        await ours.aclose()
    return caught.value


def issued(**options: object) -> ssl.SSLContext:
    return server_context(CA.issue_cert(NAME, **options))  # type: ignore[arg-type]  # not_before and not_after


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("context", "settings", "said"),
    [
        (server_context(trustme.CA().issue_cert(NAME)), {}, "unable to get local issuer certificate"),
        (server_context(trustme.CA().issue_cert(NAME)), {}, "give the authority that issued it by ssl_truststore"),
        (server_context(CA.issue_cert("elsewhere.example")), {}, "Hostname mismatch, certificate is not valid for"),
        (server_context(CA.issue_cert("elsewhere.example")), {}, "for elsewhere.example; reach the broker by a name"),
        (issued(not_after=NOW - timedelta(days=1)), {}, "certificate has expired"),
        (issued(not_after=NOW - timedelta(days=1)), {}, f"to {NOW - timedelta(days=1):%Y-%m-%d}, for {NAME}"),
        (issued(not_before=NOW + timedelta(days=1)), {}, "certificate is not yet valid"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_named_with_what_to_do(
    context: ssl.SSLContext, settings: dict[str, object], said: str
) -> None:
    error = trio.run(lambda: refused(context, **settings))

    assert isinstance(error, SslAuthenticationError)
    assert f"broker {NODE} is not trusted: " in str(error)
    assert "; its certificate: O=trustme" in str(error)
    assert said in str(error)


def test_client_and_broker_without_a_common_version_of_tls_are_told() -> None:
    context = server_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, refuse, context, theirs)
            with pytest.raises(SslAuthenticationError, match="no common version of TLS: see ssl_enabled_protocols"):
                await shake_hands(TcpStream(ours), client_context(ssl_enabled_protocols="TLSv1.3"), NODE, never)
            ours.close()

    trio.run(run)


def refuse(context: ssl.SSLContext, theirs: socket.socket) -> None:
    """A server that says why it does not like its client, as brokers do and trio does not."""
    with theirs, pytest.raises(ssl.SSLError):
        context.wrap_socket(theirs, server_side=True)


def test_any_name_will_do_if_names_are_not_checked_and_the_name_is_sent_all_the_same() -> None:
    context = server_context(CA.issue_cert("elsewhere.example"))
    asked_for = list[str]()
    context.sni_callback = lambda _socket, name, _context: asked_for.append(name)

    async def run() -> None:
        ours, theirs = pair()
        async with theirs, trio.open_nursery() as nursery:
            nursery.start_soon(trio.SSLStream(theirs, context, server_side=True).do_handshake)
            client = client_context(ssl_endpoint_identification_algorithm="")
            await (await shake_hands(ours, client, NODE, never)).aclose()
            nursery.cancel_scope.cancel()

    trio.run(run)
    assert asked_for == [NAME]


@pytest.mark.parametrize(
    ("answer", "error_class", "said"),
    [
        (b"", DisconnectError, "hung up during the TLS handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", SslAuthenticationError, "does not speak TLS at this port"),
        (b"\x00\x00\x00\x0a" + bytes(10), SslAuthenticationError, "does not speak TLS at this port"),
    ],
)
def test_a_peer_that_does_not_speak_tls_is_told_apart(answer: bytes, error_class: type[Exception], said: str) -> None:
    async def run() -> None:
        ours, theirs = pair()

        async def serve() -> None:
            await theirs.receive_some()
            if answer:
                await theirs.send_all(answer)
            await theirs.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with pytest.raises(error_class, match=said):
                await shake_hands(ours, client_context(), NODE, never)
            await ours.aclose()

    trio.run(run)


@pytest.mark.parametrize(
    ("client_certificate", "said"),
    [
        (None, "ssl_keystore_location"),
        (
            trustme.CA().issue_cert("stranger"),
            "the broker refuses this client's certificate: it does not know the auth",
        ),
    ],
)
def test_a_refused_client_certificate_is_told_by_the_first_answer(
    client_certificate: trustme.LeafCert | None, said: str
) -> None:
    context = server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    CA.configure_trust(context)
    client = client_context()
    if client_certificate is not None:
        client_certificate.configure_cert(client)

    async def run() -> KafkaError:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, refuse, context, theirs)
            stream = await shake_hands(TcpStream(ours), client, NODE, never)
            with pytest.raises(ssl.SSLError) as caught:
                await stream.receive_into(memoryview(bytearray(10)), 1)
            await stream.aclose()
        return broken(caught.value, NODE, None)

    error = trio.run(run)
    assert isinstance(error, SslAuthenticationError)
    assert said in str(error)


@pytest.mark.parametrize("name", ["a" * 64 + ".example", ".", ".broker.example"])
def test_a_name_that_the_resolver_takes_and_tls_does_not_breaks_the_connection_alone(name: str) -> None:
    """A broker that names itself so in metadata ended the network thread."""

    async def run() -> None:
        ours, theirs = pair()
        with pytest.raises(OSError, match=r"is no name that TLS could ask for: '?\w+"):
            await shake_hands(ours, client_context(), Node(1, name, 9093), never)
        await ours.aclose()
        await theirs.aclose()

    trio.run(run)
