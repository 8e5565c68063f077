"""Classic groups: joining, syncing, heartbeats, leaving, and a rebalance of two members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.broker import Coordinated, wait_for
from kwire.conformance.classic_member import (
    MANY_LEAVE_FROM,
    MEMBER_ID_REQUIRED_FROM,
    PROTOCOL,
    PROTOCOL_TYPE,
    STATIC_FROM,
    ClassicJoiner,
)
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok, only
from kwire.conformance.offsets import CheckedPosition, commit
from kwire.conformance.registry import check
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker

ALL = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
STATIC_JOIN_FROM = STATIC_FROM[JoinGroupRequest]
SKIPS_ASSIGNMENT_FROM = 9


@check(JoinGroupRequest, needs=ALL)
def makes_the_only_member_leader(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group(), version) as member:
        answer = member.join()
        expect_equal(answer.generation_id, 1, "the first generation")
        expect_equal(answer.leader, member.member_id, "the leader")
        expect_equal(answer.protocol_name, PROTOCOL, "the protocol")
        if version >= 7:
            expect_equal(answer.protocol_type, PROTOCOL_TYPE, "the protocol type (KIP-559)")
        joined = only(answer.members, "member in the answer to the leader")
        expect_equal(joined.member_id, member.member_id, "the member id")
        expect_equal(joined.metadata, member.join_request().protocols[0].metadata, "the member's metadata")


@check(JoinGroupRequest, versions=f"{MEMBER_ID_REQUIRED_FROM}+")
def hands_out_a_member_id_first(broker: JudgedBroker, version: int) -> None:
    """KIP-394."""
    with broker.connect() as _, ClassicJoiner(broker, broker.group(), version) as member:
        answer = member.ask_to_join()
        expect_error(answer.error_code, ErrorCode.MEMBER_ID_REQUIRED, what="JoinGroup without a member id")
        expect(bool(answer.member_id), "MEMBER_ID_REQUIRED came without a member id")


@check(JoinGroupRequest)
def refuses_a_stranger(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group(), version) as member:
        code = member.ask_to_join(member_id="stranger").error_code
    expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a member id that nobody was given")


@check(JoinGroupRequest)
def refuses_a_session_timeout_out_of_bounds(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group(), version) as member:
        code = member.ask_to_join(session_timeout_ms=1).error_code
    expect_error(code, ErrorCode.INVALID_SESSION_TIMEOUT, what="a session timeout of 1 ms")


@check(JoinGroupRequest)
def refuses_an_empty_group_id(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, Coordinated("", broker.address), version) as member:
        code = member.ask_to_join().error_code
    expect_error(code, ErrorCode.INVALID_GROUP_ID, what="an empty group id")


@check(JoinGroupRequest, needs=ALL)
def refuses_a_protocol_the_others_lack(broker: JudgedBroker, version: int) -> None:
    group = broker.group()
    with ClassicJoiner(broker, group, version) as member, ClassicJoiner(broker, group, version) as other:
        member.join_alone()
        code = other.ask_to_join(protocols=[JoinGroupRequestProtocol(name="of its own")]).error_code
    expect_error(code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what="a member without a protocol in common")


@check(JoinGroupRequest, needs=ALL)
def rebalances_when_a_second_member_joins(broker: JudgedBroker, version: int) -> None:
    """A heartbeat tells the first member; then both have the same generation, and one of them leads."""
    group = broker.group()
    with ClassicJoiner(broker, group, version) as first, ClassicJoiner(broker, group, version) as second:
        first.join_alone()
        second.send_join()
        wait_for_rebalance(first)
        first.send_join()
        answers = {member: member.receive_join() for member in (first, second)}
        expect_equal(first.generation, 2, "the generation of the first member")
        expect_equal(second.generation, 2, "the generation of the second member")
        leader = only({answer.leader for answer in answers.values()}, "leader")
        ids = {first.member_id, second.member_id}
        for member, answer in answers.items():
            known = {joined.member_id for joined in answer.members}
            expect_equal(known, ids if member.member_id == leader else set(), "the members that are told")
        lead, follow = (first, second) if leader == first.member_id else (second, first)
        expect_equal(lead.sync({member: member.encode() for member in ids}).assignment, leader.encode(), "its share")
        expect_equal(follow.sync().assignment, follow.member_id.encode(), "the follower's share")
        expect_ok(
            commit(broker, group, broker.empty_topic(), CheckedPosition(offset=1), committer=follow.committer),
            "a commit",
        )


def wait_for_rebalance(member: ClassicJoiner) -> None:
    """The coordinator starts the rebalance when the other member's join arrives, a moment after it was sent."""
    code = wait_for(member.heartbeat, "a rebalance")  # 0 is "no error"
    expect_error(code, ErrorCode.REBALANCE_IN_PROGRESS, what="a heartbeat while another member joins")


