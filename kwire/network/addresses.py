"""From a broker's name to a connected socket: tries all addresses of the name, the least recently failed first.

A name may stand for many addresses. Some may be dead, slow, or take connections and go no further (a load balancer in
front of a broker that is gone). The first two kinds are found out here; the caller reports the last one, by
`Addresses.failed`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address
from typing import NamedTuple, TypeAlias

import trio

from kwire.config.endpoints import Endpoint
from kwire.network.worker_threads import worker_thread_needed

NEXT_ATTEMPT_S = 0.25  # RFC 8305: how long an address has before the next one is tried beside it
MAX_FAILED = 1_000

NO_SIZES: Mapping[int, int] = {}

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]


class Address(NamedTuple):
    """One address of a name."""

    family: int
    socket_address: SocketAddress

    def __str__(self) -> str:
        return str(Endpoint(*self.socket_address[:2]))


class Addresses:
    """Resolves and dials names. Remembers which addresses have failed: the least recently failed is tried first.

    Args:
        buffer_sizes: In bytes, by the socket option that sets them. They are set before a socket connects: the scale of
            its TCP window is agreed upon then, and a buffer that is made smaller afterwards receives slowly.
    """

    def __init__(self, buffer_sizes: Mapping[int, int] = NO_SIZES) -> None:
        self._buffer_sizes = buffer_sizes
        self._failed: dict[Address, int] = {}
        self._count = 0

    def failed(self, address: Address) -> None:
        """Try the other addresses of the same name before this one."""
        self._count += 1
        self._failed.pop(address, None)
        self._failed[address] = self._count
        if len(self._failed) > MAX_FAILED:
            del self._failed[next(iter(self._failed))]

    async def of(self, host: str, port: int) -> list[Address]:
        """The addresses, in the order to try them in. Raises: OSError."""
        try:
            with worker_thread_needed(f"look up {host!r}"):
                found = await trio.socket.getaddrinfo(_without_brackets(host), port, type=socket.SOCK_STREAM)
        except (ValueError, OverflowError) as error:
            # Not what the resolver takes for a name (UnicodeError is a ValueError), or a port that is no port: brokers
            # name each other in metadata, so it need not be the user who mistyped it.
            raise OSError(f"{host!r} with port {port} is no address: {error}") from error
        except OSError as error:
            raise OSError(reason_of(error)) from error
        addresses = [Address(family, address) for family, _, _, _, address in found]  # type: ignore[arg-type]  # of TCP
        return sorted(_families_in_turn(addresses), key=lambda address: self._failed.get(address, 0))

    async def dial(self, host: str, port: int) -> tuple[socket.socket, Address]:
        """A connected socket that does not block. Raises: OSError, with what went wrong at each address."""
        addresses = await self.of(host, port)
        dialling = _Dialling(self._buffer_sizes)
        await dialling.run(addresses)
        for address in dialling.tried:
            if address != dialling.winner:
                self.failed(address)
        if dialling.connected is None or dialling.winner is None:
            raise OSError(_reasons(dialling.errors)) from next(iter(dialling.errors.values()), None)
        return dialling.connected, dialling.winner


class _Dialling:
    """Attempts at several addresses (RFC 8305): the next begins when one has failed or is slow; the first that connects
    ends the others."""

    def __init__(self, buffer_sizes: Mapping[int, int]) -> None:
        self._buffer_sizes = buffer_sizes
        self.tried: list[Address] = []
        self.errors: dict[Address, OSError] = {}
        self.winner: Address | None = None
        self.connected: socket.socket | None = None

    async def run(self, addresses: Sequence[Address]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                for address in addresses:
                    self.tried.append(address)
                    has_failed = trio.Event()
                    nursery.start_soon(self._attempt, address, has_failed, nursery.cancel_scope)
                    with trio.move_on_after(NEXT_ATTEMPT_S):
                        await has_failed.wait()
        except BaseException:
            if self.connected is not None:
                self.connected.close()
            raise

    async def _attempt(self, address: Address, has_failed: trio.Event, others: trio.CancelScope) -> None:
        try:
            connected = await _connect(address, self._buffer_sizes)
        except OSError as error:
            self.errors[address] = error
            has_failed.set()
        else:
            if self.connected is not None:  # another one was as quick
                connected.close()
                return
            self.winner, self.connected = address, connected
            others.cancel()


async def _connect(address: Address, buffer_sizes: Mapping[int, int]) -> socket.socket:
    dialled = trio.socket.socket(address.family, socket.SOCK_STREAM)
    try:
        for option, size_bytes in buffer_sizes.items():
            dialled.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        await dialled.connect(address.socket_address)
        stream = trio.SocketStream(dialled)  # which switches off the delay of small packets
        connected = socket.socket(fileno=stream.socket.detach())
    finally:
        dialled.close()
    connected.setblocking(False)
    return connected


async def canonical_servers(servers: Sequence[Endpoint]) -> list[Endpoint]:
    """The servers under the names that their addresses lead back to, one for each address
    (`client_dns_lookup=resolve_canonical_bootstrap_servers_only`): what Kerberos needs, if a name stands for many
    brokers. Raises: OSError, for a name that cannot be resolved."""
    found: dict[Endpoint, None] = {}
    for server in servers:
        for address in await Addresses().of(*server):
            found[Endpoint(await _canonical_name(address), server.port)] = None
    return list(found)


async def _canonical_name(address: Address) -> str:
    """As in Java, an address that leads to no name stands for itself."""
    with worker_thread_needed(f"look up the name of {address}"):
        try:
            name, _ = await trio.socket.getnameinfo(address.socket_address, socket.NI_NAMEREQD)
        except OSError:
            return address.socket_address[0]
        return name


def _families_in_turn(addresses: Sequence[Address]) -> list[Address]:
    """The second is of another family than the first, if there is one: where IPv6 leads nowhere, IPv4 comes soon."""
    ordered = list(addresses)
    other = next((address for address in ordered if address.family != ordered[0].family), None)
    if other is not None:
        ordered.remove(other)
        ordered.insert(1, other)
    return ordered


def _without_brackets(host: str) -> str:
    """Some write an IPv6 address into metadata as into an URL."""
    if not (host.startswith("[") and host.endswith("]")):
        return host
    try:
        return str(IPv6Address(host[1:-1]))
    except ValueError:
        return host


def _reasons(errors: dict[Address, OSError]) -> str:
    if len(errors) == 1:
        return "".join(reason_of(error) for error in errors.values())
    return "; ".join(f"{address}: {reason_of(error)}" for address, error in errors.items())


def reason_of(error: OSError) -> str:
    """Why, without the address, which the caller names."""
    # The resolver's numbers are negative, and no errno.
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
