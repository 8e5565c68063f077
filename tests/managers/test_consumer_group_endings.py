"""How a membership by the consumer protocol (KIP-848) ends, and what comes after: leaves, fences, refusals, silence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

from kwire.errors import (
    BrokerError,
    CommitFailedError,
    DisconnectError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    KafkaError,
    ProtocolError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from kwire.events import CallbackKind, Commit, CommitAsync, CommitCompleted, GetCommitted, Reply, Subscribe
from kwire.model import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from kwire.states.consumer_group import MemberState

if TYPE_CHECKING:
    from tests.managers.consumer_scenario import HEARTBEAT, ConsumerScenario, assignment, heartbeats, owned, said
    from tests.managers.scenario import all_at_rest
else:
    from consumer_scenario import HEARTBEAT, ConsumerScenario, assignment, heartbeats, owned, said
    from scenario import all_at_rest

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
S = MemberState
C = ErrorCode
T = TypeVar("T")
Make = Callable[..., ConsumerScenario]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes scenarios; at the end of the test none of them may spin."""
    with all_at_rest(ConsumerScenario) as make_one:
        yield make_one


@pytest.fixture
def scenario(make: Make) -> ConsumerScenario:
    return make()


def is_done(reply: Reply[T]) -> bool:
    return reply.done


def assert_rejoined(scenario: ConsumerScenario, member_id: str) -> None:
    """A heartbeat of epoch 0 by the same member is on its way, and the broker takes it in again."""
    join = scenario.heartbeat
    assert (join.member_epoch, join.member_id, owned(join)) == (0, member_id, {})
    scenario.accept(9, assignment(O0))
    assert set(scenario.run_callback().partitions) == {O0}
    scenario.accept(9)
    scenario.answer_committed({O0: 3})
    assert scenario.member_state() is S.STABLE


def bring_to(scenario: ConsumerScenario, state: MemberState) -> None:
    """A member in this state, with a heartbeat that waits for its answer."""
    match state:
        case S.JOINING:
            scenario.start("orders")
        case S.STABLE:
            scenario.own(O0)
            scenario.beat()
        case _:
            scenario.own(O0)
            scenario.beat()
            scenario.accept(2, assignment(O0, O1))
            scenario.beat()
            if state is S.ACKNOWLEDGING:
                scenario.run_callback()
    assert scenario.member_state() is state
    assert scenario.pending(HEARTBEAT)


member_states = pytest.mark.parametrize("state", [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE])


@member_states
def test_a_member_may_leave_at_any_time(scenario: ConsumerScenario, state: MemberState) -> None:
    bring_to(scenario, state)
    scenario.events.clear()  # what `unsubscribe` throws away
    scenario.unsubscribe()
    assert [sent.member_epoch for sent in heartbeats(scenario.pending(HEARTBEAT))][1:] == [-1]
    assert scenario.member_state() is S.UNSUBSCRIBED
    assert not scenario.subscription.partitions
    scenario.unanswered.clear()


@member_states
def test_a_member_may_be_fenced_at_any_time(scenario: ConsumerScenario, state: MemberState) -> None:
    bring_to(scenario, state)
    scenario.refuse_heartbeat(C.UNKNOWN_MEMBER_ID)
    while scenario.callbacks:
        scenario.run_callback()
    scenario.advance(100)
    assert scenario.heartbeat.member_epoch == 0
    assert not scenario.subscription.partitions


@member_states
def test_a_member_may_be_refused_at_any_time(scenario: ConsumerScenario, state: MemberState) -> None:
    bring_to(scenario, state)
    scenario.refuse_heartbeat(C.GROUP_AUTHORIZATION_FAILED)
    while scenario.callbacks:
        scenario.run_callback()
    assert scenario.member_state() is S.FATAL
    assert not scenario.subscription.partitions
    assert not scenario.pending(HEARTBEAT)


# --- leaving ----------------------------------------------------------------------------------------------------


