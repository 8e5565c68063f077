"""The port of a tampering proxy: it listens, refuses connections, or does not answer.

The port is bound as long as this lives, so nobody else is given it while connections are refused. On the proxy's
thread; used by `tampering`.
"""

from __future__ import annotations

import socket

import trio

from kwire.testing.faults.proxies.orders import Door

BACKLOG = 128
FILL_TIMEOUT_S = 0.1  # to ourselves it takes no time, or for ever


def bind(host: str, port: int) -> socket.socket:
    """A port, bound and not listened on. Raises: OSError."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        # Allows another socket on the same port as long as this one does not listen.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


class Entrance:
    """A port that listens, refuses or does not answer; at the beginning it refuses."""

    def __init__(self, holder: socket.socket) -> None:
        self._host, self._port = holder.getsockname()[:2]
        self._holder = holder
        self._fillers: list[trio.socket.SocketType] = []
        self.listener: trio.socket.SocketType | None = None
        self.door = Door.REFUSING

    async def set(self, door: Door) -> None:
        """Have it so; a client that still waits to be accepted is turned away."""
        self._close_listener()
        self.door = door
        if door is Door.REFUSING:
            return
        bound = bind(self._host, self._port)
        bound.listen(BACKLOG if door is Door.OPEN else 0)
        self.listener = trio.socket.from_stdlib_socket(bound)
        if door is Door.SILENT:
            await self.fill()

    async def fill(self) -> None:
        """Take the only place in the queue: Linux drops further SYNs, and a client's handshake stays unanswered.

        A client may be quicker. Then the queue is full all the same, and nobody ever answers us either.
        """
        filler = trio.socket.socket(self._holder.family)
        self._fillers.append(filler)
        with trio.move_on_after(FILL_TIMEOUT_S):
            await filler.connect((self._host, self._port))

    def _close_listener(self) -> None:
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()
        if self.listener is not None:
            self.listener.close()
        self.listener = None

    def close(self) -> None:
        """Release the port."""
        self._close_listener()
        self._holder.close()
