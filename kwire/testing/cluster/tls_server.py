"""The brokers' side of the TLS handshake, over any stream. Called by `server` for TCP and by the simulation."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    import ssl

    from kwire.testing.cluster.broker import Broker
    from kwire.testing.cluster.state import ClusterState

S = TypeVar("S", bound=trio.abc.HalfCloseableStream)

_log = logging.getLogger(__name__)

ALERT_S = 1.0


async def encrypted(
    stream: S, host: str, broker: Broker, cluster: ClusterState, tls: ssl.SSLContext
) -> trio.SSLStream[S] | None:
    """The connection after the TLS handshake; None if the handshake fails, or the broker goes away meanwhile."""
    secured = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
    with trio.CancelScope() as scope:
        broker.connections[scope] = None
        try:
            while broker.is_paused:  # the system accepts connections for a process that is paused
                await cluster.changed.wait(broker.key)
            await secured.do_handshake()
        except trio.BrokenResourceError as reason:
            _log.debug("broker %s has no TLS with %s: %s", broker.node_id, host, reason.__cause__ or reason)
            await _send_alert(secured, stream)
        else:
            return secured
        finally:
            broker.connections.pop(scope, None)
    return None


async def _send_alert(secured: trio.SSLStream[S], stream: S) -> None:
    """Tell the client why the handshake has failed. trio leaves the alert where OpenSSL has put it."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError), trio.move_on_after(ALERT_S):
        await stream.send_all(secured._outgoing.read())
        await stream.send_eof()
        while await stream.receive_some():  # unread data would reset the connection, and the alert would be lost
            pass
