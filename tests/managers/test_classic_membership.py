"""A classic member's way through rebalances, in virtual time."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.epochs import Attempt
from kwire.errors import (
    DisconnectError,
    GroupAuthorizationError,
    InconsistentGroupProtocolError,
    KafkaError,
    ProtocolError,
    TopicAuthorizationError,
)
from kwire.events import (
    AssignmentView,
    CallbackCompleted,
    CallbackKind,
    EnforceRebalance,
    Reply,
    RunCallback,
    Subscribe,
    Unsubscribe,
)
from kwire.managers.unsent import Channel
from kwire.model import TopicPartition
from kwire.protocol.consumer_protocol import decode_assignment, decode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.states.classic_group import ClassicState

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
CLICKS = TopicPartition("clicks", 0)
MakeScenario = Callable[..., "Scenario"]


def is_done(reply: Reply[None]) -> bool:
    """Read anew each time: the type checker takes `done` for a constant."""
    return reply.done


def plan(request: SyncGroupRequest) -> dict[str, list[tuple[str, list[int]]]]:
    """What the leader hands out, by member."""
    return {
        entry.member_id: [(t.topic, t.partitions) for t in decode_assignment(entry.assignment).assigned_partitions]
        for entry in request.assignments
    }


# --- joining ----------------------------------------------------------------------------------------------------


def test_nothing_happens_before_the_first_poll(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    assert not scenario.pending(FindCoordinatorRequest)
    scenario.expect(ClassicState.UNJOINED)
    scenario.poll()
    assert scenario.request(FindCoordinatorRequest).coordinator_keys == ["billing"]


def test_the_first_join_only_fetches_the_member_id(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    assert scenario.request(JoinGroupRequest).member_id == ""
    scenario.answer(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="member-a"))
    # KIP-394: the second join follows at once, without a back-off.
    assert scenario.request(JoinGroupRequest).member_id == "member-a"


def test_a_join_says_what_the_member_wants(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(client_rack="rack-1", session_timeout_ms=10_000, max_poll_interval_ms=60_000)
    scenario.start_joining("orders", "clicks")
    unsent = scenario.unsent(JoinGroupRequest)
    request = scenario.request(JoinGroupRequest)
    subscription = decode_subscription(request.protocols[0].metadata)
    assert (request.group_id, request.protocol_type) == ("billing", "consumer")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 60_000)
    assert (subscription.topics, subscription.rack_id) == (["clicks", "orders"], "rack-1")
    assert unsent.destination.channel is Channel.COORDINATOR
    # The broker answers when the rebalance timeout is over at the latest; the answer may take its time to travel.
    assert unsent.timeout_ms == 65_000


def test_a_sync_has_the_time_of_any_request(scenario: Scenario) -> None:
    """It had that of a join. A coordinator's machine that was gone without a word kept the member for five minutes, in
    which it does not even heartbeat."""
    scenario.start_joining("orders")
    scenario.join()
    assert scenario.unsent(SyncGroupRequest).timeout_ms is None


def test_a_member_joins_is_assigned_calls_back_and_finds_positions_before_it_is_stable(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.expect(ClassicState.PREPARE_REBALANCE)
    scenario.join()
    scenario.expect(ClassicState.COMPLETING_REBALANCE)
    assert plan(scenario.request(SyncGroupRequest)) == {"member-a": [("orders", [0, 1])]}
    scenario.sync(O0, O1)
    scenario.expect(ClassicState.ASSIGNING_PARTITIONS)
    assert not scenario.pending(FetchRequest)
    assert scenario.views[-1].withheld == {O0, O1}
    callback = scenario.run_callback()
    assert (callback.kind, callback.partitions) == (CallbackKind.ASSIGNED, frozenset({O0, O1}))
    scenario.expect(ClassicState.PARTITIONS_ASSIGNED)
    scenario.answer_committed({O0: 10, O1: 20})
    scenario.expect(ClassicState.STABLE)
    assert scenario.views[-1].withheld == frozenset()
    assert scenario.subscription.group is not None
    assert scenario.subscription.group.generation_id == 1
    assert {request.topics[0].partitions[0].fetch_offset for request in scenario.requests(FetchRequest)} == {10, 20}


def test_the_log_says_of_each_generation_once_that_it_was_joined(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kwire.group")
    for generation in (1, 2):
        if generation == 1:
            scenario.become_stable(O0)
        else:
            scenario.managers.membership.rejoin_needed("the application wants it")
            scenario.turn()
            scenario.run_callback()
            scenario.rejoin(O0, generation=2)
    assert [message for message in caplog.messages if message.startswith("joined")] == [
        "joined group billing: generation 1, member member-a",
        "joined group billing: generation 2, member member-a",
    ]


def test_an_empty_assignment_is_called_back_too_and_is_stable_at_once(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join(leader="member-b")
    scenario.answer(SyncGroupRequest, SyncGroupResponse(assignment=b""))
    callback = scenario.run_callback()
    assert (callback.kind, callback.partitions) == (CallbackKind.ASSIGNED, frozenset())
    scenario.expect(ClassicState.STABLE)


def test_a_follower_hands_in_nothing(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join(leader="member-b")
    assert scenario.request(SyncGroupRequest).assignments == []
    assert scenario.request(SyncGroupRequest).generation_id == 1


def test_a_leader_told_to_skip_the_assignment_hands_in_nothing(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    answer = JoinGroupResponse(
        generation_id=1, protocol_name="range", leader="member-a", member_id="member-a", skip_assignment=True
    )
    scenario.answer(JoinGroupRequest, answer)  # KIP-814
    assert scenario.request(SyncGroupRequest).assignments == []


def test_the_subscription_at_the_time_of_the_join_counts(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    scenario.subscribe("clicks")
    scenario.poll()
    scenario.serve()
    assert decode_subscription(scenario.request(JoinGroupRequest).protocols[0].metadata).topics == ["clicks"]


# --- the leader -------------------------------------------------------------------------------------------------


def test_the_leader_learns_of_topics_that_only_another_member_wants_before_it_assigns(scenario: Scenario) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    scenario.join(members={"member-a": ["orders"], "member-b": ["clicks"]})
    assert not scenario.pending(SyncGroupRequest)
    scenario.serve()
    assert plan(scenario.request(SyncGroupRequest)) == {
        "member-a": [("orders", [0, 1])],
        "member-b": [("clicks", [0])],
    }


def refreshed(scenario: Scenario, **errors: ErrorCode) -> None:
    """Metadata with these errors, a second later."""
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    scenario.answer(MetadataRequest, scenario.metadata(errors=errors))


FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("joining", [False, True], ids=["stable", "with a join under way"])
def test_a_leader_is_not_told_of_topics_that_it_has_unsubscribed_from(scenario: Scenario, joining: bool) -> None:
    """It watches the topics of the old subscription until it has joined with the new one, and their errors were raised
    again: after `subscribe()` to other topics, every time."""
    scenario.topics["clicks"] = (1,)
    if joining:
        scenario.start_joining("orders")
        scenario.subscribe("clicks")
        scenario.serve()
        scenario.join(members={"member-a": ["orders"]})
    else:
        scenario.become_stable(O0)
        scenario.subscribe("clicks")
        scenario.serve()
    refreshed(scenario, orders=FORBIDDEN)
    assert not scenario.errors


def test_a_leader_is_told_of_its_own_topics_and_of_those_that_others_want(scenario: Scenario) -> None:
    scenario.topics |= {"clicks": (1,), "prices": (1,)}
    scenario.start_joining("orders", "prices")
    scenario.join(members={"member-a": ["orders", "prices"], "member-b": ["clicks", "prices"]})
    refreshed(scenario, orders=FORBIDDEN, clicks=FORBIDDEN)
    assert scenario.take_error(TopicAuthorizationError).topics == {"orders", "clicks"}
    scenario.subscribe("orders")
    refreshed(scenario, orders=FORBIDDEN, clicks=FORBIDDEN, prices=FORBIDDEN)
    assert scenario.take_error(TopicAuthorizationError).topics == {"orders", "clicks"}


def test_metadata_asked_for_before_the_join_does_not_make_the_leader_forget_a_topic(scenario: Scenario) -> None:
    """A refresh was in flight when the join was answered; its answer lacks what only the other member wants, and the
    leader took that for "does not exist"."""
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    assert [t.name for t in scenario.request(MetadataRequest).topics or ()] == ["orders"]
    scenario.join(members={"member-a": ["orders"], "member-b": ["clicks"]})
    scenario.answer(MetadataRequest, scenario.metadata())
    assert not scenario.pending(SyncGroupRequest)
    scenario.serve()
    assert plan(scenario.request(SyncGroupRequest))["member-b"] == [("clicks", [0])]


def test_the_leader_assigns_without_a_topic_that_does_not_exist_and_rejoins_when_it_appears(scenario: Scenario) -> None:
    scenario.start_joining("orders", "later")
    scenario.rejoin(O0, O1)
    scenario.topics["later"] = (1,)
    scenario.advance(2_000)
    scenario.serve()
    assert scenario.callbacks[-1].kind is CallbackKind.REVOKED


def test_the_leader_rejoins_when_partitions_are_added(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(metadata_max_age_ms=10_000)
    scenario.become_stable(O0, O1)
    scenario.topics["orders"] = (1, 2, 3)
    scenario.advance(10_000)
    scenario.serve()
    assert scenario.callbacks[-1].kind is CallbackKind.REVOKED


def test_partitions_that_come_while_the_group_synchronizes_are_not_missed(scenario: Scenario) -> None:
    """Until then the leader may not rejoin; the next refresh of the metadata was five minutes away."""
    scenario.start_joining("orders")
    scenario.join()
    scenario.topics["orders"] = (1, 2, 3)
    scenario.managers.metadata.request_update()
    scenario.advance(1_000)
    scenario.serve()
    scenario.expect(ClassicState.COMPLETING_REBALANCE)
    scenario.sync(O0, O1)
    scenario.run_callback()
    scenario.expect(ClassicState.REVOKING_PARTITIONS)


def test_a_follower_leaves_growing_topics_to_the_leader(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join(leader="member-b")
    scenario.sync(O0)
    scenario.run_callback()
    scenario.answer_committed({O0: 10})
    scenario.topics["orders"] = (1, 2, 3)
    scenario.managers.metadata.request_update()
    scenario.advance(1_000)
    scenario.serve()
    scenario.expect(ClassicState.STABLE)


def test_the_leader_does_not_rejoin_because_it_forgot_a_topic_of_another_member(make_scenario: MakeScenario) -> None:
    """Topics of other members were covered for `metadata_max_age_ms` only: then they were missing in the snapshot,
    which looked as if their partitions had gone, and the whole group rebalanced, every five minutes."""
    scenario = make_scenario(metadata_max_age_ms=10_000)
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    scenario.join(members={"member-a": ["orders"], "member-b": ["clicks"]})
    scenario.serve()
    scenario.sync(O0, O1)
    scenario.run_callback()
    scenario.answer_committed({O0: 1, O1: 1})
    for _ in range(5):
        scenario.advance(11_000)
        scenario.serve()
    scenario.expect(ClassicState.STABLE)


def test_an_assignor_nobody_here_knows_is_an_error_of_the_poll(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            generation_id=1,
            protocol_name="magic",
            leader="member-a",
            member_id="member-a",
            members=[JoinGroupResponseMember(member_id="member-a", metadata=bytes(10))],
        ),
    )
    assert "magic" in str(scenario.take_error(InconsistentGroupProtocolError))
    scenario.expect(ClassicState.UNJOINED)


@pytest.mark.parametrize("other", ["rack-2", None], ids=["both name theirs", "one does"])
def test_racks_reach_the_assignor_when_a_member_names_its_own(make_scenario: MakeScenario, other: str | None) -> None:
    """KIP-881: of two members, the one on the rack of a partition's replicas gets it."""
    scenario = make_scenario(client_rack="rack-3")
    scenario.start_joining("orders")
    # Partition 0 lives on rack-2, partition 1 on rack-3: in plain order member-a would get 0.
    replicas_are_on(scenario, 2, 3)
    answer_join_of_two(scenario, other)
    assert plan(scenario.request(SyncGroupRequest)) == {"member-a": [("orders", [1])], "member-b": [("orders", [0])]}


