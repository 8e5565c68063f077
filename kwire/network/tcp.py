"""TCP through trio.

Trio dials (`addresses.py`); the connected socket is used directly. What trio's own streams do around each call, two
more steps of the scheduler among it, takes longer than the answer to a fetch of one record should.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress

import trio

from kwire.network.addresses import Address, Addresses
from kwire.network.transport import ByteStream

KERNEL_DEFAULT = -1  # receive.buffer.bytes and send.buffer.bytes: leave the choice to the operating system

# Each wake-up takes time, and waits up to 5 ms until an application that is decoding lets go of the interpreter. A
# broker sends an answer in parts: its head, then each partition's records. So once the length is known, the socket
# wakes us (SO_RCVLOWAT) when the rest is there, or this much of it. The system grows the socket's buffer for that, as
# far as it may; with a buffer of fixed size we are woken when a part of it is full. Only on Linux: other systems do not
# wake us when the buffer is full before.
_MUCH_BYTES = 16 * 1024 * 1024
_PART_OF_BUFFER = 4
_CAN_WAIT_FOR_MUCH = sys.platform == "linux"

# On, and for 0 s: closing sends a reset (RST), and what is not sent yet is thrown away.
_RESET_ON_CLOSE = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


class TcpStream:
    """A connected socket that does not block. Reads land where the framing wants them, without a copy in between.

    Args:
        can_grow: whether the system chooses the size of the buffer for what comes in.
        address: which of the host's addresses it leads to, if it was dialled.
    """

    def __init__(self, connected: socket.socket, *, can_grow: bool = True, address: Address | None = None) -> None:
        self.address = address
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
            with suppress(BlockingIOError):  # a socket that was reported as ready may not be
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
        """Be readable from this many bytes on, or when no more will come.

        What has come before this call, and is too little, may not be acknowledged yet: the system does that when it is
        read. A broker whose send buffer is full (100 KiB by default) then sends nothing until a timer of its TCP runs
        out, some 6 ms later. So the acknowledgement is sent now.
        """
        if byte_count == self._wakes_at_bytes:
            return
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, byte_count)
        self._wakes_at_bytes = byte_count
        if byte_count > 1:
            with suppress(OSError):  # no TCP, as the sockets of a pair
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def reset_when_closed(self) -> None:
        with suppress(OSError):  # broken already
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    async def aclose(self) -> None:
        trio.lowlevel.notify_closing(self._socket)
        with suppress(OSError):
            self._socket.close()
        await trio.lowlevel.checkpoint()


class TcpTransport:
    """Dials brokers with the socket buffer sizes of the configuration (-1: the kernel's)."""

    def __init__(self, receive_buffer_bytes: int, send_buffer_bytes: int) -> None:
        sizes = {socket.SO_RCVBUF: receive_buffer_bytes, socket.SO_SNDBUF: send_buffer_bytes}
        self._addresses = Addresses({option: size for option, size in sizes.items() if size != KERNEL_DEFAULT})
        self._can_grow = receive_buffer_bytes == KERNEL_DEFAULT

    async def connect(self, host: str, port: int) -> TcpStream:
        connected, address = await self._addresses.dial(host, port)
        return TcpStream(connected, can_grow=self._can_grow, address=address)

    def avoid(self, stream: ByteStream) -> None:
        if isinstance(stream, TcpStream) and stream.address is not None:
            self._addresses.failed(stream.address)
