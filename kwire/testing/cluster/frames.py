"""Frames of one connection, on the broker's side: an int32 length, then that many bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.compiler import encode_message
from kwire.protocol.messages.headers import ResponseHeader
from kwire.protocol.schema import Response

if TYPE_CHECKING:
    import trio

    from kwire.protocol.schema import Message

LENGTH_BYTES = 4
RECEIVE_BYTES = 64 * 1024


class BrokenFrameError(Exception):
    """The bytes received are no frame."""


class FrameReader:
    """Splits a stream into frames.

    Args:
        stream: Where the bytes come from.
    """

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def read(self, max_bytes: int) -> bytes | None:
        """The next frame without its length, which is `max_bytes` at most; None when the client has closed.

        Raises:
            BrokenFrameError: No frame has that length, or the stream ended inside one.
            trio.BrokenResourceError, trio.ClosedResourceError: The connection broke.
        """
        if not await self._fill(LENGTH_BYTES):
            return None
        size_bytes = int.from_bytes(self._buffer[:LENGTH_BYTES], "big", signed=True)
        if not 0 <= size_bytes <= max_bytes:
            raise BrokenFrameError(f"a frame of {size_bytes} bytes")
        end = LENGTH_BYTES + size_bytes
        if not await self._fill(end):
            raise BrokenFrameError(f"the stream ended {end - len(self._buffer)} bytes short of a frame")
        frame = bytes(memoryview(self._buffer)[LENGTH_BYTES:end])
        del self._buffer[:end]
        return frame

    async def skip_all(self) -> None:
        """Read and forget until the client closes."""
        self._buffer.clear()
        while await self._stream.receive_some(RECEIVE_BYTES):
            pass

    async def _fill(self, size_bytes: int) -> bool:
        """Have at least as many bytes in the buffer; False if the stream ends before."""
        while len(self._buffer) < size_bytes:
            some = await self._stream.receive_some(max(RECEIVE_BYTES, size_bytes - len(self._buffer)))
            if not some:
                return False
            self._buffer += some
        return True


def response_bytes(response: Message, version: int, correlation_id: int) -> bytes:
    """Header and message of an answer, without the frame's length."""
    header_version = response.header_version(version) if isinstance(response, Response) else 0
    header = encode_message(ResponseHeader(correlation_id=correlation_id), header_version)
    return header + encode_message(response, version)


def framed(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload
