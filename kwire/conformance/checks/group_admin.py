"""ListGroups, DescribeGroups, DeleteGroups: groups are listed, described and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.classic_member import PROTOCOL, PROTOCOL_TYPE, ClassicJoiner
from kwire.conformance.expectations import expect_equal, expect_error, expect_ok, only, the
from kwire.conformance.offsets import CheckedPosition, commit, fetch_offset
from kwire.conformance.registry import check
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import Coordinated, JudgedBroker

JOINING = (JoinGroupRequest, SyncGroupRequest)
STATES_FROM = 4
NOT_FOUND_FROM = 6
"""From this version on DescribeGroups says that a group is not there, instead of showing a dead one (KIP-1043)."""


def delete(broker: JudgedBroker, group: Coordinated, version: int) -> int:
    answer = broker.ask(DeleteGroupsRequest(groups_names=[group.name]), version, address=group.address)
    return only(answer.results, "group in the answer").error_code


@check(ListGroupsRequest, needs=JOINING)
def lists_a_group(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as member:
        member.join_alone()
        answer = broker.ask(ListGroupsRequest(), version, address=member.group.address)
        expect_ok(answer.error_code, "ListGroups")
        found = the(answer.groups, lambda group: group.group_id == member.group.name, "group of that name")
        expect_equal(found.protocol_type, PROTOCOL_TYPE, "the protocol type")
        if version >= STATES_FROM:
            expect_equal(found.group_state, "Stable", "the state (KIP-518)")
        if version >= 5:
            expect_equal(found.group_type.lower(), "classic", "the type (KIP-848)")


@check(ListGroupsRequest, versions=f"{STATES_FROM}+", needs=JOINING)
def lists_groups_by_state(broker: JudgedBroker, version: int) -> None:
    """KIP-518."""
    with ClassicJoiner(broker, broker.group()) as member:
        member.join_alone()
        for state, wanted in (("Stable", True), ("Empty", False)):
            answer = broker.ask(ListGroupsRequest(states_filter=[state]), version, address=member.group.address)
            found = member.group.name in {group.group_id for group in answer.groups}
            expect_equal(found, wanted, f"whether a stable group is listed among those in state {state}")


@check(DescribeGroupsRequest, needs=JOINING)
def describes_a_group(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as member:
        member.join_alone(b"its share")
        answer = broker.ask(DescribeGroupsRequest(groups=[member.group.name]), version, address=member.group.address)
        found = only(answer.groups, "group in the answer")
        expect_ok(found.error_code, "DescribeGroups")
        expect_equal(found.group_state, "Stable", "the state")
        expect_equal((found.protocol_type, found.protocol_data), (PROTOCOL_TYPE, PROTOCOL), "the protocol")
        described = only(found.members, "member in the answer")
        expect_equal(described.member_id, member.member_id, "the member id")
        expect_equal(described.member_assignment, b"its share", "the assignment")


@check(DescribeGroupsRequest)
def describes_no_group_there_is_not(broker: JudgedBroker, version: int) -> None:
    group = broker.group()
    answer = broker.ask(DescribeGroupsRequest(groups=[group.name]), version, address=group.address)
    found = only(answer.groups, "group in the answer")
    wanted = ErrorCode.GROUP_ID_NOT_FOUND if version >= NOT_FOUND_FROM else ErrorCode.NONE
    expect_error(found.error_code, wanted, what="an unknown group")
    expect_equal(found.group_state, "Dead", "the state")


@check(DeleteGroupsRequest, needs=[OffsetCommitRequest])
def deletes_a_group_with_its_offsets(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, CheckedPosition(offset=5)), "OffsetCommit")
    expect_ok(delete(broker, group, version), "DeleteGroups")
    expect_equal(fetch_offset(broker, group, topic).committed_offset, -1, "the offset after deleting")


@check(DeleteGroupsRequest)
def deletes_no_group_there_is_not(broker: JudgedBroker, version: int) -> None:
    code = delete(broker, broker.group(), version)
    expect_error(code, ErrorCode.GROUP_ID_NOT_FOUND, what="an unknown group")


@check(DeleteGroupsRequest, needs=JOINING)
def deletes_no_group_with_members(broker: JudgedBroker, version: int) -> None:
    with ClassicJoiner(broker, broker.group()) as member:
        member.join_alone()
        code = delete(broker, member.group, version)
    expect_error(code, ErrorCode.NON_EMPTY_GROUP, what="a group with a member")
