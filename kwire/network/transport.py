"""The seam between the client and the world: everything above works the same over TCP, TLS or memory."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    """A connected stream. One task sends, another receives. Failures are OSError."""

    def send_now(self, data: bytes) -> int:
        """Send as much as goes out at once, and return how much. A failure looks like nothing: `send_all`, which has to
        send the rest, meets it again. Not called while that is under way."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Send everything."""
        ...

    async def receive_into(self, buffer: memoryview, missing_bytes: int) -> int:
        """Fill some of the buffer and return how much; 0 means the peer has closed. Cancelled, it has taken nothing.

        Args:
            missing_bytes: What comes in helps nobody before it is so much, so this may wait for as much. It need not.
        """
        ...

    def reset_when_closed(self) -> None:
        """Have `aclose` break the connection off, not end it: the peer never reads what it has not read yet."""
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
        """It was connected and of no use: where the host has other addresses, dial those before this one."""
        ...
