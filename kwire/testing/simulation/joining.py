"""Who comes to a group as somebody it does not know, by what it sends: whoever does that must own nothing any more."""

from __future__ import annotations

from typing import TypeVar

from kwire.protocol.compiler import decode_message, decode_prefix
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.headers import RequestHeader
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound=Request[Message])

LENGTH_BYTES = 4
JOINING_EPOCH = 0  # KIP-848
UNKNOWN_MEMBER_ID = ""


def joins_anew(data: bytes) -> bool:
    """Whether this is the frame of a request to join without a membership; what is no whole frame is none."""
    if int.from_bytes(data[:LENGTH_BYTES], "big") != len(data) - LENGTH_BYTES:
        return False
    match int.from_bytes(data[LENGTH_BYTES : LENGTH_BYTES + 2], "big"):
        case JoinGroupRequest.api_key:
            return _decoded(JoinGroupRequest, data).member_id == UNKNOWN_MEMBER_ID
        case ConsumerGroupHeartbeatRequest.api_key:
            return _decoded(ConsumerGroupHeartbeatRequest, data).member_epoch == JOINING_EPOCH
        case _:
            return False


def _decoded(request: type[R], data: bytes) -> R:
    version = int.from_bytes(data[LENGTH_BYTES + 2 : LENGTH_BYTES + 4], "big")
    frame = data[LENGTH_BYTES:]
    _, length = decode_prefix(RequestHeader, request.header_version(version), frame)
    return decode_message(request, version, frame[length:])
