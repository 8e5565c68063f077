"""A cooperative member (KIP-429) keeps what it has while it joins, and gives up only what moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.assignors import Assignor
from kwire.errors import AssignorError, GroupAuthorizationError
from kwire.events import CallbackCompleted, CallbackKind, EnforceRebalance, Reply, RunCallback, Subscribe
from kwire.model import TopicPartition
from kwire.protocol.consumer_protocol import decode_assignment, decode_subscription, encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages import consumer_protocol as wire
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.states.classic_group import ClassicState

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
CLICKS = TopicPartition("clicks", 0)
MakeScenario = Callable[..., "Scenario"]


@pytest.fixture
def member(make_scenario: MakeScenario) -> Scenario:
    """Stable in generation 1 with both partitions of `orders`; another member leads."""
    scenario = make_scenario(partition_assignment_strategy="cooperative-sticky")
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    become_stable(scenario, 1, O0, O1)
    return scenario


def become_stable(scenario: Scenario, generation: int, *partitions: TopicPartition) -> None:
    scenario.join(generation, leader="member-b")
    new = set(partitions) - scenario.subscription.partitions.keys()
    scenario.sync(*partitions)
    assert called_back(scenario) == (CallbackKind.ASSIGNED, new)
    if new:
        scenario.answer_committed(dict.fromkeys(sorted(new), 10))
    scenario.expect(ClassicState.STABLE)


def called_back(scenario: Scenario) -> tuple[CallbackKind, set[TopicPartition]]:
    callback = scenario.run_callback()
    return callback.kind, set(callback.partitions)


def told(scenario: Scenario) -> wire.ConsumerProtocolSubscription:
    """What the member says of itself as it joins."""
    return decode_subscription(scenario.request(JoinGroupRequest).protocols[0].metadata)


def owned(subscription: wire.ConsumerProtocolSubscription) -> set[TopicPartition]:
    return {TopicPartition(t.topic, number) for t in subscription.owned_partitions for number in t.partitions}


def flowing(scenario: Scenario) -> set[TopicPartition]:
    """Partitions whose records reach the application."""
    return scenario.views[-1].epochs.keys() - scenario.views[-1].withheld


def rebalance(scenario: Scenario) -> None:
    """The broker asks for it."""
    scenario.advance_to_heartbeat()
    scenario.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


# --- what it keeps, gives up and takes --------------------------------------------------------------------------


def test_a_rebalance_begins_without_a_callback_and_records_flow_on(member: Scenario) -> None:
    rebalance(member)
    member.expect(ClassicState.PREPARE_REBALANCE)
    assert not member.callbacks
    assert flowing(member) == {O0, O1}
    assert owned(told(member)) == {O0, O1}
    assert told(member).generation_id == 1  # KIP-792: since when it has them


def test_what_the_plan_leaves_out_is_revoked_and_then_the_member_joins_once_more(member: Scenario) -> None:
    rebalance(member)
    member.join(2, leader="member-b")
    member.sync(O0)
    member.expect(ClassicState.REVOKING_PARTITIONS)
    assert flowing(member) == {O0}
    assert called_back(member) == (CallbackKind.REVOKED, {O1})
    assert set(member.subscription.partitions) == {O0}
    assert called_back(member) == (CallbackKind.ASSIGNED, set())
    member.expect(ClassicState.PREPARE_REBALANCE)
    assert (owned(told(member)), told(member).generation_id) == ({O0}, 2)
    assert "gave up 1 partition as planned" in (member.request(JoinGroupRequest).reason or "")
    become_stable(member, 3, O0)
    assert flowing(member) == {O0}


def test_what_is_new_is_withheld_until_its_callback_while_the_rest_flows(member: Scenario) -> None:
    member.subscribe("orders", "clicks")
    member.serve()
    member.join(2, leader="member-b")
    member.sync(O0, O1, CLICKS)
    member.expect(ClassicState.ASSIGNING_PARTITIONS)
    assert flowing(member) == {O0, O1}
    assert called_back(member) == (CallbackKind.ASSIGNED, {CLICKS})
    member.answer_committed({CLICKS: 5})
    member.expect(ClassicState.STABLE)
    assert flowing(member) == {O0, O1, CLICKS}


def test_kept_partitions_keep_their_positions(member: Scenario) -> None:
    member.delivered(O0, 17)
    rebalance(member)
    become_stable(member, 2, O0, O1)
    position = member.partition(O0).consumed
    assert position is not None
    assert position.offset == 17


def test_a_plan_may_take_and_give_at_once(member: Scenario) -> None:
    member.subscribe("orders", "clicks")
    member.serve()
    member.join(2, leader="member-b")
    member.sync(O1, CLICKS)
    assert called_back(member) == (CallbackKind.REVOKED, {O0})
    assert called_back(member) == (CallbackKind.ASSIGNED, {CLICKS})
    assert owned(told(member)) == {O1, CLICKS}


def test_partitions_of_a_topic_no_longer_wanted_are_revoked_before_the_join(member: Scenario) -> None:
    member.subscribe("clicks")
    member.expect(ClassicState.REVOKING_PARTITIONS)
    assert flowing(member) == set()
    assert called_back(member) == (CallbackKind.REVOKED, {O0, O1})
    assert owned(told(member)) == set()


def test_a_topic_unsubscribed_from_during_a_rebalance_falls_silent_at_once(member: Scenario) -> None:
    member.topics["clicks"] = (1,)
    member.subscribe("orders", "clicks")
    member.serve()
    become_stable(member, 2, O0, O1, CLICKS)
    rebalance(member)
    member.subscribe("clicks")
    assert flowing(member) == {CLICKS}
    member.join(3, leader="member-b")
    member.sync(O0, O1, CLICKS)  # the leader knew the old subscription
    assert called_back(member) == (CallbackKind.REVOKED, {O0, O1})
    assert owned(told(member)) == {CLICKS}


def test_a_topic_unsubscribed_from_while_the_coordinator_is_looked_for_is_revoked_before_the_join(
    member: Scenario,
) -> None:
    rebalance(member)
    member.refuse(JoinGroupRequest, ErrorCode.NOT_COORDINATOR)
    member.expect(ClassicState.PARTITIONS_REVOKED)
    member.subscribe("clicks")
    member.serve()
    member.expect(ClassicState.REVOKING_PARTITIONS)
    assert called_back(member) == (CallbackKind.REVOKED, {O0, O1})
    member.advance(1_000)
    assert told(member).topics == ["clicks"]


def test_a_new_pattern_takes_nothing_away_before_it_has_been_compared_with_all_topics(member: Scenario) -> None:
    member.post(Subscribe(pattern=re.compile("ord.*"), reply=Reply()))
    assert flowing(member) == {O0, O1}
    member.serve()
    assert told(member).topics == ["orders"]
    assert owned(told(member)) == {O0, O1}


def test_a_rebalance_asked_for_during_one_follows_it(member: Scenario) -> None:
    rebalance(member)
    member.post(EnforceRebalance("because"))
    member.join(2, leader="member-b")
    member.sync(O0, O1)
    called_back(member)
    member.expect(ClassicState.PREPARE_REBALANCE)


# --- what it misses or loses ------------------------------------------------------------------------------------


def test_a_missed_sync_costs_nothing(member: Scenario) -> None:
    """The plan that it missed took its claim into account: nobody else was given its partitions."""
    rebalance(member)
    member.join(2, leader="member-b")
    member.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    member.expect(ClassicState.PREPARE_REBALANCE)
    assert (owned(told(member)), told(member).generation_id) == ({O0, O1}, 2)
    assert flowing(member) == {O0, O1}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_a_membership_that_is_lost_on_the_way_loses_the_partitions(
    member: Scenario, kind: type[object], code: ErrorCode
) -> None:
    rebalance(member)
    if kind is SyncGroupRequest:
        member.join(2, leader="member-b")
    member.refuse(kind, code)
    member.expect(ClassicState.REVOKING_PARTITIONS)
    assert flowing(member) == set()
    assert called_back(member) == (CallbackKind.LOST, {O0, O1})
    assert owned(told(member)) == set()
    assert told(member).generation_id == -1


def test_a_membership_lost_while_the_coordinator_is_looked_for_loses_the_partitions(member: Scenario) -> None:
    rebalance(member)
    member.refuse(JoinGroupRequest, ErrorCode.NOT_COORDINATOR)
    member.expect(ClassicState.PARTITIONS_REVOKED)
    member.managers.membership.on_membership_lost(ErrorCode.UNKNOWN_MEMBER_ID)
    member.turn()
    assert called_back(member) == (CallbackKind.LOST, {O0, O1})


def test_a_membership_lost_while_some_are_revoked_loses_the_others(member: Scenario) -> None:
    rebalance(member)
    member.join(2, leader="member-b")
    member.sync(O0)
    member.managers.membership.on_membership_lost(ErrorCode.UNKNOWN_MEMBER_ID)
    assert called_back(member) == (CallbackKind.REVOKED, {O1})
    assert called_back(member) == (CallbackKind.LOST, {O0})
    assert not member.subscription.partitions
    assert owned(told(member)) == set()


def test_a_refused_join_loses_the_partitions_and_raises(member: Scenario) -> None:
    rebalance(member)
    member.refuse(JoinGroupRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    member.take_error(GroupAuthorizationError)
    assert called_back(member) == (CallbackKind.LOST, {O0, O1})
    assert not member.pending(JoinGroupRequest), "a loop that polls on must not ask as fast as the network goes"
    member.advance(100)
    # The broker knows it still: for a member that nobody speaks for the others would wait.
    assert member.request(JoinGroupRequest).member_id == "member-a"


def test_an_application_that_stops_polling_loses_what_it_kept(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(partition_assignment_strategy="cooperative-sticky", max_poll_interval_ms=10_000)
    scenario.start_joining("orders")
    become_stable(scenario, 1, O0, O1)
    rebalance(scenario)
    scenario.join(2, leader="member-b")
    scenario.advance(10_000)
    assert scenario.written_for(LeaveGroupRequest, 5).members[0].member_id == "member-a"
    assert flowing(scenario) == set()
    assert called_back(scenario) == (CallbackKind.LOST, {O0, O1})


def test_a_new_rebalance_reported_while_some_are_revoked_needs_no_third(member: Scenario) -> None:
    rebalance(member)
    member.join(2, leader="member-b")
    member.sync(O0)
    rebalance(member)
    called_back(member)
    called_back(member)
    become_stable(member, 3, O0)
    member.expect(ClassicState.STABLE)
    assert not member.pending(JoinGroupRequest)


def test_leaving_in_the_middle_of_a_partial_revocation_leaves_nothing_behind(member: Scenario) -> None:
    rebalance(member)
    member.join(2, leader="member-b")
    member.sync(O0)
    callback = member.take_event(RunCallback)
    member.unsubscribe()
    member.subscribe("orders")
    member.post(CallbackCompleted(callback.attempt))
    member.poll()
    member.serve()
    assert not member.subscription.partitions
    assert (owned(told(member)), told(member).generation_id) == (set(), -1)
    become_stable(member, 4, O0)


# --- who leads --------------------------------------------------------------------------------------------------


def test_a_leader_moves_a_partition_only_once_it_has_been_given_up(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(partition_assignment_strategy="cooperative-sticky")
    scenario.start_joining("orders")
    lead(scenario, 1, {"member-a": set()})
    assert plan(scenario) == {"member-a": {O0, O1}}
    scenario.sync(O0, O1)
    called_back(scenario)
    scenario.answer_committed({O0: 0, O1: 0})
    rebalance(scenario)
    lead(scenario, 2, {"member-a": {O0, O1}, "member-b": set()})
    shares = plan(scenario)
    assert shares["member-b"] == set()
    (kept,) = shares["member-a"]
    scenario.sync(kept)
    called_back(scenario)
    called_back(scenario)
    lead(scenario, 3, {"member-a": {kept}, "member-b": set()})
    assert plan(scenario) == {"member-a": {kept}, "member-b": {O0, O1} - {kept}}


def lead(scenario: Scenario, generation: int, members: dict[str, set[TopicPartition]]) -> None:
    joined = JoinGroupResponse(
        generation_id=generation,
        protocol_name="cooperative-sticky",
        leader="member-a",
        member_id="member-a",
        members=[owner(member_id, generation - 1, partitions) for member_id, partitions in members.items()],
    )
    scenario.answer(JoinGroupRequest, joined)


def owner(member_id: str, generation: int, partitions: set[TopicPartition]) -> JoinGroupResponseMember:
    subscription = wire.ConsumerProtocolSubscription(
        topics=["orders"],
        owned_partitions=[wire.TopicPartition(topic=tp.topic, partitions=[tp.partition]) for tp in partitions],
        generation_id=generation,
    )
    return JoinGroupResponseMember(member_id=member_id, metadata=encode_subscription(3, subscription))


def plan(scenario: Scenario) -> dict[str, set[TopicPartition]]:
    return {
        entry.member_id: {
            TopicPartition(topic.topic, number)
            for topic in decode_assignment(entry.assignment).assigned_partitions
            for number in topic.partitions
        }
        for entry in scenario.request(SyncGroupRequest).assignments
    }


# --- which protocol ---------------------------------------------------------------------------------------------


def test_one_eager_assignor_in_the_list_makes_the_member_eager(make_scenario: MakeScenario) -> None:
    """KIP-429: the group may still agree on it. So groups are moved by two rolling restarts."""
    scenario = make_scenario(partition_assignment_strategy="cooperative-sticky, range")
    scenario.start_joining("orders")
    become_stable(scenario, 1, O0, O1)
    rebalance(scenario)
    assert called_back(scenario) == (CallbackKind.REVOKED, {O0, O1})
    protocols = scenario.request(JoinGroupRequest).protocols
    assert [protocol.name for protocol in protocols] == ["cooperative-sticky", "range"]
    assert owned(told(scenario)) == set()


def test_sticky_members_tell_what_they_had_last_even_if_they_lost_it(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(partition_assignment_strategy="sticky")
    scenario.start_joining("orders")
    become_stable(scenario, 7, O0, O1)
    scenario.managers.membership.on_membership_lost(ErrorCode.UNKNOWN_MEMBER_ID)
    assert called_back(scenario) == (CallbackKind.LOST, {O0, O1})
    # One topic "orders" with partitions 0 and 1, in generation 7 (KIP-341).
    assert told(scenario).user_data == bytes.fromhex("00000001 0006 6f7264657273 00000002 00000000 00000001 00000007")


# --- assignors of one's own -------------------------------------------------------------------------------------


def own(**attributes: object) -> object:
    """An assignor made of what a test is about."""
    return type("Own", (Assignor,), {"name": "own", **attributes})()


def test_an_assignor_of_ones_own_assigns(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(partition_assignment_strategy=own(assign=lambda *_, **__: {"member-a": [O1]}))
    scenario.start_joining("orders")
    scenario.join()
    assert plan(scenario) == {"member-a": {O1}}


def test_a_plan_that_gives_a_partition_twice_is_not_sent_out(make_scenario: MakeScenario) -> None:
    twice = {"member-a": [O1], "member-b": [O1]}
    scenario = make_scenario(partition_assignment_strategy=own(assign=lambda *_, **__: twice))
    scenario.start_joining("orders")
    scenario.join(members={"member-a": ["orders"], "member-b": ["orders"]})
    assert "orders-1 is given to 'member-a' and to 'member-b'" in str(scenario.take_error(AssignorError))
    assert not scenario.pending(SyncGroupRequest)


def test_an_assignor_that_raises_is_reported_and_the_thread_goes_on(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(partition_assignment_strategy=own(assign=lambda *_, **__: 1 / 0))
    scenario.start_joining("orders")
    scenario.join()
    assert "ZeroDivisionError" in str(scenario.take_error(AssignorError))
    scenario.advance(100)
    scenario.poll()
    assert scenario.pending(JoinGroupRequest)


@pytest.mark.parametrize("data", [lambda *_: 1 / 0, lambda *_: "text"])
def test_user_data_that_cannot_be_sent_is_reported_by_every_poll(
    make_scenario: MakeScenario, data: Callable[..., object]
) -> None:
    scenario = make_scenario(partition_assignment_strategy=own(subscription_user_data=data, assign=dict))
    scenario.start_joining("orders")
    scenario.take_error(AssignorError)
    assert not scenario.pending(JoinGroupRequest)
    scenario.poll()
    scenario.take_error(AssignorError)
