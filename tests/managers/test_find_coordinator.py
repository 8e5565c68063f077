"""FindCoordinator: asked when somebody needs it, kept until it proves wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.clock import NEVER_MS
from kwire.errors import DisconnectError, GroupAuthorizationError
from kwire.managers.find_coordinator import CoordinatorStatus
from kwire.managers.unsent import Channel, Destination
from kwire.model import Node, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

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


def lose_and_find(scenario: Scenario, node_id: int = 3) -> float:
    """How long it takes until the coordinator is looked for after its loss; then it is found again."""
    lost_at_ms = scenario.now_ms
    scenario.managers.coordinator.lost(GONE)
    scenario.turn()
    while not scenario.pending(FindCoordinatorRequest):
        scenario.advance(max(1.0, scenario.wake_at_ms - scenario.now_ms))
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(node_id))
    return scenario.now_ms - lost_at_ms


def test_a_coordinator_that_is_found_and_lost_again_and_again_is_looked_for_with_a_growing_pause(
    looking: Scenario,
) -> None:
    """The brokers go on naming the dead one for some seconds. They used to be asked in a loop."""
    looking.serve()
    assert [lose_and_find(looking) for _ in range(7)] == [0, 100, 200, 400, 800, 1_000, 1_000]


def test_what_made_it_be_looked_for_is_no_news_once_it_is_found(looking: Scenario) -> None:
    """Commits that time out later quoted an outage that was long over."""
    looking.serve()
    looking.advance(5_000)
    lose_and_find(looking)
    assert not str(looking.managers.coordinator.last_error)
    lose_and_find(looking)
    assert "gone" in str(looking.managers.coordinator.last_error), "it may be dead, and brokers name it still"


def test_another_coordinator_begins_without_a_past(looking: Scenario) -> None:
    looking.serve()
    pauses_ms = [lose_and_find(looking, node_id) for node_id in (3, 3, 2, 2, 1)]
    assert pauses_ms == [0, 100, 200, 0, 100]


def test_a_coordinator_that_was_of_use_for_some_time_is_looked_for_at_once(looking: Scenario) -> None:
    looking.serve()
    for _ in range(5):
        lose_and_find(looking)
    looking.advance(5_000)
    assert [lose_and_find(looking) for _ in range(2)] == [0, 0]
    assert lose_and_find(looking) == 100


def test_an_answer_about_nobody_is_no_coordinator(looking: Scenario) -> None:
    looking.answer(FindCoordinatorRequest, FindCoordinatorResponse())
    assert found_at(looking) is None
    looking.advance(100)
    looking.serve()
    assert found_at(looking) is not None


def test_only_the_coordinator_itself_can_be_lost_by_a_request_without_an_answer(looking: Scenario) -> None:
    looking.serve()
    brokers = [Node(number, f"broker-{number}", 9092) for number in (1, 3)]
    known = []
    for broker in brokers:
        looking.managers.coordinator.unanswered(Destination(broker, Channel.CONTROL), GONE)
        known.append(found_at(looking) is not None)
    assert known == [True, False]


def refuse(scenario: Scenario) -> None:
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))


def test_a_refusal_is_no_answer_to_who_asks_after_it(looking: Scenario) -> None:
    """The permission may have been granted meanwhile; the question was refused without anybody's being asked."""
    coordinator = looking.managers.coordinator
    assert coordinator.refusal_since(0) is None
    refuse(looking)
    assert isinstance(coordinator.refusal_since(0), GroupAuthorizationError)
    since = coordinator.look_ups
    assert coordinator.refusal_since(since) is None
    coordinator.need()
    looking.advance(100)
    assert coordinator.refusal_since(0) is None, "it is being asked about again"
    refuse(looking)
    assert isinstance(coordinator.refusal_since(since), GroupAuthorizationError)
    coordinator.need()
    looking.advance(1_000)
    looking.serve()
    assert coordinator.refusal_since(0) is None
    assert found_at(looking) is not None


def test_after_a_refusal_it_is_looked_for_when_somebody_needs_it(looking: Scenario) -> None:
    """It was for ever, and each poll raised, though the question had been overtaken by a seek."""
    refuse(looking)
    looking.advance(60_000)
    assert not looking.pending(FindCoordinatorRequest)
    assert not looking.errors


def test_a_refusal_is_raised_by_poll_if_a_member_waits_for_the_coordinator(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    scenario.poll()
    for _ in range(3):
        refuse(scenario)
        scenario.take_error(GroupAuthorizationError)
        scenario.advance(1_000)
    scenario.serve()
    assert found_at(scenario) is not None


def test_a_member_that_loses_its_coordinator_looks_for_it_after_a_refusal_too(scenario: Scenario) -> None:
    scenario.become_stable(TopicPartition("orders", 0))
    scenario.managers.coordinator.lost(GONE)
    scenario.turn()
    refuse(scenario)
    scenario.take_error(GroupAuthorizationError)
    scenario.advance(100)
    assert scenario.pending(FindCoordinatorRequest)


def test_closed_between_two_look_ups_it_asks_no_more(looking: Scenario) -> None:
    """It is waiting for the back-off to pass when the consumer is closed."""
    looking.answer(FindCoordinatorRequest, looking.coordinator(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    looking.managers.coordinator.close()
    looking.advance(60_000)
    assert not looking.pending(FindCoordinatorRequest)


def test_closed_it_stays_down(looking: Scenario) -> None:
    looking.managers.coordinator.close()
    looking.serve()
    assert found_at(looking) is None
    looking.managers.coordinator.lost(GONE)
    looking.advance(60_000)
    assert looking.turn() == []


def test_the_search_says_since_when_it_looks_why_it_failed_and_when_it_goes_on(looking: Scenario) -> None:
    began_ms = looking.now_ms
    coordinator = looking.managers.coordinator
    asked = coordinator.status()
    assert (asked.node, asked.error, asked.missing_since_ms, asked.next_try_ms) == (None, None, began_ms, NEVER_MS)
    looking.advance(50)
    looking.fail(FindCoordinatorRequest, GONE)
    failed = coordinator.status()
    assert (failed.error, failed.missing_since_ms, failed.next_try_ms) == (GONE, began_ms, began_ms + 150)
    looking.advance(100)
    looking.serve()
    found = coordinator.status()
    assert found == CoordinatorStatus(Node(3, "broker-3", 9092), None, None, NEVER_MS)


def test_a_coordinator_that_is_lost_later_is_missing_since_then(looking: Scenario) -> None:
    looking.serve()
    looking.advance(10_000)
    looking.managers.coordinator.lost(GONE)
    looking.turn()
    assert looking.managers.coordinator.status().missing_since_ms == looking.now_ms
    looking.serve()


def test_who_needs_no_coordinator_misses_none(looking: Scenario) -> None:
    looking.managers.coordinator.close()
    looking.turn()
    assert looking.managers.coordinator.status().missing_since_ms is None


def test_the_log_names_each_coordinator_once_and_again_after_an_outage_that_it_warned_of(
    looking: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kwire.group")
    for _ in range(2):
        looking.serve()
        looking.advance(6_000)
        looking.managers.coordinator.lost(GONE)
        looking.turn()
    for failures in (1, 2, 3, 4):
        looking.fail(FindCoordinatorRequest, GONE)
        assert sum("cannot be found" in message for message in caplog.messages) == (failures >= 3)
        looking.advance(1_000)
    looking.serve()
    assert sum("the coordinator of group billing is" in message for message in caplog.messages) == 2
