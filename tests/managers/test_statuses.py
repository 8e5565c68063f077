"""What a membership, a fetch and a position say of themselves, for `consumer.describe()` and for operators."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from kwire.clock import NEVER_MS
from kwire.errors import DisconnectError
from kwire.events import CallbackKind
from kwire.managers.base import LastError
from kwire.managers.membership import NoMembership, log_callback
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest

if TYPE_CHECKING:
    from tests.managers.consumer_scenario import ConsumerScenario, assignment
    from tests.managers.scenario import MEMBER, Scenario, all_at_rest
else:
    from consumer_scenario import ConsumerScenario, assignment
    from scenario import MEMBER, all_at_rest

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
MakeScenario = Callable[..., "Scenario"]


@pytest.fixture
def member() -> Iterator[ConsumerScenario]:
    """By the consumer protocol."""
    with all_at_rest(ConsumerScenario) as make:
        yield make()


# --- a classic member -----------------------------------------------------------------------------------------


def test_who_has_not_polled_yet_waits_for_a_poll_and_has_no_generation(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    status = scenario.managers.membership.status()
    assert (status.state, status.generation, status.member_id) == ("UNJOINED", None, "")
    assert status.awaits_poll
    assert not status.is_joining
    assert not status.owes_callback


def test_who_assigns_by_hand_waits_for_no_poll(scenario: Scenario) -> None:
    scenario.assign(O0)
    assert not scenario.managers.membership.status().awaits_poll


def test_a_join_is_under_way_until_partitions_are_assigned(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    joining = scenario.managers.membership.status()
    assert (joining.is_joining, joining.awaits_poll, joining.generation) == (True, False, None)
    scenario.join()
    assert scenario.managers.membership.status().is_joining
    scenario.sync(O0)
    assigned = scenario.managers.membership.status()
    assert (assigned.owes_callback, assigned.generation, assigned.member_id) == (True, 1, MEMBER)
    scenario.run_callback()
    assert not scenario.managers.membership.status().owes_callback


def test_a_member_says_why_it_rebalances(scenario: Scenario) -> None:
    assert scenario.managers.membership.status().reason == "it joins the group"
    scenario.become_stable(O0)
    scenario.managers.membership.rejoin_needed("the application wants it")
    assert scenario.managers.membership.status().reason == "the application wants it"


# --- a member by the consumer protocol ------------------------------------------------------------------------


def test_by_the_consumer_protocol_a_member_has_an_epoch_once_the_broker_gave_one(member: ConsumerScenario) -> None:
    member.subscribe("orders")
    waiting = member.member.status()
    assert (waiting.awaits_poll, waiting.is_joining, waiting.generation) == (True, False, None)
    member.poll()
    member.serve()
    joining = member.member.status()
    assert (joining.state, joining.awaits_poll, joining.is_joining, joining.generation) == (
        "JOINING",
        False,
        True,
        None,
    )
    member.accept(1, assignment(O0))
    reconciling = member.member.status()
    assert (reconciling.generation, reconciling.is_joining, reconciling.owes_callback) == (1, True, True)
    member.run_callback()
    member.accept(1)
    stable = member.member.status()
    assert (stable.state, stable.is_joining, stable.owes_callback) == ("STABLE", False, False)
    member.answer_committed({O0: 3})


def test_by_the_consumer_protocol_who_assigns_by_hand_waits_for_no_poll(member: ConsumerScenario) -> None:
    member.assign(O0)
    assert not member.member.status().awaits_poll


# --- fetches --------------------------------------------------------------------------------------------------


def fetches(scenario: Scenario, tp: TopicPartition) -> tuple[bool, bool, float | None]:
    """Whether one is open, whether there was an error, and when the next one goes out."""
    status = scenario.managers.main.fetch.status(scenario.partition(tp))
    return status.due_ms is not None, status.error is not None, status.next_try_ms


def test_a_partition_without_a_leader_is_fetched_by_nobody(scenario: Scenario) -> None:
    scenario.assign(O0)
    assert fetches(scenario, O0) == (False, False, None)


def test_a_fetch_that_is_open_is_told_and_one_that_failed_with_its_next_try(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    assert fetches(scenario, O0) == (True, False, None)
    scenario.fail(FetchRequest)
    assert fetches(scenario, O0) == (False, True, scenario.now_ms + 100)
    scenario.advance(100)
    assert fetches(scenario, O0) == (True, True, None), "the error stands until there is an answer"


def test_an_error_of_one_partition_is_its_own_and_has_a_time_of_its_own(scenario: Scenario) -> None:
    scenario.start_fetching(O0, O1)
    refused = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = FetchableTopicResponse(topic="orders", partitions=[refused])
    scenario.answer(FetchRequest, FetchResponse(session_id=7, responses=[topic]))
    assert fetches(scenario, O0) == (False, True, scenario.now_ms + 100)
    assert fetches(scenario, O1) == (True, False, None)


def test_an_error_of_a_partition_is_over_with_its_next_answer(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    refused = PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    for data in (refused, PartitionData(partition_index=0)):
        topic = FetchableTopicResponse(topic="orders", partitions=[data])
        scenario.answer(FetchRequest, FetchResponse(session_id=7, responses=[topic]))
        assert fetches(scenario, O0)[1] is (data is refused)
        scenario.advance(100)


# --- positions ------------------------------------------------------------------------------------------------


def test_a_partition_says_which_question_its_position_waits_for(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.topics["clicks"] = (1,)
    clicks = TopicPartition("clicks", 0)
    positions = scenario.managers.main.positions
    scenario.assign(O0)
    scenario.serve()
    assert "OffsetFetch" in (positions.waits_for(O0) or "")
    assert positions.waits_for(clicks) is None, "nobody has asked for anything"
    scenario.answer_committed({O0: -1})
    assert scenario.pending(ListOffsetsRequest)
    assert "ListOffsets" in (positions.waits_for(O0) or "")
    scenario.answer_offsets({O0: 0})
    assert positions.waits_for(O0) is None


def test_of_several_loads_each_partition_waits_for_its_own(scenario: Scenario) -> None:
    scenario.assign(O0)
    scenario.serve()
    scenario.assign(O0, O1)
    assert len(scenario.pending(OffsetFetchRequest)) >= 1
    scenario.fail(OffsetFetchRequest)
    positions = scenario.managers.main.positions
    assert positions.waits_for(O0) != positions.waits_for(O1)
    scenario.advance(1_000)
    scenario.serve_all_but_the_group()


def test_who_reads_in_order_has_nothing_to_tell_of_catching_up(scenario: Scenario) -> None:
    assert scenario.managers.catch_up_progress() == {}
    assert scenario.managers.tell_catch_up(scenario.now_ms) == NEVER_MS


# --- nobody, and small words ----------------------------------------------------------------------------------


def test_who_commits_without_being_a_member_names_the_group_alone() -> None:
    is_blocked = [False]
    nobody = NoMembership("billing", lambda: is_blocked[0])
    assert nobody.identity().group_id == "billing"
    assert not nobody.identity().is_member
    assert not nobody.blocks_coordinator
    is_blocked[0] = True
    assert nobody.blocks_coordinator


@pytest.mark.parametrize(
    ("kind", "level", "text"),
    [
        (CallbackKind.ASSIGNED, logging.INFO, "assigned 2 partitions: orders-0, orders-1"),
        (CallbackKind.REVOKED, logging.INFO, "revoking 2 partitions: orders-0, orders-1"),
        (CallbackKind.LOST, logging.WARNING, "lost 2 partitions: orders-0, orders-1; others may have them already"),
    ],
)
def test_what_becomes_of_partitions_is_logged_once_with_their_names_in_order(
    kind: CallbackKind, level: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kwire"):
        log_callback(kind, ())
        log_callback(kind, (O1, O0))
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(level, text)]


def test_one_partition_is_not_called_partitions(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kwire"):
        log_callback(CallbackKind.ASSIGNED, (O0,))
    assert caplog.messages == ["assigned 1 partition: orders-0"]


def test_an_error_that_nobody_has_seen_is_not_quoted() -> None:
    last = LastError()
    assert str(last) == ""
    last.error = DisconnectError("the broker hung up")
    assert str(last) == " (last error: the broker hung up)"
