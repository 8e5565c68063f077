"""Back to the bootstrap servers: asked for by a broker, or after asking in vain for too long (KIP-1102).

That no broker can be connected to (KIP-899) is the client's to notice: see tests/network/test_client_rebootstrap.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.events import FoundTopics, LookUpTopics, Reply
from kwire.model import Node, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.states.classic_group import ClassicState

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
TRIGGER_MS = 300_000
REQUIRED = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
MakeScenario = Callable[..., "Scenario"]


class Watched:
    """A consumer that reads `orders-0` by hand, and when it was told to hang up."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.began_ms = scenario.now_ms
        self.hung_up_after_ms: list[float] = []
        scenario.managers.metadata.on_rebootstrap.append(self._note)
        scenario.start_fetching(O0)

    def _note(self) -> None:
        self.hung_up_after_ms.append(self.scenario.now_ms - self.began_ms)

    @property
    def nodes(self) -> set[int]:
        return set(self.scenario.managers.metadata.cluster.nodes)

    def ask(self) -> None:
        """Metadata is asked for, whenever its back-off allows."""
        self.scenario.managers.metadata.request_update()
        self.scenario.advance(1_000)

    def in_vain(self, duration_ms: float) -> int:
        """Metadata requests fail, each after a second; how many there were."""
        count = 0
        end_ms = self.scenario.now_ms + duration_ms
        while self.scenario.now_ms < end_ms:
            self.scenario.advance(1_000)
            while self.scenario.pending(MetadataRequest):
                self.scenario.fail(MetadataRequest)
                count += 1
        return count


@pytest.fixture
def watched(scenario: Scenario) -> Watched:
    return Watched(scenario)


@pytest.fixture
def steadfast(make_scenario: MakeScenario) -> Watched:
    """The same with `metadata_recovery_strategy="none"`."""
    return Watched(make_scenario(metadata_recovery_strategy="none"))


# --- a broker asks for it ---------------------------------------------------------------------------------------


def test_a_broker_may_ask_for_it(watched: Watched) -> None:
    watched.ask()
    watched.scenario.answer(MetadataRequest, REQUIRED)
    assert len(watched.hung_up_after_ms) == 1
    assert watched.nodes == set()
    assert not watched.scenario.pending(MetadataRequest), "asked again only after a pause"
    watched.scenario.advance(200)
    watched.scenario.serve()
    assert watched.nodes == {1, 2, 3}
    assert not watched.scenario.errors


def test_brokers_that_ask_for_it_again_and_again_are_asked_with_a_growing_pause(watched: Watched) -> None:
    watched.ask()
    for pause_ms in (200, 400, 800, 1_000, 1_000):
        watched.scenario.answer(MetadataRequest, REQUIRED)
        watched.scenario.advance(pause_ms - 1)
        assert not watched.scenario.pending(MetadataRequest)
        watched.scenario.advance(1)
    assert not watched.scenario.errors


def test_fetching_goes_on_where_the_new_metadata_says(watched: Watched) -> None:
    watched.ask()
    watched.scenario.answer(MetadataRequest, REQUIRED)
    watched.scenario.fail(FetchRequest)
    watched.scenario.advance(200)
    assert not watched.scenario.pending(FetchRequest), "nobody is known to lead the partition"
    answer = watched.scenario.metadata()
    answer.brokers[0].host = "elsewhere"
    watched.scenario.answer(MetadataRequest, answer)
    assert watched.scenario.unsent(FetchRequest).destination.node == Node(1, "elsewhere", 9092, "rack-1")


def test_without_the_strategy_the_brokers_are_kept_and_asked_again(steadfast: Watched) -> None:
    steadfast.ask()
    steadfast.scenario.answer(MetadataRequest, REQUIRED)
    assert not steadfast.hung_up_after_ms
    assert steadfast.nodes == {1, 2, 3}
    steadfast.scenario.advance(1_000)
    assert steadfast.scenario.pending(MetadataRequest)
    assert not steadfast.scenario.errors


def test_a_look_up_that_meets_it_is_repeated(watched: Watched) -> None:
    reply: Reply[FoundTopics] = Reply()
    watched.scenario.post(LookUpTopics(frozenset({"orders"}), reply))
    watched.scenario.answer(MetadataRequest, REQUIRED)
    assert len(watched.hung_up_after_ms) == 1
    watched.scenario.advance(200)
    watched.scenario.serve()
    assert set(reply.result()) == {"orders"}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.LEADER_NOT_AVAILABLE])
