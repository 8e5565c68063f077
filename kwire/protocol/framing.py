"""One connection's bytes: frames, headers and correlation ids. No sockets: bytes in, answers out.

The owner of the connection sends what `send` returns, reads from the network into `writable_buffer()`, and tells
`received` how much came. Answers come in the order of the requests, because Kafka promises it. Not thread-safe: one
`Framing` belongs to one connection, and that to the network thread.

A frame is an int32 length, a header and a message. Small frames share one buffer that is used again and again; a frame
larger than that gets a buffer of its own size, into which the network's bytes go directly, and whose slices become the
records that the user reads: no copy of a large answer is ever made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import InternalError, ProtocolError
from kwire.protocol.compiler import decode_message, decode_prefix, encode_message
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.headers import RequestHeader, ResponseHeader
from kwire.speedups import room

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Request

DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Twice Kafka's default `fetch.max.bytes` (50 MiB), since a first batch may be larger than that limit (KIP-74); also
what a broker takes at most (`socket.request.max.bytes`). A Fetch that asks for more may be answered with more."""

MAX_PLAIN_ANSWER_BYTES = 32 * 1024 * 1024
"""Answers without records are small: the largest, Metadata, takes some 40 bytes for each partition, and of more than
350,000 it is refused all the same (`decoded_size`)."""

MAX_LOGIN_ANSWER_BYTES = 512 * 1024
"""The most that an answer has before the login: as much as brokers take then (`sasl.server.max.receive.size`)."""

SMALL_BUFFER_BYTES = 64 * 1024
"""As much as one read usually brings, and more than any answer that is not a Fetch or a large Metadata."""

LENGTH_BYTES = 4
CORRELATION_ID_BYTES = 4
BEFORE_CORRELATION_ID = 4
"""The bytes of a request's header in front of its correlation id: API key and version."""

MAX_INT32 = 0x7FFFFFFF

_LOGIN_API_KEYS = frozenset({17, 18, 36})  # SaslHandshake, ApiVersions, SaslAuthenticate

TLS_HANDSHAKE, TLS_ALERT = 0x16, 0x15
"""First byte of a TLS record (RFC 8446, 5.1); the second is always 3."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response and its version, the request that it answers, who sent the request, and the size of the frame."""

    request: Request[Message]
    version: int
    response: Message
    sender: object = None
    size_bytes: int = field(default=0, compare=False)


class _InFlight(NamedTuple):
    correlation_id: int
    request: Request[Message]
    version: int
    sender: object


