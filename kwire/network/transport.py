"""The seam between the client and the world: everything above works the same over TCP, TLS or memory."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    """A connected stream. One task sends, another receives. Failures are OSError."""

    def send_now(self, data: bytes) -> int:
        """Send as much as goes out at once, and return how much. After a failure that is 0: `send_all`, which has to
        send the rest, raises the error. Not called while `send_all` is under way."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Send everything."""
        ...

    async def receive_into(self, buffer: memoryview, missing_bytes: int) -> int:
        """Fill some of the buffer and return how much; 0 means the peer has closed. Cancelled, it has taken nothing.

        Args:
            missing_bytes: How many bytes complete the answer. This may wait until this many are there, but need not.
        """
        ...

    def reset_when_closed(self) -> None:
        """Have `aclose` reset the connection (RST) instead of ending it: the peer drops what it has not read yet."""
        ...

    async def aclose(self) -> None:
        """Close at once; never fails."""
        ...


class Transport(Protocol):
    """Makes streams."""

    async def connect(self, host: str, port: int) -> ByteStream:
        """Dial. Raises OSError with what went wrong."""
        ...

    def avoid(self, stream: ByteStream) -> None:
        """The stream was connected, but of no use: dial the host's other addresses before this one."""
        ...
