"""Both ends of a connection where a script tampers with them: dialling fails, frames come out changed or cut short.

`script.Script` is a `Tampering`, and puts these around the streams of a world's network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from kwire.network.transport import ByteStream, Transport
from kwire.testing.simulation.transport import BrokerStream


class Tampering(Protocol):
    """The tampering of a script, asked at each occasion.

    Attributes:
        dial_error: Raised by every dialling client while it is set: the machine has no sockets left.
        dials: The number of connection attempts.
        tamper: Makes other bytes of each frame that a broker sends. If they are fewer, the connection ends behind them.
    """

    dial_error: OSError | None
    dials: int
    tamper: Callable[[bytes], bytes] | None


class DiallingTransport:
    """`network.transport.Transport` of a client."""

    def __init__(self, tampering: Tampering, transport: Transport) -> None:
        self._tampering = tampering
        self._transport = transport

    async def connect(self, host: str, port: int) -> ByteStream:
        self._tampering.dials += 1
        if self._tampering.dial_error is not None:
            await trio.lowlevel.checkpoint()
            raise self._tampering.dial_error
        return await self._transport.connect(host, port)

    def avoid(self, stream: ByteStream) -> None:
        self._transport.avoid(stream)


class TamperedStream(trio.abc.Stream):
    """The broker's end of a connection, whose frames a script may change."""

    def __init__(self, tampering: Tampering, stream: BrokerStream) -> None:
        self._tampering = tampering
        self._stream = stream

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Brokers send a frame at a time."""
        tamper = self._tampering.tamper
        sent = bytes(data) if tamper is None else tamper(bytes(data))
        await self._stream.send_all(sent)
        if len(sent) < len(data):
            raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()
