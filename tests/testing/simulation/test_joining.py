"""Joining as nobody the group knows, seen in what a client sends."""

from __future__ import annotations

from kwire.protocol.framing import Framing
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.schema import Message, Request
from kwire.testing.simulation.joining import joins_anew


def frame(request: Request[Message]) -> bytes:
    return Framing("member1").send(request, type(request).max_version)


def test_joining_without_a_membership_shows_in_the_frame() -> None:
    assert joins_anew(frame(JoinGroupRequest(group_id="group", member_id="")))
    assert not joins_anew(frame(JoinGroupRequest(group_id="group", member_id="member1-7")))
    assert joins_anew(frame(ConsumerGroupHeartbeatRequest(group_id="group", member_id="7", member_epoch=0)))
    assert not joins_anew(frame(ConsumerGroupHeartbeatRequest(group_id="group", member_id="7", member_epoch=3)))
    assert not joins_anew(frame(HeartbeatRequest(group_id="group")))


def test_what_is_no_whole_frame_joins_nothing() -> None:
    data = frame(JoinGroupRequest(group_id="group", member_id=""))
    assert not any(joins_anew(data[:length]) for length in range(len(data)))
    assert not any(joins_anew(data[start:]) for start in range(1, len(data)))
