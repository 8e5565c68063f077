"""Catching up, in virtual time: what is asked, held back and claimed between an application and scripted brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from kwire.errors import TopicAuthorizationError
from kwire.events import (
    Assign,
    Commit,
    GetPosition,
    PollStarted,
    ProcessedOffsets,
    RecordsDelivered,
    Redeliver,
    Reply,
    SetHold,
    Unfinished,
)
from kwire.holds import Hold
from kwire.managers.unsent import Channel
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.parallel_rebalance.catch_up import CatchUpManager
from kwire.parallel_rebalance.state import CatchUpState
from kwire.parallel_rebalance.token import decode
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from tests.managers.consumer_scenario import ConsumerScenario
    from tests.managers.scenario import Scenario, all_at_rest
else:
    from consumer_scenario import ConsumerScenario
    from scenario import all_at_rest

O0 = TopicPartition("orders", 0)
MakeScenario = Callable[..., "Scenario"]


def committed(scenario: Scenario, offset: int) -> None:
    """Assigned by hand, in a group that has committed this."""
    scenario.post(Assign(frozenset((O0,)), Reply()), PollStarted())
    scenario.serve()
    scenario.answer_committed({O0: offset})
    scenario.turn()


@pytest.fixture
def lagging(make_scenario: MakeScenario) -> Scenario:
    """Its end of the log is asked for."""
    scenario = make_scenario(group_id="billing", enable_auto_commit=False, enable_parallel_rebalance=True)
    committed(scenario, 70)
    return scenario


def end_of_log(scenario: Scenario, offset: int) -> None:
    """It is there, and the leader's epoch has not ended in front of it."""
    scenario.answer_offsets({O0: offset})
    scenario.serve()
    end = EpochEndOffset(partition=0, leader_epoch=5, end_offset=offset)
    topic = OffsetForLeaderTopicResult(topic="orders", partitions=[end])
    scenario.answer(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(topics=[topic]))
    scenario.turn()


def fetched(scenario: Scenario) -> dict[Channel, int]:
    return {
        unsent.destination.channel: partition.fetch_offset
        for unsent in scenario.pending(FetchRequest)
        if isinstance(unsent.request, FetchRequest)
        for topic in unsent.request.topics
        for partition in topic.partitions
    }


def test_nothing_is_fetched_before_the_lag_is_known_and_a_position_waits_for_it(lagging: Scenario) -> None:
    reply: Reply[int] = Reply()
    lagging.post(GetPosition(O0, reply))
    assert not lagging.pending(FetchRequest)
    assert not reply.done
    assert "end of its log" in reply.waiting_for
    end_of_log(lagging, 120)
    assert reply.result() == 120


def test_the_child_fetches_the_lag_over_a_connection_of_its_own(lagging: Scenario) -> None:
    end_of_log(lagging, 120)
    assert fetched(lagging) == {Channel.FETCH: 120, Channel.CHILD_FETCH: 70}


def test_the_heads_log_is_not_written_before_the_groups_log_has_the_claim(lagging: Scenario) -> None:
    lagging.answer_offsets({O0: 120})
    lagging.turn()
    lagging.post(Commit({O0: OffsetAndMetadata(130)}, Reply()))
    lagging.turn()
    assert {request.group_id for request in lagging.requests(OffsetCommitRequest)} == {"billing"}
    token = decode(lagging.requests(OffsetCommitRequest)[0].topics[0].partitions[0].committed_metadata or "")
    assert token is not None
    assert token.undone == (range(70, 120),)


def test_without_a_lag_it_is_fetched_where_the_group_was(lagging: Scenario) -> None:
    lagging.answer_offsets({O0: 70})
    lagging.serve()
    assert fetched(lagging) == {Channel.FETCH: 70}
    assert not lagging.pending(ListOffsetsRequest)


def given(scenario: Scenario, offset: int) -> None:
    """The application comes back for more than what the child has read in front of this."""
    (child,) = scenario.subscription.children
    scenario.post(RecordsDelivered([(O0, child.partitions[O0].epoch, OffsetAndMetadata(offset))]))


def state_of(scenario: Scenario) -> CatchUpState:
    assert isinstance(scenario.managers.lags, CatchUpManager)
    return scenario.managers.lags.states[O0]


def test_what_handlers_have_not_finished_is_undone_and_so_is_what_was_put_back(lagging: Scenario) -> None:
    end_of_log(lagging, 120)
    given(lagging, 100)
    lagging.post(Redeliver(O0, OffsetAndMetadata(90), 100, Reply()))
    processed = ProcessedOffsets(None, (Unfinished(range(80, 90)),))
    lagging.post(Commit({}, Reply(), processed={O0: processed}))
    state = state_of(lagging)
    assert (state.undone, state.unread()) == ((range(80, 120),), (range(90, 120),))
    lagging.turn()
    (child,) = lagging.subscription.children
    assert child.partitions[O0].fetch_offset == 90


def test_no_commit_of_handlers_is_behind_what_the_main_cursor_has_returned(lagging: Scenario) -> None:
    """The log was cut, and they do not know yet."""
    end_of_log(lagging, 120)
    lagging.post(Commit({}, Reply(), processed={O0: ProcessedOffsets(OffsetAndMetadata(150))}))
    assert state_of(lagging).head.offset == 120