def replicas_are_on(scenario: Scenario, *brokers: int, away: int | None = None) -> None:
    """Metadata says where the replica of each partition is, while one broker may be away."""
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    answer = scenario.metadata()
    answer.brokers = [broker for broker in answer.brokers if broker.node_id != away]
    for partition, broker in zip(answer.topics[0].partitions, brokers, strict=True):
        partition.replica_nodes = [broker]
    scenario.answer(MetadataRequest, answer)


def answer_join_of_two(scenario: Scenario, other: str | None) -> None:
    joined = JoinGroupResponse(
        generation_id=1,
        protocol_name="range",
        leader="member-a",
        member_id="member-a",
        members=[_member("member-a", "rack-3"), _member("member-b", other)],
    )
    scenario.answer(JoinGroupRequest, joined)


def test_a_leader_shares_out_again_what_has_moved_to_another_rack(make_scenario: MakeScenario) -> None:
    """KIP-881. Members went on reading from other racks until somebody joined or left."""
    scenario = make_scenario(client_rack="rack-3")
    scenario.start_joining("orders")
    replicas_are_on(scenario, 2, 3)
    answer_join_of_two(scenario, "rack-2")
    scenario.sync(O1)
    scenario.run_callback()
    scenario.answer_committed({O1: 0})
    replicas_are_on(scenario, 2, 3, away=2)
    scenario.expect(ClassicState.STABLE)  # a broker that is restarted has moved nothing
    replicas_are_on(scenario, 3, 2)
    scenario.expect(ClassicState.REVOKING_PARTITIONS)
    scenario.run_callback()
    answer_join_of_two(scenario, "rack-2")
    assert plan(scenario.request(SyncGroupRequest)) == {"member-a": [("orders", [0])], "member-b": [("orders", [1])]}


