"""Listeners of a simulated network: which broker serves an address, if it runs. For worlds and scripts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from kwire.testing.cluster import connection, tls_server
from kwire.testing.simulation.transport import BrokerStream

if TYPE_CHECKING:
    import ssl

    import trio

    from kwire.testing.cluster.state import ClusterState

Serve: TypeAlias = Callable[[BrokerStream, str], Awaitable[None]]
"""Serves one connection, given the broker's end of it and the client's host."""


def listener_at(
    cluster: ClusterState,
    host: str,
    port: int,
    through: Callable[[BrokerStream], trio.abc.Stream] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Serve | None:
    """The function that serves connections to this address; None if no broker listens.

    Args:
        through: Put around the broker's end of each connection.
        tls: The brokers' side of TLS; None where there is none.
    """
    found = [each for each in cluster.brokers.values() if (each.host, each.port) == (host, port) and each.is_up]
    if not found:
        return None

    async def serve(stream: BrokerStream, client: str) -> None:
        if tls is not None:
            encrypted = await tls_server.encrypted(stream, client, found[0], cluster, tls)
            if encrypted is not None:
                await connection.serve(encrypted, found[0], cluster, client_host=client)
            return
        at_broker = stream if through is None else through(stream)
        await connection.serve(at_broker, found[0], cluster, client_host=client)

    return serve
