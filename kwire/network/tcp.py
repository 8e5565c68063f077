"""TCP through trio: name resolution, all addresses of a host tried, no delay.

Trio dials; the connected socket is used directly. What trio's own streams do around each call, two more steps of the
scheduler among it, takes longer than the answer to a fetch of one record should.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

import trio

KERNEL_DEFAULT = -1  # receive.buffer.bytes and send.buffer.bytes: leave the choice to the operating system

# Each wake-up takes time, and waits for an application that is decoding to let go of the interpreter, up to 5 ms. A
# broker sends an answer in parts, its head and then each partition's records. So once its length is known, we are woken
# when all the rest of it is there, or so much of that. The system lets the socket's buffer grow for it, as far as it
# may; one of fixed size wakes us when a part of it is full. Linux alone wakes also when no more fits in.
_MUCH_BYTES = 16 * 1024 * 1024
_PART_OF_BUFFER = 4
_CAN_WAIT_FOR_MUCH = sys.platform == "linux"


class TcpStream:
    """A connected socket that does not block. Reads land where the framing wants them, without a copy in between.

    Args:
        can_grow: whether the system chooses the size of the buffer for what comes in.
    """

    def __init__(self, connected: socket.socket, *, can_grow: bool = True) -> None:
        self._socket = connected
        self._can_grow = can_grow
        self._wakes_at_bytes = 1

    def send_now(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except OSError:  # no room, or broken
            return 0

    async def send_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            await trio.lowlevel.wait_writable(self._socket)
            with suppress(BlockingIOError):  # the kernel may think better of it
                left = left[self._socket.send(left) :]

    async def receive_into(self, buffer: memoryview, missing_bytes: int) -> int:
        if _CAN_WAIT_FOR_MUCH:
            self._wake_at(1 if missing_bytes == 1 else self._much_of(missing_bytes))
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv_into(buffer)
            except BlockingIOError:
                continue  # as above

    def _much_of(self, missing_bytes: int) -> int:
        much_bytes = min(missing_bytes, _MUCH_BYTES)
        if not self._can_grow:
            room_bytes = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            much_bytes = min(much_bytes, room_bytes // _PART_OF_BUFFER)
        return max(1, much_bytes)

    def _wake_at(self, byte_count: int) -> None:
        """Be readable from so many bytes on, or when no more will come."""
        if byte_count != self._wakes_at_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, byte_count)
            self._wakes_at_bytes = byte_count

    async def aclose(self) -> None:
        trio.lowlevel.notify_closing(self._socket)
        with suppress(OSError):
            self._socket.close()
        await trio.lowlevel.checkpoint()


class TcpTransport:
    """Dials brokers with the socket buffer sizes of the configuration (-1: the kernel's)."""

    def __init__(self, receive_buffer_bytes: int, send_buffer_bytes: int) -> None:
        self._receive_buffer_bytes = receive_buffer_bytes
        self._send_buffer_bytes = send_buffer_bytes

    async def connect(self, host: str, port: int) -> TcpStream:
        connected = await _dial(host, port)
        if self._receive_buffer_bytes != KERNEL_DEFAULT:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        if self._send_buffer_bytes != KERNEL_DEFAULT:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        return TcpStream(connected, can_grow=self._receive_buffer_bytes == KERNEL_DEFAULT)


async def _dial(host: str, port: int) -> socket.socket:
    try:
        stream = await trio.open_tcp_stream(host, port)  # which has switched off the delay of small packets
    except (ValueError, OverflowError) as error:
        # Not what the resolver takes for a name (UnicodeError is a ValueError), or a port that is no port: brokers
        # name each other in metadata, so it need not be the user who mistyped it.
        raise OSError(f"{host!r} with port {port} is no address: {error}") from error
    except OSError as error:
        raise OSError(_first_reason(error)) from error
    connected = socket.socket(fileno=stream.socket.detach())
    connected.setblocking(False)
    return connected


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