def _member(member_id: str, rack: str | None) -> JoinGroupResponseMember:
    from kwire.protocol.consumer_protocol import encode_subscription
    from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

    subscription = ConsumerProtocolSubscription(topics=["orders"], rack_id=rack)
    return JoinGroupResponseMember(member_id=member_id, metadata=encode_subscription(3, subscription))


# --- rebalancing ------------------------------------------------------------------------------------------------


def rebalance_begins(scenario: Scenario) -> None:
    scenario.advance_to_heartbeat()
    scenario.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_heartbeat_that_says_rebalance_makes_the_member_give_back_and_rejoin(scenario: Scenario) -> None:
    scenario.become_stable(O0, O1)
    rebalance_begins(scenario)
    scenario.expect(ClassicState.REVOKING_PARTITIONS)
    assert scenario.views[-1].withheld == {O0, O1}
    assert not scenario.pending(JoinGroupRequest)
    callback = scenario.run_callback()
    assert (callback.kind, callback.partitions) == (CallbackKind.REVOKED, frozenset({O0, O1}))
    assert scenario.subscription.partitions == {}
    assert scenario.request(JoinGroupRequest).member_id == "member-a"
    scenario.rejoin(O1, generation=2)
    assert set(scenario.subscription.partitions) == {O1}


def test_a_heartbeat_from_before_the_join_causes_no_second_rebalance(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    scenario.advance_to_heartbeat()
    late = scenario.unsent(HeartbeatRequest)
    scenario.run_callback()
    scenario.unanswered.remove(late)
    late.on_answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), scenario.now_ms)
    scenario.rejoin(O0, generation=2)
    scenario.expect(ClassicState.STABLE)


