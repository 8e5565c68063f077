"""When heartbeats are sent, and when they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.events import EnforceRebalance, RunCallback
from kwire.managers.heartbeat import interval_past_session_ms
from kwire.managers.unsent import Channel
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
INTERVAL_MS = 3_000


@pytest.fixture
def stable(make_scenario: Callable[..., Scenario]) -> Scenario:
    scenario = make_scenario(heartbeat_interval_ms=INTERVAL_MS, session_timeout_ms=10_000, max_poll_interval_ms=60_000)
    scenario.become_stable(O0)
    return scenario


def test_the_first_heartbeat_comes_one_interval_after_the_join(stable: Scenario) -> None:
    stable.advance(INTERVAL_MS - 1)
    assert not stable.pending(HeartbeatRequest)
    stable.advance(1)
    request = stable.request(HeartbeatRequest)
    assert (request.group_id, request.generation_id, request.member_id) == ("billing", 1, "member-a")
    assert stable.unsent(HeartbeatRequest).destination.channel is Channel.COORDINATOR


def test_they_follow_each_other_by_the_interval_however_long_the_answer_takes(stable: Scenario) -> None:
    stable.advance(INTERVAL_MS)
    for _ in range(5):
        stable.advance(1_000)
        stable.answer(HeartbeatRequest, HeartbeatResponse())
        stable.advance(1_999)
        assert not stable.pending(HeartbeatRequest)
        stable.advance(1)
        assert len(stable.pending(HeartbeatRequest)) == 1


def test_never_two_are_in_flight(stable: Scenario) -> None:
    for _ in range(9):
        stable.advance(1_000)
        assert len(stable.pending(HeartbeatRequest)) <= 1


def test_one_given_up_for_lost_cannot_let_two_others_out(stable: Scenario) -> None:
    """The session ran out, so another was sent; then the first one's answer came, and a third was let out."""
    stable.advance(10_000)
    stable.serve()
    assert len(stable.pending(HeartbeatRequest)) == 2
    stable.answer(HeartbeatRequest, HeartbeatResponse())
    stable.advance(INTERVAL_MS + 1_000)
    assert len(stable.pending(HeartbeatRequest)) == 1


def test_an_answered_heartbeat_prolongs_the_session(stable: Scenario) -> None:
    for _ in range(10):
        stable.advance(INTERVAL_MS)
        stable.answer(HeartbeatRequest, HeartbeatResponse())
    assert not stable.pending(FindCoordinatorRequest)


def test_one_that_fails_is_repeated_before_the_interval_is_over(stable: Scenario) -> None:
    stable.advance(INTERVAL_MS)
    stable.fail(HeartbeatRequest)
    stable.serve()
    stable.advance(99)
    assert not stable.pending(HeartbeatRequest)
    stable.advance(1)
    assert stable.pending(HeartbeatRequest)


def test_they_go_on_while_the_application_runs_its_callback(stable: Scenario) -> None:
    stable.post(EnforceRebalance("because"))
    for _ in range(5):
        stable.advance(INTERVAL_MS)
        stable.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    assert len(stable.callbacks) == 1


def test_they_pause_while_a_join_is_open_and_its_answer_begins_a_new_session(stable: Scenario) -> None:
    stable.post(EnforceRebalance("because"))
    stable.run_callback()
    stable.advance(30_000)
    assert not stable.pending(HeartbeatRequest)
    assert not stable.pending(FindCoordinatorRequest)
    stable.polled_at_ms = stable.now_ms
    stable.join(generation=2)
    stable.sync(O0)
    stable.advance(INTERVAL_MS)
    assert stable.request(HeartbeatRequest).generation_id == 2


def test_a_join_that_fails_late_is_no_session_without_answers(stable: Scenario) -> None:
    """The open join was the sign of life; the coordinator was forgotten in the moment it had answered."""
    stable.post(EnforceRebalance("because"))
    stable.run_callback()
    stable.advance(30_000)
    stable.refuse(JoinGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not stable.pending(FindCoordinatorRequest)
    assert stable.managers.coordinator.destination is not None


def test_they_pause_while_a_sync_is_open(stable: Scenario) -> None:
    """The broker answers nothing else on the connection: a heartbeat behind a follower's sync timed out when the leader
    was slow, and closed the connection under it."""
    stable.post(EnforceRebalance("because"))
    stable.run_callback()
    stable.join(generation=2, leader="member-b")
    stable.advance(40_000)
    assert not stable.pending(HeartbeatRequest)
    assert not stable.pending(FindCoordinatorRequest)
    stable.sync(O0)
    stable.advance(INTERVAL_MS)
    assert stable.pending(HeartbeatRequest)


def test_a_leader_that_waits_for_metadata_sends_them(stable: Scenario) -> None:
    stable.post(EnforceRebalance("because"))
    stable.run_callback()
    stable.join(generation=2, members={"member-a": ["orders"], "member-b": ["clicks"]})
    assert not stable.pending(SyncGroupRequest)
    stable.advance(INTERVAL_MS)
    assert stable.pending(HeartbeatRequest)


def test_there_are_none_without_a_group(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario()
    scenario.start_fetching(O0)
    scenario.advance(600_000)
    assert not scenario.pending(HeartbeatRequest)
    assert not [event for event in scenario.events if isinstance(event, RunCallback)]


@pytest.mark.parametrize(
    ("interval_ms", "session_timeout_ms", "expected_ms"),
    [
        (3_000, 45_000, 45_060 / 15),  # Kafka's defaults
        (3_000, 6_000, 3_030),
        (2_000, 6_000, 6_060 / 3),
        (3_000, 10_000, 3_000),  # the session ends between two heartbeats anyway
        (2_900, 6_000, 2_900),  # what would have to be added is more than hardly anything
        (100, 100, 100),
    ],
)
def test_heartbeats_fall_behind_the_end_of_a_dead_members_session(
    interval_ms: int, session_timeout_ms: int, expected_ms: float
) -> None:
    """Survivors heartbeat together with the one that died; those a moment too early would learn of it one later."""
    assert interval_past_session_ms(interval_ms, session_timeout_ms) == expected_ms


def test_a_heartbeat_of_the_old_generation_that_is_still_open_does_not_hold_back_the_new_ones(stable: Scenario) -> None:
    stable.advance(INTERVAL_MS)
    assert stable.request(HeartbeatRequest).generation_id == 1
    stable.managers.membership.rejoin_needed("the application wants it")
    stable.turn()
    stable.run_callback()
    stable.serve()
    stable.rejoin(O0, generation=2)
    stable.advance(INTERVAL_MS)
    assert [request.generation_id for request in stable.requests(HeartbeatRequest)] == [1, 2]
