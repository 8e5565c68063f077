"""Where the nodes of a test cluster listen: which ports they get, and what clients behind proxies are told.

`cluster` chooses the addresses, `node` writes them into properties files. `free_ports` serves proxies in front of
brokers, too.
"""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.testing.kafka.jars import ClusterError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

HOST = "127.0.0.1"  # not "localhost", which may mean IPv6 first
# Below the range that Linux (32768) and macOS (49152) take for outgoing connections: otherwise one of those could sit
# on a broker's port while the broker is down, and it could not come back.
PORTS = range(20000, 32768)


@dataclass(frozen=True, slots=True)
class ProxiedListener:
    """A listener for clients that come through a proxy: the port it has, the proxy's address, and what it speaks."""

    port: int
    advertised: str
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a node listens. `controller_port` is None for a node that is a broker only.

    Brokers talk to each other at `broker_port`. So do clients, unless `proxied` is set: who comes in there is told of
    advertised addresses only, and so stays behind the proxies.
    """

    broker_port: int
    controller_port: int | None
    proxied: ProxiedListener | None = None
    secured: Mapping[str, int] = field(default_factory=dict)
    """Ports of listeners with TLS or SASL, by their security protocol."""

    def __str__(self) -> str:
        return f"{HOST}:{self.broker_port}"

    @property
    def client_port(self) -> int:
        """Where the connections of clients arrive."""
        return self.broker_port if self.proxied is None else self.proxied.port

    @property
    def advertised(self) -> str:
        """What clients are told."""
        return str(self) if self.proxied is None else self.proxied.advertised


def choose_addresses(
    brokers: int,
    advertised: Sequence[tuple[str, int]] = (),
    secured: Sequence[str] = (),
    proxied_protocol: str = "PLAINTEXT",
) -> tuple[Address, ...]:
    """Free ports for a new cluster, with a listener more for each broker that is advertised as something else, and one
    for each security protocol in `secured`."""
    controllers = 3 if brokers >= 3 else 1  # an odd number: two controllers stand still when one is gone, like one does
    # The proxies may come later than the brokers, which must not sit on their ports then.
    reserved = [port for _, port in advertised]
    wanted = brokers * (1 + len(secured)) + controllers + len(advertised)
    ports = iter(free_ports(wanted, reserved=reserved))
    return tuple(
        Address(
            broker_port=next(ports),
            controller_port=next(ports) if i < controllers else None,
            proxied=ProxiedListener(next(ports), "{}:{}".format(*advertised[i]), proxied_protocol)
            if advertised
            else None,
            secured={protocol: next(ports) for protocol in secured},
        )
        for i in range(brokers)
    )


def free_ports(count: int, *, reserved: Collection[int] = ()) -> list[int]:
    """Different ports nobody listens on. Another process may be quicker; the caller has to expect that."""
    free: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if port in reserved:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise ClusterError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")
