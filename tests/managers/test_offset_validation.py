"""Positions in a log that may not be the one they were taken from: new leaders, truncation, recreated topics.

The cluster's metadata has leader epoch 5 until a test says otherwise, and so have the records of `batch`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.consumer_events import DataLost
from kwire.errors import (
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
    UnsupportedVersionError,
)
from kwire.events import GetPosition, PollStarted, RecordsDelivered, Reply, ResetPositions, ResetTo, Seek
from kwire.managers.unsent import Channel
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.states.partition import PartitionState

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario, error_of
    from tests.record_batches import batch
else:
    from record_batches import batch
    from scenario import error_of

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
MakeScenario = Callable[..., "Scenario"]
UNDEFINED = -1


def state(scenario: Scenario, tp: TopicPartition = O0) -> PartitionState:
    return scenario.partition(tp).machine.state


def fetched(scenario: Scenario, *offsets: int, tp: TopicPartition = O0) -> None:
    """Answer the oldest fetch with a batch of leader epoch 5."""
    data = PartitionData(partition_index=tp.partition, records=batch(*offsets), high_watermark=100)
    topic = FetchableTopicResponse(topic=tp.topic, partitions=[data])
    scenario.answer(FetchRequest, FetchResponse(session_id=7, responses=[topic]))


def fetch_offset(scenario: Scenario) -> int:
    (topic,) = scenario.request(FetchRequest).topics
    return topic.partitions[0].fetch_offset


def refresh(scenario: Scenario, *, epoch: int, leaders: tuple[int, ...] = (1, 2), topic_id: int = 0) -> None:
    """New metadata."""
    scenario.topics["orders"] = leaders
    scenario.refresh(epoch=epoch, topic_id=topic_id)


def answer_fetch(scenario: Scenario, code: ErrorCode = ErrorCode.NONE) -> None:
    """Answer the oldest fetch, without records; without an error the partition is not named."""
    refused = [PartitionData(partition_index=0, error_code=code)] if code else []
    topic = FetchableTopicResponse(topic="orders", partitions=refused)
    scenario.answer(FetchRequest, FetchResponse(session_id=7, responses=[topic]))


def served(scenario: Scenario, *, topic_id: int) -> None:
    """The topic has this id, and a leader has answered a fetch that named it."""
    refresh(scenario, epoch=scenario.managers.metadata.cluster.leader_epoch(O0), topic_id=topic_id)
    answer_fetch(scenario)  # it was sent before
    answer_fetch(scenario)


def asked(scenario: Scenario) -> list[tuple[int, int, int]]:
    """Partition, position's epoch and current leader epoch of the oldest validation request."""
    request = scenario.request(OffsetForLeaderEpochRequest)
    return [(p.partition, p.leader_epoch, p.current_leader_epoch) for t in request.topics for p in t.partitions]


def end(scenario: Scenario, end_offset: int = 0, epoch: int = 5, *, tp: TopicPartition = O0, code: int = 0) -> None:
    """Answer the oldest validation request: where the epoch ended."""
    answered = EpochEndOffset(partition=tp.partition, error_code=code, leader_epoch=epoch, end_offset=end_offset)
    topic = OffsetForLeaderTopicResult(topic=tp.topic, partitions=[answered])
    scenario.answer(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(topics=[topic]))


def read_to_twenty(scenario: Scenario) -> Scenario:
    """`orders-0` was read and handed out up to offset 20; then broker 3 became its leader in epoch 6."""
    scenario.start_fetching(O0, offset=18)
    fetched(scenario, 18, 19)
    scenario.delivered(O0, 20, leader_epoch=5)
    refresh(scenario, epoch=6, leaders=(3, 2))
    assert state(scenario) is PartitionState.AWAIT_VALIDATION
    return scenario


def position(scenario: Scenario) -> Reply[int]:
    reply: Reply[int] = Reply()
    scenario.post(GetPosition(O0, reply))
    return reply


# --- when, and what is asked ------------------------------------------------------------------------------------


