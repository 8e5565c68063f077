"""From an assigned partition to one with a position: committed offset, reset policy, seek."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.consumer_events import DataLost, PositionReset
from kwire.epochs import AssignmentEpoch
from kwire.errors import (
    GroupAuthorizationError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
)
from kwire.events import Assign, GetPosition, PollStarted, Reply, ResetPositions, ResetTo, Seek
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.states.partition import PartitionState

if TYPE_CHECKING:
    from tests.instruction_counts import instructions_of
    from tests.managers.scenario import Scenario, error_of
    from tests.record_batches import batch
else:
    from instruction_counts import instructions_of
    from record_batches import batch
    from scenario import error_of

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
LATEST, EARLIEST = -1, -2
MakeScenario = Callable[..., "Scenario"]


def state(scenario: Scenario, tp: TopicPartition) -> PartitionState:
    return scenario.partition(tp).machine.state


def timestamps(scenario: Scenario) -> list[int]:
    """The times asked for, request by request."""
    return [
        partition.timestamp
        for request in scenario.requests(ListOffsetsRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]


def position(scenario: Scenario, tp: TopicPartition) -> Reply[int]:
    reply: Reply[int] = Reply()
    scenario.post(GetPosition(tp, reply))
    return reply


def assigned(scenario: Scenario, *partitions: TopicPartition) -> Scenario:
    """With the group's coordinator known: the next thing is the offset fetch's answer."""
    scenario.assign(*partitions)
    scenario.serve()
    return scenario


# --- committed offset, then policy ------------------------------------------------------------------------------


def test_a_committed_offset_is_the_position(scenario: Scenario) -> None:
    assigned(scenario, O0)
    scenario.answer_committed({O0: 7})
    assert state(scenario, O0) is PartitionState.FETCHING
    assert scenario.request(FetchRequest).topics[0].partitions[0].fetch_offset == 7
    assert position(scenario, O0).result() == 7


def test_without_a_group_the_policy_decides_at_once(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(group_id=None, auto_offset_reset="earliest")
    assigned(scenario, O0)
    assert timestamps(scenario) == [EARLIEST]
    assert not scenario.pending(FindCoordinatorRequest)


@pytest.mark.parametrize(("policy", "timestamp"), [("latest", LATEST), ("earliest", EARLIEST)])
def test_without_a_committed_offset_the_policy_decides(
    make_scenario: MakeScenario, policy: str, timestamp: int
) -> None:
    scenario = assigned(make_scenario(auto_offset_reset=policy), O0)
    scenario.answer_committed({O0: -1})
    assert state(scenario, O0) is PartitionState.AWAIT_RESET
    assert timestamps(scenario) == [timestamp]
    scenario.answer_offsets({O0: 33})
    assert state(scenario, O0) is PartitionState.FETCHING
    assert scenario.partition(O0).consumed == OffsetAndMetadata(33, leader_epoch=5)


def test_by_duration_asks_for_the_time_that_long_ago_and_falls_back_to_the_end(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="by_duration:PT1H"), O0)
    scenario.wall_clock_ms = 1_700_000_000_000
    scenario.answer_committed({O0: -1})
    assert timestamps(scenario) == [1_700_000_000_000 - 3_600_000]
    scenario.answer_offsets({O0: -1})  # every record is older
    assert timestamps(scenario) == [LATEST]
    scenario.answer_offsets({O0: 50})
    assert position(scenario, O0).result() == 50


def test_policy_none_is_raised_by_every_poll_until_a_seek(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="none"), O0, O1)
    scenario.answer_committed({O0: -1, O1: -1})
    for _ in range(3):
        assert scenario.take_error(NoOffsetForPartitionError).partitions == {O0, O1}
        assert not scenario.errors
        scenario.poll()
    scenario.events.clear()
    scenario.seek(O0, 5)
    scenario.poll()
    assert scenario.take_error(NoOffsetForPartitionError).partitions == {O1}
    scenario.seek(O1, 5)
    scenario.poll()
    assert not scenario.errors
    assert not scenario.pending(ListOffsetsRequest)


def test_policy_none_does_not_complain_before_the_assigned_callback_has_had_its_chance_to_seek(
    make_scenario: MakeScenario,
) -> None:
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_joining("orders")
    scenario.join()
    scenario.sync(O0)
    scenario.advance(1_000)
    scenario.seek(O0, 5)
    scenario.run_callback()
    assert not scenario.errors
    assert not scenario.pending(OffsetFetchRequest)


# --- position() -------------------------------------------------------------------------------------------------


def test_position_waits_and_says_what_for(scenario: Scenario) -> None:
    assigned(scenario, O0)
    reply = position(scenario, O0)
    assert "to OffsetFetch" in reply.waiting_for, "it names the coordinator"
    scenario.answer_committed({O0: -1})
    scenario.turn()
    assert "ListOffsets for orders-0" in reply.waiting_for
    scenario.answer_offsets({O0: 3})
    assert reply.result() == 3


def test_position_in_the_assigned_callback_loads_what_it_needs(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.join()
    scenario.sync(O0, O1)
    reply = position(scenario, O0)
    topics = scenario.request(OffsetFetchRequest).groups[0].topics or ()
    assert [topic.partition_indexes for topic in topics] == [[0]]
    scenario.answer_committed({O0: 7})
    assert reply.result() == 7


def test_position_of_a_partition_that_is_not_assigned_is_refused(scenario: Scenario) -> None:
    assert isinstance(error_of(position(scenario, O0)), IllegalStateError)


def test_position_without_an_offset_and_without_a_policy_is_refused(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="none"), O0)
    reply = position(scenario, O0)
    scenario.answer_committed({O0: -1})
    assert isinstance(error_of(reply), NoOffsetForPartitionError)


def test_position_fails_with_the_reason_when_the_offset_is_refused_and_asks_again_when_called_again(
    scenario: Scenario,
) -> None:
    assigned(scenario, O0)
    reply = position(scenario, O0)
    scenario.answer_committed({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    assert isinstance(error_of(reply), TopicAuthorizationError)
    again = position(scenario, O0)
    scenario.answer_committed({O0: 4})
    assert again.result() == 4


def test_a_position_nobody_waits_for_any_more_is_forgotten(scenario: Scenario) -> None:
    assigned(scenario, O0)
    reply = position(scenario, O0)
    reply.abandon()
    scenario.turn()
    scenario.answer_committed({O0: 4})
    assert not reply.done


# --- seek -------------------------------------------------------------------------------------------------------


def test_a_seek_wins_over_the_committed_offset_under_way(scenario: Scenario) -> None:
    assigned(scenario, O0)
    scenario.seek(O0, 99)
    scenario.answer_committed({O0: 7})
    assert scenario.partition(O0).fetch_offset == 99


def test_a_seek_of_an_assignment_epoch_that_is_over_moves_nothing(scenario: Scenario) -> None:
    """Back to the front of what was collected in it: the user has sought meanwhile."""
    assigned(scenario, O0)
    scenario.answer_committed({O0: 7})
    epoch = scenario.partition(O0).epoch
    scenario.seek(O0, 2)
    scenario.post(Seek(O0, OffsetAndMetadata(40), Reply(), epoch))
    assert scenario.partition(O0).fetch_offset == 2
    scenario.post(Seek(O0, OffsetAndMetadata(40), Reply(), scenario.partition(O0).epoch))
    assert scenario.partition(O0).fetch_offset == 40


def test_a_seek_wins_over_the_reset_under_way(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="earliest"), O0)
    scenario.answer_committed({O0: -1})
    scenario.seek(O0, 99)
    scenario.answer_offsets({O0: 0})
    assert scenario.partition(O0).fetch_offset == 99


def test_a_refusal_that_comes_after_a_seek_is_nobodys_business(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="earliest"), O0)
    scenario.answer_committed({O0: -1})
    scenario.seek(O0, 99)
    scenario.answer_offsets({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    assert not scenario.errors


def test_a_seek_is_answered_whether_it_moves_anything_or_not(scenario: Scenario) -> None:
    scenario.start_fetching(O0, offset=5)
    for epoch in (None, scenario.partition(O0).epoch, AssignmentEpoch(-7)):
        reply: Reply[None] = Reply()
        scenario.post(Seek(O0, OffsetAndMetadata(9), reply, epoch))
        assert reply.done


def test_another_reset_replaces_the_one_under_way(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="earliest"), O0)
    scenario.answer_committed({O0: -1})
    reset(scenario, ResetTo.LATEST, O0)
    assert timestamps(scenario) == [EARLIEST, LATEST]
    scenario.answer_offsets({O0: 0})
    assert state(scenario, O0) is PartitionState.AWAIT_RESET
    scenario.answer_offsets({O0: 77})
    assert scenario.partition(O0).fetch_offset == 77


def test_another_reset_wins_over_an_answer_that_comes_in_the_same_turn(make_scenario: MakeScenario) -> None:
    """`seek_to_end` right after the assignment read from the beginning, where that was found at the same moment."""
    scenario = assigned(make_scenario(auto_offset_reset="earliest"), O0)
    scenario.answer_committed({O0: -1})
    scenario.post_beside_an_answer(ResetPositions(frozenset({O0}), ResetTo.LATEST, Reply()), PollStarted())
    scenario.answer_offsets({O0: 0})
    assert state(scenario, O0) is PartitionState.AWAIT_RESET
    scenario.answer_offsets({O0: 77})
    assert scenario.partition(O0).fetch_offset == 77


def test_a_reset_wins_over_the_committed_offset_that_is_loading(scenario: Scenario) -> None:
    """`seek_to_beginning` right after the assignment: what the group had committed no longer matters."""
    assigned(scenario, O0)
    assert state(scenario, O0) is PartitionState.INITIALIZING
    reset(scenario, ResetTo.EARLIEST, O0)
    scenario.answer_committed({O0: 7})
    assert timestamps(scenario) == [EARLIEST]
    scenario.answer_offsets({O0: 3})
    assert scenario.partition(O0).fetch_offset == 3


def test_the_same_reset_twice_is_asked_once(scenario: Scenario) -> None:
    scenario.start_fetching(O0, offset=5)
    reset(scenario, ResetTo.EARLIEST, O0)
    reset(scenario, ResetTo.EARLIEST, O0)
    scenario.serve()
    assert timestamps(scenario) == [EARLIEST]


def test_a_reset_of_no_partitions_leaves_all_where_they_are(scenario: Scenario) -> None:
    """All that the application had been given, which was nothing: those that it was given next began at their ends."""
    assigned(scenario, O0, O1)
    assert reset(scenario, ResetTo.LATEST).done
    assert state(scenario, O0) is state(scenario, O1) is PartitionState.INITIALIZING


def reset(scenario: Scenario, to: ResetTo, *partitions: TopicPartition) -> Reply[None]:
    reply: Reply[None] = Reply()
    scenario.post(ResetPositions(frozenset(partitions), to, reply), PollStarted())
    return reply


def test_partitions_that_are_not_assigned_cannot_be_sought_or_reset(scenario: Scenario) -> None:
    reply: Reply[None] = Reply()
    scenario.post(Seek(O0, OffsetAndMetadata(1), reply))
    for refused in (reply, reset(scenario, ResetTo.LATEST, O1)):
        with pytest.raises(IllegalStateError):
            refused.result()


def test_of_several_that_are_not_assigned_the_first_is_named(scenario: Scenario) -> None:
    scenario.assign(O0)
    reply: Reply[None] = Reply()
    elsewhere = {TopicPartition("clicks", 0), TopicPartition("views", 0), O0}
    scenario.post(ResetPositions(frozenset(elsewhere), ResetTo.EARLIEST, reply), PollStarted())
    with pytest.raises(IllegalStateError, match="clicks-0"):
        reply.result()
    scenario.serve_all_but_the_group()


def test_an_offset_found_for_an_older_assignment_is_not_used(scenario: Scenario) -> None:
    assigned(scenario, O0)
    scenario.assign(O1)
    scenario.assign(O0)
    scenario.answer_committed({O0: 7})
    assert state(scenario, O0) is PartitionState.INITIALIZING
    scenario.answer_committed({O1: 7})
    scenario.answer_committed({O0: 8})
    assert scenario.partition(O0).fetch_offset == 8


# --- out of range -----------------------------------------------------------------------------------------------


def out_of_range(scenario: Scenario) -> None:
    data = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    scenario.answer(FetchRequest, FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])]))


def test_an_offset_out_of_range_is_reset_by_the_policy(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.start_fetching(O0, offset=5)
    epoch = scenario.partition(O0).epoch
    out_of_range(scenario)
    assert timestamps(scenario) == [EARLIEST]
    assert scenario.views[-1].epochs[O0] != epoch  # what is buffered from the old position is dropped
    scenario.answer_offsets({O0: 100})
    assert scenario.request(FetchRequest).topics[0].partitions[0].fetch_offset == 100


def test_the_log_says_of_an_offset_out_of_range_only_what_is_known(
    make_scenario: MakeScenario, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers do not tell in such an answer where the log starts, and yet it was quoted: "the log starts at -1"."""
    caplog.set_level(logging.INFO, "kwire.offsets")
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    scenario.answer_offsets({O0: 100})
    assert caplog.messages == [
        "offset 5 of orders-0 is out of range; auto_offset_reset is earliest",
        "orders-0 begins at offset 100",
        "records of orders-0 are lost, from offset 5 up to offset 99: they were deleted before they were read",
    ]


