"""The client of toxiproxy: every toxic does what it says, on the stream it is put on, until it is taken away."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from kwire.errors import InvalidArgumentError
from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.toxics import (
    Bandwidth,
    Latency,
    LimitData,
    ResetPeer,
    Slicer,
    SlowClose,
    Timeout,
    Toxic,
)
from kwire.testing.faults.proxies.toxiproxy import Proxy, Toxiproxy, ToxiproxyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.testing.faults.proxies.toxiproxy_server import ToxiproxyServer
    from tests.testing.faults.proxies.kafka_like import FETCH, Client, FrameServer, answer, read_exactly, request
else:
    from kafka_like import FETCH, Client, FrameServer, answer, read_exactly, request

pytestmark = pytest.mark.integration

NAME = "a name with?signs"


@pytest.fixture
def toxiproxy(toxiproxy_server: ToxiproxyServer) -> Toxiproxy:
    return toxiproxy_server.client


@pytest.fixture
def server() -> Iterator[FrameServer]:
    with FrameServer() as server:
        yield server


@pytest.fixture
def proxy(toxiproxy: Toxiproxy, server: FrameServer) -> Iterator[Proxy]:
    host, port = server.address
    yield toxiproxy.create(NAME, upstream=f"{host}:{port}")
    toxiproxy.delete(NAME)


def connect(proxy: Proxy) -> Client:
    host, port = proxy.listen.split(":")
    return Client((host, int(port)))


def took_s(client: Client, body: bytes = b"body") -> float:
    begun_s = time.monotonic()
    assert client.ask(body=body) == answer(1, body)
    return time.monotonic() - begun_s


# --- proxies --------------------------------------------------------------------------------------------------------


def test_it_says_which_version_it_is(toxiproxy_server: ToxiproxyServer) -> None:
    assert toxiproxy_server.version == "2.12.0"


def test_bytes_pass_through_a_new_proxy(toxiproxy: Toxiproxy, server: FrameServer, proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert client.ask() == answer(1, b"body")
    assert toxiproxy.proxies() == (proxy,)
    assert toxiproxy.proxy(NAME) == proxy
    assert (proxy.name, proxy.is_enabled, proxy.toxics) == (NAME, True, ())
    assert proxy.upstream == f"{server.address[0]}:{server.address[1]}"


def test_a_disabled_proxy_breaks_off_and_refuses(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.ask()
        toxiproxy.disable(NAME)
        assert client.has_ended()
    assert not toxiproxy.proxy(NAME).is_enabled
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    toxiproxy.enable(NAME)
    with connect(proxy) as client:
        assert client.ask() == answer(1, b"body")


def test_a_proxy_is_led_to_another_server(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with FrameServer(lambda *_: b"another") as another:
        toxiproxy.lead_to(NAME, f"{another.address[0]}:{another.address[1]}")
        with connect(proxy) as client:
            assert client.ask() == answer(1, b"another")


def test_reset_enables_all_and_takes_toxics_away(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add(NAME, Timeout())
    toxiproxy.disable(NAME)
    toxiproxy.reset()
    assert toxiproxy.proxy(NAME) == proxy
    with connect(proxy) as client:
        assert client.ask() == answer(1, b"body")


def test_errors_are_in_the_servers_words(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with pytest.raises(ToxiproxyError, match="proxy already exists") as error:
        toxiproxy.create(NAME, upstream="127.0.0.1:1")
    assert error.value.status == 409
    with pytest.raises(ToxiproxyError, match="proxy not found") as error:
        toxiproxy.delete("nobody")
    assert error.value.status == 404
    with pytest.raises(ToxiproxyError, match="toxic not found"):
        toxiproxy.remove(NAME, "nothing")


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(ToxiproxyError, match=rf"127\.0\.0\.1:{port} does not answer: .*refused") as error:
        Toxiproxy("127.0.0.1", port).version()
    assert error.value.status == 0


# --- toxics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", Stream)
def test_latency(toxiproxy: Toxiproxy, proxy: Proxy, stream: Stream) -> None:
    with connect(proxy) as client:
        name = toxiproxy.add(NAME, Latency(latency_ms=60, jitter_ms=1, stream=stream))
        assert toxiproxy.proxy(NAME).toxics == (name,) == (f"latency_{stream.value}",)
        assert took_s(client) >= 0.059
        toxiproxy.update(NAME, name, Latency(latency_ms=90, stream=stream))
        assert took_s(client) >= 0.09
        toxiproxy.remove(NAME, name)
        assert min(took_s(client) for _ in range(10)) < 0.05
    assert toxiproxy.proxy(NAME).toxics == ()


def test_bandwidth(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add(NAME, Bandwidth(rate_kb_per_s=200))
    with connect(proxy) as client:
        assert took_s(client, bytes(20_000)) >= 0.09


def test_slow_close(toxiproxy: Toxiproxy, server: FrameServer, proxy: Proxy) -> None:
    toxiproxy.add(NAME, SlowClose(delay_ms=80))
    with connect(proxy) as client:
        client.ask()
        begun_s = time.monotonic()
        server.hang_up()
        assert client.has_ended()
        assert time.monotonic() - begun_s >= 0.08


def test_timeout(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    name = toxiproxy.add(NAME, Timeout())
    with connect(proxy) as client:
        client.sendall(request(FETCH, 1))
        assert client.hears_nothing()
        toxiproxy.remove(NAME, name)
        assert client.has_ended()


def test_reset_peer(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add(NAME, ResetPeer())
    with connect(proxy) as client, pytest.raises(ConnectionResetError):
        client.ask()


def test_slicer(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add(NAME, Slicer(average_size_bytes=10, size_variation_bytes=3, delay_us=2000))
    with connect(proxy) as client:
        assert took_s(client, bytes(range(200))) >= 0.03


def test_limit_data(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add(NAME, LimitData(limit_bytes=7))
    with connect(proxy) as client:
        client.sendall(request(FETCH, 1, b"body"))
        assert read_exactly(client, 7) == answer(1, b"body")[:7]
        assert client.has_ended()


def test_toxicity_is_the_share_of_connections(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add(NAME, LimitData(limit_bytes=0, toxicity=0.0), name="never")
    assert toxiproxy.proxy(NAME).toxics == ("never",)
    with connect(proxy) as client:
        assert client.ask() == answer(1, b"body")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Latency(latency_ms=-1), "latency_ms of latency cannot be negative"),
        (lambda: Timeout(toxicity=1.5), "share from 0 to 1"),
        (lambda: Slicer(average_size_bytes=3, size_variation_bytes=3), "cannot vary by 3"),
    ],
)
def test_toxics_that_mean_nothing_are_refused(make: Callable[[], Toxic], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        make()
