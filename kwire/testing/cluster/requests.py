"""Requests from the bytes of frames, with Kafka's rules about requests that close the connection. Used by `connection`,
and by simulated worlds to see what clients send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.errors import KafkaError
from kwire.protocol.compiler import decode_prefix
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.headers import RequestHeader
from kwire.protocol.registry import request_classes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.protocol.error_codes import ErrorCode
    from kwire.protocol.registry import ApiRange
    from kwire.protocol.schema import Message, Request

MIN_HEADER_BYTES = 10
"""API key, version, correlation id, and the length of the client id."""


class UnanswerableError(Exception):
    """Kafka closes the connection over this request without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request with its header. `request` is None for ApiVersions in a version that the broker does not have: only
    that API is answered in an unsupported version (KIP-511)."""

    request: Request[Message] | None
    version: int
    correlation_id: int
    client_id: str


def read_request(frame: bytes, offered: Mapping[int, ApiRange]) -> Incoming:
    """The request in a frame.

    Raises:
        UnanswerableError: The frame holds no request, or its version is not offered.
    """
    if len(frame) < MIN_HEADER_BYTES:
        raise UnanswerableError(f"a frame of {len(frame)} bytes holds no request")
    api_key, version = _int16(frame, 0), _int16(frame, 2)
    versions = offered.get(api_key)
    if versions is not None and versions.min_version <= version <= versions.max_version:
        return decode_request(frame, request_classes()[api_key], version)
    if api_key == ApiVersionsRequest.api_key:
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        return Incoming(request=None, version=0, correlation_id=correlation_id, client_id="")
    raise UnanswerableError(f"API key {api_key} is not offered in version {version}")


def decode_request(frame: bytes, kind: type[Request[Message]], version: int) -> Incoming:
    """The request in a frame that is known to be of this kind and version.

    Raises:
        UnanswerableError: The bytes are no such request.
    """
    view = memoryview(frame)
    try:
        header, length = decode_prefix(RequestHeader, kind.header_version(version), view)
        # Kafka ignores bytes after the request; librdkafka leaves three there when it asks for all topics.
        request, _ = decode_prefix(kind, version, view[length:])
    except KafkaError as error:
        raise UnanswerableError(str(error)) from error
    return Incoming(
        request=request, version=version, correlation_id=header.correlation_id, client_id=header.client_id or ""
    )


def _int16(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2], "big", signed=True)


def error_response(request: Request[Message], version: int, code: ErrorCode) -> Message:
    """An answer with this error and nothing else.

    Raises:
        UnanswerableError: Answers to such requests have no error code.
    """
    response = request.response_type()
    if not hasattr(response, "error_code"):
        raise UnanswerableError(f"{type(request).__name__} in version {version} cannot be answered {code.name}")
    setattr(response, "error_code", code)  # noqa: B010  messages share no base for it
    return response