def test_an_offset_out_of_range_without_a_policy_is_raised_with_the_offset_until_a_seek(
    make_scenario: MakeScenario,
) -> None:
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    assert scenario.take_error(OffsetOutOfRangeError).offsets == {O0: 5}
    scenario.poll()
    assert scenario.take_error(OffsetOutOfRangeError).offsets == {O0: 5}
    assert isinstance(error_of(position(scenario, O0)), OffsetOutOfRangeError)
    scenario.seek(O0, 100)
    scenario.poll()
    assert not scenario.errors
    assert scenario.request(FetchRequest).topics[0].partitions[0].fetch_offset == 100


def fetched_ahead(scenario: Scenario) -> None:
    """Records 5 to 7 are in the buffer; behind them, says the broker, there is nothing."""
    scenario.start_fetching(O0, offset=5)
    data = PartitionData(partition_index=0, records=batch(5, 6, 7), high_watermark=100)
    scenario.answer(FetchRequest, FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])]))
    assert scenario.request(FetchRequest).topics[0].partitions[0].fetch_offset == 8
    out_of_range(scenario)


def test_what_was_fetched_in_front_of_an_offset_out_of_range_is_handed_out_before_the_reset(
    make_scenario: MakeScenario,
) -> None:
    scenario = make_scenario(auto_offset_reset="earliest")
    fetched_ahead(scenario)
    epoch = scenario.partition(O0).epoch
    scenario.advance(60_000)
    assert timestamps(scenario) == []
    assert scenario.views[-1].epochs[O0] == epoch, "the buffer is still good"
    assert not scenario.pending(FetchRequest), "the broker has said what it had to say"
    assert scenario.managers.main.positions.awaits_poll
    scenario.delivered(O0, 7)
    scenario.turn()
    assert timestamps(scenario) == []
    scenario.delivered(O0, 8)
    scenario.turn()
    assert timestamps(scenario) == [EARLIEST]
    assert not scenario.managers.main.positions.awaits_poll


