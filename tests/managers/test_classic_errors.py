"""What shakes or ends a classic membership: error codes, lost coordinators, a late session or application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.errors import (
    CommitFailedError,
    DisconnectError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    KafkaError,
    KafkaTimeoutError,
)
from kwire.events import CallbackKind, Commit, EnforceRebalance, Reply
from kwire.managers.unsent import Channel
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.consumer_protocol import encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages import consumer_protocol as wire
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.states.classic_group import ClassicState

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
MakeScenario = Callable[..., "Scenario"]
LOST = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND]
MOVED = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
each_loss = pytest.mark.parametrize("code", LOST, ids=lambda code: code.name)
each_move = pytest.mark.parametrize("code", MOVED, ids=lambda code: code.name)


def heartbeat(scenario: Scenario, code: ErrorCode) -> None:
    """The next heartbeat is answered with this code."""
    scenario.advance_to_heartbeat()
    scenario.refuse(HeartbeatRequest, code)


def commit(scenario: Scenario) -> Reply[None]:
    reply: Reply[None] = Reply()
    scenario.post(Commit({O0: OffsetAndMetadata(11)}, reply))
    return reply


def kept_member_id(code: ErrorCode) -> str:
    """Of another generation the member id is still good; joining with it spares the group an abandoned member."""
    return "member-a" if code is ErrorCode.ILLEGAL_GENERATION else ""


# --- the membership is lost -------------------------------------------------------------------------------------


@each_loss
def test_a_stable_member_that_is_unknown_loses_its_partitions_and_joins_anew(
    scenario: Scenario, code: ErrorCode
) -> None:
    scenario.become_stable(O0)
    heartbeat(scenario, code)
    scenario.expect(ClassicState.REVOKING_PARTITIONS)
    assert scenario.views[-1].withheld == {O0}
    assert scenario.run_callback().kind is CallbackKind.LOST
    assert scenario.request(JoinGroupRequest).member_id == kept_member_id(code)
    scenario.rejoin(O0, generation=2)


@each_loss
def test_a_commit_tells_of_a_lost_membership_too(scenario: Scenario, code: ErrorCode) -> None:
    scenario.become_stable(O0)
    reply = commit(scenario)
    scenario.answer_commit(code)
    with pytest.raises(CommitFailedError):
        reply.result()
    assert scenario.run_callback().kind is CallbackKind.LOST
    assert scenario.request(JoinGroupRequest).member_id == kept_member_id(code)


@each_loss
@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_a_join_or_sync_of_an_unknown_member_is_repeated(
    scenario: Scenario, kind: type[object], code: ErrorCode
) -> None:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    if kind is SyncGroupRequest:
        scenario.join(generation=2)
    scenario.refuse(kind, code)
    assert scenario.request(JoinGroupRequest).member_id == kept_member_id(code)
    assert not scenario.events
    scenario.rejoin(O0, generation=3)


@each_loss
def test_a_member_lost_while_it_revokes_joins_after_the_callback(scenario: Scenario, code: ErrorCode) -> None:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    heartbeat(scenario, code)
    scenario.expect(ClassicState.REVOKING_PARTITIONS)
    assert [callback.kind for callback in scenario.callbacks] == [CallbackKind.REVOKED]
    scenario.run_callback()
    assert scenario.request(JoinGroupRequest).member_id == kept_member_id(code)


@each_loss
def test_what_was_assigned_during_the_loss_is_taken_back_after_the_callback(
    scenario: Scenario, code: ErrorCode
) -> None:
    """Every partition given out with on_partitions_assigned is taken back with on_partitions_lost."""
    scenario.start_joining("orders")
    scenario.join()
    scenario.sync(O0)
    heartbeat(scenario, code)
    scenario.expect(ClassicState.ASSIGNING_PARTITIONS)
    assert scenario.run_callback().kind is CallbackKind.ASSIGNED
    lost = scenario.run_callback()
    assert (lost.kind, lost.partitions) == (CallbackKind.LOST, frozenset({O0}))
    assert not scenario.pending(FetchRequest)
    # With a new id, the broker would have waited for the old member until its session had run out.
    assert scenario.request(JoinGroupRequest).member_id == kept_member_id(code)


@each_loss
def test_a_member_lost_before_its_positions_are_known_gives_them_up(scenario: Scenario, code: ErrorCode) -> None:
    scenario.start_joining("orders")
    scenario.join()
    scenario.sync(O0)
    scenario.run_callback()
    heartbeat(scenario, code)
    assert scenario.run_callback().kind is CallbackKind.LOST
    # The offsets of the old assignment come too late.
    scenario.answer_committed({O0: 10})
    assert scenario.subscription.partitions == {}


@each_loss
def test_a_leader_lost_while_it_waits_for_metadata_joins_anew(scenario: Scenario, code: ErrorCode) -> None:
    scenario.start_joining("orders")
    scenario.join(members={"member-a": ["orders"], "member-b": ["clicks"]})
    heartbeat(scenario, code)
    scenario.expect(ClassicState.PREPARE_REBALANCE)
    assert not scenario.callbacks
    scenario.serve()
    assert not scenario.pending(SyncGroupRequest)


def test_a_member_lost_while_the_join_has_to_wait_joins_as_a_new_one(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    heartbeat_sent(scenario)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    scenario.refuse(HeartbeatRequest, ErrorCode.UNKNOWN_MEMBER_ID)
    scenario.expect(ClassicState.PARTITIONS_REVOKED)
    scenario.advance(1_000)
    scenario.serve()
    assert scenario.request(JoinGroupRequest).member_id == ""


def heartbeat_sent(scenario: Scenario) -> None:
    scenario.advance_to_heartbeat()
    assert scenario.pending(HeartbeatRequest)


@each_loss
def test_old_news_of_a_loss_does_not_disturb_an_open_join(scenario: Scenario, code: ErrorCode) -> None:
    """A commit was on its way when the join was sent. Joining a second time, behind the first on the same connection,
    would have made the group rebalance once more; the open join's own answer tells whether the member is known."""
    scenario.become_stable(O0)
    reply = commit(scenario)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    scenario.answer_commit(code)
    assert isinstance(reply_error(reply), CommitFailedError)
    scenario.expect(ClassicState.PREPARE_REBALANCE)
    assert len(scenario.pending(JoinGroupRequest)) == 1
    scenario.rejoin(O0, generation=2)


