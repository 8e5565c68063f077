"""Both ends of a connection that a proxy can stand in: a server that answers frames, and a client that asks.

They speak Kafka's frames and headers, and nothing of Kafka else: the body of an answer is what the test wants it to be.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import google_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "127.0.0.1"
TIMEOUT_S = 10.0
QUIET_S = 0.05  # how long nothing has to come for a test to believe that nothing comes
PRODUCE, FETCH, METADATA = 0, 1, 3
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def request(api_key: int, correlation_id: int, body: bytes = b"") -> bytes:
    return frame(struct.pack(">hhi", api_key, 0, correlation_id) + body)


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return frame(struct.pack(">i", correlation_id) + body)


def record_batch(records: bytes) -> bytes:
    """A batch of magic 2 with a right checksum, around whatever stands for its records."""
    covered = struct.pack(">hiqqqhii", 0, 0, 1, 1, -1, -1, -1, 1) + records
    crc = google_crc32c.value(covered)
    return struct.pack(">qiibI", 5, 9 + len(covered), 0, 2, crc) + covered


def echo(_api_key: int, body: bytes) -> bytes:
    return body


class FrameServer:
    """Answers every request with what `answers` makes of its API and body. Use as a context manager."""

    def __init__(self, answers: Callable[[int, bytes], bytes] = echo) -> None:
        self._answers = answers
        self.connections: list[socket.socket] = []
        self.ended = threading.Semaphore(0)  # released once for each connection whose client has gone
        self._reset: set[socket.socket] = set()
        self._accepted = threading.Semaphore(0)

    def __enter__(self) -> Self:
        self._listener = socket.create_server((HOST, 0))
        self._thread = threading.Thread(target=self._accept)
        self._threads = [self._thread]
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self.connections:
            connection.close()

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self._listener.getsockname()[1]

    def hang_up(self, *, abruptly: bool = False) -> None:
        """End the connection that came next."""
        assert self._accepted.acquire(timeout=TIMEOUT_S)
        connection = self.connections[-1]
        if abruptly:
            self._reset.add(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            connection.shutdown(socket.SHUT_RD)  # wakes who serves it, who closes it; nothing is sent for this
        else:
            connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()
                self._accepted.release()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while True:
                content = read_frame(connection)[4:]
                api_key, _, correlation_id = struct.unpack_from(">hhi", content)
                connection.sendall(answer(correlation_id, self._answers(api_key, content[8:])))
        with suppress(OSError):
            if connection in self._reset:
                connection.close()
            else:
                connection.shutdown(socket.SHUT_WR)
        self.ended.release()


def read_frame(connection: socket.socket) -> bytes:
    length = read_exactly(connection, 4)
    return length + read_exactly(connection, max(0, int.from_bytes(length, signed=True)))


def read_exactly(connection: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        more = connection.recv(min(size_bytes - len(data), 1 << 20))
        if not more:
            raise EOFError(f"it ended after {len(data)} of {size_bytes} bytes")
        data += more
    return bytes(data)


class Client(socket.socket):
    """A connection that asks."""

    def __init__(self, address: tuple[str, int], timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(socket.AF_INET)
        self.settimeout(timeout_s)
        try:
            self.connect(address)
        except OSError:
            self.close()
            raise

    def ask(self, api_key: int = METADATA, correlation_id: int = 1, body: bytes = b"body") -> bytes:
        """The answer's whole frame."""
        self.sendall(request(api_key, correlation_id, body))
        return read_frame(self)

    def hears_nothing(self) -> bool:
        """Neither bytes nor an end, for a moment."""
        self.settimeout(QUIET_S)
        try:
            self.recv(1)
        except TimeoutError:
            return True
        finally:
            self.settimeout(TIMEOUT_S)
        return False

    def has_ended(self) -> bool:
        """Whether the other side hangs up, and says nothing before."""
        return self.recv(1) == b""