def test_an_offset_out_of_range_that_came_from_a_damaged_header_is_no_reset(make_scenario: MakeScenario) -> None:
    """A bit was flipped in the last offset of a batch: the next fetch went far behind the end of the log, the broker
    refused it, and the partition was read again from its start. The collector had found the damage meanwhile."""
    scenario = make_scenario(auto_offset_reset="earliest")
    fetched_ahead(scenario)
    scenario.seek(O0, 5)  # the collector's, to the front of the damage
    scenario.poll()
    assert timestamps(scenario) == []
    assert scenario.request(FetchRequest).topics[0].partitions[0].fetch_offset == 5
    scenario.delivered(O0, 5)
    scenario.turn()
    assert timestamps(scenario) == []
    assert not scenario.managers.main.positions.awaits_poll


def test_a_partition_that_is_taken_away_meanwhile_is_not_reset(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(auto_offset_reset="earliest")
    fetched_ahead(scenario)
    scenario.assign(O1)
    scenario.turn()
    assert not scenario.managers.main.positions.awaits_poll


# --- refused ----------------------------------------------------------------------------------------------------


def test_what_was_refused_is_asked_again_with_the_next_poll_only(scenario: Scenario) -> None:
    assigned(scenario, O0)
    for _ in range(3):
        scenario.answer_committed({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        scenario.take_error(TopicAuthorizationError)
        scenario.advance(10_000)
        assert not scenario.pending(OffsetFetchRequest)
        scenario.poll()
    scenario.answer_committed({O0: 4})
    assert state(scenario, O0) is PartitionState.FETCHING
    assert not scenario.errors


def test_a_reset_that_was_refused_is_asked_again_with_the_next_poll_only(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="earliest"), O0)
    scenario.answer_committed({O0: -1})
    scenario.answer_offsets({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    scenario.take_error(TopicAuthorizationError)
    scenario.advance(10_000)
    assert not scenario.pending(ListOffsetsRequest)
    scenario.poll()
    assert timestamps(scenario) == [EARLIEST]


def test_a_refusal_that_a_seek_has_overtaken_is_forgotten(scenario: Scenario) -> None:
    assigned(scenario, O0)
    scenario.answer_committed({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    scenario.take_error(TopicAuthorizationError)
    positions = scenario.managers.main.positions
    assert isinstance(positions.problem(O0), TopicAuthorizationError)
    assert positions.awaits_poll
    scenario.seek(O0, 5)
    assert positions.problem(O0) is None
    assert not positions.awaits_poll


CLICKS = TopicPartition("clicks", 0)


def owning(scenario: Scenario, *partitions: TopicPartition) -> Scenario:
    """A member that looks for the committed offsets of these."""
    scenario.topics["clicks"] = (1,)
    scenario.start_joining("orders", "clicks")
    scenario.join()
    scenario.sync(*partitions)
    scenario.run_callback()
    assert scenario.pending(OffsetFetchRequest)
    return scenario


@pytest.mark.parametrize("refused", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE])
def test_what_is_wrong_with_a_partition_of_a_former_subscription_is_not_raised(
    make_scenario: MakeScenario, refused: ErrorCode
) -> None:
    """The rebalance that takes it waits for other members, or for a callback; meanwhile a subscription to other topics
    raised errors of those before."""
    scenario = owning(make_scenario(auto_offset_reset="none"), O0, CLICKS)
    scenario.subscribe("clicks")
    scenario.answer_committed({O0: -1, CLICKS: 5}, {O0: refused})
    scenario.poll()
    assert not scenario.errors


@pytest.mark.parametrize("refused", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE])
def test_what_is_wrong_with_one_of_the_present_subscription_is(make_scenario: MakeScenario, refused: ErrorCode) -> None:
    scenario = owning(make_scenario(auto_offset_reset="none"), O0, CLICKS)
    scenario.subscribe("orders")
    scenario.answer_committed({O0: -1, CLICKS: 5}, {O0: refused})
    assert "orders" in str(scenario.take_error(KafkaError))


def test_what_is_wrong_with_a_partition_of_a_former_subscription_holds_up_no_other(
    make_scenario: MakeScenario,
) -> None:
    """Both were asked for again with each poll, in one request, which was refused again because of the one that nobody
    wants any more. As that is not raised, nothing ended the poll that had asked."""
    scenario = owning(make_scenario(partition_assignment_strategy="cooperative-sticky"), O0, CLICKS)
    scenario.subscribe("clicks")
    scenario.answer_committed({O0: -1, CLICKS: 5}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    scenario.poll()
    scenario.answer_committed({CLICKS: 5})
    assert state(scenario, CLICKS) is PartitionState.FETCHING
    assert not scenario.managers.awaits_poll
    scenario.subscribe("orders")
    assert scenario.managers.awaits_poll


def test_a_group_without_permission_is_told_to_every_poll(scenario: Scenario) -> None:
    scenario.post(Assign(frozenset({O0}), Reply()), PollStarted())
    for _ in range(3):
        scenario.answer(FindCoordinatorRequest, scenario.coordinator(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        scenario.take_error(GroupAuthorizationError)
        scenario.events.clear()
        scenario.poll()
        scenario.advance(1_000)
    scenario.events.clear()
    scenario.serve()
    scenario.poll()
    scenario.answer_committed({O0: 4})
    assert state(scenario, O0) is PartitionState.FETCHING


def test_a_seek_overtakes_a_group_without_permission(scenario: Scenario) -> None:
    """Nobody needed the coordinator any more, and it was looked for once a second; each refusal made a poll raise."""
    scenario.post(Assign(frozenset({O0}), Reply()), PollStarted())
    scenario.seek(O0, 5)
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    scenario.advance(60_000)
    scenario.poll()
    assert not scenario.errors
    assert not scenario.pending(FindCoordinatorRequest)


# --- what operators are told of resets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("earliest", "they were deleted before they were read"),
        ("latest", "they were deleted before they were read, or auto_offset_reset skips them"),
    ],
)
def test_operators_are_told_of_a_reset_that_the_policy_makes_and_of_what_it_skips(
    make_scenario: MakeScenario, policy: str, why: str
) -> None:
    """With "latest" not all that is skipped was deleted."""
    scenario = make_scenario(auto_offset_reset=policy)
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    scenario.answer_offsets({O0: 100})
    reason = "its offset is out of range"
    assert scenario.told == [
        PositionReset(partition=O0, from_offset=5, to_offset=100, reason=reason),
        DataLost(partition=O0, from_offset=5, to_offset=100, reason=why),
    ]


def test_without_a_policy_operators_are_told_once_which_records_were_deleted(make_scenario: MakeScenario) -> None:
    """Each poll raises; with the other policies they had been told, and with "none" never."""
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    assert timestamps(scenario) == [EARLIEST]
    scenario.poll()
    scenario.answer_offsets({O0: 100})
    for _ in range(3):
        scenario.poll()
        assert scenario.take_error(OffsetOutOfRangeError).offsets == {O0: 5}
    assert scenario.told == [
        DataLost(partition=O0, from_offset=5, to_offset=100, reason="they were deleted before they were read")
    ]
    assert not scenario.pending(ListOffsetsRequest)


def test_without_a_policy_nothing_is_lost_by_a_position_behind_the_end(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=500)
    out_of_range(scenario)
    scenario.answer_offsets({O0: 100})
    assert scenario.told == []


def test_operators_are_told_what_was_deleted_though_the_application_has_sought_already(
    make_scenario: MakeScenario,
) -> None:
    """The natural thing to do when the poll raises."""
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    scenario.seek(O0, 110)
    scenario.answer_offsets({O0: 100})
    assert [(event.from_offset, event.to_offset) for event in scenario.told if isinstance(event, DataLost)] == [
        (5, 100)
    ]


def test_nobody_asks_what_was_deleted_of_a_partition_that_was_given_up(make_scenario: MakeScenario) -> None:
    """Its topic may be gone: it was asked for until the consumer closed."""
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    scenario.assign(O1)
    scenario.answer_offsets({O0: -1}, {O0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    scenario.advance(10_000)
    assert not scenario.pending(ListOffsetsRequest)
    assert scenario.told == []


@pytest.mark.parametrize("found", [3, 5])
def test_a_reset_that_skips_nothing_loses_nothing(make_scenario: MakeScenario, found: int) -> None:
    scenario = make_scenario(auto_offset_reset="latest")
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    scenario.answer_offsets({O0: found})
    assert [type(event) for event in scenario.told] == [PositionReset]


def test_operators_are_told_that_nothing_was_committed(make_scenario: MakeScenario) -> None:
    scenario = assigned(make_scenario(auto_offset_reset="earliest"), O0)
    scenario.answer_committed({O0: -1})
    scenario.answer_offsets({O0: 7})
    assert scenario.told == [PositionReset(partition=O0, from_offset=None, to_offset=7, reason="nothing is committed")]


def test_nobody_is_told_of_a_reset_that_the_application_asked_for(make_scenario: MakeScenario) -> None:
    """Nor of the first position of a consumer without a group, which has no other way to begin."""
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.start_fetching(O0, offset=5)
    out_of_range(scenario)
    scenario.post(ResetPositions(frozenset({O0}), ResetTo.LATEST, Reply()), PollStarted())
    scenario.answer_offsets({O0: 0})  # to the beginning: nobody wants it any more
    scenario.answer_offsets({O0: 7})
    alone = assigned(make_scenario(group_id=None, auto_offset_reset="earliest"), O0)
    alone.answer_offsets({O0: 0})
    assert scenario.told == alone.told == []


def test_a_reason_is_told_once_and_not_of_the_next_reset(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.start_fetching(O0, offset=5)
    scenario.post(ResetPositions(frozenset({O0}), ResetTo.EARLIEST, Reply()), PollStarted())
    scenario.seek(O0, 50)
    scenario.answer_offsets({O0: 0})
    scenario.fail(FetchRequest)
    scenario.advance(1_000)
    out_of_range(scenario)
    scenario.answer_offsets({O0: 60})
    assert [type(event) for event in scenario.told] == [PositionReset, DataLost]


# --- many partitions --------------------------------------------------------------------------------------------


def test_a_turn_after_a_seek_costs_no_more_among_hundreds_that_wait_for_a_position_than_among_ten(
    make_scenario: MakeScenario,
) -> None:
    """Sought one by one, in `on_partitions_assigned` or after `assign()`, thousands of partitions took a minute: each
    turn looked at all that had no position yet."""

    def cost_among(count: int, *, in_callback: bool) -> int:
        scenario = make_scenario()
        scenario.topics = {"orders": (1,) * count}
        tps = [TopicPartition("orders", number) for number in range(count)]
        if in_callback:
            scenario.subscription.add(frozenset(tps))
        else:
            scenario.assign(*tps)
        scenario.serve()
        scenario.turn()
        positions, seek = scenario.managers.main.positions, Seek(tps[5], OffsetAndMetadata(7), Reply())

        def turn() -> None:
            positions.seek(seek)
            positions.poll(scenario.now_ms)

        return instructions_of(turn)

    for in_callback in (True, False):
        assert cost_among(500, in_callback=in_callback) == cost_among(10, in_callback=in_callback)


def test_a_seek_takes_its_partition_out_of_a_load_of_several(scenario: Scenario) -> None:
    assigned(scenario, O0, O1)
    scenario.post(Seek(O0, OffsetAndMetadata(5), Reply()))
    assert scenario.pending(OffsetFetchRequest)
    scenario.answer_committed({O0: 1, O1: 2})
    assert [scenario.partition(tp).fetch_offset for tp in (O0, O1)] == [5, 2]
