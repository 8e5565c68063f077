"""What a wrong setting makes of a registry does not pass: it ends a Processor. An outage passes."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kwire import RecordDeserializationError, SchemaRegistryUnavailableError
from kwire.processing import Processor
from kwire.testing import Cluster
from kwire.testing.certificates import CertificateAuthority

if TYPE_CHECKING:
    from tests.registry_consumers import consumer_asking
    from tests.schema_registry import Page, SchemaRegistry
else:
    from registry_consumers import consumer_asking
    from schema_registry import Page

pytestmark = pytest.mark.slow

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def fault(cluster: Cluster, url: str, **registry: object) -> RecordDeserializationError:
    """What ends a Processor, which skips whatever is bad."""
    with consumer_asking(cluster, url, **registry) as consumer:
        with pytest.raises(RecordDeserializationError) as caught:
            consumer.poll(10)
        assert not caught.value.retriable, "a Processor would wait for ever"
        processor = Processor(consumer, print, on_failure="skip")
        with pytest.raises(RecordDeserializationError) as caught:
            processor.run()
        assert processor.status().skipped == 0
    return caught.value


@pytest.mark.parametrize("status", [400, 402, 407, 415, 422])
def test_a_request_that_is_refused_is_no_outage(registry: SchemaRegistry, written: Cluster, status: int) -> None:
    """A Processor waited for it for ever, and was healthy."""
    registry.status = status
    expected = (
        rf"the schema registry refuses the request: .*{status}.*, at {registry.url}; look at its URL and settings"
    )
    with pytest.raises(RecordDeserializationError, match=expected):
        raise fault(written, registry.url)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_names_where_it_leads_without_secrets(
    registry: SchemaRegistry, written: Cluster, status: int
) -> None:
    registry.page = Page(status=status, headers={"Location": "https://login.example.net/in?token=secret"})
    error = fault(written, registry.url)
    expected = (
        rf"redirects to https://login.example.net/in \(HTTP status code {status}\), at {registry.url}; no redirect"
    )
    with pytest.raises(RecordDeserializationError, match=expected):
        raise error
    assert "secret" not in str(error)


def test_a_redirect_to_what_is_no_url_is_told(registry: SchemaRegistry, written: Cluster) -> None:
    """The poll raised a ValueError, of the URL."""
    registry.page = Page(status=302, headers={"Location": "http://[bad"})
    with pytest.raises(RecordDeserializationError, match="the schema registry redirects to another address"):
        raise fault(written, registry.url)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_passes_is_an_outage(registry: SchemaRegistry, written: Cluster, status: int) -> None:
    registry.status = status
    with (
        consumer_asking(written, registry.url) as consumer,
        pytest.raises(SchemaRegistryUnavailableError, match=rf"registry failed: .*, at {registry.url}; poll again"),
    ):
        consumer.poll(10)


@contextmanager
def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port where each connection gets this answer, and ends. With `tls` its handshake comes first, or fails."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                try:
                    with connection if tls is None else tls.wrap_socket(connection, server_side=True) as stream:
                        stream.recv(65536)
                        stream.sendall(answer)
                        stream.shutdown(socket.SHUT_WR)
                        stream.settimeout(0.5)
                        while stream.recv(65536):  # closed too soon, the answer may be lost
                            pass
                except OSError:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_certificate_that_is_not_trusted_is_no_outage(written: Cluster) -> None:
    with CertificateAuthority() as authority, answering(b"", authority.server_context("127.0.0.1")) as port:
        error = fault(written, f"https://127.0.0.1:{port}")
    with pytest.raises(
        RecordDeserializationError, match=r"certificate .* is not trusted: .*; look at ssl\.ca\.location"
    ):
        raise error


def test_tls_where_there_is_none_is_no_outage(registry: SchemaRegistry, written: Cluster) -> None:
    with pytest.raises(RecordDeserializationError, match="no TLS with the schema registry: "):
        raise fault(written, registry.url.replace("http:", "https:"))


def test_an_answer_in_another_protocol_is_no_outage(written: Cluster) -> None:
    alert = b"\x15\x03\x03\x00\x02\x02\x50\r\n\r\n"  # of TLS: no handshake
    with answering(alert) as port, pytest.raises(RecordDeserializationError, match=r"no HTTP is spoken .*https, or"):
        raise fault(written, f"http://127.0.0.1:{port}")


def test_a_connection_that_ends_is_an_outage_and_may_want_tls(written: Cluster) -> None:
    with (
        answering(b"") as port,
        consumer_asking(written, f"http://127.0.0.1:{port}") as consumer,
        pytest.raises(SchemaRegistryUnavailableError, match=r"cannot be reached: .*\(does it want https\?\), at http:"),
    ):
        consumer.poll(10)


def test_a_proxy_that_refuses_is_no_outage(written: Cluster) -> None:
    answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with answering(answer) as port:
        error = fault(written, "https://registry.example.net", proxy=f"http://127.0.0.1:{port}")
    with pytest.raises(RecordDeserializationError, match="cannot be asked: ProxyError: 407 Proxy Authentication"):
        raise error


@pytest.mark.parametrize(
    ("answer", "is_outage"),
    [
        (b'HTTP/1.1 401 Unauthorized\r\n\r\n{"error": "invalid_client"}', False),
        (b'HTTP/1.1 400 Bad Request\r\n\r\n{"error": "temporarily_unavailable"}', True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", True),
    ],
)
def test_a_client_that_gets_no_token_waits_if_that_may_pass(
    written: Cluster, monkeypatch: pytest.MonkeyPatch, answer: bytes, *, is_outage: bool
) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    with answering(answer) as port:
        assert without_token(written, f"http://127.0.0.1:{port}").retriable == is_outage


def test_a_server_of_tokens_that_is_not_trusted_is_no_outage(written: Cluster) -> None:
    with CertificateAuthority() as authority, answering(b"", authority.server_context("127.0.0.1")) as port:
        assert not without_token(written, f"https://127.0.0.1:{port}").retriable


def test_a_server_of_tokens_without_tls_is_no_outage(registry: SchemaRegistry, written: Cluster) -> None:
    """It was waited for; of a registry, the same ends a Processor."""
    assert not without_token(written, registry.url.replace("http:", "https:")).retriable


def without_token(cluster: Cluster, url: str) -> RecordDeserializationError:
    """What a poll raises if its client gets no token there."""
    login = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "secret",
        "bearer.auth.scope": "all",
        "bearer.auth.issuer.endpoint.url": f"{url}/token",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    with (
        consumer_asking(cluster, "http://127.0.0.1:1", **login) as consumer,
        pytest.raises(RecordDeserializationError, match="no token for the schema registry") as caught,
    ):
        consumer.poll(10)
    return caught.value


def test_tls_that_is_broken_off_is_an_outage(written: Cluster) -> None:
    """As by a server that is started again."""
    with (
        answering(b"") as port,
        consumer_asking(written, f"https://127.0.0.1:{port}") as consumer,
        pytest.raises(SchemaRegistryUnavailableError, match=r"cannot be reached: .*EOF"),
    ):
        consumer.poll(10)


def test_a_url_that_is_none_of_http_is_no_outage(written: Cluster) -> None:
    with pytest.raises(RecordDeserializationError, match="cannot be asked: UnsupportedProtocol"):
        raise fault(written, "httpd://127.0.0.1:1")


def test_a_token_that_makes_no_header_is_no_outage(registry: SchemaRegistry, written: Cluster) -> None:
    login = {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": "with\na line",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    with pytest.raises(RecordDeserializationError, match="cannot be asked: LocalProtocolError"):
        raise fault(written, registry.url, **login)


# --- GUIDs --------------------------------------------------------------------------------------------------------


def test_a_registry_that_looks_nothing_up_by_guid_is_told_as_one(registry: SchemaRegistry, cluster: Cluster) -> None:
    """An older one: "there is no schema registry at its address"."""
    cluster.produce("orders", b"\1" + bytes(range(16)) + b"\2")
    registry.page = Page(b'{"error_code": 404, "message": "HTTP 404 Not Found"}', 404, path="/schemas/guids/")
    with pytest.raises(RecordDeserializationError, match=rf"cannot look up schemas by GUID: .*, at {registry.url}; "):
        raise fault(cluster, registry.url)
    registry.page = Page(b"<html>", 404, path="/schemas/guids/")
    with pytest.raises(RecordDeserializationError, match="there is no schema registry at its address"):
        raise fault(cluster, registry.url)