def test_a_look_up_or_a_refresh_that_fails_otherwise_leaves_the_brokers_alone(
    watched: Watched, code: ErrorCode
) -> None:
    watched.scenario.post(LookUpTopics(frozenset({"orders"}), Reply()))
    watched.scenario.answer(MetadataRequest, MetadataResponse(error_code=code))
    watched.ask()
    for _ in watched.scenario.pending(MetadataRequest):
        watched.scenario.answer(MetadataRequest, MetadataResponse(error_code=code))
    assert not watched.hung_up_after_ms
    assert watched.nodes == {1, 2, 3}


# --- asked in vain ----------------------------------------------------------------------------------------------


def test_metadata_asked_for_in_vain_for_the_trigger_time_is_asked_of_the_bootstrap_servers(watched: Watched) -> None:
    watched.ask()
    began_ms = watched.scenario.now_ms
    watched.in_vain(TRIGGER_MS - 2_000)
    assert not watched.hung_up_after_ms
    assert watched.nodes == {1, 2, 3}
    watched.in_vain(3_000)
    assert len(watched.hung_up_after_ms) == 1
    assert watched.hung_up_after_ms[0] + watched.began_ms - began_ms == pytest.approx(TRIGGER_MS, abs=1_000)
    assert watched.nodes == set()
    watched.in_vain(TRIGGER_MS)
    assert len(watched.hung_up_after_ms) == 2, "and again, if that did not help"


def test_the_trigger_does_not_wait_for_the_request_that_is_under_way(watched: Watched) -> None:
    """Its answer may never come: the broker takes connections and is silent."""
    watched.ask()
    assert watched.scenario.pending(MetadataRequest)
    watched.scenario.advance(TRIGGER_MS + 1)
    assert len(watched.hung_up_after_ms) == 1
    watched.scenario.fail(MetadataRequest)  # that is what hanging up does
    watched.scenario.advance(1_000)
    watched.scenario.serve()
    assert watched.nodes == {1, 2, 3}


def test_an_answer_starts_the_trigger_time_anew(watched: Watched) -> None:
    for _ in range(3):
        watched.ask()
        watched.in_vain(TRIGGER_MS * 0.6)
        watched.scenario.advance(2_000)
        watched.scenario.serve()
    assert not watched.hung_up_after_ms


def test_time_without_a_question_does_not_count(watched: Watched) -> None:
    watched.scenario.advance(TRIGGER_MS * 0.9)
    watched.ask()
    watched.in_vain(TRIGGER_MS * 0.5)
    assert not watched.hung_up_after_ms


def test_without_the_strategy_it_is_asked_for_in_vain_for_ever(steadfast: Watched) -> None:
    steadfast.ask()
    assert steadfast.in_vain(TRIGGER_MS * 3) > TRIGGER_MS * 3 / 2_000
    assert not steadfast.hung_up_after_ms


def test_nothing_is_started_anew_for_a_consumer_that_wants_nothing(watched: Watched) -> None:
    watched.ask()
    watched.in_vain(10_000)
    watched.scenario.unsubscribe()
    watched.scenario.advance(TRIGGER_MS * 3)
    assert not watched.hung_up_after_ms


def test_a_trigger_of_zero_leaves_time_to_connect(make_scenario: MakeScenario) -> None:
    """Java would hang up on each bootstrap server before it has answered."""
    watched = Watched(make_scenario(metadata_recovery_rebootstrap_trigger_ms=0))
    watched.ask()
    watched.in_vain(10_000)
    assert 5 <= len(watched.hung_up_after_ms) <= 10


# --- the membership ---------------------------------------------------------------------------------------------


def test_a_member_stays_one(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    scenario.answer(MetadataRequest, REQUIRED)
    scenario.expect(ClassicState.STABLE)
    scenario.advance_to_heartbeat()
    assert scenario.pending(HeartbeatRequest)
    scenario.serve()
    scenario.expect(ClassicState.STABLE)
    assert not scenario.pending(JoinGroupRequest)
    assert not scenario.events