def test_a_commit_that_met_the_rebalance_under_way_causes_no_second_one(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    commit(scenario)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    scenario.answer_commit(ErrorCode.REBALANCE_IN_PROGRESS)
    scenario.rejoin(O0, generation=2)
    scenario.expect(ClassicState.STABLE)


def test_a_commit_that_meets_a_rebalance_makes_a_stable_member_rejoin(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    commit(scenario)
    scenario.answer_commit(ErrorCode.REBALANCE_IN_PROGRESS)
    assert scenario.run_callback().kind is CallbackKind.REVOKED


def reply_error(reply: Reply[None]) -> BaseException | None:
    try:
        reply.result()
    except Exception as error:  # noqa: BLE001  it is the answer
        return error
    return None


# --- fenced -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["heartbeat", "commit", "join", "sync"])
def test_a_fenced_instance_never_joins_again_and_every_poll_says_so(make_scenario: MakeScenario, where: str) -> None:
    """Joining would fence the member that took over the instance id, which would join, and so on."""
    scenario = make_scenario(group_instance_id="till-1")
    code = ErrorCode.FENCED_INSTANCE_ID
    if where in ("heartbeat", "commit"):
        scenario.become_stable(O0)
        if where == "heartbeat":
            heartbeat(scenario, code)
        else:
            commit(scenario)
            scenario.answer_commit(code)
        assert scenario.run_callback().kind is CallbackKind.LOST
    else:
        scenario.start_joining("orders")
        if where == "sync":
            scenario.join()
        scenario.refuse(JoinGroupRequest if where == "join" else SyncGroupRequest, code)
    scenario.take_error(FencedInstanceIdError)
    for _ in range(3):
        scenario.poll()
        scenario.advance(10_000)
        assert not scenario.pending(JoinGroupRequest)
        assert not scenario.pending(HeartbeatRequest)
        assert scenario.take_error(FencedInstanceIdError).fatal
        assert not scenario.errors


def test_a_fenced_instance_may_subscribe_anew(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(group_instance_id="till-1")
    scenario.start_joining("orders")
    scenario.refuse(JoinGroupRequest, ErrorCode.FENCED_INSTANCE_ID)
    scenario.subscribe("orders")
    scenario.poll()
    assert scenario.pending(JoinGroupRequest)


# --- refused ----------------------------------------------------------------------------------------------------


def unreadable_members(scenario: Scenario) -> None:
    bad = JoinGroupResponseMember(member_id="member-b", metadata=b"\x00")
    joined = JoinGroupResponse(
        generation_id=1, protocol_name="range", leader="member-a", member_id="member-a", members=[bad]
    )
    scenario.answer(JoinGroupRequest, joined)


def strange_protocol(scenario: Scenario) -> None:
    metadata = encode_subscription(3, wire.ConsumerProtocolSubscription(topics=["orders"]))
    good = JoinGroupResponseMember(member_id="member-a", metadata=metadata)
    joined = JoinGroupResponse(
        generation_id=1, protocol_name="strange", leader="member-a", member_id="member-a", members=[good]
    )
    scenario.answer(JoinGroupRequest, joined)


def failed_join(scenario: Scenario) -> None:
    scenario.fail(JoinGroupRequest, KafkaError("this broker offers no JoinGroup"))


def failed_sync(scenario: Scenario) -> None:
    scenario.join()
    scenario.fail(SyncGroupRequest, KafkaError("this broker offers no SyncGroup"))


def unreadable_assignment(scenario: Scenario) -> None:
    scenario.join()
    scenario.answer(SyncGroupRequest, SyncGroupResponse(assignment=b"\x00\x00\x7f\xff\xff\xff"))


def refused_join(scenario: Scenario) -> None:
    scenario.refuse(JoinGroupRequest, ErrorCode.INVALID_REQUEST)


def refused_sync(scenario: Scenario) -> None:
    scenario.join()
    scenario.refuse(SyncGroupRequest, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    "refuse",
    [
        unreadable_members,
        strange_protocol,
        failed_join,
        failed_sync,
        unreadable_assignment,
        refused_join,
        refused_sync,
    ],
)
def test_a_join_that_is_refused_is_repeated_with_a_growing_pause_however_often_the_application_polls(
    scenario: Scenario, refuse: Callable[[Scenario], None]
) -> None:
    """It was repeated with each poll, and each time the whole group rebalanced: a thousand times in four seconds."""
    scenario.start_joining("orders")
    for pause_ms in (100, 200, 400):
        refuse(scenario)
        assert scenario.errors
        scenario.events.clear()
        scenario.serve()
        scenario.poll()
        scenario.advance(pause_ms - 1)
        scenario.poll()
        assert not scenario.pending(JoinGroupRequest)
        scenario.advance(1)
        assert scenario.pending(JoinGroupRequest)


def test_who_subscribes_anew_after_a_refusal_joins_at_once(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    unreadable_members(scenario)
    scenario.subscribe("orders")
    scenario.poll()
    assert scenario.pending(JoinGroupRequest)


# --- the coordinator moves --------------------------------------------------------------------------------------


@each_move
@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_a_join_goes_on_at_the_new_coordinator(scenario: Scenario, kind: type[object], code: ErrorCode) -> None:
    scenario.start_joining("orders")
    if kind is SyncGroupRequest:
        scenario.join()
    scenario.refuse(kind, code)
    scenario.expect(ClassicState.PARTITIONS_REVOKED)
    assert not scenario.pending(JoinGroupRequest)
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(node_id=2))
    scenario.advance(100)
    node = scenario.unsent(JoinGroupRequest).destination.node
    assert node is not None
    assert node.id == 2
    assert not scenario.errors


@each_move
def test_heartbeats_go_on_at_the_new_coordinator_and_the_member_stays_stable(
    scenario: Scenario, code: ErrorCode
) -> None:
    scenario.become_stable(O0)
    heartbeat(scenario, code)
    scenario.expect(ClassicState.STABLE)
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(node_id=2))
    scenario.advance_to_heartbeat()
    node = scenario.unsent(HeartbeatRequest).destination.node
    assert node is not None
    assert node.id == 2


@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_a_join_without_an_answer_is_repeated_once_the_coordinator_is_found(
    scenario: Scenario, kind: type[object]
) -> None:
    scenario.start_joining("orders")
    if kind is SyncGroupRequest:
        scenario.join()
    scenario.fail(kind, KafkaTimeoutError("no answer"))
    scenario.serve()
    scenario.advance(100)
    assert scenario.pending(JoinGroupRequest)


def test_the_failure_of_an_old_request_does_not_cost_the_coordinator_found_since(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    commit(scenario)
    heartbeat(scenario, ErrorCode.NOT_COORDINATOR)
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(node_id=2))
    scenario.fail(OffsetCommitRequest)
    assert scenario.managers.coordinator.destination is not None


def test_a_coordinator_that_loads_is_asked_again_with_a_growing_pause(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    for pause_ms in (100, 200, 400):
        scenario.refuse(JoinGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        scenario.advance(pause_ms - 1)
        assert not scenario.pending(JoinGroupRequest)
        scenario.advance(1)
        assert scenario.pending(JoinGroupRequest)
    assert not scenario.pending(FindCoordinatorRequest)


def test_a_sync_that_meets_the_next_rebalance_joins_at_once(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join()
    scenario.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    assert scenario.request(JoinGroupRequest).member_id == "member-a"


def test_a_leader_that_lost_the_coordinator_joins_again_instead_of_assigning(scenario: Scenario) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders")
    scenario.join(members={"member-a": ["orders"], "member-b": ["clicks"]})
    heartbeat(scenario, ErrorCode.NOT_COORDINATOR)
    scenario.advance(1_000)
    scenario.serve()
    scenario.turn()
    assert len(scenario.pending(JoinGroupRequest)) + len(scenario.pending(SyncGroupRequest)) == 1


def test_a_refusal_of_heartbeats_is_raised(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    heartbeat(scenario, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    scenario.take_error(GroupAuthorizationError)
    scenario.expect(ClassicState.STABLE)


# --- the session and the polls ----------------------------------------------------------------------------------


def test_a_session_without_answers_makes_the_member_look_for_the_coordinator(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.advance(scenario.config.session_timeout_ms + scenario.config.heartbeat_interval_ms)
    assert scenario.pending(FindCoordinatorRequest)
    scenario.expect(ClassicState.STABLE)
    scenario.serve()
    # Whether the partitions are still this member's is for the broker to say.
    scenario.refuse(HeartbeatRequest, ErrorCode.NONE)  # the old one: too late to count
    scenario.refuse(HeartbeatRequest, ErrorCode.UNKNOWN_MEMBER_ID)
    assert scenario.run_callback().kind is CallbackKind.LOST


def overdue(scenario: Scenario) -> None:
    """The application does not poll for `max_poll_interval_ms`, while heartbeats are answered."""
    end_ms = scenario.polled_at_ms + scenario.config.max_poll_interval_ms
    while scenario.now_ms < end_ms:
        scenario.advance(min(1_000, end_ms - scenario.now_ms))
        while scenario.pending(HeartbeatRequest):
            scenario.answer(HeartbeatRequest, HeartbeatResponse())


@pytest.fixture
def slow(make_scenario: MakeScenario) -> Scenario:
    return make_scenario(max_poll_interval_ms=10_000)


def test_a_member_that_does_not_poll_leaves_loses_its_partitions_and_rejoins_with_the_next_poll(slow: Scenario) -> None:
    slow.become_stable(O0)
    overdue(slow)
    assert slow.unsent(LeaveGroupRequest).destination.channel is Channel.COORDINATOR
    slow.expect(ClassicState.REVOKING_PARTITIONS)
    slow.advance(60_000)
    assert not slow.pending(JoinGroupRequest)
    assert slow.run_callback().kind is CallbackKind.LOST
    assert slow.request(JoinGroupRequest).member_id == ""


def test_the_coordinator_is_told_that_the_member_was_not_polled(slow: Scenario) -> None:
    slow.become_stable(O0)
    overdue(slow)
    (leaver,) = slow.written_for(LeaveGroupRequest, 5).members
    assert leaver.reason == "the application has not polled for max_poll_interval_ms"  # KIP-800


def test_polling_in_time_keeps_the_membership(slow: Scenario) -> None:
    slow.become_stable(O0)
    for _ in range(5):
        slow.advance(9_000)
        slow.poll()
        while slow.pending(HeartbeatRequest):
            slow.answer(HeartbeatRequest, HeartbeatResponse())
    slow.expect(ClassicState.STABLE)
    assert not slow.pending(LeaveGroupRequest)


def test_a_revoke_callback_that_takes_too_long_costs_the_membership_but_not_the_consumer(slow: Scenario) -> None:
    slow.become_stable(O0)
    slow.post(EnforceRebalance("because"))
    overdue(slow)
    assert slow.pending(LeaveGroupRequest)
    slow.run_callback()
    assert slow.request(JoinGroupRequest).member_id == ""


def test_an_assigned_callback_that_takes_too_long_is_followed_by_lost(slow: Scenario) -> None:
    slow.start_joining("orders")
    slow.join()
    slow.sync(O0)
    overdue(slow)
    assert slow.pending(LeaveGroupRequest)
    assert slow.run_callback().kind is CallbackKind.ASSIGNED
    assert slow.run_callback().kind is CallbackKind.LOST
    assert slow.request(JoinGroupRequest).member_id == ""


def test_positions_that_take_too_long_cost_the_partitions(slow: Scenario) -> None:
    slow.start_joining("orders")
    slow.join()
    slow.sync(O0)
    slow.run_callback()
    overdue(slow)
    assert slow.run_callback().kind is CallbackKind.LOST


def test_a_sync_that_takes_too_long_is_given_up_around_its_connection_until_the_next_poll(slow: Scenario) -> None:
    slow.start_joining("orders")
    slow.join(leader="member-b")
    overdue(slow)
    slow.expect(ClassicState.UNJOINED)
    assert slow.unsent(LeaveGroupRequest).destination.channel is Channel.CONTROL
    slow.sync(O0)
    slow.expect(ClassicState.UNJOINED)
    slow.poll()
    assert slow.request(JoinGroupRequest).member_id == ""


def test_a_join_that_has_to_wait_too_long_is_given_up_until_the_next_poll(slow: Scenario) -> None:
    slow.become_stable(O0)
    slow.post(EnforceRebalance("because"))
    slow.managers.coordinator.lost(DisconnectError("gone"))
    slow.run_callback()
    overdue(slow)
    slow.expect(ClassicState.UNJOINED)
    slow.serve()
    assert not slow.pending(JoinGroupRequest)
    slow.poll()
    assert slow.pending(JoinGroupRequest)


def test_an_open_join_is_not_overdue_and_its_answer_is_looked_at_first(slow: Scenario) -> None:
    slow.start_joining("orders")
    slow.advance(12_000)
    slow.expect(ClassicState.PREPARE_REBALANCE)
    assert not slow.pending(LeaveGroupRequest)
    slow.answer(
        JoinGroupRequest,
        JoinGroupResponse(generation_id=1, protocol_name="range", leader="member-b", member_id="member-a"),
    )
    slow.expect(ClassicState.UNJOINED)
    assert slow.pending(LeaveGroupRequest)


def test_committed_offsets_go_around_an_open_join(scenario: Scenario) -> None:
    """Behind it they would have waited until their request timed out, which closes the connection of the join."""
    from kwire.events import GetCommitted

    scenario.start_joining("orders")
    scenario.post(GetCommitted(frozenset({O0}), Reply()))
    assert scenario.unsent(OffsetFetchRequest).destination.channel is Channel.CONTROL
    scenario.join(leader="member-b")
    scenario.post(GetCommitted(frozenset({O1}), Reply()))
    assert [u.destination.channel for u in scenario.pending(OffsetFetchRequest)] == [Channel.CONTROL] * 2
    scenario.sync(O0)
    scenario.post(GetCommitted(frozenset({O1}), Reply()))
    assert scenario.pending(OffsetFetchRequest)[-1].destination.channel is Channel.COORDINATOR


def test_who_unsubscribes_hears_no_more_of_a_refusal(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario(group_instance_id="i1")
    scenario.start_joining("orders")
    scenario.refuse(JoinGroupRequest, ErrorCode.FENCED_INSTANCE_ID)
    assert scenario.errors
    scenario.events.clear()
    scenario.unsubscribe()
    scenario.poll()
    assert not scenario.errors
    assert scenario.managers.membership.refusal is None