@pytest.mark.parametrize("cursor", Cursor)
def test_a_cursor_that_is_held_up_holds_up_no_other(lagging: Scenario, cursor: Cursor) -> None:
    lagging.post(SetHold(frozenset((O0,)), Hold.BACKPRESSURE, True, Reply(), cursor))
    end_of_log(lagging, 120)
    main, (child,) = lagging.subscription, lagging.subscription.children
    held = main if cursor is Cursor.MAIN else child
    assert [each for each in (main, child) if Hold.BACKPRESSURE in each.partitions[O0].holds] == [held]
    assert fetched(lagging) == ({Channel.CHILD_FETCH: 70} if cursor is Cursor.MAIN else {Channel.FETCH: 120})
    assert (main.view.paused, main.view.withheld == main.view.backpressured) == (frozenset(), True)


def answer_child(scenario: Scenario, code: ErrorCode) -> None:
    """The fetch of the lag is answered by this error."""
    (unsent,) = (each for each in scenario.pending(FetchRequest) if each.destination.channel is Channel.CHILD_FETCH)
    scenario.unanswered.remove(unsent)
    data = PartitionData(partition_index=0, error_code=code, high_watermark=-1)
    topic = FetchableTopicResponse(topic="orders", topic_id=scenario.managers.metadata.cluster.topic_id("orders"))
    topic.partitions = [data]
    unsent.on_answer(FetchResponse(responses=[topic]), scenario.now_ms)
    scenario.turn()


def test_a_child_asks_again_where_the_log_starts_after_that_has_been_refused(lagging: Scenario) -> None:
    """It never did, though the permission had been granted again: nothing more of its part came."""
    end_of_log(lagging, 120)
    for _ in range(2):
        answer_child(lagging, ErrorCode.OFFSET_OUT_OF_RANGE)
        lagging.answer_offsets({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        lagging.take_error(TopicAuthorizationError)
        assert Channel.CHILD_FETCH not in fetched(lagging)
        lagging.advance(100)
    answer_child(lagging, ErrorCode.OFFSET_OUT_OF_RANGE)
    lagging.answer_offsets({O0: 80})
    assert fetched(lagging) == {Channel.FETCH: 120, Channel.CHILD_FETCH: 80}
    assert state_of(lagging).undone == (range(80, 120),)


def test_a_hold_that_comes_after_its_partition_was_given_up_does_not_wait_for_the_next_assignment(
    make_scenario: MakeScenario,
) -> None:
    """It was applied to the child that began then, and nobody knew of it who could have ended it."""
    scenario = make_scenario(group_id="billing", enable_auto_commit=False, enable_parallel_rebalance=True)
    scenario.post(SetHold(frozenset((O0,)), Hold.BACKPRESSURE, True, Reply(), Cursor.CHILD))
    committed(scenario, 70)
    end_of_log(scenario, 120)
    assert fetched(scenario) == {Channel.FETCH: 120, Channel.CHILD_FETCH: 70}


# --- topics that were deleted and recreated ---------------------------------------------------------------------


@pytest.fixture
def on_topic_with_id() -> Iterator[ConsumerScenario]:
    """The group has committed 70, the log ends at 120; neither cursor has an answer yet."""
    with all_at_rest(ConsumerScenario) as make:
        scenario = make(group_id="billing", enable_auto_commit=False, enable_parallel_rebalance=True)
        committed(scenario, 70)
        end_of_log(scenario, 120)
        assert fetched(scenario) == {Channel.FETCH: 120, Channel.CHILD_FETCH: 70}
        yield scenario


def make_topic_anew(scenario: ConsumerScenario) -> None:
    """And have the consumer learn of it."""
    scenario.unanswered = [unsent for unsent in scenario.unanswered if not isinstance(unsent.request, FetchRequest)]
    scenario.incarnations["orders"] = 2
    scenario.managers.metadata.request_update()
    scenario.advance(100)
    scenario.serve()


def test_no_child_reads_a_range_of_the_old_topic_in_the_new_one(on_topic_with_id: ConsumerScenario) -> None:
    """It did, when neither had been served: the main cursor then began in front of that, and gave it again. Nor may the
    main cursor pass over what lies in front of an end that may have been the old topic's."""
    make_topic_anew(on_topic_with_id)
    assert on_topic_with_id.partition(O0).fetch_offset == 70
    assert not any(child.partitions for child in on_topic_with_id.subscription.children)


def test_the_main_cursor_starts_over_when_a_child_alone_had_been_served(on_topic_with_id: ConsumerScenario) -> None:
    """Both positions were the old topic's, that is known."""
    given(on_topic_with_id, 80)
    make_topic_anew(on_topic_with_id)
    on_topic_with_id.answer_offsets({O0: 0})
    on_topic_with_id.serve()
    assert on_topic_with_id.partition(O0).fetch_offset == 0


@pytest.mark.parametrize("offset", [60, 71, 100, 120, 130])
def test_a_seek_of_the_user_holds_though_the_topic_was_recreated(
    on_topic_with_id: ConsumerScenario, offset: int
) -> None:
    """Also one that goes where the main cursor is, or into what a child reads."""
    on_topic_with_id.seek(O0, offset)
    make_topic_anew(on_topic_with_id)
    assert on_topic_with_id.partition(O0).fetch_offset == offset