def test_an_old_heartbeat_cannot_end_the_new_generation(scenario: Scenario) -> None:
    """Answered by the former coordinator in the turn in which the new one completes the join."""
    scenario.become_stable(O0)
    scenario.advance_to_heartbeat()
    late = scenario.unsent(HeartbeatRequest)
    scenario.unanswered.remove(late)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    join = scenario.unsent(JoinGroupRequest)
    scenario.unanswered.remove(join)
    join.on_answer(
        JoinGroupResponse(generation_id=2, protocol_name="range", leader="member-b", member_id="member-a"),
        scenario.now_ms,
    )
    late.on_answer(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION), scenario.now_ms)
    scenario.turn()
    scenario.expect(ClassicState.COMPLETING_REBALANCE)
    assert scenario.managers.membership.identity().generation_id == 2


def test_a_completion_of_an_older_callback_is_ignored(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join()
    scenario.sync(O0)
    callback = scenario.take_event(RunCallback)
    scenario.post(CallbackCompleted(Attempt(callback.attempt - 1)))
    scenario.expect(ClassicState.ASSIGNING_PARTITIONS)
    scenario.post(CallbackCompleted(callback.attempt))
    scenario.expect(ClassicState.PARTITIONS_ASSIGNED)
    scenario.post(CallbackCompleted(callback.attempt))
    scenario.expect(ClassicState.PARTITIONS_ASSIGNED)


@pytest.mark.parametrize("during", ["join", "sync", "callback"])
def test_a_subscription_changed_during_a_rebalance_is_remembered(scenario: Scenario, during: str) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    steps = {"join": scenario.join, "sync": lambda: scenario.sync(O0), "callback": scenario.run_callback}
    for name, step in steps.items():
        if name == during:
            scenario.subscribe("orders", "clicks")
            scenario.serve()
        step()
    scenario.expect(ClassicState.REVOKING_PARTITIONS)
    scenario.run_callback()
    topics = decode_subscription(scenario.request(JoinGroupRequest).protocols[0].metadata).topics
    assert topics == ["clicks", "orders"]


def test_a_plan_for_topics_that_are_not_subscribed_any_more_is_not_given_out(scenario: Scenario) -> None:
    """The assigned callback named partitions of a topic that `subscription()` did not have, and the revoked one came
    right behind it."""
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    scenario.join()
    scenario.subscribe("clicks")
    scenario.serve()
    scenario.sync(O0)
    topics = decode_subscription(scenario.request(JoinGroupRequest).protocols[0].metadata).topics
    assert topics == ["clicks"]
    assert not [event for event in scenario.events if isinstance(event, RunCallback)]
    scenario.rejoin(CLICKS, generation=2)


def test_a_plan_for_topics_that_a_new_pattern_matches_is_taken(scenario: Scenario) -> None:
    """Which topics a pattern matches is not known yet."""
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    scenario.join()
    scenario.post(Subscribe(pattern=re.compile("^ord"), reply=Reply()))
    scenario.sync(O0)
    assert [event.partitions for event in scenario.events if isinstance(event, RunCallback)] == [frozenset({O0})]


def test_a_subscription_changed_while_a_join_is_open_does_not_make_it_forgotten(scenario: Scenario) -> None:
    """The open join still blocks the coordinator's connection: a leave has to go around it."""
    scenario.become_stable(O0)
    rebalance_begins(scenario)
    scenario.run_callback()
    scenario.subscribe("orders", "clicks")
    assert scenario.managers.membership.blocks_coordinator
    scenario.unsubscribe()
    assert scenario.unsent(LeaveGroupRequest).destination.channel is Channel.CONTROL


def test_enforce_rebalance_tells_the_reason(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("too " * 100))
    scenario.run_callback()
    reason = scenario.request(JoinGroupRequest).reason or ""
    assert reason.startswith("too too")
    assert len(reason) == 255  # KIP-800


# --- patterns ---------------------------------------------------------------------------------------------------


def subscribe_pattern(scenario: Scenario, pattern: str) -> None:
    scenario.post(Subscribe(pattern=re.compile(pattern), reply=Reply()))


def joined_topics(scenario: Scenario) -> list[str]:
    return decode_subscription(scenario.request(JoinGroupRequest).protocols[0].metadata).topics


def test_a_pattern_joins_with_the_topics_it_finds(scenario: Scenario) -> None:
    scenario.topics |= {"clicks-eu": (1,), "clicks-us": (1,)}
    subscribe_pattern(scenario, "clicks-.*")
    scenario.poll()
    assert scenario.request(MetadataRequest).topics is None
    scenario.answer(FindCoordinatorRequest, scenario.coordinator())
    assert not scenario.pending(JoinGroupRequest)
    scenario.serve()
    assert joined_topics(scenario) == ["clicks-eu", "clicks-us"]


def test_a_pattern_waits_for_all_topics_though_some_are_known(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.unsubscribe()
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse())
    subscribe_pattern(scenario, "ord.*")
    scenario.poll()
    assert not scenario.pending(JoinGroupRequest)
    scenario.advance(1_000)
    scenario.serve()
    assert joined_topics(scenario) == ["orders"]


def test_another_pattern_is_matched_at_once(scenario: Scenario) -> None:
    """All topics were known already, so no refresh was due, and the new pattern matched nothing for five minutes."""
    scenario.topics |= {"clicks": (1,)}
    subscribe_pattern(scenario, "orders")
    scenario.poll()
    scenario.serve()
    scenario.rejoin(O0, O1)
    subscribe_pattern(scenario, "clicks")
    scenario.run_callback()
    assert joined_topics(scenario) == ["clicks"]


def test_a_topic_that_begins_to_match_makes_the_member_rejoin(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(metadata_max_age_ms=10_000)
    subscribe_pattern(scenario, "orders|clicks")
    scenario.poll()
    scenario.serve()
    scenario.rejoin(O0, O1)
    scenario.topics |= {"clicks": (1,)}
    scenario.advance(10_000)
    scenario.serve()
    scenario.run_callback()
    assert joined_topics(scenario) == ["clicks", "orders"]


@pytest.mark.parametrize(("hidden", "expected"), [(True, ["orders"]), (False, ["__consumer_offsets", "orders"])])
def test_internal_topics_stay_out_of_patterns_unless_asked_for(
    make_scenario: MakeScenario, hidden: bool, expected: list[str]
) -> None:
    scenario = make_scenario(exclude_internal_topics=hidden)
    scenario.topics |= {"__consumer_offsets": (1,)}
    subscribe_pattern(scenario, ".*")
    scenario.poll()
    answer = scenario.metadata()
    for topic in answer.topics:
        topic.is_internal = topic.name == "__consumer_offsets"
    scenario.answer(MetadataRequest, answer)
    scenario.serve()
    assert joined_topics(scenario) == expected


# --- bad bytes --------------------------------------------------------------------------------------------------


def test_a_subscription_that_cannot_be_read_is_raised_and_the_next_poll_tries_again(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    bad = JoinGroupResponseMember(member_id="member-b", group_instance_id="host-7", metadata=b"\x00")
    scenario.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            generation_id=1, protocol_name="range", leader="member-a", member_id="member-a", members=[bad]
        ),
    )
    said = str(scenario.take_error(ProtocolError))
    whose = "the subscription of member 'member-b' (group_instance_id 'host-7') cannot be read"
    assert said.startswith(f"group billing: {whose}")
    scenario.expect(ClassicState.UNJOINED)
    assert not scenario.pending(JoinGroupRequest)
    scenario.advance(100)
    scenario.poll()
    assert scenario.pending(JoinGroupRequest)


def test_a_leader_that_is_no_member_is_told_and_hands_in_no_plan(scenario: Scenario) -> None:
    """Its plan would be empty, and the group would stay without partitions until somebody comes or goes."""
    scenario.start_joining("orders")
    scenario.answer(
        JoinGroupRequest,
        JoinGroupResponse(generation_id=1, protocol_name="range", leader="member-a", member_id="member-a"),
    )
    assert "as the leader, but does not list it" in str(scenario.take_error(ProtocolError))
    assert not scenario.pending(SyncGroupRequest)
    scenario.advance(100)
    scenario.poll()
    assert scenario.pending(JoinGroupRequest)


def test_a_member_whose_sync_is_refused_joins_again_as_the_same(scenario: Scenario) -> None:
    """As a new one it would wait until the session of the old one ends: its permission came back, and 45 s later its
    records."""
    scenario.start_joining("orders")
    scenario.join()
    scenario.refuse(SyncGroupRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    scenario.take_error(GroupAuthorizationError)
    scenario.expect(ClassicState.UNJOINED)
    scenario.advance(100)
    scenario.poll()
    assert scenario.request(JoinGroupRequest).member_id == "member-a"


def test_an_assignment_that_cannot_be_read_is_raised_and_the_next_poll_tries_again(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join()
    scenario.answer(SyncGroupRequest, SyncGroupResponse(assignment=b"\x00\x00\x7f\xff\xff\xff"))
    whose = "group billing: the assignment that the group's leader has made for this member cannot be read"
    assert whose in str(scenario.take_error(ProtocolError))
    scenario.advance(100)
    scenario.poll()
    assert scenario.pending(JoinGroupRequest)


# --- leaving ----------------------------------------------------------------------------------------------------


def up_to_joining(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.answer(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="member-a"))


def up_to_syncing(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join()


def up_to_assigning(scenario: Scenario) -> None:
    up_to_syncing(scenario)
    scenario.sync(O0)


def up_to_assigned(scenario: Scenario) -> None:
    up_to_assigning(scenario)
    scenario.run_callback()


def up_to_stable(scenario: Scenario) -> None:
    scenario.become_stable(O0)


def up_to_revoking(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    rebalance_begins(scenario)


def up_to_revoked(scenario: Scenario) -> None:
    """The coordinator is lost, so the join has to wait."""
    up_to_revoking(scenario)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.run_callback()


STATES = {
    ClassicState.PREPARE_REBALANCE: up_to_joining,
    ClassicState.COMPLETING_REBALANCE: up_to_syncing,
    ClassicState.ASSIGNING_PARTITIONS: up_to_assigning,
    ClassicState.PARTITIONS_ASSIGNED: up_to_assigned,
    ClassicState.STABLE: up_to_stable,
    ClassicState.REVOKING_PARTITIONS: up_to_revoking,
    ClassicState.PARTITIONS_REVOKED: up_to_revoked,
}
in_every_state = pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)


@in_every_state
def test_unsubscribing_leaves_the_group_from_every_state(scenario: Scenario, state: ClassicState) -> None:
    STATES[state](scenario)
    scenario.expect(state)
    known = scenario.managers.coordinator.destination is not None
    reply = scenario.unsubscribe()
    scenario.expect(ClassicState.UNJOINED)
    assert scenario.subscription.partitions == {}
    assert not scenario.managers.membership.identity().is_member
    assert bool(scenario.pending(LeaveGroupRequest)) is known
    if known:
        blocked = state in (ClassicState.PREPARE_REBALANCE, ClassicState.COMPLETING_REBALANCE)
        # Behind an open join or sync the leave would wait until the rebalance is over.
        channel = Channel.CONTROL if blocked else Channel.COORDINATOR
        assert scenario.unsent(LeaveGroupRequest).destination.channel is channel
        assert scenario.request(LeaveGroupRequest).member_id == "member-a"  # as written for version 0
        assert not reply.done
        scenario.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert reply.done


@in_every_state
def test_after_leaving_nothing_old_can_change_anything(scenario: Scenario, state: ClassicState) -> None:
    STATES[state](scenario)
    callbacks = scenario.callbacks
    scenario.unsubscribe()
    old = [unsent for unsent in scenario.unanswered if not isinstance(unsent.request, LeaveGroupRequest)]
    for unsent in old:
        scenario.unanswered.remove(unsent)
        if isinstance(unsent.request, JoinGroupRequest):
            unsent.on_answer(JoinGroupResponse(generation_id=9, member_id="member-a"), scenario.now_ms)
        elif isinstance(unsent.request, SyncGroupRequest):
            unsent.on_answer(SyncGroupResponse(assignment=b""), scenario.now_ms)
        else:
            unsent.on_failure(DisconnectError("late"), scenario.now_ms)
    scenario.post(*(CallbackCompleted(callback.attempt) for callback in callbacks))
    scenario.expect(ClassicState.UNJOINED)
    assert scenario.subscription.partitions == {}


@in_every_state
def test_a_consumer_that_left_can_subscribe_again(scenario: Scenario, state: ClassicState) -> None:
    STATES[state](scenario)
    scenario.unsubscribe()
    scenario.unanswered = [
        unsent for unsent in scenario.unanswered if isinstance(unsent.request, FindCoordinatorRequest)
    ]
    scenario.events.clear()
    scenario.subscribe("orders")
    scenario.poll()
    scenario.advance(2_000)
    scenario.serve()
    assert scenario.request(JoinGroupRequest).member_id == ""
    scenario.rejoin(O0, generation=7)


def test_leaving_names_the_member_and_the_reason_in_versions_that_know_lists(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.unsubscribe()
    newest = scenario.written_for(LeaveGroupRequest, 5)
    assert [(m.member_id, m.reason) for m in newest.members] == [("member-a", "the consumer unsubscribed")]
    assert scenario.written_for(LeaveGroupRequest, 2).member_id == "member-a"


def test_a_static_member_leaves_silently(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(group_instance_id="till-1")
    scenario.become_stable(O0)
    reply = scenario.unsubscribe()
    assert not scenario.pending(LeaveGroupRequest)  # KIP-345: its slot survives a restart
    assert reply.done


def test_without_a_coordinator_there_is_nobody_to_say_farewell_to(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    assert is_done(scenario.unsubscribe())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_unsubscribing_is_answered_when_the_view_shows_it(make_scenario: MakeScenario, protocol: str) -> None:
    """With nobody to tell the answer came first: an `assign()` or `subscribe()` right behind it was refused."""
    scenario = make_scenario(group_protocol=protocol)
    scenario.assign(O0)
    seen: list[AssignmentView] = []
    scenario.post(Unsubscribe(Reply(on_done=lambda: seen.append(scenario.views[-1]))))
    assert [(view.subscribed, dict(view.epochs)) for view in seen] == [(False, {})]
    scenario.serve()
    scenario.serve()
    assert not scenario.pending(LeaveGroupRequest)


def test_who_unsubscribes_hears_of_it_when_the_farewell_is_answered(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    reply = scenario.unsubscribe()
    assert not is_done(reply)
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert is_done(reply)


def test_a_farewell_that_failed_is_said_again_after_the_back_off(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.unsubscribe()
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert scenario.managers.membership.poll(scenario.now_ms).wake_at_ms == scenario.now_ms + 100
    scenario.advance(100)
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse())


def test_a_farewell_that_finds_no_coordinator_is_over_two_seconds_after_it_failed(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    reply = scenario.unsubscribe()
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    scenario.advance(1_999)
    assert not is_done(reply)
    scenario.advance(1)
    assert is_done(reply)


def test_who_has_left_at_the_end_owns_nothing(scenario: Scenario) -> None:
    scenario.become_stable(O0, O1)
    scenario.leave_at_the_end(None)
    assert not scenario.subscription.partitions


def test_a_leave_that_fails_twice_is_a_leave(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    reply = scenario.unsubscribe()
    scenario.fail(LeaveGroupRequest)
    assert not is_done(reply)
    scenario.serve()
    scenario.advance(100)
    scenario.fail(LeaveGroupRequest)
    assert reply.done
    assert reply.result() is None


def test_a_leave_that_met_the_wrong_broker_is_repeated_at_the_right_one(scenario: Scenario) -> None:
    """The group would have waited for the member until its session timed out."""
    scenario.become_stable(O0)
    reply = scenario.unsubscribe()
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(2))
    scenario.advance(100)
    node = scenario.unsent(LeaveGroupRequest).destination.node
    assert node is not None
    assert node.id == 2
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert reply.done


def test_a_leave_is_not_repeated_for_ever_in_a_cluster_that_is_gone(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    reply = scenario.unsubscribe()
    scenario.fail(LeaveGroupRequest)
    for _ in range(30):
        if scenario.pending(FindCoordinatorRequest):
            scenario.fail(FindCoordinatorRequest)
        scenario.advance(100)
    assert reply.done


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED])
def test_a_member_made_by_a_join_that_was_given_up_is_not_left_behind(scenario: Scenario, code: ErrorCode) -> None:
    """Its id came too late for the leave. The group would have waited for it until its session timed out."""
    scenario.start_joining("orders")
    scenario.unsubscribe()
    assert not scenario.pending(LeaveGroupRequest)
    scenario.answer(JoinGroupRequest, JoinGroupResponse(error_code=code, generation_id=1, member_id="member-x"))
    assert scenario.request(LeaveGroupRequest).member_id == "member-x"


def test_the_join_that_follows_one_that_was_given_up_keeps_its_reason(scenario: Scenario) -> None:
    """The broker's log, and `describe()`, said of it that it was given up."""
    scenario.start_joining("orders")
    given_up = scenario.unsent(JoinGroupRequest)
    scenario.unsubscribe()
    scenario.start_joining("orders")
    before = scenario.managers.membership.status().reason
    given_up.on_answer(JoinGroupResponse(generation_id=1, member_id="member-x"), scenario.now_ms)
    scenario.turn()
    left = scenario.written_for(LeaveGroupRequest, 5).members
    assert [(each.member_id, each.reason) for each in left] == [("member-x", "the join was given up")]
    assert scenario.managers.membership.status().reason == before


# --- refusals ---------------------------------------------------------------------------------------------------

FINAL = [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL]


@pytest.mark.parametrize("code", FINAL, ids=lambda code: code.name)
@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_a_refusal_is_raised_once_a_poll_and_tried_again_with_the_next(
    scenario: Scenario, kind: type[object], code: ErrorCode
) -> None:
    scenario.start_joining("orders")
    if kind is SyncGroupRequest:
        scenario.join()
    scenario.refuse(kind, code)
    scenario.expect(ClassicState.UNJOINED)
    assert [type(error) for error in scenario.errors] == [code.exception]
    scenario.advance(5_000)
    assert not scenario.pending(JoinGroupRequest)
    assert len(scenario.errors) == 1
    scenario.poll()
    assert scenario.pending(JoinGroupRequest)


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        (
            JoinGroupRequest,
            JoinGroupResponse(member_id="member-a", protocol_type="connect"),
            "'connect', not 'consumer'",
        ),
        (SyncGroupRequest, SyncGroupResponse(protocol_type="connect"), "'connect', not 'consumer'"),
        (SyncGroupRequest, SyncGroupResponse(protocol_name="sticky"), "'sticky', not 'range'"),
    ],
    ids=["JoinGroup, type", "SyncGroup, type", "SyncGroup, name"],
)
def test_an_answer_about_another_protocol_is_refused(
    scenario: Scenario, kind: type[object], answer: object, said: str
) -> None:
    """As in Java: the assignment would be read by the rules of the wrong protocol."""
    scenario.start_joining("orders")
    if kind is SyncGroupRequest:
        scenario.join()
    scenario.answer(kind, answer)
    scenario.expect(ClassicState.UNJOINED)
    assert said in str(scenario.take_error(InconsistentGroupProtocolError))


def test_an_answer_that_names_the_member_s_own_protocol_is_as_good_as_one_that_names_none(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    own = JoinGroupResponse(member_id="member-a", protocol_type="consumer", protocol_name="range", generation_id=1)
    scenario.answer(JoinGroupRequest, own)
    scenario.answer(SyncGroupRequest, SyncGroupResponse(protocol_type="consumer", protocol_name="range"))
    scenario.expect(ClassicState.ASSIGNING_PARTITIONS)


def test_an_error_without_a_retry_from_the_network_is_raised(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.fail(JoinGroupRequest, KafkaError("this broker offers no JoinGroup"))
    assert "JoinGroup" in str(scenario.take_error(KafkaError))
    scenario.expect(ClassicState.UNJOINED)


def test_offsets_are_asked_for_only_after_the_callback_which_may_seek(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join()
    scenario.sync(O0, O1)
    assert not scenario.pending(OffsetFetchRequest)
    scenario.seek(O0, 42)
    scenario.run_callback()
    topics = scenario.request(OffsetFetchRequest).groups[0].topics or ()
    assert [topic.partition_indexes for topic in topics] == [[1]]
