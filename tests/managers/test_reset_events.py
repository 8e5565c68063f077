"""What operators are told of resets and lost records when the log is not the one that was read (KIP-320, KIP-516)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from kwire.consumer_events import DataLost, PositionReset
from kwire.epochs import AssignmentEpoch
from kwire.errors import LogTruncationError
from kwire.events import Assign, PollStarted, RecordsDelivered, Reply, ResetPositions, ResetTo
from kwire.managers.reset_events import LOST_BY_DELETION, OUT_OF_RANGE, RECREATED, ResetEvents
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.states.partition import PartitionState
from kwire.subscription.partition import AssignedPartition

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
MakeScenario = Callable[..., "Scenario"]
CREATED_AGAIN = "the topic was deleted and created again"
RESET = PositionReset(partition=O0, from_offset=12, to_offset=0, reason="its topic was deleted and created again")


def answer_fetch(scenario: Scenario, *offsets: int, end: int = 12) -> None:
    """Answer the oldest fetch."""
    records = batch(*offsets) if offsets else None
    data = PartitionData(partition_index=0, records=records, high_watermark=end, last_stable_offset=end)
    topic = FetchableTopicResponse(topic="orders", topic_id=UUID(int=1), partitions=[data])
    scenario.answer(FetchRequest, FetchResponse(session_id=7, responses=[topic]))


def reading(scenario: Scenario, *, end: int = 12) -> Scenario:
    """The records 10 and 11 of a topic with an id are fetched, of a log with this end."""
    scenario.start_fetching(O0, offset=10)
    scenario.refresh(topic_id=1)
    answer_fetch(scenario, end=10)  # it was sent before
    answer_fetch(scenario, 10, 11, end=end)
    return scenario


def created_again(scenario: Scenario) -> None:
    scenario.refresh(topic_id=2, epoch=0)


def came_back(scenario: Scenario, epoch: int, offset: int) -> None:
    """The application had been given records of this epoch up to this offset."""
    scenario.post(RecordsDelivered([(O0, epoch, OffsetAndMetadata(offset))]))


def lost(first: int | None, behind: int, reason: str = CREATED_AGAIN) -> DataLost:
    return DataLost(partition=O0, from_offset=first, to_offset=behind, reason=reason)


# --- topics that were created again -----------------------------------------------------------------------------


def test_no_record_is_lost_of_a_topic_that_was_read_to_its_end(make_scenario: MakeScenario) -> None:
    scenario = reading(make_scenario(auto_offset_reset="earliest"))
    scenario.delivered(O0, 12)
    created_again(scenario)
    scenario.answer_offsets({O0: 0})
    assert scenario.told == [RESET]


def test_records_that_were_not_read_are_lost_with_their_topic(make_scenario: MakeScenario) -> None:
    scenario = reading(make_scenario(auto_offset_reset="earliest"), end=30)
    scenario.delivered(O0, 12)
    created_again(scenario)
    scenario.answer_offsets({O0: 0})
    assert scenario.told == [lost(12, 30), RESET]


@pytest.mark.parametrize("end", [12, 30])
def test_records_in_the_hands_of_the_application_are_not_lost(make_scenario: MakeScenario, end: int) -> None:
    """How far it got is not known before it comes back. The reset does not wait for that, its events do."""
    scenario = reading(make_scenario(auto_offset_reset="earliest"), end=end)
    epoch = scenario.partition(O0).epoch
    created_again(scenario)
    scenario.answer_offsets({O0: 0})
    assert scenario.partition(O0).machine.state is PartitionState.FETCHING
    assert scenario.told == []
    came_back(scenario, epoch, 12)
    assert scenario.told == ([] if end == 12 else [lost(12, 30)]) + [RESET]


def test_an_application_that_comes_back_before_the_reset_is_over_hears_of_it_after_that(
    make_scenario: MakeScenario,
) -> None:
    scenario = reading(make_scenario(auto_offset_reset="earliest"))
    epoch = scenario.partition(O0).epoch
    created_again(scenario)
    came_back(scenario, epoch, 12)
    assert scenario.told == []
    scenario.answer_offsets({O0: 0})
    assert scenario.told == [RESET]


def test_a_poll_of_an_application_that_was_given_nothing_settles_what_is_lost(make_scenario: MakeScenario) -> None:
    """What is buffered was not read."""
    scenario = reading(make_scenario(auto_offset_reset="latest"))
    created_again(scenario)
    scenario.answer_offsets({O0: 3})
    scenario.poll()
    reset = PositionReset(partition=O0, from_offset=10, to_offset=3, reason=RESET.reason)
    assert scenario.told == [lost(10, 12), reset]
    assert not scenario.managers.awaits_poll


def test_what_was_delivered_of_another_epoch_is_not_taken_for_the_old_topic(make_scenario: MakeScenario) -> None:
    scenario = reading(make_scenario(auto_offset_reset="earliest"))
    created_again(scenario)
    came_back(scenario, scenario.partition(O0).epoch, 90)
    assert scenario.told == [lost(10, 12)]


@pytest.mark.parametrize("read_to", [11, 12])
def test_without_a_policy_what_is_lost_is_told_once(make_scenario: MakeScenario, read_to: int) -> None:
    scenario = reading(make_scenario(auto_offset_reset="none"))
    created_again(scenario)
    scenario.delivered(O0, read_to)
    for _ in range(3):
        assert scenario.take_error(LogTruncationError).offsets == {O0: read_to}
        scenario.poll()
    assert scenario.told == ([] if read_to == 12 else [lost(11, 12)])


@pytest.mark.parametrize("way", ["seek", "seek_to_end"])
def test_nobody_is_told_of_a_reset_that_the_application_overtakes(make_scenario: MakeScenario, way: str) -> None:
    scenario = reading(make_scenario(auto_offset_reset="earliest"))
    created_again(scenario)
    scenario.answer_offsets({O0: 0})
    if way == "seek":
        scenario.seek(O0, 1)
    else:
        scenario.post(ResetPositions(frozenset({O0}), ResetTo.LATEST, Reply()), PollStarted())
        scenario.answer_offsets({O0: 1})
    scenario.poll()
    assert scenario.told == []
    assert not scenario.managers.awaits_poll


def test_a_partition_that_is_given_up_before_its_reset_is_over_has_lost_records_all_the_same(
    make_scenario: MakeScenario,
) -> None:
    scenario = reading(make_scenario(auto_offset_reset="earliest"))
    epoch = scenario.partition(O0).epoch
    created_again(scenario)
    scenario.post(Assign(frozenset({O1}), Reply()))
    came_back(scenario, epoch, 11)
    assert scenario.told == [lost(11, 12)]


# --- truncated logs ---------------------------------------------------------------------------------------------


def test_a_reset_after_a_truncation_names_the_position_before_it(make_scenario: MakeScenario) -> None:
    """The leader cannot tell where the logs part."""
    scenario = reading(make_scenario(auto_offset_reset="earliest"))
    scenario.delivered(O0, 12, leader_epoch=5)
    scenario.refresh(topic_id=1, epoch=6)
    end = EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    topic = OffsetForLeaderTopicResult(topic="orders", partitions=[end])
    scenario.answer(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(topics=[topic]))
    scenario.answer_offsets({O0: 0})
    assert scenario.told == [
        lost(None, 12, "the log was truncated"),
        PositionReset(partition=O0, from_offset=12, to_offset=0, reason="its log was truncated"),
    ]


def test_a_second_reset_hides_nothing_that_the_first_one_has_lost() -> None:
    """It begins before the application has come back."""
    told: list[object] = []
    events = ResetEvents(told.append)
    partition = AssignedPartition(O0, AssignmentEpoch(1))
    partition.fetch_offset, partition.consumed = 20, OffsetAndMetadata(10)
    events.begin_amid(partition, RECREATED, lost_up_to=30)
    events.found(O0, 0, is_log_start=True)
    events.begin(O0, OUT_OF_RANGE, before=5)
    events.found(O0, 7, is_log_start=True)
    assert told == [
        DataLost(partition=O0, from_offset=10, to_offset=30, reason=CREATED_AGAIN),
        PositionReset(partition=O0, from_offset=10, to_offset=0, reason=RECREATED),
        PositionReset(partition=O0, from_offset=5, to_offset=7, reason=OUT_OF_RANGE),
        DataLost(partition=O0, from_offset=5, to_offset=7, reason=LOST_BY_DELETION),
    ]
