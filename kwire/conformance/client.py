"""A small blocking client: one connection, requests out, answers in, a timeout on every wait.

It does not share the consumer's network code, whose bugs could hide those of a broker.
Frames, headers and correlation ids are `kwire.protocol.framing`'s; `RawConnection` sends any bytes, for checks with
malformed requests. Used by `broker.py` and by the checks.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from kwire.clock import Deadline
from kwire.conformance.addressed import expect_about
from kwire.errors import DisconnectError, InvalidArgumentError, KafkaError, KafkaTimeoutError, ProtocolError
from kwire.protocol.framing import DEFAULT_MAX_FRAME_BYTES, LENGTH_BYTES, Framing

if TYPE_CHECKING:
    from kwire.conformance.access import Access
    from kwire.protocol.framing import Answer
    from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound="Message")

CLIENT_ID = "kwire-conformance"
RECEIVE_BYTES = 64 * 1024


class BrokerAddress(NamedTuple):
    """The address of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> BrokerAddress:
        """Read "host:port" or "[v6]:port"; of a list of several, the first.

        Raises:
            InvalidArgumentError: The text is neither.
        """
        host, colon, port = text.split(",", maxsplit=1)[0].strip().rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise InvalidArgumentError(f"a broker's address looks like HOST:PORT, not {text!r}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


class RawConnection:
    """A connection that sends and receives bytes.

    Args:
        address: The address of the broker.
        timeout_s: How long connecting, and each `send_bytes` and `read_bytes`, may take.
        access: TLS and the login, which are completed before anything else is sent.

    Raises:
        DisconnectError, KafkaTimeoutError: The broker cannot be reached.
        AuthenticationError: The broker refuses the login.
    """

    def __init__(self, address: BrokerAddress, timeout_s: float, access: Access | None = None) -> None:
        self.address = address
        self.timeout_s = timeout_s
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except TimeoutError as error:
            raise KafkaTimeoutError(f"{address} took no connection within {timeout_s:g} s") from error
        except OSError as error:
            raise DisconnectError(f"cannot connect to {address}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if access is not None:
            self._enter(access)

    def _enter(self, access: Access) -> None:
        try:
            self._socket = access.secured(self._socket, self.address.host)
            access.log_in(_Asking(self, Framing(CLIENT_ID)).ask)
        except KafkaError:
            self.close()
            raise

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def cut(self) -> None:
        """End the connection from another thread: the one that waits for an answer gets a DisconnectError."""
        with suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def send_bytes(self, data: bytes) -> None:
        """Raises: DisconnectError, KafkaTimeoutError."""
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(data)
        except TimeoutError as error:
            raise KafkaTimeoutError(f"{self.address} took no bytes for {self.timeout_s:g} s") from error
        except OSError as error:
            raise DisconnectError(f"{self.address} closed the connection: {error.strerror or error}") from error

    def read_frame(self) -> bytes:
        """The next frame, without its length.

        Raises:
            DisconnectError, KafkaTimeoutError: The connection ends, or the time is over, before the frame is complete.
            ProtocolError: The length of the frame is invalid.
        """
        deadline = Deadline.after(self.timeout_s * 1000)
        size_bytes = int.from_bytes(self._read_exactly(LENGTH_BYTES, deadline), "big", signed=True)
        if not 0 <= size_bytes <= DEFAULT_MAX_FRAME_BYTES:
            raise ProtocolError(f"{self.address} sent a frame of {size_bytes} bytes")
        return self._read_exactly(size_bytes, deadline)

    def closes_within(self, timeout_s: float) -> bool:
        """Whether the broker closes the connection; bytes that it sends before are discarded."""
        deadline = Deadline.after(timeout_s * 1000)
        buffer = memoryview(bytearray(RECEIVE_BYTES))
        try:
            while self._read_into(buffer, deadline):
                pass
        except DisconnectError:
            return True
        except KafkaTimeoutError:
            return False
        return True

    def _read_exactly(self, size_bytes: int, deadline: Deadline) -> bytes:
        buffer = memoryview(bytearray(size_bytes))
        filled = 0
        while filled < size_bytes:
            filled += self.read_some(buffer[filled:], deadline)
        return bytes(buffer)

    def read_some(self, buffer: memoryview, deadline: Deadline) -> int:
        """Read bytes into the buffer; returns how many came, at least one. Raises: DisconnectError,
        KafkaTimeoutError."""
        count = self._read_into(buffer, deadline)
        if not count:
            raise DisconnectError(f"{self.address} closed the connection while an answer was due")
        return count

    def _read_into(self, buffer: memoryview, deadline: Deadline) -> int:
        """Read bytes into the buffer; returns how many came, 0 if the broker has closed the connection."""
        try:
            # A timeout of 0 would mean "do not wait" to the socket, and nobody would get a first chance to read.
            self._socket.settimeout(max(0.001, deadline.remaining_ms() / 1000))
            return self._socket.recv_into(buffer)
        except TimeoutError as error:
            raise KafkaTimeoutError(f"{self.address} did not answer in time") from error
        except OSError as error:
            raise DisconnectError(f"{self.address} closed the connection: {error.strerror or error}") from error


class ClientConnection(RawConnection):
    """A connection that sends requests and receives answers; any number of requests may be in flight."""

    def __init__(self, address: BrokerAddress, timeout_s: float, access: Access | None = None) -> None:
        super().__init__(address, timeout_s, access)
        self._asking = _Asking(self, Framing(CLIENT_ID))

    def __enter__(self) -> ClientConnection:
        return self

    def send(self, request: Request[Message], version: int) -> None:
        """Send a request and do not wait for the answer. Raises: as `ask`."""
        self._asking.send(request, version)

    def send_unanswered(self, request: Request[Message], version: int) -> None:
        """Send a request that has no answer: Produce with `acks=0`. No other request may be in flight."""
        self.send_bytes(Framing(CLIENT_ID).send(request, version))

    def receive(self) -> Message:
        """Receive the answer to the oldest request in flight. Raises: as `ask`."""
        return self._asking.receive()

    def ask(self, request: Request[R], version: int) -> R:
        """Send a request and wait for its answer.

        Raises:
            DisconnectError: The broker closed the connection.
            KafkaTimeoutError: The broker did not answer in time.
            ProtocolError: The answer does not follow the protocol.
            NonconformanceError: The answer is about partitions that the request does not name.
        """
        answer = self._asking.ask(request, version)
        expect_about(request, answer)
        return answer


class _Asking:
    """Sends requests and receives answers on a connection, with correlation ids of its own."""

    def __init__(self, connection: RawConnection, framing: Framing) -> None:
        self._connection = connection
        self._framing = framing
        self._answers: deque[Answer] = deque()

    def send(self, request: Request[Message], version: int) -> None:
        self._connection.send_bytes(self._framing.send(request, version))

    def receive(self) -> Message:
        deadline = Deadline.after(self._connection.timeout_s * 1000)
        while not self._answers:
            count = self._connection.read_some(self._framing.writable_buffer(), deadline)
            self._answers.extend(self._framing.received(count))
        return self._answers.popleft().response

    def ask(self, request: Request[R], version: int) -> R:
        self.send(request, version)
        return cast("R", self.receive())