def test_unsubscribing_leaves_and_waits_for_the_broker(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    reply = scenario.unsubscribe()
    leave = scenario.heartbeat
    assert (leave.member_epoch, said(leave)) == (-1, set())
    assert not scenario.subscription.partitions
    assert not is_done(reply)
    scenario.answer(HEARTBEAT, ConsumerGroupHeartbeatResponse(member_epoch=-1))
    assert is_done(reply)
    assert scenario.member_state() is S.UNSUBSCRIBED


def test_a_leave_that_gets_no_answer_is_over_too(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    reply = scenario.unsubscribe()
    scenario.fail(HEARTBEAT)
    scenario.serve()
    scenario.advance(100)
    assert scenario.heartbeat.member_epoch == -1
    assert not is_done(reply)
    scenario.fail(HEARTBEAT)
    assert is_done(reply)
    scenario.serve()


def test_a_leave_is_not_repeated_once_the_member_is_back(scenario: ConsumerScenario) -> None:
    """It keeps its id (KIP-1082): the repetition would throw it out."""
    scenario.own(O0)
    scenario.unsubscribe()
    scenario.subscribe("orders")
    scenario.poll()
    assert [sent.member_epoch for sent in heartbeats(scenario.pending(HEARTBEAT))] == [-1, 0]
    scenario.fail(HEARTBEAT)
    scenario.serve()
    scenario.advance(1_000)
    assert -1 not in [sent.member_epoch for sent in heartbeats(scenario.pending(HEARTBEAT))]


def test_a_leave_does_not_wait_for_the_heartbeat_in_flight(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.unsubscribe()
    assert [sent.member_epoch for sent in heartbeats(scenario.pending(HEARTBEAT))] == [1, -1]
    scenario.accept(2, assignment(O0, O1))
    assert not scenario.callbacks
    assert not scenario.member.identity().is_member
    scenario.accept(-1)


def test_a_join_under_way_is_left_by_its_own_id(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    member_id = scenario.heartbeat.member_id
    scenario.unsubscribe()
    scenario.accept(1, assignment(O0))
    assert (scenario.heartbeat.member_epoch, scenario.heartbeat.member_id) == (-1, member_id)
    assert not scenario.callbacks
    scenario.accept(-1)


def test_a_join_that_was_never_sent_needs_no_leave(scenario: ConsumerScenario) -> None:
    scenario.subscribe("orders")
    scenario.poll()
    assert scenario.member_state() is S.JOINING
    assert scenario.unsubscribe().done
    scenario.serve()
    assert scenario.member_state() is S.UNSUBSCRIBED
    assert not scenario.pending(HEARTBEAT)


def test_leaving_twice_is_leaving_once(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.unsubscribe()
    assert scenario.unsubscribe().done
    assert len(scenario.pending(HEARTBEAT)) == 1
    scenario.accept(-1)


def test_without_a_coordinator_the_leave_follows_when_it_is_found(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.fail(HEARTBEAT)
    reply = scenario.unsubscribe()
    assert is_done(reply)
    assert scenario.member_state() is S.LEAVING
    scenario.serve()
    assert scenario.heartbeat.member_epoch == -1
    assert scenario.member_state() is S.UNSUBSCRIBED
    scenario.accept(-1)


def test_being_fenced_while_leaving_is_as_good_as_having_left(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.unsubscribe()
    assert scenario.member_state() is S.LEAVING
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    assert scenario.member_state() is S.UNSUBSCRIBED
    scenario.serve()
    assert not scenario.pending(HEARTBEAT)


def test_an_answer_that_comes_while_leaving_is_not_a_members(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.unsubscribe()
    scenario.accept(2, assignment(O1))
    assert scenario.member_state() is S.LEAVING
    assert not scenario.callbacks
    scenario.serve()
    scenario.accept(-1)


def test_whoever_subscribes_again_joins_again_as_the_same_member(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    member_id = scenario.member.identity().member_id
    scenario.unsubscribe()
    scenario.accept(-1)
    scenario.subscribe("orders")
    assert not scenario.pending(HEARTBEAT)
    scenario.poll()
    assert_rejoined(scenario, member_id)


def test_partitions_assigned_by_hand_survive_a_leave_that_comes_late(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.unsubscribe()
    scenario.assign(O0)
    scenario.serve()
    assert scenario.heartbeat.member_epoch == -1
    assert set(scenario.subscription.partitions) == {O0}
    scenario.accept(-1)
    scenario.answer_committed({O0: 1})
    scenario.serve()
    scenario.unanswered.clear()


@pytest.mark.parametrize(
    ("instance_id", "leave_group", "epochs"),
    [
        (None, None, [-1]),
        (None, True, [-1]),
        (None, False, []),
        ("i1", None, [-2]),
        ("i1", True, [-1]),
        ("i1", False, [-2]),
    ],
)
def test_what_is_said_at_the_end(
    make: Make, instance_id: str | None, leave_group: bool | None, epochs: list[int]
) -> None:
    """KIP-1092; Java's LEAVE_GROUP, REMAIN_IN_GROUP and DEFAULT are True, False and None."""
    scenario = make(group_instance_id=instance_id)
    scenario.own(O0)
    farewell = heartbeats(scenario.leave_at_the_end(leave_group))
    assert [sent.member_epoch for sent in farewell] == epochs
    assert all(sent.instance_id == instance_id for sent in farewell)


def test_closing_without_a_coordinator_says_nothing(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    assert scenario.leave_at_the_end(True) == []
    scenario.turn()
    scenario.serve()
    scenario.accept(-1)


def test_closing_what_never_subscribed_says_nothing(scenario: ConsumerScenario) -> None:
    assert scenario.leave_at_the_end(True) == []


def test_a_leave_that_cannot_be_sent_any_more_is_answered_by_the_fence(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    reply: Reply[None] = Reply()
    scenario.member.leave("the coordinator is lost in the same turn", reply)
    scenario.subscription.unsubscribe()
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.turn()
    assert not is_done(reply)
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    assert is_done(reply)
    scenario.serve()


def test_a_refusal_while_leaving_ends_it(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.unsubscribe()
    scenario.refuse_heartbeat(C.GROUP_AUTHORIZATION_FAILED)
    assert scenario.member_state() is S.FATAL
    scenario.serve()
    assert not scenario.pending(HEARTBEAT)
    scenario.start("orders")
    assert scenario.heartbeat.member_epoch == 0


# --- being fenced -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [C.FENCED_MEMBER_EPOCH, C.UNKNOWN_MEMBER_ID, C.GROUP_ID_NOT_FOUND])
def test_a_fenced_member_takes_everything_back_and_joins_again(scenario: ConsumerScenario, code: ErrorCode) -> None:
    scenario.own(O0, O1)
    member_id = scenario.member.identity().member_id
    scenario.beat()
    scenario.refuse_heartbeat(code)
    assert scenario.member_state() is S.FENCED
    assert not scenario.flowing()
    assert not scenario.pending(HEARTBEAT)
    assert not scenario.member.identity().is_member
    lost = scenario.run_callback()
    assert (lost.kind, set(lost.partitions)) == (CallbackKind.LOST, {O0, O1})
    assert not scenario.subscription.partitions
    assert not scenario.errors
    assert_rejoined(scenario, member_id)


def test_a_fenced_member_that_owns_nothing_joins_at_once(scenario: ConsumerScenario) -> None:
    scenario.own()
    scenario.beat()
    scenario.refuse_heartbeat(C.UNKNOWN_MEMBER_ID)
    assert scenario.heartbeat.member_epoch == 0
    assert not scenario.callbacks


def test_fences_at_the_join_itself_are_met_with_a_backoff(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    assert scenario.member_state() is S.JOINING
    assert not scenario.pending(HEARTBEAT)
    scenario.advance(100)
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    scenario.advance(199)
    assert not scenario.pending(HEARTBEAT)
    scenario.advance(1)
    assert scenario.heartbeat.member_epoch == 0


def test_what_is_being_given_back_is_not_lost_as_well(scenario: ConsumerScenario) -> None:
    scenario.own(O0, O1)
    scenario.beat()
    scenario.accept(2, assignment(O0))
    scenario.beat()
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    revoked, lost = scenario.run_callback(), scenario.take_event(type(scenario.callbacks[0]))
    assert (revoked.kind, set(revoked.partitions)) == (CallbackKind.REVOKED, {O1})
    assert (lost.kind, set(lost.partitions)) == (CallbackKind.LOST, {O0})
    assert scenario.member_state() is S.FENCED
    scenario.events.append(lost)
    scenario.run_callback()
    assert scenario.heartbeat.member_epoch == 0


def test_what_is_being_handed_out_is_lost_after_it(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(1, assignment(O0))
    scenario.beat()
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    assert scenario.run_callback().kind is CallbackKind.ASSIGNED
    assert not scenario.flowing()
    lost = scenario.run_callback()
    assert (lost.kind, set(lost.partitions)) == (CallbackKind.LOST, {O0})
    assert scenario.heartbeat.member_epoch == 0
    assert not scenario.subscription.partitions


def test_an_answer_from_before_the_fence_changes_nothing(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.member.on_membership_lost(C.UNKNOWN_MEMBER_ID)
    scenario.accept(2, assignment(O0, O1))
    assert scenario.member_state() is S.FENCED
    assert scenario.run_callback().kind is CallbackKind.LOST
    assert scenario.heartbeat.member_epoch == 0


def test_a_heartbeat_that_fails_after_the_fence_changes_nothing(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.member.on_membership_lost(C.UNKNOWN_MEMBER_ID)
    scenario.fail(HEARTBEAT, ProtocolError("nonsense"))
    assert not scenario.errors
    assert scenario.member_state() is S.FENCED
    scenario.serve()


def test_whoever_unsubscribes_while_fenced_has_left(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    scenario.events.clear()  # what `unsubscribe` throws away
    assert scenario.unsubscribe().done
    assert scenario.member_state() is S.UNSUBSCRIBED
    assert not scenario.pending(HEARTBEAT)


# --- not being polled -------------------------------------------------------------------------------------------


def silence(scenario: ConsumerScenario) -> None:
    """Until `max_poll_interval_ms` is over, with heartbeats answered."""
    end_ms = scenario.polled_at_ms + scenario.config.max_poll_interval_ms
    while scenario.now_ms < end_ms:
        scenario.advance(min(1_000.0, end_ms - scenario.now_ms))
        while scenario.pending(HEARTBEAT) and scenario.heartbeat.member_epoch > 0:
            scenario.accept(scenario.heartbeat.member_epoch)


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i1", -2)])
def test_a_member_that_is_not_polled_leaves_and_comes_back_with_a_poll(
    make: Make, instance_id: str | None, epoch: int
) -> None:
    scenario = make(max_poll_interval_ms=20_000, group_instance_id=instance_id)
    scenario.own(O0)
    member_id = scenario.member.identity().member_id
    silence(scenario)
    assert scenario.heartbeat.member_epoch == epoch
    assert scenario.member_state() is S.STALE
    assert not scenario.flowing()
    scenario.accept(epoch)
    scenario.advance(60_000)
    assert not scenario.pending(HEARTBEAT)
    lost = scenario.run_callback()
    assert (lost.kind, set(lost.partitions)) == (CallbackKind.LOST, {O0})
    scenario.poll()
    assert_rejoined(scenario, member_id)


def test_a_poll_alone_does_not_bring_it_back_before_the_callback_is_through(make: Make) -> None:
    scenario = make(max_poll_interval_ms=20_000)
    scenario.own(O0)
    silence(scenario)
    scenario.accept(-1)
    scenario.poll()
    assert scenario.member_state() is S.STALE
    scenario.run_callback()
    assert scenario.heartbeat.member_epoch == 0


def test_a_callback_that_takes_too_long_costs_the_membership(make: Make) -> None:
    scenario = make(max_poll_interval_ms=20_000)
    scenario.own(O0, O1)
    scenario.beat()
    scenario.accept(2, assignment(O0))
    scenario.polled_at_ms = scenario.now_ms
    silence(scenario)
    assert scenario.member_state() is S.STALE
    scenario.accept(-1)
    assert scenario.run_callback().kind is CallbackKind.REVOKED
    lost = scenario.run_callback()
    assert (lost.kind, set(lost.partitions)) == (CallbackKind.LOST, {O0})
    scenario.poll()
    assert scenario.heartbeat.member_epoch == 0


def test_a_member_no_broker_heard_of_just_stops(make: Make) -> None:
    scenario = make(max_poll_interval_ms=20_000)
    scenario.subscribe("orders")
    scenario.poll()
    scenario.advance(20_000)
    assert scenario.member_state() is S.UNSUBSCRIBED
    scenario.serve()
    scenario.poll()
    assert scenario.heartbeat.member_epoch == 0


def test_without_a_coordinator_an_overdue_member_leaves_when_it_is_found(make: Make) -> None:
    scenario = make(max_poll_interval_ms=20_000)
    scenario.own(O0)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.advance(20_000)
    assert scenario.member_state() is S.LEAVING
    assert not scenario.callbacks
    scenario.serve()
    assert scenario.heartbeat.member_epoch == -1
    assert scenario.run_callback().kind is CallbackKind.LOST
    scenario.accept(-1)


def test_an_overdue_member_that_is_fenced_meanwhile_loses_its_partitions_once(make: Make) -> None:
    scenario = make(max_poll_interval_ms=20_000)
    scenario.own(O0)
    scenario.beat()
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.advance(20_000)
    scenario.refuse_heartbeat(C.UNKNOWN_MEMBER_ID)
    assert scenario.member_state() is S.FENCED
    scenario.polled_at_ms = scenario.now_ms
    assert scenario.run_callback().kind is CallbackKind.LOST
    assert not scenario.callbacks
    scenario.serve()
    assert scenario.heartbeat.member_epoch == 0


def test_whoever_unsubscribes_while_stale_stays_away(make: Make) -> None:
    scenario = make(max_poll_interval_ms=20_000)
    scenario.own(O0)
    silence(scenario)
    scenario.accept(-1)
    scenario.events.clear()
    assert scenario.unsubscribe().done
    scenario.assign(O1)
    scenario.poll()
    assert scenario.member_state() is S.STALE
    assert not scenario.pending(HEARTBEAT)
    scenario.answer_committed({O1: 1})
    scenario.serve()
    scenario.unanswered.clear()


# --- errors of heartbeats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [C.NOT_COORDINATOR, C.COORDINATOR_NOT_AVAILABLE])
def test_a_moved_coordinator_is_looked_for(scenario: ConsumerScenario, code: ErrorCode) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.refuse_heartbeat(code)
    assert scenario.pending(FindCoordinatorRequest)
    assert scenario.member_state() is S.STABLE
    scenario.advance(100)
    scenario.serve()
    assert said(scenario.heartbeat) == {"timeout", "names", "owned"}
    assert not scenario.errors


def test_a_loading_coordinator_is_waited_for(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.refuse_heartbeat(C.COORDINATOR_LOAD_IN_PROGRESS)
    scenario.advance(99)
    assert not scenario.pending(HEARTBEAT)
    scenario.advance(1)
    assert scenario.heartbeat.member_epoch == 0
    assert not scenario.errors


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (C.INVALID_REQUEST, BrokerError),
        (C.GROUP_MAX_SIZE_REACHED, GroupMaxSizeReachedError),
        (C.UNSUPPORTED_ASSIGNOR, UnsupportedAssignorError),
        (C.UNRELEASED_INSTANCE_ID, UnreleasedInstanceIdError),
        (C.FENCED_INSTANCE_ID, FencedInstanceIdError),
        (C.INVALID_REGULAR_EXPRESSION, InvalidRegularExpressionError),
        (C.GROUP_ID_NOT_FOUND, BrokerError),
        (C.UNKNOWN_SERVER_ERROR, BrokerError),
        (C.UNSUPPORTED_VERSION, UnsupportedVersionError),
    ],
)
def test_refusals_for_good_are_raised_by_every_poll(
    scenario: ConsumerScenario, code: ErrorCode, error: type[KafkaError]
) -> None:
    scenario.start("orders")
    scenario.refuse_heartbeat(code, "for a reason")
    assert scenario.member_state() is S.FATAL
    first = scenario.take_error(error)
    assert "for a reason" in str(first)
    scenario.advance(60_000)
    assert not scenario.pending(HEARTBEAT)
    scenario.poll()
    assert scenario.take_error(error) is first


def test_a_refused_member_loses_its_partitions_after_the_cause_is_raised(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.refuse_heartbeat(C.GROUP_AUTHORIZATION_FAILED)
    assert [type(event).__name__ for event in scenario.events] == ["ErrorRaised", "RunCallback"]
    assert scenario.run_callback().kind is CallbackKind.LOST
    assert not scenario.subscription.partitions
    assert scenario.member_state() is S.FATAL


def test_a_group_that_was_not_permitted_is_joined_by_the_poll_after_it_is(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    member_id = scenario.beat().member_id
    for _ in range(3):
        scenario.refuse_heartbeat(C.GROUP_AUTHORIZATION_FAILED)
        assert "GROUP_AUTHORIZATION_FAILED" in str(scenario.take_error(GroupAuthorizationError))
        while scenario.callbacks:
            scenario.run_callback()
        scenario.advance(10_000)
        assert not scenario.pending(HEARTBEAT), "nobody asks for records"
        scenario.poll()
        assert scenario.heartbeat.member_epoch == 0
    assert not scenario.errors
    assert_rejoined(scenario, member_id)


def test_polls_in_a_row_do_not_ask_for_the_permission_in_a_row(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    count = 0
    for _ in range(1_000):
        scenario.poll()
        scenario.advance(10)
        while scenario.pending(HEARTBEAT):
            scenario.refuse_heartbeat(C.GROUP_AUTHORIZATION_FAILED)
            count += 1
    assert 9 <= count <= 15, "in ten seconds, with pauses of up to one"


@pytest.mark.parametrize("resubscribe", [False, True])
def test_a_new_subscription_is_a_new_beginning(scenario: ConsumerScenario, resubscribe: bool) -> None:
    scenario.start("orders")
    member_id = scenario.heartbeat.member_id
    scenario.refuse_heartbeat(C.GROUP_AUTHORIZATION_FAILED)
    scenario.events.clear()
    if resubscribe:
        assert scenario.unsubscribe().done
    scenario.subscribe("orders")
    scenario.poll()
    assert not scenario.errors
    assert_rejoined(scenario, member_id)


def test_missing_rights_on_a_topic_are_raised_and_asked_for_again(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.refuse_heartbeat(C.TOPIC_AUTHORIZATION_FAILED, "orders")
    assert "orders" in str(scenario.take_error(TopicAuthorizationError))
    assert scenario.member_state() is S.JOINING
    assert not scenario.pending(HEARTBEAT)
    scenario.advance(100)
    assert scenario.heartbeat.member_epoch == 0


REFUSALS_OF_A_SUBSCRIPTION = pytest.mark.parametrize(
    "code",
    [C.TOPIC_AUTHORIZATION_FAILED, C.INVALID_REGULAR_EXPRESSION, C.INVALID_REQUEST, C.UNSUPPORTED_VERSION],
)


@REFUSALS_OF_A_SUBSCRIPTION
@pytest.mark.parametrize("former", [("orders", "secret"), "^sec"], ids=["topics", "expression"])
def test_what_is_said_of_a_subscription_that_is_over_is_not_raised(
    scenario: ConsumerScenario, code: ErrorCode, former: tuple[str, ...] | str
) -> None:
    """The heartbeat had named it before another one was made. A refusal even ended the new one."""
    if isinstance(former, str):
        scenario.post(Subscribe(pattern=SubscriptionPattern(former), reply=Reply()))
    else:
        scenario.subscribe(*former)
    scenario.poll()
    scenario.serve()
    scenario.subscribe("orders")
    scenario.serve()
    scenario.refuse_heartbeat(code)
    assert not scenario.errors
    scenario.advance(100)
    assert scenario.heartbeat.subscribed_topic_names == ["orders"]
    scenario.refuse_heartbeat(code)
    assert scenario.errors, "it is true of the present one, too"


def test_nor_is_that_it_could_not_be_sent(scenario: ConsumerScenario) -> None:
    scenario.post(Subscribe(pattern=SubscriptionPattern("^sec"), reply=Reply()))
    scenario.poll()
    scenario.serve()
    scenario.subscribe("orders")
    scenario.fail(HEARTBEAT, UnsupportedVersionError("version 1 is needed"))
    assert not scenario.errors
    scenario.serve()
    scenario.advance(100)
    assert scenario.heartbeat.subscribed_topic_names == ["orders"]


def test_nor_what_is_said_of_it_once_partitions_are_assigned_by_hand(scenario: ConsumerScenario) -> None:
    """The coordinator is away, so that the member has not left yet."""
    scenario.own(O0)
    scenario.beat()
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.unsubscribe()
    scenario.assign(O1)
    scenario.refuse_heartbeat(C.TOPIC_AUTHORIZATION_FAILED)
    assert not scenario.errors


def test_a_topic_that_was_not_subscribed_is_not_said_to_be_refused(scenario: ConsumerScenario) -> None:
    """Metadata has been refused a topic that a look-up had asked about."""
    scenario.start("orders")
    scenario.managers.metadata.refused = {"secret": TopicAuthorizationError({"secret"})}
    scenario.refuse_heartbeat(C.TOPIC_AUTHORIZATION_FAILED)
    assert scenario.take_error(TopicAuthorizationError).topics == {"orders"}


@pytest.mark.parametrize("others", [(), ("clicks",)], ids=["one topic", "two"])
def test_of_several_topics_the_one_without_rights_is_not_guessed(
    scenario: ConsumerScenario, others: tuple[str, ...]
) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.start("orders", *others)
    scenario.refuse_heartbeat(C.TOPIC_AUTHORIZATION_FAILED)
    assert scenario.take_error(TopicAuthorizationError).topics == (set() if others else {"orders"})


def test_a_broker_without_the_protocol_is_named_with_the_way_out(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.fail(HEARTBEAT, UnsupportedVersionError("the broker does not offer ConsumerGroupHeartbeat"))
    error = scenario.take_error(UnsupportedVersionError)
    assert "group_protocol='classic'" in str(error)
    assert "does not offer ConsumerGroupHeartbeat" in str(error)
    assert scenario.member_state() is S.FATAL
    scenario.serve()


def test_a_broker_that_does_not_match_expressions_is_named_with_the_way_out(scenario: ConsumerScenario) -> None:
    scenario.post(Subscribe(pattern=SubscriptionPattern("a.*"), reply=Reply()))
    scenario.poll()
    scenario.serve()
    scenario.fail(HEARTBEAT, UnsupportedVersionError("v0 only"))
    assert "re.compile" in str(scenario.take_error(UnsupportedVersionError))
    scenario.serve()


def test_an_epoch_no_member_can_have_is_a_protocol_error(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(0, assignment(O0))
    scenario.take_error(ProtocolError)
    assert scenario.member_state() is S.FATAL


def test_a_disconnect_is_only_a_pause(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.fail(HEARTBEAT)
    assert scenario.flowing() == {O0}
    scenario.advance(100)
    scenario.serve()
    assert scenario.heartbeat.member_epoch == 1
    assert not scenario.errors


def test_credentials_that_are_refused_are_raised(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.fail(HEARTBEAT, ProtocolError("nonsense"))
    scenario.take_error(ProtocolError)
    assert scenario.member_state() is S.STABLE
    scenario.advance(100)
    scenario.serve()
    scenario.accept(1)


# --- commits ----------------------------------------------------------------------------------------------------


def commit(scenario: ConsumerScenario) -> Reply[None]:
    reply: Reply[None] = Reply()
    scenario.post(Commit({O0: OffsetAndMetadata(5)}, reply))
    return reply


def test_commits_carry_the_member_and_its_epoch(scenario: ConsumerScenario) -> None:
    scenario.own(O0, epoch=6)
    reply = commit(scenario)
    request = scenario.request(OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id) == (6, scenario.member.identity().member_id)
    scenario.answer_commit()
    assert is_done(reply)


def test_a_commit_with_a_stale_epoch_gets_the_new_one_and_goes_again(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    member_id = scenario.member.identity().member_id
    reply = commit(scenario)
    scenario.answer_commit(C.STALE_MEMBER_EPOCH)
    assert not is_done(reply)
    scenario.accept(2)  # the heartbeat did not wait for its interval
    scenario.advance(100)
    request = scenario.request(OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id) == (2, member_id)
    scenario.answer_commit()
    reply.result()
    assert scenario.member_state() is S.STABLE


def test_a_commit_that_is_stale_for_one_partition_goes_again_as_a_whole(scenario: ConsumerScenario) -> None:
    """KIP-1251: the broker compares epochs partition by partition, and may have taken the others."""
    scenario.own(O0, O1)
    reply: Reply[None] = Reply()
    scenario.post(Commit({O0: OffsetAndMetadata(5), O1: OffsetAndMetadata(6)}, reply))
    scenario.answer_commit(C.NONE, C.STALE_MEMBER_EPOCH)
    scenario.accept(2)
    scenario.advance(100)
    again = scenario.request(OffsetCommitRequest)
    assert [(p.partition_index, p.committed_offset) for p in again.topics[0].partitions] == [(0, 5), (1, 6)]
    scenario.answer_commit()
    reply.result()


def test_an_asynchronous_commit_with_a_stale_epoch_may_be_made_again(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.post(CommitAsync({O0: OffsetAndMetadata(5)}, lambda offsets, error: None))
    scenario.answer_commit(C.STALE_MEMBER_EPOCH)
    assert isinstance(scenario.take_event(CommitCompleted).error, RetriableCommitFailedError)
    scenario.accept(2)


def test_a_commit_that_was_made_before_an_unsubscribe_is_the_members(scenario: ConsumerScenario) -> None:
    """Both in one turn: the commit was sent as that of a consumer without a membership, and refused."""
    scenario.own(O0)
    scenario.post_beside_an_answer(CommitAsync({O0: OffsetAndMetadata(5)}, None))
    scenario.unsubscribe()
    sent, leave = scenario.request(OffsetCommitRequest), scenario.heartbeat
    assert (sent.member_id, leave.member_epoch) == (leave.member_id, -1)
    assert sent.generation_id_or_member_epoch > 0
    scenario.answer_commit()


@pytest.mark.parametrize("code", [C.UNKNOWN_MEMBER_ID, C.FENCED_MEMBER_EPOCH, C.GROUP_ID_NOT_FOUND])
def test_a_commit_may_be_the_first_to_hear_of_a_fence(scenario: ConsumerScenario, code: ErrorCode) -> None:
    scenario.own(O0)
    reply = commit(scenario)
    scenario.answer_commit(code)
    with pytest.raises(CommitFailedError):
        reply.result()
    assert scenario.member_state() is S.FENCED
    assert scenario.run_callback().kind is CallbackKind.LOST
    assert scenario.heartbeat.member_epoch == 0


def test_a_fence_of_an_older_epoch_is_not_this_ones(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    reply = commit(scenario)
    scenario.beat()
    scenario.accept(2)
    scenario.answer_commit(C.UNKNOWN_MEMBER_ID)
    with pytest.raises(CommitFailedError):
        reply.result()
    assert scenario.member_state() is S.STABLE


def test_a_commit_that_hears_of_another_owner_of_the_instance_id_ends_it(make: Make) -> None:
    scenario = make(group_instance_id="i1")
    scenario.own(O0)
    reply = commit(scenario)
    scenario.answer_commit(C.FENCED_INSTANCE_ID)
    with pytest.raises(FencedInstanceIdError):
        reply.result()
    scenario.take_error(FencedInstanceIdError)
    assert scenario.member_state() is S.FATAL


def test_a_member_commits_while_it_is_reconciling(scenario: ConsumerScenario) -> None:
    scenario.own(O0, O1)
    scenario.beat()
    scenario.accept(2, assignment(O1))
    reply = commit(scenario)
    scenario.answer_commit()
    reply.result()


def test_the_last_commit_of_a_deleted_topic_does_not_hold_up_the_rebalance(scenario: ConsumerScenario) -> None:
    """An auto-commit that went on until its deadline kept the application in its poll for a minute."""
    scenario.own(O0)
    waiting: Reply[None] = Reply()
    scenario.post(Commit({O0: OffsetAndMetadata(5)}, waiting))
    scenario.answer_commit(C.UNKNOWN_TOPIC_OR_PARTITION)
    assert not is_done(waiting)
    waiting.abandon()
    last: Reply[None] = Reply()
    scenario.post(Commit({O0: OffsetAndMetadata(5)}, last, is_last=True))
    scenario.answer_commit(C.UNKNOWN_TOPIC_OR_PARTITION)
    assert is_done(last)
    last.result()


def test_nobody_commits_after_the_fence(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.refuse_heartbeat(C.FENCED_MEMBER_EPOCH)
    with pytest.raises(CommitFailedError, match="not a member"):
        commit(scenario).result()


# --- committed offsets ------------------------------------------------------------------------------------------


def refuse_lookup(scenario: ConsumerScenario, code: ErrorCode) -> None:
    scenario.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[OffsetFetchResponseGroup(error_code=code)]))


def test_a_lookup_with_a_stale_epoch_is_made_again_and_never_becomes_a_reset(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(1, assignment(O0))
    scenario.run_callback()
    scenario.accept(1)
    refuse_lookup(scenario, C.STALE_MEMBER_EPOCH)
    scenario.accept(2)
    scenario.advance(100)
    assert scenario.request(OffsetFetchRequest).groups[0].member_epoch == 2
    scenario.answer_committed({O0: 77})
    assert scenario.partition(O0).fetch_offset == 77
    assert not scenario.errors


def test_a_lookup_may_be_the_first_to_hear_of_a_fence(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    member_id = scenario.heartbeat.member_id
    scenario.accept(1, assignment(O0))
    scenario.run_callback()
    scenario.accept(1)
    refuse_lookup(scenario, C.UNKNOWN_MEMBER_ID)
    assert scenario.member_state() is S.FENCED
    assert scenario.run_callback().kind is CallbackKind.LOST
    assert not scenario.errors
    assert_rejoined(scenario, member_id)


@pytest.mark.parametrize("code", [C.UNKNOWN_MEMBER_ID, C.FENCED_MEMBER_EPOCH, C.STALE_MEMBER_EPOCH])
def test_what_a_lookup_hears_of_an_older_epoch_is_not_this_ones(scenario: ConsumerScenario, code: ErrorCode) -> None:
    scenario.start("orders")
    scenario.accept(1, assignment(O0))
    scenario.run_callback()
    scenario.accept(1)
    scenario.beat()
    scenario.accept(2)
    refuse_lookup(scenario, code)
    assert scenario.member_state() is S.STABLE
    assert not scenario.pending(HEARTBEAT), "nor does it hurry"
    scenario.advance(1_000)
    assert scenario.request(OffsetFetchRequest).groups[0].member_epoch == 2
    scenario.answer_committed({O0: 7})


def test_who_is_no_member_asks_as_nobody(scenario: ConsumerScenario) -> None:
    reply: Reply[dict[TopicPartition, OffsetAndMetadata | None]] = Reply()
    scenario.post(GetCommitted(frozenset({O0}), reply))
    scenario.serve()
    group = scenario.request(OffsetFetchRequest).groups[0]
    assert (group.member_id, group.member_epoch) == (None, -1)
    scenario.answer_committed({O0: 3})
    assert is_done(reply)


def test_who_only_joins_is_no_member_yet(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    assert not scenario.member.identity().is_member
    scenario.accept(1, assignment())
    assert scenario.member.identity().is_member
    scenario.run_callback()
    scenario.accept(1)


# --- debugging --------------------------------------------------------------------------------------------------


def test_every_transition_is_logged(scenario: ConsumerScenario, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "kwire.group"):
        scenario.own(O0)
    assert "consumer group UNSUBSCRIBED --SUBSCRIBED--> JOINING [START_JOINING]" in caplog.text
    assert "consumer group RECONCILING --RECONCILED--> ACKNOWLEDGING" in caplog.text