@check(JoinGroupRequest, versions=f"{STATIC_JOIN_FROM}+", needs=ALL)
def lets_a_static_member_come_back(broker: JudgedBroker, version: int) -> None:
    """KIP-345: no rebalance, a new member id, and the old one is fenced."""
    group = broker.group()
    instance = broker.new_name()
    with ClassicJoiner(broker, group, version, instance_id=instance) as before:
        before.join_alone()
        with ClassicJoiner(broker, group, version, instance_id=instance) as after:
            answer = after.join()
            expect(after.member_id != before.member_id, f"the member id stayed {before.member_id}")
            if version >= SKIPS_ASSIGNMENT_FROM:
                expect(answer.skip_assignment, "the leader that came back is not told to skip the assignment (KIP-814)")
            expect_equal(after.generation, 1, "the generation")
            expect_equal(after.sync().assignment, b"all", "the assignment")
            expect_error(before.heartbeat(), ErrorCode.FENCED_INSTANCE_ID, what="a heartbeat of the one before")
            before.member_id = ""  # its membership has ended already


@check(SyncGroupRequest, needs=ALL)
def hands_out_the_leaders_assignment(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as member:
        member.join()
        answer = member.sync({member.member_id: b"your share"}, version)
        expect_ok(answer.error_code, "SyncGroup")
        expect_equal(answer.assignment, b"your share", "the assignment")
        if version >= 5:
            expect_equal(
                (answer.protocol_type, answer.protocol_name), (PROTOCOL_TYPE, PROTOCOL), "the protocol (KIP-559)"
            )


@check(SyncGroupRequest, needs=ALL)
def refuses_another_generation(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as member:
        member.join()
        request = member.sync_request(version=version)
        request.generation_id = 99
        code = broker.ask(request, version, address=member.group.address).error_code
    expect_error(code, ErrorCode.ILLEGAL_GENERATION, what="SyncGroup for another generation")


@check(SyncGroupRequest, needs=ALL)
def refuses_to_sync_a_stranger(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as member:
        member.join_alone()
        request = member.sync_request(version=version)
        request.member_id = "stranger"
        code = broker.ask(request, version, address=member.group.address).error_code
    expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="SyncGroup of a stranger")


@check(SyncGroupRequest, versions="5+", needs=ALL)
def refuses_another_protocol(broker: JudgedBroker, version: int) -> None:
    """KIP-559."""
    with ClassicJoiner(broker, broker.group()) as member:
        member.join()
        request = member.sync_request(version=version)
        request.protocol_name = "another"
        code = broker.ask(request, version, address=member.group.address).error_code
    expect_error(code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what="SyncGroup for another protocol")


@check(HeartbeatRequest, needs=ALL)
def takes_heartbeats_of_members_only(broker: JudgedBroker, version: int) -> None:
    group = broker.group()
    with ClassicJoiner(broker, group) as member, ClassicJoiner(broker, group) as stranger:
        member.join_alone()
        expect_ok(member.heartbeat(version), "Heartbeat")
        code = member.heartbeat(version, generation=99)
        expect_error(code, ErrorCode.ILLEGAL_GENERATION, what="a heartbeat of another generation")
        stranger.member_id = "stranger"
        code = stranger.heartbeat(version, generation=1)
        expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a heartbeat of a stranger")
        stranger.member_id = ""


@check(HeartbeatRequest)
def knows_no_members_of_a_group_there_is_not(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as stranger:
        stranger.member_id = "stranger"
        code = stranger.heartbeat(version, generation=1)
        stranger.member_id = ""
    expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a heartbeat to a group there is not")


@check(LeaveGroupRequest, needs=ALL)
def lets_a_member_go(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as member:
        member.join_alone()
        answer = member.leave(version)
        expect_ok(answer.error_code, "LeaveGroup")
        if version >= MANY_LEAVE_FROM:
            expect_ok(only(answer.members, "member in the answer").error_code, "the member")
        expect_error(member.heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID, what="a heartbeat after leaving")
        member.member_id = ""


@check(LeaveGroupRequest)
def does_not_let_a_stranger_go(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as stranger:
        stranger.member_id = "stranger"
        answer = stranger.leave(version)
        stranger.member_id = ""
    of_member = version >= MANY_LEAVE_FROM and answer.error_code == ErrorCode.NONE
    code = only(answer.members, "member in the answer").error_code if of_member else answer.error_code
    expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="LeaveGroup of a stranger")


@check(OffsetCommitRequest, needs=ALL)
def takes_offsets_of_members_only(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    position = CheckedPosition(offset=7)
    with ClassicJoiner(broker, group) as member:
        member.join_alone()
        code = commit(broker, group, topic, position, version=version, committer=member.committer)
        expect_ok(code, "a member's commit")
        member.generation += 1
        code = commit(broker, group, topic, position, version=version, committer=member.committer)
        expect_error(code, ErrorCode.ILLEGAL_GENERATION, what="a commit of another generation")
        code = commit(broker, group, topic, position, version=version)
        expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a commit of nobody into a group with members")
