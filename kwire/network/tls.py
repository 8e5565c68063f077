"""TLS over a connected stream, as a stream itself.

Python's own TLS sockets read a record of 16 KiB with each call to the system, and give the interpreter away for each.
Here one call takes in as much as there is, up to a mebibyte, and TLS works in memory: what is there is decrypted in one
go, straight into the buffer that records are later sliced from (`protocol/framing.py`).
"""

from __future__ import annotations

import ssl
import threading
from typing import cast

from kwire.network.transport import ByteStream

RECEIVE_BYTES = 1024 * 1024
"""Encrypted bytes that are taken in at once, at most."""

RECORD_BYTES = 17 * 1024
"""More than the largest TLS record: 16 KiB of plain text, and what encryption adds. TLS may hold this much of a record
that is not complete."""

_OF_THREAD = threading.local()


def receive_buffer() -> memoryview:
    """Where the connections of this thread receive: one buffer for all, for it is emptied in the step that fills it."""
    buffer: memoryview | None = getattr(_OF_THREAD, "buffer", None)
    if buffer is None:
        buffer = _OF_THREAD.buffer = memoryview(bytearray(RECEIVE_BYTES))
    return buffer


class TlsStream:
    """A stream that encrypts what it sends over another one, and decrypts what it receives from it.

    Args:
        stream: What is sent and received over.
        context: Says what is trusted and who we are.
        server_name: The broker's name. It is always sent (SNI), as proxies find the broker by it, and looked for in the
            certificate if the context checks that.

    Raises:
        OSError: Python takes it for no name, though the resolver did: a label of more than 63 characters, say. Brokers
            name each other in metadata, so it need not be the user who chose it.
    """

    def __init__(self, stream: ByteStream, context: ssl.SSLContext, server_name: str) -> None:
        self._stream = stream
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        try:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        except ValueError as error:  # a UnicodeError is one
            raise OSError(f"{server_name!r} is no name that TLS could ask for: {error}") from error
        self._unsent = b""
        self._encrypted_bytes = 0
        self._has_ended = False

    @property
    def peer_certificate(self) -> bytes | None:
        """The broker's certificate (DER), once it has shown one."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def tls_version(self) -> str | None:
        """As in TLSv1.3, once that is agreed."""
        return self._tls.version()

    async def do_handshake(self) -> None:
        """Shake hands.

        Raises:
            ssl.SSLError: One side does not like the other.
            OSError: The connection broke.
            EOFError: The broker hung up.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._take_in(1):
                    raise EOFError from None
            except ssl.SSLError:
                await self._flush()  # the alert that says what we do not like
                raise
            else:
                return await self._flush()

    # --- out --------------------------------------------------------------------------------------------------

    def send_now(self, data: bytes) -> int:
        """Send all of it, and return its length; or return 0. Encrypted bytes cannot be encrypted anew: if not all of
        them went out, the caller gives `send_all` the same data next, which sends the rest."""
        if self._unsent:
            return 0
        self._encrypt(data)
        sent = self._stream.send_now(self._unsent)
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            return len(data)
        self._encrypted_bytes = len(data)
        return 0

    async def send_all(self, data: bytes) -> None:
        if not self._encrypted_bytes:
            self._encrypt(data)
        self._encrypted_bytes = 0
        await self._flush()

    def _encrypt(self, data: bytes) -> None:
        if data:
            self._tls.write(data)
        self._unsent += self._outgoing.read()

    async def _flush(self) -> None:
        unsent, self._unsent = self._unsent + self._outgoing.read(), b""
        if unsent:
            await self._stream.send_all(unsent)

    # --- in ---------------------------------------------------------------------------------------------------

    async def receive_into(self, buffer: memoryview, missing_bytes: int) -> int:
        while True:
            if received := self._decrypt_into(buffer):
                return received
            if self._has_ended or not await self._take_in(missing_bytes):
                return 0

    def _decrypt_into(self, buffer: memoryview) -> int:
        """Decrypt what is there, as far as it fits; returns how many bytes. What was decrypted in front of an error is
        returned first; the next call meets the error again, and raises it."""
        filled, size = 0, len(buffer)
        try:
            while filled < size and not self._has_ended:
                received = self._read_into(buffer[filled:])
                self._has_ended = not received  # close_notify, whether the connection is closed or not
                filled += received
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLEOFError:
            self._has_ended = True
        except ssl.SSLError:
            if not filled:
                raise
        return filled

    def _read_into(self, buffer: memoryview) -> int:
        """One record, or the rest of one. Given a buffer, `read` answers with a count, which its stub does not say."""
        return cast("int", self._tls.read(len(buffer), cast("bytearray", buffer)))

    async def _take_in(self, missing_bytes: int) -> int:
        """Receive encrypted bytes; returns how many. They are never fewer than the plain bytes in them. So this may
        wait for as many as are missing, less what TLS may hold of a record that is not complete."""
        buffer = receive_buffer()
        received = await self._stream.receive_into(buffer, max(1, missing_bytes - RECORD_BYTES))
        if received:
            self._incoming.write(buffer[:received])
        else:
            self._incoming.write_eof()
        return received

    def reset_when_closed(self) -> None:
        self._stream.reset_when_closed()

    async def aclose(self) -> None:
        """Close without a close_notify: Kafka's clients and brokers do not wait for one, and frames have a length."""
        await self._stream.aclose()
