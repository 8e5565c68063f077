"""TCP through trio: name resolution, all addresses of a host tried, no delay."""

from __future__ import annotations

import socket

import trio

KERNEL_DEFAULT = -1  # receive.buffer.bytes and send.buffer.bytes: leave the choice to the operating system


class TcpStream:
    """A socket. Reads land where the framing wants them, without a copy in between."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionResetError(_reason(error)) from error

    async def receive_into(self, buffer: memoryview) -> int:
        return await self._stream.socket.recv_into(buffer)

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)


class TcpTransport:
    """Dials brokers with the socket buffer sizes of the configuration (-1: the kernel's)."""

    def __init__(self, receive_buffer_bytes: int, send_buffer_bytes: int) -> None:
        self._receive_buffer_bytes = receive_buffer_bytes
        self._send_buffer_bytes = send_buffer_bytes

    async def connect(self, host: str, port: int) -> TcpStream:
        stream = await trio.open_tcp_stream(host, port)
        if self._receive_buffer_bytes != KERNEL_DEFAULT:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        if self._send_buffer_bytes != KERNEL_DEFAULT:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        return TcpStream(stream)


def _reason(error: BaseException) -> str:
    """What the operating system said, under trio's wrapping."""
    return str(error.__cause__ or error) or "the connection was closed"
