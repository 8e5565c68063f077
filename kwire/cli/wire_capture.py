"""Frames with their headers: single ones, and captures of what went over one connection.

A request's header says which message it is. A response's header has the correlation id alone, so responses are read
with the requests of the same connection at hand. `kwire.protocol.framing` does this for a live connection; here nothing
is in flight, and what cannot be read is an error that says at which byte. Called by `wire`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kwire.errors import InvalidArgumentError, KafkaError, ProtocolError
from kwire.protocol.compiler import decode_message, decode_prefix
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsResponse
from kwire.protocol.messages.headers import RequestHeader, ResponseHeader
from kwire.protocol.plain import to_json
from kwire.protocol.registry import request_class
from kwire.protocol.schema import Message, Request, Response

LENGTH_BYTES = 4
# The two fields that say how the rest of a request header is to be read: int16 API key, int16 version.
API_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message of a capture, where it was, and its header."""

    position: int
    version: int
    header: RequestHeader | ResponseHeader
    message: Message

    def to_json(self) -> dict[str, object]:
        return {
            "position": self.position,
            "message": type(self.message).__name__,
            "version": self.version,
            "header": to_json(self.header),
            "fields": to_json(self.message),
        }


def decode_with_header(message: type[Message], version: int, data: bytes) -> dict[str, object]:
    """A message behind its header, as JSON.

    Raises:
        InvalidArgumentError: This kind of message has no header.
        ProtocolError: The bytes do not follow the protocol.
        UnsupportedVersionError: There is no such version.
    """
    header, size_bytes = _header(message, version, data)
    body = decode_message(message, version, data[size_bytes:])
    return {"header": to_json(header), "fields": to_json(body)}


def decode_frame(message: type[Message], version: int, data: bytes) -> dict[str, object]:
    """As above, with the length in front, which has to be right."""
    size_bytes = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
    if len(data) < LENGTH_BYTES or size_bytes != len(data) - LENGTH_BYTES:
        raise ProtocolError(f"a frame of {size_bytes} bytes, but {max(0, len(data) - LENGTH_BYTES)} follow its length")
    return {"size_bytes": size_bytes, **decode_with_header(message, version, data[LENGTH_BYTES:])}


def read_requests(data: bytes) -> list[Frame]:
    """What a client sent, frame after frame.

    Raises:
        ProtocolError: The bytes do not follow the protocol; says where.
        UnsupportedVersionError: A request that kwire does not know.
    """
    return [_request(position, frame) for position, frame in _frames(data)]


def read_responses(data: bytes, requests: Sequence[Frame]) -> list[Frame]:
    """What the broker answered to these requests.

    Raises:
        ProtocolError: The bytes do not follow the protocol, or an answer is to none of the requests.
    """
    asked = {request.header.correlation_id: request for request in requests}
    return [_response(position, frame, asked) for position, frame in _frames(data)]


def _header(message: type[Message], version: int, data: bytes) -> tuple[RequestHeader | ResponseHeader, int]:
    if issubclass(message, Request):
        return decode_prefix(RequestHeader, message.header_version(version), data)
    if issubclass(message, Response):
        return decode_prefix(ResponseHeader, message.header_version(version), data)
    raise InvalidArgumentError(f"{message.__name__} is neither a request nor a response, so it has no header")


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        start = position + LENGTH_BYTES
        size_bytes = int.from_bytes(data[position:start], "big", signed=True)
        if start > len(data) or not 0 <= size_bytes <= len(data) - start:
            left = len(data) - position
            raise ProtocolError(f"the capture at byte {position}: a frame of {size_bytes} bytes where {left} are left")
        yield position, data[start : start + size_bytes]
        position = start + size_bytes


def _request(position: int, frame: bytes) -> Frame:
    if len(frame) < API_BYTES:
        raise ProtocolError(f"the frame at byte {position}: {len(frame)} bytes are too few for a request")
    api_key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (0, 2))
    try:
        cls = request_class(api_key)
        header, size_bytes = decode_prefix(RequestHeader, cls.header_version(version), frame)
        message = decode_message(cls, version, frame[size_bytes:])
    except KafkaError as error:
        raise ProtocolError(f"the frame at byte {position}: {error}") from error
    return Frame(position=position, version=version, header=header, message=message)


def _response(position: int, frame: bytes, asked: dict[int, Frame]) -> Frame:
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    request = asked.get(correlation_id)
    if request is None or not isinstance(request.message, Request):
        raise ProtocolError(f"the frame at byte {position} answers {correlation_id}, which none of the requests has")
    cls, version = request.message.response_type, request.version
    try:
        header, size_bytes = decode_prefix(ResponseHeader, cls.header_version(version), frame)
        body = frame[size_bytes:]
        # KIP-511: the answer to a version that the broker does not know comes in version 0.
        if cls is ApiVersionsResponse and body[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
        message = decode_message(cls, version, body)
    except KafkaError as error:
        raise ProtocolError(f"the frame at byte {position}: {error}") from error
    return Frame(position=position, version=version, header=header, message=message)
