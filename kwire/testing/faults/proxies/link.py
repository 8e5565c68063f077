"""One connection through a tampering proxy: two pumps, one for each way, which obey the proxy's orders.

Sockets as they are, and no streams: ends and resets have to reach the other side as what they were. On the proxy's
thread; made and run by `tampering`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from kwire.testing.faults.proxies.frames import Answers, Requests
from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.strikes import Struck

if TYPE_CHECKING:
    from kwire.testing.faults.proxies.orders import ProxyOrders

PUMP_BYTES = 256 * 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # linger for 0 s: what is unsent is thrown away, and the peer sees a reset


class ProxyLink:
    """A client's socket and a broker's.

    Args:
        is_encrypted: Whether what passes cannot be read: then there is no telling frames apart.
    """

    def __init__(
        self,
        client: trio.socket.SocketType,
        broker: trio.socket.SocketType,
        orders: ProxyOrders,
        *,
        is_encrypted: bool = False,
    ) -> None:
        self._client = client
        self._broker = broker
        self._orders = orders
        self._is_encrypted = is_encrypted
        self._requests = Requests()
        self._answers = Answers(self._requests, orders)
        self._scope = trio.CancelScope()
        self._losses: set[Stream] = set()

    async def run(self) -> None:
        """Until both sides have hung up, or it is ended."""
        with self._client, self._broker, self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pump, Stream.UPSTREAM, self._client, self._broker)
                nursery.start_soon(self._pump, Stream.DOWNSTREAM, self._broker, self._client)

    def end(self, *, abruptly: bool = False) -> None:
        """Hang up on both sides, with a reset if abruptly."""
        if abruptly:
            for end in (self._client, self._broker):
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._scope.cancel()

    @property
    def is_beyond_repair(self) -> bool:
        """Whether bytes are missing, and what follows them would pass."""
        return bool(self._losses - self._orders.swallowed)

    async def _pump(self, stream: Stream, source: trio.socket.SocketType, target: trio.socket.SocketType) -> None:
        memory = memoryview(bytearray(PUMP_BYTES))
        try:
            while received := await source.recv_into(memory):
                for piece in self._follow(stream, memory[:received]):
                    await self._pass(stream, piece, target)
            await self._pass(stream, self._answers.rest() if stream is Stream.DOWNSTREAM else b"", target)
        except OSError:
            await self._until_fin_passes(stream)
            self.end(abruptly=True)
            return
        await self._until_fin_passes(stream)
        with suppress(OSError):  # it has gone by itself
            target.shutdown(trio.socket.SHUT_WR)

    def _follow(self, stream: Stream, data: memoryview) -> Iterator[memoryview | bytes | Struck]:
        if self._is_encrypted:
            return iter((data,))
        if stream is Stream.DOWNSTREAM:
            return self._answers.follow(data)
        self._requests.follow(data)
        return iter((data,))

    async def _pass(self, stream: Stream, piece: memoryview | bytes | Struck, target: trio.socket.SocketType) -> None:
        data = piece.data if isinstance(piece, Struck) else piece
        while stream in self._orders.held:
            await self._orders.changed.wait()
        if stream in self._orders.swallowed:
            self._orders.counts.swallowed_bytes += len(data)
            self._losses |= {stream} if data else set()
        else:
            await send_all(target, data)
            self._orders.counts.add_passed(stream, len(data))
        if isinstance(piece, Struck) and piece.is_last:
            self.end()
            await trio.lowlevel.checkpoint()

    async def _until_fin_passes(self, stream: Stream) -> None:
        while stream in self._orders.without_fin:
            await self._orders.changed.wait()


async def send_all(target: trio.socket.SocketType, data: memoryview | bytes) -> None:
    """All of it. Raises: OSError."""
    while data:
        data = data[await target.send(data) :]
