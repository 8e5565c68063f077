"""A static leader that is restarted keeps the plan of the group (KIP-814), in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.states.classic_group import ClassicState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.managers.scenario import Scenario, assignment, member
else:
    from scenario import assignment, member

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
CLICKS = TopicPartition("clicks", 0)
MakeScenario = Callable[..., "Scenario"]


def come_back(scenario: Scenario, *share: TopicPartition, members: Mapping[str, Iterable[str]]) -> None:
    """The leader of generation 1 was restarted, and is told to keep the plan; up to the question what it covers."""
    scenario.start_joining("orders")
    joined = JoinGroupResponse(
        generation_id=1,
        protocol_name="range",
        leader="member-a",
        member_id="member-a",
        skip_assignment=True,
        members=[member(id_, topics) for id_, topics in members.items()],
    )
    scenario.answer(JoinGroupRequest, joined)
    scenario.sync(*share)
    scenario.run_callback()
    scenario.answer_committed(dict.fromkeys(share, 10))
    scenario.serve()
    scenario.events.clear()


def describe(scenario: Scenario, *shares: Iterable[TopicPartition], code: ErrorCode = ErrorCode.NONE) -> None:
    """The coordinator says who owns what."""
    owners = [DescribedGroupMember(member_assignment=assignment(*share)) for share in shares]
    group = DescribedGroup(group_id="billing", group_state="Stable", members=owners, error_code=code)
    scenario.answer(DescribeGroupsRequest, DescribeGroupsResponse(groups=[group]))


def grow(scenario: Scenario, topic: str) -> None:
    scenario.topics[topic] = (*scenario.topics[topic], 1)
    scenario.managers.metadata.request_update()
    scenario.advance(1_000)
    scenario.serve()


ORDERS_AND_CLICKS = {"member-a": ["orders"], "member-b": ["clicks"]}


@pytest.mark.parametrize("topic", ["orders", "clicks"])
def test_a_leader_that_came_back_watches_the_topics_of_the_group(scenario: Scenario, topic: str) -> None:
    """It waited for nothing: new partitions had no owner until somebody else joined."""
    scenario.topics["clicks"] = (1,)
    come_back(scenario, O0, O1, members=ORDERS_AND_CLICKS)
    describe(scenario, [O0, O1], [CLICKS])
    scenario.expect(ClassicState.STABLE)
    grow(scenario, topic)
    scenario.expect(ClassicState.REVOKING_PARTITIONS)


def test_a_leader_that_comes_back_rejoins_when_partitions_have_no_owner(scenario: Scenario) -> None:
    scenario.topics["clicks"] = (1, 1)
    come_back(scenario, O0, O1, members=ORDERS_AND_CLICKS)
    scenario.expect(ClassicState.STABLE)
    describe(scenario, [O0, O1], [CLICKS])
    scenario.expect(ClassicState.REVOKING_PARTITIONS)


def test_a_leader_that_comes_back_sees_a_topic_appear_that_only_another_member_wants(scenario: Scenario) -> None:
    come_back(scenario, O0, O1, members=ORDERS_AND_CLICKS)
    describe(scenario, [O0, O1], [])
    scenario.expect(ClassicState.STABLE)
    scenario.topics["clicks"] = (1,)
    scenario.advance(2_000)
    scenario.serve()
    scenario.expect(ClassicState.REVOKING_PARTITIONS)


def test_what_the_plan_covers_is_asked_until_the_coordinator_answers(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1, 2, 3)
    come_back(scenario, O0, O1, members={"member-a": ["orders"]})
    scenario.fail(DescribeGroupsRequest)
    scenario.advance(1_000)
    scenario.serve()
    describe(scenario, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    scenario.advance(1_000)
    describe(scenario, code=ErrorCode.NOT_COORDINATOR)
    scenario.serve()
    scenario.advance(1_000)
    scenario.expect(ClassicState.STABLE)
    describe(scenario, [O0, O1])
    scenario.expect(ClassicState.REVOKING_PARTITIONS)


def test_a_coordinator_that_does_not_answer_what_the_plan_covers_is_looked_up(scenario: Scenario) -> None:
    come_back(scenario, O0, O1, members={"member-a": ["orders"]})
    scenario.fail(DescribeGroupsRequest)
    assert scenario.managers.coordinator.destination is None
    scenario.serve()
    scenario.advance(1_000)
    describe(scenario, [O0, O1])
    scenario.expect(ClassicState.STABLE)


def test_a_leader_that_is_not_told_what_the_plan_covers_watches_from_now_on(scenario: Scenario) -> None:
    come_back(scenario, O0, O1, members={"member-a": ["orders"]})
    describe(scenario, code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    scenario.expect(ClassicState.STABLE)
    assert not scenario.errors
    grow(scenario, "orders")
    scenario.expect(ClassicState.REVOKING_PARTITIONS)


def test_an_answer_about_an_older_plan_does_not_count(scenario: Scenario) -> None:
    come_back(scenario, O0, O1, members={"member-a": ["orders"]})
    scenario.managers.membership.rejoin_needed("the application wants it")
    scenario.run_callback()
    scenario.rejoin(O0, O1, generation=2)
    describe(scenario, [])
    scenario.expect(ClassicState.STABLE)


def test_a_leader_that_comes_back_to_a_broker_before_kip_814_leads_on(make_scenario: MakeScenario) -> None:
    """Such a broker names it the id of its predecessor, and does not tell it what the others want."""
    scenario = make_scenario(group_instance_id="till-1")
    scenario.topics["clicks"] = (1, 1)
    before, after = f"till-1-{UUID(int=1)}", f"till-1-{UUID(int=2)}"
    scenario.start_joining("orders")
    scenario.answer(
        JoinGroupRequest,
        JoinGroupResponse(generation_id=1, protocol_name="range", leader=before, member_id=after),
    )
    scenario.sync(O0, O1)
    scenario.run_callback()
    scenario.answer_committed({O0: 10, O1: 10})
    wanted = [member("", topics).metadata for topics in (["orders"], ["clicks"])]
    owned = [assignment(O0, O1), assignment(CLICKS)]
    members = [
        DescribedGroupMember(member_metadata=metadata, member_assignment=share)
        for metadata, share in zip(wanted, owned, strict=True)
    ]
    described = DescribedGroup(group_id="billing", group_state="Stable", members=members)
    scenario.answer(DescribeGroupsRequest, DescribeGroupsResponse(groups=[described]))
    scenario.expect(ClassicState.STABLE)
    scenario.serve()
    scenario.expect(ClassicState.REVOKING_PARTITIONS)


@pytest.mark.parametrize("leader", [f"till-10-{UUID(int=1)}", f"till-1-0-{UUID(int=1)}", "till-1-", "member-b"])
def test_another_leader_is_no_predecessor(make_scenario: MakeScenario, leader: str) -> None:
    scenario = make_scenario(group_instance_id="till-1")
    scenario.start_joining("orders")
    joined = JoinGroupResponse(generation_id=1, protocol_name="range", leader=leader, member_id=f"till-1-{UUID(int=2)}")
    scenario.answer(JoinGroupRequest, joined)
    scenario.sync(O0, O1)
    scenario.run_callback()
    assert not scenario.pending(DescribeGroupsRequest)
