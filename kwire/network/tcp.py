"""TCP through trio: name resolution, all addresses of a host tried, no delay."""

from __future__ import annotations

import os
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
        stream = await _open_stream(host, port)
        if self._receive_buffer_bytes != KERNEL_DEFAULT:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        if self._send_buffer_bytes != KERNEL_DEFAULT:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        return TcpStream(stream)


async def _open_stream(host: str, port: int) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(host, port)
    except (ValueError, OverflowError) as error:
        # Not what the resolver takes for a name (UnicodeError is a ValueError), or a port that is no port: brokers
        # name each other in metadata, so it need not be the user who mistyped it.
        raise OSError(f"{host!r} with port {port} is no address: {error}") from error
    except OSError as error:
        raise OSError(_first_reason(error)) from error


def _first_reason(error: OSError) -> str:
    """Why the host could not be reached; trio groups the reasons of all addresses it tried."""
    cause: BaseException = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if not isinstance(cause, OSError):
        return str(cause)
    # The resolver's numbers are negative, and no errno; the others' text repeats an address that the caller names.
    if cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)
    return cause.strerror or str(cause)


def _reason(error: BaseException) -> str:
    """What the operating system said, under trio's wrapping."""
    return str(error.__cause__ or error) or "the connection was closed"