def test_a_new_leader_is_asked_where_the_epoch_of_the_position_ended(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    request, unsent = scenario.request(OffsetForLeaderEpochRequest), scenario.unsent(OffsetForLeaderEpochRequest)
    assert asked(scenario) == [(0, 5, 6)]
    assert (request.replica_id, unsent.min_version) == (-1, 3)  # what a consumer may ask (KIP-320)
    assert unsent.destination.channel is Channel.CONTROL
    assert unsent.destination.node is not None
    assert unsent.destination.node.id == 3


def test_a_position_that_the_new_leader_has_is_fetched_from_again(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    epoch = scenario.partition(O0).epoch
    end(scenario, 20)
    assert state(scenario) is PartitionState.FETCHING
    assert (scenario.partition(O0).epoch, position(scenario).result()) == (epoch, 20)
    scenario.fail(FetchRequest)  # to the old leader
    assert fetch_offset(scenario) == 20


def test_the_same_leader_in_a_new_epoch_is_asked_too_and_one_in_the_same_epoch_is_not(scenario: Scenario) -> None:
    scenario.start_fetching(O0, offset=19)
    fetched(scenario, 19)
    refresh(scenario, epoch=5)
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    refresh(scenario, epoch=6)
    assert asked(scenario) == [(0, 5, 6)]


def test_a_position_without_an_epoch_is_not_validated(scenario: Scenario) -> None:
    scenario.start_fetching(O0, offset=18)
    refresh(scenario, epoch=6)
    assert state(scenario) is PartitionState.FETCHING
    assert not scenario.pending(OffsetForLeaderEpochRequest)


def test_a_cluster_without_leader_epochs_is_not_asked(scenario: Scenario) -> None:
    scenario.assign(O0)
    scenario.seek(O0, 9, leader_epoch=2)
    scenario.answer(MetadataRequest, scenario.metadata(epoch=-1))
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    assert fetch_offset(scenario) == 9


def test_a_leader_whose_epochs_are_gone_is_believed(scenario: Scenario) -> None:
    """A topic that moved to brokers that know no epochs (older than 2.1) is read all the same."""
    read_to_twenty(scenario)
    refresh(scenario, epoch=-1)
    assert state(scenario) is PartitionState.FETCHING


def test_one_request_asks_for_all_partitions_of_a_leader(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1, offset=1)
    positions = {O0: OffsetAndMetadata(10, leader_epoch=4), O1: OffsetAndMetadata(11, leader_epoch=5)}
    scenario.post(*(Seek(tp, position, Reply()) for tp, position in positions.items()))
    assert sorted(asked(scenario)) == [(0, 4, 5), (1, 5, 5)]


def test_a_sought_position_with_an_epoch_is_validated_before_it_is_fetched_from(scenario: Scenario) -> None:
    scenario.assign(O0)
    scenario.seek(O0, 9, leader_epoch=4)
    scenario.serve()
    assert asked(scenario) == [(0, 4, 5)]
    assert not scenario.pending(FetchRequest)
    reply = position(scenario)
    assert "OffsetForLeaderEpoch for orders-0" in reply.waiting_for
    end(scenario, 30, 4)
    assert reply.result() == 9
    assert fetch_offset(scenario) == 9


def test_a_committed_position_is_validated_with_the_epoch_it_was_committed_with(scenario: Scenario) -> None:
    scenario.assign(O0)
    scenario.serve()
    committed = OffsetFetchResponsePartitions(partition_index=0, committed_offset=9, committed_leader_epoch=4)
    topics = [OffsetFetchResponseTopics(name="orders", partitions=[committed])]
    scenario.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[OffsetFetchResponseGroup(topics=topics)]))
    assert asked(scenario) == [(0, 4, 5)]
    end(scenario, 7, 4)
    assert fetch_offset(scenario) == 7


def test_what_a_reset_found_is_not_validated(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(group_id=None, auto_offset_reset="earliest")
    scenario.assign(O0)
    scenario.serve()
    scenario.answer_offsets({O0: 33})
    assert fetch_offset(scenario) == 33
    assert not scenario.pending(OffsetForLeaderEpochRequest)


def test_a_leader_that_its_predecessor_named_is_asked_without_waiting_for_metadata(scenario: Scenario) -> None:
    scenario.start_fetching(O0, offset=19)  # KIP-951
    fetched(scenario, 19)
    moved = PartitionData(
        partition_index=0,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=6),
    )
    topic = FetchableTopicResponse(topic="orders", partitions=[moved])
    scenario.answer(FetchRequest, FetchResponse(session_id=7, responses=[topic]))
    assert asked(scenario) == [(0, 5, 6)]


