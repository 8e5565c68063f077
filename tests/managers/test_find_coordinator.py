"""FindCoordinator: asked when somebody needs it, kept until it proves wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.errors import DisconnectError, GroupAuthorizationError
from kwire.managers.unsent import Channel, Destination
from kwire.model import Node
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.states.coordinator import CoordinatorState

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

GONE = DisconnectError("gone")


def found_at(scenario: Scenario) -> Node | None:
    destination = scenario.managers.coordinator.destination
    return destination.node if destination is not None else None


@pytest.fixture
def looking(scenario: Scenario) -> Scenario:
    scenario.managers.coordinator.need()
    scenario.turn()
    return scenario


def test_it_is_not_looked_for_before_somebody_needs_it(scenario: Scenario) -> None:
    scenario.advance(1_000_000)
    assert scenario.managers.coordinator.state is CoordinatorState.DOWN
    assert not scenario.unanswered


def test_without_a_group_there_is_none(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario(group_id=None)
    scenario.managers.coordinator.need()
    assert scenario.turn() == []


def test_one_look_up_is_in_flight_at_a_time(looking: Scenario) -> None:
    looking.managers.coordinator.need()
    looking.turn()
    assert len(looking.pending(FindCoordinatorRequest)) == 1


def test_the_question_is_written_as_each_version_wants_it(looking: Scenario) -> None:
    four, three = (looking.written_for(FindCoordinatorRequest, version) for version in (4, 3))
    assert four.coordinator_keys == ["billing"]
    assert (three.key, three.coordinator_keys) == ("billing", [])
    assert looking.unsent(FindCoordinatorRequest).destination == Destination(None, Channel.CONTROL)


def test_answers_of_both_shapes_are_read(looking: Scenario) -> None:
    looking.answer(FindCoordinatorRequest, FindCoordinatorResponse(node_id=2, host="two", port=1))
    assert found_at(looking) == Node(2, "two", 1)
    looking.managers.coordinator.lost(GONE)
    looking.turn()
    looking.answer(FindCoordinatorRequest, looking.coordinator(node_id=3))
    assert found_at(looking) == Node(3, "broker-3", 9092)


def test_it_is_asked_for_again_with_a_growing_pause(looking: Scenario) -> None:
    for pause_ms in (100, 200, 400, 800, 1_000, 1_000):
        looking.answer(FindCoordinatorRequest, looking.coordinator(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        looking.advance(pause_ms - 1)
        assert not looking.pending(FindCoordinatorRequest)
        looking.advance(1)
    assert not looking.errors


def test_a_lost_coordinator_is_looked_for_at_once(looking: Scenario) -> None:
    looking.serve()
    looking.managers.coordinator.lost(GONE)
    assert found_at(looking) is None
    looking.turn()
    assert looking.pending(FindCoordinatorRequest)
    assert "gone" in str(looking.managers.coordinator.last_error)


def test_only_the_coordinator_itself_can_be_lost_by_a_request_without_an_answer(looking: Scenario) -> None:
    looking.serve()
    brokers = [Node(number, f"broker-{number}", 9092) for number in (1, 3)]
    known = []
    for broker in brokers:
        looking.managers.coordinator.unanswered(Destination(broker, Channel.CONTROL), GONE)
        known.append(found_at(looking) is not None)
    assert known == [True, False]


def test_a_refusal_is_raised_and_looked_up_again_all_the_same(looking: Scenario) -> None:
    looking.answer(FindCoordinatorRequest, looking.coordinator(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    looking.take_error(GroupAuthorizationError)
    refusals = [looking.managers.coordinator.refusal]
    looking.advance(100)
    looking.serve()
    refusals.append(looking.managers.coordinator.refusal)
    assert [type(refusal) for refusal in refusals] == [GroupAuthorizationError, type(None)]
    assert found_at(looking) is not None


def test_closed_it_stays_down(looking: Scenario) -> None:
    looking.managers.coordinator.close()
    looking.serve()
    looking.managers.coordinator.lost(GONE)
    assert looking.turn() == []
    assert looking.managers.coordinator.state is CoordinatorState.DOWN
