"""A login server behind a proxy."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trustme

from kwire.config import ConsumerConfig, OAuthToken
from kwire.errors import NoTokenError

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeConfig, MakeServer, Says

FirstToken = Callable[[ConsumerConfig], OAuthToken]


@dataclass(slots=True)
class TunnelProxy:
    """Leads one connection to a port of this machine, whatever name was asked for; or refuses to."""

    to_port: int
    refusal: bytes = b""
    head: bytes = b""
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        client, _ = self.listener.accept()
        with client:
            while not self.head.endswith(b"\r\n\r\n"):
                self.head += client.recv(65536)
            if self.refusal:
                client.sendall(self.refusal)
                return
            with socket.create_connection(("127.0.0.1", self.to_port)) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_copy, args=(server, client))
                back.start()
                _copy(client, server)
                back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return  # either side has hung up


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[TunnelProxy]:
    proxy = TunnelProxy(0)
    monkeypatch.setenv("https_proxy", f"http://me:p%40ss@{proxy.address}")
    monkeypatch.setenv("no_proxy", "")
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    yield proxy
    thread.join()
    proxy.listener.close()


def test_a_login_server_is_reached_through_the_proxy_of_the_environment(
    proxy: TunnelProxy,
    make_server: MakeServer,
    authority: trustme.CA,
    make_config: MakeConfig,
    says: Says,
    first_token: FirstToken,
) -> None:
    server = make_server("login.example")
    proxy.to_port = server.server_port
    server.answers(says(200, {"access_token": "abc"}))

    token = first_token(
        make_config(
            sasl_oauthbearer_token_endpoint_url="https://login.example/token",
            sasl_oauthbearer_client_credentials_client_id="kwire",
            sasl_oauthbearer_client_credentials_client_secret="hush",
            ssl_truststore_certificates=server.authority_pem,
        )
    )

    assert token.value == "abc"
    assert proxy.head.startswith(b"CONNECT login.example:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss") in proxy.head
    assert b"Authorization: Basic " + base64.b64encode(b"kwire:hush") not in proxy.head


def test_a_proxy_that_refuses_is_told_of(
    proxy: TunnelProxy, make_config: MakeConfig, first_token: FirstToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"

    with pytest.raises(NoTokenError, match="cannot be reached: Tunnel connection failed: 407 Proxy Auth") as caught:
        first_token(
            make_config(
                sasl_oauthbearer_token_endpoint_url="https://login.example/token",
                sasl_oauthbearer_client_credentials_client_id="kwire",
                sasl_oauthbearer_client_credentials_client_secret="hush",
                sasl_login_retry_backoff_max_ms=0,
            )
        )

    assert "p@ss" not in str(caught.value)


def test_a_proxy_that_cannot_be_used_is_told_of(
    make_config: MakeConfig, first_token: FirstToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "socks5://me:secret@proxy.example:1080")
    monkeypatch.setenv("no_proxy", "")

    with pytest.raises(NoTokenError, match="HTTPS_PROXY names no proxy that kwire can use") as caught:
        first_token(
            make_config(
                sasl_oauthbearer_token_endpoint_url="https://login.example/token",
                sasl_oauthbearer_client_credentials_client_id="kwire",
                sasl_oauthbearer_client_credentials_client_secret="hush",
            )
        )

    assert "secret" not in str(caught.value)
