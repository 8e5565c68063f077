"""Bytes that are no requests: the broker ends that connection, or says what is wrong, and goes on serving others."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kwire.conformance.expectations import expect, expect_ok
from kwire.conformance.registry import check
from kwire.protocol.compiler import encode_message
from kwire.protocol.framing import LENGTH_BYTES
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.headers import RequestHeader
from kwire.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker

UNKNOWN_API_KEY = 0x7FFF
UNKNOWN_VERSION = 0x7FFF
_LENGTH = struct.Struct(">i")
MAX_FRAME, NEGATIVE_FRAME = _LENGTH.pack(0x7FFFFFFF), _LENGTH.pack(-1)


def frame(api_key: int, version: int, body: bytes = b"") -> bytes:
    header = RequestHeader(request_api_key=api_key, request_api_version=version, correlation_id=1, client_id="k")
    message = encode_message(header, 1) + body
    return len(message).to_bytes(LENGTH_BYTES, "big") + message


def expect_closed(broker: JudgedBroker, data: bytes, what: str) -> None:
    with broker.connect_raw() as connection:
        connection.send_bytes(data)
        expect(connection.closes_within(broker.timeout_s), f"after {what} the connection is still open")
    expect_alive(broker)


def expect_alive(broker: JudgedBroker) -> None:
    expect_ok(broker.ask(ApiVersionsRequest(), 0).error_code, "ApiVersions afterwards")


@check(ApiVersionsRequest, once=True)
def closes_on_an_unknown_api(broker: JudgedBroker, _version: int) -> None:
    expect_closed(broker, frame(UNKNOWN_API_KEY, 0), f"a request with API key {UNKNOWN_API_KEY}")


@check(MetadataRequest, once=True)
def closes_on_an_unknown_version(broker: JudgedBroker, _version: int) -> None:
    """ApiVersions alone is answered in such a case (KIP-511)."""
    expect_closed(broker, frame(MetadataRequest.api_key, UNKNOWN_VERSION), f"a Metadata request v{UNKNOWN_VERSION}")


@check(MetadataRequest)
def closes_on_a_body_that_ends_too_early(broker: JudgedBroker, version: int) -> None:
    # 126 topics are announced, and none follows. The flexible header before them ends with its tagged fields.
    body = b"\x00\x7f" if version in MetadataRequest.flexible else b"\x00\x00\x00\x7e"
    expect_closed(broker, frame(MetadataRequest.api_key, version, body), "half a body")


@check(ApiVersionsRequest, once=True)
def closes_on_a_frame_that_is_too_large(broker: JudgedBroker, _version: int) -> None:
    expect_closed(broker, MAX_FRAME + b"xxxx", "the announcement of a frame of 2 GiB")


@check(ApiVersionsRequest, once=True)
def closes_on_a_negative_length(broker: JudgedBroker, _version: int) -> None:
    expect_closed(broker, NEGATIVE_FRAME, "a frame of length -1")


@check(ApiVersionsRequest, once=True)
def closes_on_an_empty_frame(broker: JudgedBroker, _version: int) -> None:
    expect_closed(broker, _LENGTH.pack(0), "a frame without a header")


@check(ApiVersionsRequest, once=True)
def closes_on_garbage(broker: JudgedBroker, _version: int) -> None:
    expect_closed(broker, _LENGTH.pack(64) + bytes(range(192, 256)), "a frame of garbage")


@check(ApiVersionsRequest, once=True)
def closes_on_another_protocol(broker: JudgedBroker, _version: int) -> None:
    expect_closed(broker, b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "an HTTP request")


@check(ApiVersionsRequest, once=True)
def survives_a_client_that_leaves_in_the_middle(broker: JudgedBroker, _version: int) -> None:
    whole = frame(MetadataRequest.api_key, 0, b"\xff\xff\xff\xff")
    for length in range(len(whole)):
        with broker.connect_raw() as connection:
            connection.send_bytes(whole[:length])
    expect_alive(broker)
