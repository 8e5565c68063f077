"""No loop spins and nobody is forgotten: situations that made clients busy or silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.clock import NEVER_MS
from kwire.errors import DisconnectError
from kwire.events import (
    Commit,
    CommitAsync,
    EnforceRebalance,
    GetCommitted,
    GetPosition,
    LookUpOffsets,
    LookUpTopics,
    Reply,
)
from kwire.managers.unsent import PollResult
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
MakeScenario = Callable[..., "Scenario"]
MINUTE_MS = 60_000


def turns_in_a_minute(scenario: Scenario, on_turn: Callable[[Scenario], None]) -> int:
    """How often the loop runs in a minute in which `on_turn` plays the brokers."""
    end_ms, turns = scenario.now_ms + MINUTE_MS, 0
    while scenario.now_ms < end_ms:
        assert turns < MINUTE_MS, f"a spin: {turns} turns, and it is only {scenario.now_ms}"
        scenario.now_ms = min(max(scenario.now_ms + 0.001, scenario.wake_at_ms), end_ms)
        scenario.turn()
        turns += 1
        on_turn(scenario)
    assert not scenario.managers.impatient
    return turns


def silent(scenario: Scenario) -> None:
    """Brokers that never answer."""


def refusing(scenario: Scenario) -> None:
    """Brokers that hang up on every request at once."""
    for unsent in list(scenario.unanswered):
        scenario.unanswered.remove(unsent)
        unsent.on_failure(DisconnectError("refused"), scenario.now_ms)
    scenario.turn()


def idle(scenario: Scenario) -> None:
    """Brokers that answer, with nothing new; a fetch takes its time."""
    scenario.serve()
    while scenario.pending(HeartbeatRequest):
        scenario.answer(HeartbeatRequest, HeartbeatResponse())
    scenario.polled_at_ms = scenario.now_ms


def assigned_with_a_group(scenario: Scenario) -> None:
    """KAFKA-20426: the heartbeat manager had nothing to send, and asked to be polled at once."""
    scenario.start_fetching(O0)


def joining(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    scenario.poll()


def stable(scenario: Scenario) -> None:
    scenario.become_stable(O0)


def revoking(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))


def without_coordinator(scenario: Scenario) -> None:
    """KAFKA-20253."""
    scenario.become_stable(O0)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.turn()


def with_calls_under_way(scenario: Scenario) -> None:
    scenario.assign(O0)
    scenario.post(
        GetCommitted(frozenset({O0}), Reply()),
        GetPosition(O0, Reply()),
        LookUpOffsets({O0: -1, TopicPartition("ghost", 0): -1, TopicPartition("orders", 9): -2}, Reply()),
        LookUpTopics(frozenset({"ghost"}), Reply()),
        Commit({O0: OffsetAndMetadata(1)}, Reply()),
        CommitAsync({O0: OffsetAndMetadata(1)}, None),
    )


SITUATIONS = [assigned_with_a_group, joining, stable, revoking, without_coordinator, with_calls_under_way]
BROKERS = [silent, refusing, idle]


@pytest.mark.parametrize("brokers", BROKERS, ids=lambda brokers: brokers.__name__)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_the_loop_rests(
    scenario: Scenario, situation: Callable[[Scenario], None], brokers: Callable[[Scenario], None]
) -> None:
    situation(scenario)
    # Retries come every second or so and several things are retried at once; a spin has thousands of turns.
    assert turns_in_a_minute(scenario, brokers) < 800


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_no_pause_between_retries_is_no_spin(
    make_scenario: MakeScenario, situation: Callable[[Scenario], None]
) -> None:
    """KAFKA-21049: with retry_backoff_ms=0 the floor under every pause keeps a broken broker from becoming a spin."""
    scenario = make_scenario(retry_backoff_ms=0, retry_backoff_max_ms=0)
    situation(scenario)
    before_ms = scenario.now_ms
    for _ in range(50):
        refusing(scenario)
        scenario.now_ms = max(scenario.now_ms, min(scenario.wake_at_ms, scenario.now_ms + 1_000))
        scenario.turn()
    assert scenario.now_ms >= before_ms + 40
    assert not scenario.managers.impatient


def test_a_consumer_with_nothing_to_do_never_wakes(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(group_id=None)
    scenario.turn()
    assert scenario.wake_at_ms == NEVER_MS


def test_an_empty_fetch_is_followed_by_the_next_one(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    for _ in range(5):
        scenario.answer(FetchRequest, FetchResponse(session_id=7))
        assert len(scenario.pending(FetchRequest)) == 1


def test_a_manager_that_breaks_the_wait_rule_is_named_and_slowed_down(scenario: Scenario) -> None:
    class Hasty:
        def poll(self, now_ms: float) -> PollResult:
            return PollResult([], now_ms)

    scenario.managers._in_order = (Hasty(),)
    scenario.turn()
    assert scenario.wake_at_ms == scenario.now_ms + 10
    assert list(scenario.managers.impatient) == ["Hasty"]
    scenario.managers.impatient.clear()
    scenario.managers._in_order = ()