def test_metadata_that_is_older_than_the_position_is_refreshed_first_but_only_once(scenario: Scenario) -> None:
    """An old leader that does not know of its end yet would call everything since then truncated. But a topic that was
    recreated begins at epoch 0 again, and never reaches the epoch of a position in the old one."""
    scenario.start_fetching(O0)
    scenario.advance(1_000)
    scenario.seek(O0, 9, leader_epoch=8)
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    assert "newer metadata" in position(scenario).waiting_for
    scenario.answer(MetadataRequest, scenario.metadata())
    assert asked(scenario) == [(0, 8, 5)]


def test_a_new_leader_ends_the_following_of_a_replica(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    scenario.partition(O0).preferred_replica = 3
    refresh(scenario, epoch=6)
    assert scenario.partition(O0).preferred_replica is None


# --- answers that do not answer ---------------------------------------------------------------------------------

RETRIED = [
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
def test_what_may_go_away_is_asked_again_with_back_off_and_fresh_metadata(scenario: Scenario, code: ErrorCode) -> None:
    read_to_twenty(scenario)
    scenario.advance(1_000)
    end(scenario, code=code)
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    scenario.answer(MetadataRequest, scenario.metadata(epoch=6))
    scenario.advance(99)
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    scenario.advance(1)
    assert asked(scenario) == [(0, 5, 6)]
    assert not scenario.errors
    end(scenario, 20)
    assert state(scenario) is PartitionState.FETCHING


def test_a_lost_connection_and_an_answer_without_the_partition_are_asked_again(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    scenario.fail(OffsetForLeaderEpochRequest)
    scenario.advance(1_000)
    scenario.answer(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse())
    scenario.answer(MetadataRequest, scenario.metadata(epoch=6))
    scenario.advance(1_000)
    end(scenario, 20)
    assert state(scenario) is PartitionState.FETCHING


def test_a_broker_that_offers_no_such_request_is_believed(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    scenario.fail(OffsetForLeaderEpochRequest, UnsupportedVersionError("not offered"))
    assert state(scenario) is PartitionState.FETCHING
    assert not scenario.errors


@pytest.mark.parametrize("refusal", ["answer", "failure"])
def test_a_refusal_is_raised_and_asked_again_with_the_next_poll_only(scenario: Scenario, refusal: str) -> None:
    read_to_twenty(scenario)
    for _ in range(3):
        if refusal == "answer":
            end(scenario, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            scenario.take_error(TopicAuthorizationError)
            assert isinstance(error_of(position(scenario)), TopicAuthorizationError)
        else:
            scenario.fail(OffsetForLeaderEpochRequest, KafkaError("never"))
            scenario.take_error(KafkaError)
        scenario.advance(10_000)
        assert not scenario.pending(OffsetForLeaderEpochRequest)
        scenario.poll()
    end(scenario, 20)
    assert state(scenario) is PartitionState.FETCHING


def test_a_partition_without_a_leader_waits_for_one(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    scenario.advance(1_000)
    end(scenario, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scenario.topics["orders"] = (-1, 2)
    scenario.answer(MetadataRequest, scenario.metadata(epoch=6))
    scenario.advance(500)
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    scenario.topics["orders"] = (1, 2)
    scenario.advance(1_000)
    scenario.answer(MetadataRequest, scenario.metadata(epoch=7))
    assert asked(scenario) == [(0, 5, 7)]


def test_an_answer_of_a_leader_that_was_followed_by_another_is_dropped(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    refresh(scenario, epoch=7)
    end(scenario, 0)
    assert state(scenario) is PartitionState.AWAIT_VALIDATION
    assert asked(scenario) == [(0, 5, 7)]
    end(scenario, 20)
    assert scenario.partition(O0).fetch_offset == 20


@pytest.mark.parametrize("leader_epoch", [None, 5])
def test_an_answer_that_a_seek_overtook_is_dropped(scenario: Scenario, leader_epoch: int | None) -> None:
    read_to_twenty(scenario)
    scenario.seek(O0, 50, leader_epoch)
    end(scenario, 0)
    assert scenario.partition(O0).fetch_offset == 50
    assert len(scenario.pending(OffsetForLeaderEpochRequest)) == (leader_epoch is not None)


def test_an_answer_that_a_reset_or_an_assignment_overtook_is_dropped(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    scenario.post(ResetPositions(frozenset({O0}), ResetTo.EARLIEST, Reply()), PollStarted())
    end(scenario, 0)
    assert state(scenario) is PartitionState.AWAIT_RESET
    scenario.assign(O1)
    assert not scenario.errors


def test_what_a_former_leader_still_answers_does_not_move_a_position_under_validation(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    fetched(scenario, 20, 21)
    assert scenario.partition(O0).fetch_offset == 20
    end(scenario, 20)
    assert state(scenario) is PartitionState.FETCHING


# --- truncation -------------------------------------------------------------------------------------------------


def test_a_truncated_log_is_read_on_from_where_it_differs(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    epoch = scenario.partition(O0).epoch
    end(scenario, 12, 4)
    assert state(scenario) is PartitionState.FETCHING
    assert scenario.partition(O0).consumed == OffsetAndMetadata(12, leader_epoch=4)
    assert scenario.views[-1].epochs[O0] > epoch
    assert position(scenario).result() == 12
    assert not scenario.pending(OffsetForLeaderEpochRequest)  # the leader itself has just said so
    assert not scenario.errors


def test_operators_are_told_which_offsets_of_a_truncated_log_are_lost(scenario: Scenario) -> None:
    read_to_twenty(scenario)
    end(scenario, 12, 4)
    lost = [event for event in scenario.told if isinstance(event, DataLost)]
    assert lost == [DataLost(partition=O0, from_offset=12, to_offset=20, reason="the log was truncated")]


@pytest.fixture
def buffering(make_scenario: MakeScenario) -> Scenario:
    """Read up to 20, handed out up to 12 as far as is known, and the policy is none; leader 3 is asked."""
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=10)
    served(scenario, topic_id=1)
    fetched(scenario, 10, 11)
    fetched(scenario, *range(12, 20))
    scenario.delivered(O0, 12, leader_epoch=5)
    refresh(scenario, epoch=6, leaders=(3, 2))
    return scenario


def test_what_is_buffered_is_handed_out_while_the_leader_is_asked(buffering: Scenario) -> None:
    assert buffering.views[-1].withheld == set()
    assert buffering.buffer.size_bytes > 0
    buffering.delivered(O0, 15, leader_epoch=5)
    end(buffering, 20)
    assert state(buffering) is PartitionState.FETCHING
    assert buffering.buffer.size_bytes > 0


def test_records_that_are_gone_and_were_never_handed_out_are_dropped_without_a_word(buffering: Scenario) -> None:
    end(buffering, 15)
    # How far the application got is not known before it comes back; until then it gets no more.
    assert buffering.views[-1].withheld == {O0}
    buffering.delivered(O0, 14, leader_epoch=5)
    assert buffering.views[-1].withheld == set()
    assert buffering.buffer.size_bytes == 0
    assert (buffering.partition(O0).fetch_offset, buffering.errors) == (14, [])
    # Asked about the end of what was buffered, the leader may have named an older epoch than this position's.
    assert asked(buffering) == [(0, 5, 6)]
    end(buffering, 15)
    assert state(buffering) is PartitionState.FETCHING


def test_records_that_were_handed_out_meanwhile_count_as_read(buffering: Scenario) -> None:
    end(buffering, 15)
    buffering.delivered(O0, 18, leader_epoch=5)
    error = buffering.take_error(LogTruncationError)
    assert (error.offsets, error.divergent_offsets) == ({O0: 18}, {O0: OffsetAndMetadata(15, leader_epoch=5)})
    assert buffering.buffer.size_bytes == 0


@pytest.mark.parametrize("call", ["poll", "position"])
def test_an_application_that_holds_nothing_settles_it_by_any_call(buffering: Scenario, call: str) -> None:
    end(buffering, 15)
    reply = position(buffering) if call == "position" else None
    if reply is None:
        buffering.poll()
    end(buffering, 15)
    assert buffering.partition(O0).fetch_offset == 12
    assert reply is None or reply.result() == 12


@pytest.mark.parametrize("wanted", ["orders", "clicks"])
@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE], ids=["refused", "truncated"])
def test_what_is_found_of_a_partition_is_raised_if_it_is_of_the_present_subscription(
    make_scenario: MakeScenario, code: ErrorCode, wanted: str
) -> None:
    """One of a former subscription stays until a rebalance takes it: a program that had subscribed to other topics died
    of a topic that it had left."""
    scenario = make_scenario(auto_offset_reset="none")
    scenario.topics["clicks"] = (1,)
    scenario.become_stable(O0, offset=18)
    fetched(scenario, 18, 19)
    scenario.delivered(O0, 20, leader_epoch=5)
    refresh(scenario, epoch=6, leaders=(3, 2))
    scenario.subscribe(wanted)
    end(scenario, 12, code=code)
    assert bool(scenario.errors) == (wanted == "orders")
    scenario.poll()
    assert bool(scenario.errors) == (wanted == "orders")


def test_a_refusal_that_concerns_a_former_subscription_is_not_asked_again(scenario: Scenario) -> None:
    """No error ends the poll that asks, so one poll would ask again and again."""
    scenario.become_stable(O0, offset=18)
    fetched(scenario, 18, 19)
    refresh(scenario, epoch=6, leaders=(3, 2))
    scenario.subscribe("clicks")
    end(scenario, 12, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    said = [scenario.managers.main.validation.awaits_poll]
    scenario.post(PollStarted())
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    scenario.subscribe("orders")
    said.append(scenario.managers.main.validation.awaits_poll)
    scenario.post(PollStarted())
    assert said == [False, True]
    assert scenario.pending(OffsetForLeaderEpochRequest)


def test_one_partition_that_is_settled_leaves_the_others_alone(make_scenario: MakeScenario) -> None:
    """Of `orders-0` all is handed out, of `orders-1` the application may have had more than it has told yet."""
    scenario = make_scenario(auto_offset_reset="none")
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1, offset=10)
    fetched(scenario, *range(10, 20))
    fetched(scenario, *range(10, 20), tp=O1)
    scenario.delivered(O0, 20, leader_epoch=5)
    refresh(scenario, epoch=6, leaders=(3, 3))
    ends = [EpochEndOffset(partition=number, leader_epoch=5, end_offset=12) for number in (1, 0)]
    topic = OffsetForLeaderTopicResult(topic="orders", partitions=ends)
    scenario.answer(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(topics=[topic]))
    assert scenario.take_error(LogTruncationError).offsets == {O0: 20}
    scenario.delivered(O1, 15, leader_epoch=5)
    assert scenario.take_error(LogTruncationError).offsets == {O0: 20, O1: 15}
    assert not scenario.errors


@pytest.mark.parametrize("call", ["commit", "position"])
def test_a_call_about_one_partition_does_not_tell_how_far_another_was_read(
    make_scenario: MakeScenario, call: str
) -> None:
    """It was taken for the application's coming back, and what it had in hand of the other came again."""
    scenario = make_scenario()
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1, offset=10)
    fetched(scenario, *range(10, 20))
    fetched(scenario, *range(10, 20), tp=O1)
    refresh(scenario, epoch=6, leaders=(3, 3))
    end(scenario, 17)
    in_hand = (O0, scenario.partition(O0).epoch, OffsetAndMetadata(15, leader_epoch=5))
    if call == "commit":
        committed = (O1, scenario.partition(O1).epoch, OffsetAndMetadata(12, leader_epoch=5))
        scenario.post(RecordsDelivered([committed], came_back=False))
    else:
        scenario.post(GetPosition(O1, Reply()))
    scenario.post(RecordsDelivered([in_hand]))
    assert scenario.partition(O0).fetch_offset == 15


def test_a_seek_overtakes_what_was_not_settled(buffering: Scenario) -> None:
    end(buffering, 11)
    buffering.seek(O0, 3)
    buffering.poll()
    assert (buffering.partition(O0).fetch_offset, buffering.errors) == (3, [])
    assert buffering.views[-1].withheld == set()


def test_a_leader_that_comes_before_it_is_settled_is_asked_after_it(buffering: Scenario) -> None:
    end(buffering, 15)
    refresh(buffering, epoch=7)
    assert not buffering.pending(OffsetForLeaderEpochRequest)
    buffering.poll()
    assert asked(buffering) == [(0, 5, 7)]


def test_without_a_policy_every_poll_raises_until_a_seek(make_scenario: MakeScenario) -> None:
    scenario = read_to_twenty(make_scenario(auto_offset_reset="none"))
    end(scenario, 12, 4)
    for _ in range(3):
        error = scenario.take_error(LogTruncationError)
        assert error.offsets == {O0: 20}
        assert error.divergent_offsets == {O0: OffsetAndMetadata(12, leader_epoch=4)}
        assert "orders-0 at 20 (differs from offset 12)" in str(error)
        copy = pickle.loads(pickle.dumps(error))
        assert (str(copy), copy.divergent_offsets) == (str(error), error.divergent_offsets)
        assert not scenario.errors
        scenario.advance(10_000)
        scenario.poll()
    assert isinstance(error_of(position(scenario)), LogTruncationError)
    refresh(scenario, epoch=7)  # another leader changes nothing about what the user has read
    assert not scenario.pending(OffsetForLeaderEpochRequest)
    scenario.events.clear()
    scenario.seek(O0, 12, leader_epoch=4)
    end(scenario, 12, 4)
    scenario.poll()
    assert not scenario.errors
    assert scenario.partition(O0).fetch_offset == 12


def test_a_leader_that_knows_nothing_so_old_means_a_reset_by_the_policy(make_scenario: MakeScenario) -> None:
    scenario = read_to_twenty(make_scenario(auto_offset_reset="earliest"))
    end(scenario, UNDEFINED, UNDEFINED)
    assert state(scenario) is PartitionState.AWAIT_RESET
    assert scenario.pending(ListOffsetsRequest)


def test_a_leader_that_knows_nothing_so_old_is_raised_without_a_policy(make_scenario: MakeScenario) -> None:
    scenario = read_to_twenty(make_scenario(auto_offset_reset="none"))
    end(scenario, UNDEFINED, UNDEFINED)
    error = scenario.take_error(OffsetOutOfRangeError)  # who handles the one handles the other, as in Java
    assert isinstance(error, LogTruncationError)
    assert (error.offsets, error.divergent_offsets, error.recreated) == ({O0: 20}, {}, frozenset())


def test_a_position_under_validation_is_still_committed(scenario: Scenario) -> None:
    """With its epoch, so that the next owner asks the same question."""
    read_to_twenty(scenario)
    assert scenario.subscription.consumed() == {O0: OffsetAndMetadata(20, leader_epoch=5)}


# --- topics that were deleted and recreated ---------------------------------------------------------------------


def test_positions_in_a_topic_that_was_recreated_are_reset_by_the_policy(make_scenario: MakeScenario) -> None:
    """The new topic's log may be longer than the position: then nothing is out of range, and records are missed."""
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.start_fetching(O0, offset=10)
    served(scenario, topic_id=1)
    fetched(scenario, 10, 11)
    refresh(scenario, epoch=5, topic_id=2)
    assert state(scenario) is PartitionState.AWAIT_RESET
    assert scenario.buffer.size_bytes == 0  # of the old topic
    scenario.answer_offsets({O0: 0})
    assert scenario.partition(O0).fetch_offset == 0
    refresh(scenario, epoch=5, topic_id=2)
    assert state(scenario) is PartitionState.FETCHING


def test_a_broker_that_lags_behind_and_names_the_former_topic_takes_no_position(make_scenario: MakeScenario) -> None:
    """The position in the new topic was thrown away twice: with `latest`, what had been written meanwhile was lost."""
    scenario = make_scenario(auto_offset_reset="latest")
    scenario.start_fetching(O0, offset=10)
    served(scenario, topic_id=1)
    refresh(scenario, topic_id=2, epoch=0)
    scenario.answer_offsets({O0: 3})
    served(scenario, topic_id=2)
    scenario.told.clear()
    for topic_id in (1, 2):
        refresh(scenario, topic_id=topic_id, epoch=0)
        assert (state(scenario), scenario.partition(O0).fetch_offset) == (PartitionState.FETCHING, 3)
    assert scenario.told == []


@pytest.mark.parametrize("reset", ["latest", "none"])
def test_a_position_that_no_leader_has_served_is_one_in_the_new_topic(make_scenario: MakeScenario, reset: str) -> None:
    """Sought while metadata still had the deleted topic. It was thrown away: with `latest` all records were lost."""
    scenario = make_scenario(auto_offset_reset=reset)
    scenario.start_fetching(O0, offset=10)
    served(scenario, topic_id=1)
    answer_fetch(scenario)
    scenario.seek(O0, 0)
    answer_fetch(scenario, ErrorCode.UNKNOWN_TOPIC_ID)
    refresh(scenario, epoch=0, topic_id=2)
    answer_fetch(scenario, ErrorCode.UNKNOWN_TOPIC_ID)  # it was sent before
    scenario.advance(1_000)
    assert (state(scenario), scenario.partition(O0).fetch_offset) == (PartitionState.FETCHING, 0)
    scenario.poll()
    assert not scenario.errors
    answer_fetch(scenario)
    refresh(scenario, epoch=0, topic_id=3)
    assert state(scenario) is not PartitionState.FETCHING


def test_a_position_that_the_former_topic_still_served_is_void(make_scenario: MakeScenario) -> None:
    """The answer comes after metadata has the new topic."""
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.start_fetching(O0, offset=10)
    refresh(scenario, topic_id=1, epoch=5)
    answer_fetch(scenario)
    refresh(scenario, topic_id=2, epoch=0)
    assert state(scenario) is PartitionState.FETCHING
    fetched(scenario, 10)
    assert state(scenario) is PartitionState.AWAIT_RESET


def test_a_topic_that_was_away_for_a_while_is_recognized_as_another(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(auto_offset_reset="earliest")
    scenario.start_fetching(O0, offset=10)
    served(scenario, topic_id=1)
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    scenario.answer(MetadataRequest, scenario.metadata(errors={"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
    assert state(scenario) is PartitionState.FETCHING
    refresh(scenario, epoch=0, topic_id=2)
    assert state(scenario) is PartitionState.AWAIT_RESET


def test_a_recreated_topic_is_raised_without_a_policy(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=10)
    served(scenario, topic_id=1)
    refresh(scenario, epoch=5, topic_id=2)
    error = scenario.take_error(LogTruncationError)
    assert (error.offsets, error.divergent_offsets, error.recreated) == ({O0: 10}, {}, frozenset({O0}))
    scenario.seek(O0, 0)
    assert scenario.partition(O0).fetchable(scenario.now_ms)


def test_the_error_says_that_a_topic_was_created_again_and_not_that_records_were_lost(
    make_scenario: MakeScenario,
) -> None:
    """Its text was that of a truncated log, and pointed to divergent offsets that were not there."""
    scenario = make_scenario(auto_offset_reset="none")
    scenario.start_fetching(O0, offset=10)
    served(scenario, topic_id=1)
    refresh(scenario, epoch=5, topic_id=2)
    error = scenario.take_error(LogTruncationError)
    assert str(error) == (
        "the topic was deleted and created again, and auto_offset_reset=none: orders-0 at 10; "
        "seek_to_beginning to read the new topic"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.recreated) == (str(error), error.recreated)


def test_one_error_tells_truncated_logs_from_topics_that_were_created_again() -> None:
    prices = TopicPartition("prices", 0)
    error = LogTruncationError({O0: 20, prices: 7}, {O0: OffsetAndMetadata(12)}, {prices})
    assert str(error) == (
        "the log was truncated and auto_offset_reset=none: orders-0 at 20 (differs from offset 12); seek to go on; "
        "the topic was deleted and created again, and auto_offset_reset=none: prices-0 at 7; "
        "seek_to_beginning to read the new topic"
    )


def test_a_topic_that_is_recreated_while_its_truncation_is_not_settled_is_reset(buffering: Scenario) -> None:
    end(buffering, 15)
    refresh(buffering, epoch=6, leaders=(3, 2), topic_id=2)
    # What it was handed out of the old topic, it has yet to say.
    assert not buffering.errors
    buffering.delivered(O0, 17, leader_epoch=5)
    error = buffering.take_error(LogTruncationError)
    assert (error.offsets, error.divergent_offsets) == ({O0: 17}, {})
    assert not buffering.errors


def test_a_seek_overtakes_a_recreated_topic_that_is_not_settled(buffering: Scenario) -> None:
    refresh(buffering, epoch=6, leaders=(3, 2), topic_id=2)
    end(buffering, 0)  # of the question that the old topic's position had raised
    buffering.seek(O0, 3)
    buffering.poll()
    assert (buffering.partition(O0).fetch_offset, buffering.errors) == (3, [])