class Framing:
    """Turns requests into frames and frames into answers, for one connection.

    Args:
        client_id: What the broker shows in its logs and quotas.
        max_frame_bytes: A frame that claims to be larger is refused before memory is reserved for it. Most answers
            have to be smaller still (`_limit_bytes`).

    Attributes:
        missing_bytes: How many have to come, as far as is known, before there is another answer. At least one.
        last_was_large: Whether the last frame that began to come has a buffer of its own.
    """

    def __init__(self, client_id: str | None, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._client_id = client_id
        self._max_frame_bytes = max_frame_bytes
        self._in_flight: deque[_InFlight] = deque()
        self._next_correlation_id = 0
        self._heads: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self._small = memoryview(bytearray(SMALL_BUFFER_BYTES))
        self._small_filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self.missing_bytes = 1
        self.last_was_large = False
        self._error: ProtocolError | None = None

    def __repr__(self) -> str:
        state = "broken" if self._error else f"{self.in_flight} in flight"
        return f"<Framing {self._client_id!r}: {state}>"

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._in_flight)

    @property
    def senders(self) -> list[object]:
        """Who waits for an answer, in the order of the requests."""
        return [each.sender for each in self._in_flight]

    @property
    def arrived_share(self) -> float:
        """How much of the next answer is there, from 0 to 1; 0 if it is small."""
        return 0.0 if self._large is None else self._large_filled / len(self._large)

    def give_up(self) -> None:
        """Nobody waits for the answers that have not come."""
        self._in_flight.clear()

    def send(self, request: Request[Message], version: int, sender: object = None) -> bytes:
        """The frame of a request, which from now on is in flight.

        Args:
            sender: Whatever the answer is to be handed to; it comes back with that.

        Raises:
            ProtocolError, UnsupportedVersionError: It cannot be encoded; nothing is in flight then.
        """
        self._raise_if_broken()
        before_id, behind_id = self._heads.get((request.api_key, version)) or self._head_of(request, version)
        correlation_id = self._next_correlation_id.to_bytes(CORRELATION_ID_BYTES, "big")
        body = encode_message(request, version)
        size_bytes = len(before_id) + CORRELATION_ID_BYTES + len(behind_id) + len(body)
        if size_bytes > MAX_INT32:
            raise ProtocolError(f"{type(request).__name__} v{version} takes {size_bytes} bytes, too many for a frame")
        self._in_flight.append(_InFlight(self._next_correlation_id, request, version, sender))
        self._next_correlation_id = (self._next_correlation_id + 1) & MAX_INT32
        return b"".join((size_bytes.to_bytes(LENGTH_BYTES, "big"), before_id, correlation_id, behind_id, body))

    def _head_of(self, request: Request[Message], version: int) -> tuple[bytes, bytes]:
        """The header of such requests, without the correlation id in its middle: all else stays the same."""
        header = RequestHeader(request_api_key=request.api_key, request_api_version=version, client_id=self._client_id)
        head = encode_message(header, request.header_version(version))
        found = head[:BEFORE_CORRELATION_ID], head[BEFORE_CORRELATION_ID + CORRELATION_ID_BYTES :]
        self._heads[request.api_key, version] = found
        return found

    def writable_buffer(self) -> memoryview:
        """Where the next bytes from the network go; never empty, and with room for `missing_bytes`.

        Raises:
            ProtocolError: What came before does not follow the protocol; close the connection.
        """
        self._raise_if_broken()
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._small[self._small_filled :]

    def received(self, byte_count: int) -> list[Answer]:
        """Take note of `byte_count` bytes in the buffer, and return every response that is complete now.

        Raises:
            ProtocolError: The bytes do not follow the protocol; close the connection. Where good answers came before
                the bad bytes, those are returned, and the next call of any method raises.
        """
        if not 0 <= byte_count <= len(self.writable_buffer()):
            raise InternalError(f"{byte_count} bytes were received into a buffer of {len(self.writable_buffer())}")
        answers: list[Answer] = []
        self.missing_bytes = 1
        try:
            if self._large is not None:
                self._take_large(byte_count, answers)
            else:
                self._take_small(byte_count, answers)
        except ProtocolError as error:
            self._error = error
            if not answers:
                raise
        return answers

    def _raise_if_broken(self) -> None:
        if self._error is not None:
            raise self._error

    def _take_large(self, byte_count: int, answers: list[Answer]) -> None:
        frame = self._large
        self._large_filled += byte_count
        assert frame is not None
        if self._large_filled == len(frame):
            self._large, self._large_filled = None, 0
            answers.append(self._answer(frame))
        else:
            self.missing_bytes = len(frame) - self._large_filled

    def _take_small(self, byte_count: int, answers: list[Answer]) -> None:
        filled = self._small_filled + byte_count
        start = 0
        while filled - start >= LENGTH_BYTES:
            size_bytes = self._checked_size(bytes(self._small[start : start + LENGTH_BYTES]))
            body = start + LENGTH_BYTES
            if body + size_bytes <= filled:
                self.last_was_large = False
                start = body + size_bytes
                answers.append(self._answer(memoryview(bytes(self._small[body:start]))))
                continue
            self.missing_bytes = body + size_bytes - filled
            if LENGTH_BYTES + size_bytes > SMALL_BUFFER_BYTES:
                self._begin_large(size_bytes, self._small[body:filled])
                start = filled
            break
        self._small_filled = filled - start
        if start:
            self._small[: self._small_filled] = self._small[start:filled]

    def _begin_large(self, size_bytes: int, head: memoryview) -> None:
        self.last_was_large = True
        self._large = memoryview(room(size_bytes))
        self._large[: len(head)] = head
        self._large_filled = len(head)

    def _checked_size(self, prefix: bytes) -> int:
        """A frame's length, if it can be one."""
        size_bytes = int.from_bytes(prefix, "big", signed=True)
        limit_bytes = self._limit_bytes()
        if CORRELATION_ID_BYTES <= size_bytes <= limit_bytes:
            return size_bytes
        purpose = f" to answer {type(self._in_flight[0].request).__name__}" if self._in_flight else ""
        limits = f"it must be {CORRELATION_ID_BYTES} to {limit_bytes} bytes{purpose}"
        raise ProtocolError(_stranger(prefix) or f"a frame of {size_bytes} bytes, but {limits}")

    def _limit_bytes(self) -> int:
        """How large the next frame may be: it answers the oldest request, and that says what can be expected."""
        if not self._in_flight:
            return min(MAX_LOGIN_ANSWER_BYTES, self._max_frame_bytes)
        request = self._in_flight[0].request
        if isinstance(request, FetchRequest):
            return max(self._max_frame_bytes, request.max_bytes + self._max_frame_bytes // 2)
        is_login = request.api_key in _LOGIN_API_KEYS
        return min(MAX_LOGIN_ANSWER_BYTES if is_login else MAX_PLAIN_ANSWER_BYTES, self._max_frame_bytes)

    def _answer(self, frame: memoryview) -> Answer:
        """Decode the oldest request's answer, which this frame has to be."""
        if not self._in_flight:
            raise ProtocolError(f"an answer of {len(frame)} bytes came, but no request waits for one")
        waiting = self._in_flight[0]
        expected = waiting.request.response_type
        header, length = decode_prefix(ResponseHeader, expected.header_version(waiting.version), frame)
        if header.correlation_id != waiting.correlation_id:
            raise ProtocolError(
                f"an answer with correlation id {header.correlation_id} came, but {waiting.correlation_id} "
                f"({type(waiting.request).__name__}) is next; Kafka answers in order"
            )
        body = frame[length:]
        version = _response_version(expected, waiting.version, body)
        response = decode_message(expected, version, body)
        answer = Answer(waiting.request, version, response, waiting.sender, LENGTH_BYTES + len(frame))
        self._in_flight.popleft()
        return answer


def _response_version(expected: type[Message], version: int, body: memoryview) -> int:
    """KIP-511: a broker that does not know the version of an ApiVersions request answers error 35 in version 0."""
    if expected is not ApiVersionsResponse:
        return version
    error_code = int.from_bytes(body[:2], "big", signed=True)
    return 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version


def _stranger(prefix: bytes) -> str:
    """Who may be speaking, if it is not Kafka, going by the first bytes."""
    if prefix[0] in (TLS_HANDSHAKE, TLS_ALERT) and prefix[1] == 3:
        return "it answers in TLS: this port wants an encrypted connection (security_protocol SSL or SASL_SSL)"
    if all(0x20 <= byte < 0x7F for byte in prefix):
        return f"this port does not speak Kafka: it answers {prefix.decode('ascii')!r}"
    return ""
