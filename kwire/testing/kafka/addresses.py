"""Addresses of the nodes of a test cluster: the ports of their listeners, and what they advertise.

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
    """A listener for clients behind a proxy: its port, the proxy's address, and the security protocol."""

    port: int
    advertised: str
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a node listens. `controller_port` is None for a node that is a broker only.

    Brokers connect to each other at `broker_port`, and so do clients, unless `proxied` is set: that listener advertises
    the proxies, so that its clients stay behind them.
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
        """The port that clients, or the proxy, connect to."""
        return self.broker_port if self.proxied is None else self.proxied.port

    @property
    def advertised(self) -> str:
        """The address that clients are told."""
        return str(self) if self.proxied is None else self.proxied.advertised


def choose_addresses(
    brokers: int,
    advertised: Sequence[tuple[str, int]] = (),
    secured: Sequence[str] = (),
    proxied_protocol: str = "PLAINTEXT",
) -> tuple[Address, ...]:
    """Free ports for a new cluster, with one more listener for each broker that is advertised at another address, and
    one for each security protocol in `secured`."""
    controllers = 3 if brokers >= 3 else 1  # an odd number: of two controllers, one alone has no majority
    # The proxies may start later than the brokers, which must not take their ports.
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
    """Different ports on which no program listens. Another process may take one first; the caller has to expect
    that."""
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
