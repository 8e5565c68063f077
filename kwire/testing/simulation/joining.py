"""Members that come to a group as somebody it does not know, by what they send: they must own nothing any more."""

from __future__ import annotations

from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.testing.cluster.requests import decode_request

LENGTH_BYTES = 4
JOINING_EPOCH = 0  # KIP-848
UNKNOWN_MEMBER_ID = ""
JOINING = {kind.api_key: kind for kind in (JoinGroupRequest, ConsumerGroupHeartbeatRequest)}


def joins_anew(data: bytes) -> bool:
    """Whether this is the frame of a request to join without a membership; what is no whole frame is none."""
    frame = data[LENGTH_BYTES:]
    kind = JOINING.get(int.from_bytes(frame[:2], "big"))
    if kind is None or int.from_bytes(data[:LENGTH_BYTES], "big") != len(frame):
        return False
    match decode_request(frame, kind, int.from_bytes(frame[2:4], "big")).request:
        case JoinGroupRequest() as request:
            return request.member_id == UNKNOWN_MEMBER_ID
        case ConsumerGroupHeartbeatRequest() as request:
            return request.member_epoch == JOINING_EPOCH
        case _:
            return False
