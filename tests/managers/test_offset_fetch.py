"""OffsetFetch: `committed()`, and what positions ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.errors import BrokerError, GroupAuthorizationError, KafkaError, TopicAuthorizationError
from kwire.events import GetCommitted, Reply
from kwire.managers.unsent import Channel
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario, error_of
else:
    from scenario import error_of

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
Committed = dict[TopicPartition, OffsetAndMetadata | None]


def ask(scenario: Scenario, *partitions: TopicPartition) -> Reply[Committed]:
    reply: Reply[Committed] = Reply()
    scenario.post(GetCommitted(frozenset(partitions), reply))
    return reply


@pytest.fixture
def connected(scenario: Scenario) -> Scenario:
    ask(scenario, O0)
    scenario.serve()
    scenario.answer_committed({O0: 1})
    return scenario


def test_the_coordinator_is_looked_up_first_and_the_caller_knows(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.turn()
    assert "coordinator of group billing" in reply.waiting_for
    assert not scenario.pending(OffsetFetchRequest)
    scenario.fail(FindCoordinatorRequest, KafkaError("no broker answers"))
    assert isinstance(error_of(reply), KafkaError)


def test_the_coordinator_is_waited_for_while_it_can_be_found(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.fail(FindCoordinatorRequest)
    assert "the broker hung up" in reply.waiting_for
    scenario.advance(100)
    scenario.serve()
    assert scenario.pending(OffsetFetchRequest)


def test_the_question_is_written_as_each_version_wants_it(connected: Scenario) -> None:
    ask(connected, O1, O0)
    unsent = connected.unsent(OffsetFetchRequest)
    newest, seven, six = (connected.written_for(OffsetFetchRequest, version) for version in (8, 7, 6))
    assert ([group.group_id for group in newest.groups], partitions_of(newest)) == (["billing"], [[0, 1]])
    assert (seven.group_id, partitions_of(seven), seven.groups) == ("billing", [[0, 1]], [])
    # KIP-447: a pending transaction's offsets must not be passed by; older brokers cannot be asked for that.
    assert (newest.require_stable, seven.require_stable, six.require_stable) == (True, True, False)
    assert (unsent.max_version, unsent.destination.channel) == (9, Channel.COORDINATOR)


def test_answers_of_both_shapes_are_read(connected: Scenario) -> None:
    reply = ask(connected, O0, O1)
    partitions = [
        OffsetFetchResponsePartition(partition_index=0, committed_offset=7, committed_leader_epoch=3, metadata="note"),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=None),
    ]
    old = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=partitions)])
    connected.answer(OffsetFetchRequest, old)
    assert reply.result() == {O0: OffsetAndMetadata(7, "note", 3), O1: None}
    reply = ask(connected, O0)
    named = OffsetFetchResponsePartitions(partition_index=0, committed_offset=8, metadata=None)
    group = OffsetFetchResponseGroup(topics=[OffsetFetchResponseTopics(name="orders", partitions=[named])])
    connected.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))
    assert reply.result() == {O0: OffsetAndMetadata(8)}


def test_an_offset_of_a_pending_transaction_is_waited_for(connected: Scenario) -> None:
    reply = ask(connected, O0, O1)
    connected.answer_committed({O0: -1, O1: 5}, {O0: ErrorCode.UNSTABLE_OFFSET_COMMIT})
    assert not reply.done
    connected.advance(100)
    # What was found stays found.
    assert partitions_of(connected.request(OffsetFetchRequest)) == [[0]]
    connected.answer_committed({O0: 9})
    assert reply.result() == {O0: OffsetAndMetadata(9), O1: OffsetAndMetadata(5)}


def test_a_partition_that_the_answer_leaves_out_is_asked_for_again_and_never_guessed(connected: Scenario) -> None:
    reply = ask(connected, O0, O1)
    for pause_ms in (100, 200, 400):
        connected.answer_committed({O1: 5})
        assert not reply.done
        assert "orders-0 for group billing: the answer leaves it out" in reply.waiting_for
        connected.advance(pause_ms)
    connected.answer_committed({O0: 9})
    assert reply.result() == {O0: OffsetAndMetadata(9), O1: OffsetAndMetadata(5)}


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST])
def test_what_an_answer_says_of_partitions_that_were_not_asked_for_is_of_no_interest(
    scenario: Scenario, code: ErrorCode
) -> None:
    """It was taken for the position of a partition that is not assigned, and the network thread died of that."""
    scenario.assign(O0)
    scenario.serve()
    scenario.answer_committed({O0: 9, TopicPartition("", 2**31 - 1): 5}, {TopicPartition("", 2**31 - 1): code})
    assert scenario.partition(O0).fetch_offset == 9


def test_a_partition_that_does_not_exist_has_no_offset(connected: Scenario) -> None:
    reply = ask(connected, O0)
    connected.answer_committed({O0: -1}, {O0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert reply.result() == {O0: None}


def test_a_final_error_is_not_hidden_by_one_that_may_go_away(connected: Scenario) -> None:
    reply = ask(connected, O0, O1)
    errors = {O0: ErrorCode.UNSTABLE_OFFSET_COMMIT, O1: ErrorCode.INVALID_REQUEST}
    connected.answer_committed({O0: -1, O1: -1}, errors)
    error = error_of(reply)
    assert isinstance(error, BrokerError)
    assert "orders-1" in str(error)


def test_topics_without_permission_are_named(connected: Scenario) -> None:
    reply = ask(connected, O0)
    connected.answer_committed({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    error = error_of(reply)
    assert isinstance(error, TopicAuthorizationError)
    assert error.topics == {"orders"}


def test_a_group_without_permission_is_refused(connected: Scenario) -> None:
    reply = ask(connected, O0)
    refuse(connected, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(error_of(reply), GroupAuthorizationError)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_the_new_coordinator_is_asked(connected: Scenario, code: ErrorCode) -> None:
    reply = ask(connected, O0)
    refuse(connected, code)
    connected.answer(FindCoordinatorRequest, connected.coordinator(node_id=2))
    connected.advance(100)
    node = connected.unsent(OffsetFetchRequest).destination.node
    assert node is not None
    assert node.id == 2
    connected.answer_committed({O0: 3})
    assert reply.result() == {O0: OffsetAndMetadata(3)}


def test_a_question_without_an_answer_is_repeated_until_it_is_given_up(connected: Scenario) -> None:
    reply = ask(connected, O0)
    connected.fail(OffsetFetchRequest)
    connected.serve()
    connected.advance(100)
    assert connected.pending(OffsetFetchRequest)
    connected.fail(OffsetFetchRequest)
    reply.abandon()
    connected.serve()
    connected.advance(10_000)
    assert not connected.pending(OffsetFetchRequest)


def test_what_nobody_needs_any_more_is_not_asked_again(scenario: Scenario) -> None:
    """Each assignment left a look-up behind while the coordinator could not be found."""
    for _ in range(3):
        scenario.assign(O0)
        scenario.assign(O1)
    scenario.serve()
    assert [partitions_of(request) for request in scenario.requests(OffsetFetchRequest)] == [[[1]]]


def test_partitions_are_asked_for_once(scenario: Scenario) -> None:
    scenario.assign(O0, O1)
    scenario.serve()
    for _ in range(5):
        scenario.turn()
    assert len(scenario.pending(OffsetFetchRequest)) == 1


def partitions_of(request: OffsetFetchRequest) -> list[list[int]]:
    """The partitions asked for, topic by topic, in either shape."""
    grouped = [topic.partition_indexes for group in request.groups for topic in group.topics or ()]
    return grouped or [topic.partition_indexes for topic in request.topics or ()]


def test_a_group_whose_permission_is_granted_is_asked_about_by_the_next_call(scenario: Scenario) -> None:
    """The call was refused with what an earlier one had been refused for."""
    refused = ask(scenario, O0)
    scenario.answer(FindCoordinatorRequest, scenario.coordinator(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert isinstance(error_of(refused), GroupAuthorizationError)
    granted = ask(scenario, O0)
    assert not granted.done
    scenario.advance(100)
    scenario.serve()
    scenario.answer_committed({O0: 7})
    assert granted.done


def refuse(scenario: Scenario, code: ErrorCode) -> None:
    scenario.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[OffsetFetchResponseGroup(error_code=code)]))


def test_a_metadata_of_the_user_comes_back_as_it_was_and_none_stays_none(connected: Scenario) -> None:
    reply = ask(connected, O0, O1)
    partitions = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, committed_leader_epoch=3, metadata="mine"),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=0, metadata=None),
    ]
    topic = OffsetFetchResponseTopics(name="orders", partitions=partitions)
    connected.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[OffsetFetchResponseGroup(topics=[topic])]))
    assert reply.result() == {O0: OffsetAndMetadata(5, "mine", 3), O1: OffsetAndMetadata(0, "", None)}


def test_what_is_asked_says_what_it_waits_for(connected: Scenario) -> None:
    reply = ask(connected, O0)
    assert "the answer of coordinator" in reply.waiting_for
    assert "to OffsetFetch" in reply.waiting_for
    connected.answer_committed({O0: -1}, {O0: ErrorCode.UNSTABLE_OFFSET_COMMIT})
    assert reply.waiting_for.startswith("a retry of OffsetFetch (last error: ")
    connected.advance(1_000)
    connected.answer_committed({O0: 4})
    assert reply.done
