"""Brokers behind a proxy that has one address and routes by the TLS server name (SNI), as ingresses of clouds do."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAMES = ("broker-0.kwire.test", "broker-1.kwire.test", "broker-2.kwire.test")
RECORDS = 300
WAIT_S = 20.0
USER, PASSWORD = "alice", "correct horse"


class RoutingProxy(socketserver.ThreadingTCPServer):
    """Takes connections, reads from the first bytes which name is meant, and leads to that broker. Decrypts nothing.

    Attributes:
        routes: The address of each name.
        asked_for: The name of each connection; None where it had none, or another.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Route)
        self.routes: dict[str, tuple[str, int]] = {}
        self.asked_for: list[str | None] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Route(socketserver.BaseRequestHandler):
    request: socket.socket
    server: RoutingProxy

    def handle(self) -> None:
        hello, name = _read_hello(self.request)
        self.server.asked_for.append(name)
        if name not in self.server.routes:
            return
        with socket.create_connection(self.server.routes[name]) as broker:
            broker.sendall(hello)
            back = threading.Thread(target=_pass_on, args=(broker, self.request), daemon=True)
            back.start()
            _pass_on(self.request, broker)
            back.join()


def _read_hello(client: socket.socket) -> tuple[bytes, str | None]:
    """The bytes that came until the name was known, and the name."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    incoming = ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    hello = b""
    while not names and (data := client.recv(65536)):
        hello += data
        incoming.write(data)
        with suppress(ssl.SSLError):  # more is to come, or it has no certificate: the name is all that is wanted
            tls.do_handshake()
    return hello, names[0] if names else None


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # either may be closed at any moment
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def routed(names: Sequence[str]) -> Iterator[tuple[RoutingProxy, Cluster]]:
    """Three brokers that are all advertised at the proxy's port, each by its name; with records."""
    with RoutingProxy() as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        advertised = [(name, proxy.port) for name in names]
        with Cluster(
            3,
            topics={"orders": 3},
            advertised=advertised,
            security_protocol="SASL_SSL",
            users={USER: PASSWORD},
            tls=True,
            settings={"group.initial.rebalance.delay.ms": 0},
        ) as cluster:
            proxy.routes = dict(zip(names, cluster.client_addresses, strict=True))
            for partition in range(3):
                cluster.produce("orders", *[b"%d" % n for n in range(RECORDS // 3)], partition=partition)
            yield proxy, cluster
        proxy.shutdown()


@pytest.fixture(autouse=True)
def _names_lead_to_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def resolve(host: bytes | str | None, *args: object, **kwargs: object) -> list[object]:
        name = host.decode() if isinstance(host, bytes) else host
        return list(real("127.0.0.1" if name in NAMES else host, *args, **kwargs))  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize("checked", ["https", ""])
def test_a_group_reads_through_a_proxy_that_routes_by_name(checked: str) -> None:
    """The name is sent though nobody checks it against the certificate: the two are settings of their own."""
    with (
        routed(NAMES) as (proxy, cluster),
        Consumer[bytes, bytes](
            "orders",
            bootstrap_servers=f"{NAMES[0]}:{proxy.port}",
            group_id="billing",
            auto_offset_reset="earliest",
            security_protocol="SASL_SSL",
            ssl_truststore_location=str(cluster.certificates.path),
            ssl_endpoint_identification_algorithm=checked,
            sasl_mechanism="SCRAM-SHA-256",
            sasl_username=USER,
            sasl_password=PASSWORD,
        ) as consumer,
    ):
        found, until = 0, time.monotonic() + WAIT_S
        while found < RECORDS and time.monotonic() < until:
            found += len(consumer.poll(1.0))
        consumer.commit_sync()

        assert found == RECORDS
        assert sum(position.offset for position in cluster.committed("billing").values()) == RECORDS
        assert set(proxy.asked_for) == set(NAMES)
