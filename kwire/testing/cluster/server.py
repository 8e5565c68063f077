"""The cluster's brokers on TCP: each listens while it runs, and refuses connections while it does not.

A broker keeps its port for as long as the cluster lives. While it is down the port is bound but not listened on, so
no other program is given it, and no connection ends up at itself. Called by `cluster` alone.
"""

from __future__ import annotations

import errno
import logging
import socket
from typing import TYPE_CHECKING

import trio

from kwire.testing.cluster.connection import serve
from kwire.testing.cluster.distinguished_names import principal_of
from kwire.testing.cluster.tls_server import encrypted

if TYPE_CHECKING:
    import ssl

    from kwire.testing.cluster.broker import Broker
    from kwire.testing.cluster.state import ClusterState

_log = logging.getLogger(__name__)

BACKLOG = 128
OUT_OF_FILES_PAUSE_S = 0.1


def bind(host: str, port: int) -> socket.socket:
    """A port, bound and not listened on. Raises: OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made


async def run_broker(
    broker: Broker, cluster: ClusterState, bound: socket.socket, tls: ssl.SSLContext | None = None
) -> None:
    """Serve connections whenever the broker runs. `bound` is its own port, whatever it advertises."""
    own: tuple[str, int] = bound.getsockname()[:2]
    try:
        while True:
            await _until(broker, cluster, is_up=True)
            bound.listen(BACKLOG)
            _set_listening(broker, cluster, is_listening=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_accept, trio.socket.from_stdlib_socket(bound), broker, cluster, tls)
                await _until(broker, cluster, is_up=False)
                nursery.cancel_scope.cancel()
            bound.close()
            bound = bind(*own)
            _set_listening(broker, cluster, is_listening=False)
    finally:
        bound.close()


def _set_listening(broker: Broker, cluster: ClusterState, *, is_listening: bool) -> None:
    broker.is_listening = is_listening
    cluster.changed.notify(broker.key)


async def until_settled(broker: Broker, cluster: ClusterState) -> None:
    """Wait until the broker listens if it runs, and does not if it is down."""
    while broker.is_listening is not broker.is_up:
        await cluster.changed.wait(broker.key)


async def _until(broker: Broker, cluster: ClusterState, *, is_up: bool) -> None:
    while broker.is_up is not is_up:
        await cluster.changed.wait(broker.key)


async def _accept(
    listener: trio.socket.SocketType, broker: Broker, cluster: ClusterState, tls: ssl.SSLContext | None
) -> None:
    with listener:
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    accepted, address = await listener.accept()
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED):
                        raise
                    _log.warning("broker %s cannot accept a connection: %s", broker.node_id, error)
                    await trio.sleep(OUT_OF_FILES_PAUSE_S)
                    continue
                nursery.start_soon(_serve, accepted, str(address[0]), broker, cluster, tls)


async def _serve(
    accepted: trio.socket.SocketType, host: str, broker: Broker, cluster: ClusterState, tls: ssl.SSLContext | None
) -> None:
    stream = trio.SocketStream(accepted)
    if tls is None:
        await serve(stream, broker, cluster, client_host=host)
        return
    try:
        secured = await encrypted(stream, host, broker, cluster, tls)
        if secured is not None:
            certified = principal_of(secured.getpeercert())
            await serve(secured, broker, cluster, client_host=host, certified=certified)
    finally:
        await trio.aclose_forcefully(stream)
