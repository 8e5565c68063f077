"""OffsetCommit: explicit, asynchronous and automatic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from kwire.errors import (
    BrokerError,
    CommitFailedError,
    DisconnectError,
    GroupAuthorizationError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from kwire.events import Commit, CommitAsync, CommitCompleted, EnforceRebalance, Reply
from kwire.managers.offset_commit import MAX_IN_FLIGHT, OffsetCommitManager
from kwire.managers.pending_commit import PendingCommit
from kwire.managers.unsent import AnyUnsentRequest, Channel
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tests.managers.consumer_scenario import ConsumerScenario, topic_id
    from tests.managers.scenario import Scenario, all_at_rest, error_of
else:
    from consumer_scenario import ConsumerScenario, topic_id
    from scenario import all_at_rest, error_of

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
MakeScenario = Callable[..., "Scenario"]
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@pytest.fixture
def by_hand(scenario: Scenario) -> Scenario:
    """A consumer with partitions assigned by hand, which commits without being a member."""
    scenario.start_fetching(O0, O1, offset=10)
    return scenario


def commit(scenario: Scenario, offsets: Offsets | None = None) -> Reply[None]:
    reply: Reply[None] = Reply()
    scenario.post(Commit(offsets, reply))
    return reply


def commit_async(scenario: Scenario, *offsets: Offsets) -> None:
    """One commit for each of these, all in one turn of the network thread."""
    scenario.post(*(CommitAsync(each, lambda _offsets, _error: None) for each in offsets))


def committed(scenario: Scenario) -> list[dict[tuple[str, int], int]]:
    """The offsets of each unanswered commit."""
    return [
        {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        for request in scenario.requests(OffsetCommitRequest)
    ]


def set_aside(scenario: Scenario) -> AnyUnsentRequest:
    """The oldest unanswered commit, which the test answers by itself, later."""
    unsent = scenario.unsent(OffsetCommitRequest)
    scenario.unanswered.remove(unsent)
    return unsent


# --- what is sent -----------------------------------------------------------------------------------------------


def test_a_commit_looks_for_the_coordinator_first(by_hand: Scenario) -> None:
    commit(by_hand, {O0: OffsetAndMetadata(5, "note", 3)})
    assert not by_hand.pending(OffsetCommitRequest)
    by_hand.serve()
    request = by_hand.request(OffsetCommitRequest)
    partition = request.topics[0].partitions[0]
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("billing", -1, "")
    assert partition.committed_offset == 5
    assert (partition.committed_metadata, partition.committed_leader_epoch) == ("note", 3)
    unsent = by_hand.unsent(OffsetCommitRequest)
    assert (unsent.destination.channel, unsent.max_version) == (Channel.COORDINATOR, 9)


def test_a_member_commits_with_its_generation(scenario: Scenario) -> None:
    scenario.become_stable(O0, generation=4)
    commit(scenario, {O0: OffsetAndMetadata(5)})
    request = scenario.request(OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id) == (4, "member-a")


def test_without_offsets_everything_delivered_is_committed_with_its_epoch(by_hand: Scenario) -> None:
    by_hand.delivered(O0, 15, leader_epoch=5)
    commit(by_hand)
    by_hand.serve()
    assert committed(by_hand) == [{("orders", 0): 15, ("orders", 1): 10}]
    epochs = [p.committed_leader_epoch for p in by_hand.request(OffsetCommitRequest).topics[0].partitions]
    assert epochs == [5, -1]


def test_records_of_an_older_assignment_are_not_committed(by_hand: Scenario) -> None:
    from kwire.events import RecordsDelivered

    old_epoch = by_hand.partition(O0).epoch
    by_hand.seek(O0, 3)
    by_hand.post(RecordsDelivered([(O0, old_epoch, OffsetAndMetadata(99))]))
    commit(by_hand)
    by_hand.serve()
    assert committed(by_hand)[0][("orders", 0)] == 3


def test_an_empty_commit_succeeds_without_a_request(by_hand: Scenario) -> None:
    assert commit(by_hand, {}).result() is None
    assert not by_hand.pending(FindCoordinatorRequest)


def test_commits_are_sent_in_the_order_they_were_made(by_hand: Scenario) -> None:
    for tp, offset in ((O0, 1), (O1, 2), (O0, 3)):
        commit_async(by_hand, {tp: OffsetAndMetadata(offset)})
    commit(by_hand, {O0: OffsetAndMetadata(4)})
    by_hand.serve()
    assert committed(by_hand) == [{("orders", 0): 1}, {("orders", 1): 2}, {("orders", 0): 3}, {("orders", 0): 4}]


def test_topics_are_named_by_id_where_all_ids_are_known() -> None:
    """Else the position may land in another topic, if this one is deleted and recreated just now."""
    with all_at_rest(ConsumerScenario) as make:
        scenario = make()
        scenario.start_fetching(O0, O1, offset=10)
        reply = commit(scenario)
        scenario.serve()
        sent = scenario.unsent(OffsetCommitRequest)
        assert sent.max_version is None
        (topic,) = scenario.request(OffsetCommitRequest).topics
        assert (topic.name, topic.topic_id) == ("orders", topic_id("orders"))
        partitions = [OffsetCommitResponsePartition(partition_index=number) for number in (0, 1)]
        by_id = OffsetCommitResponseTopic(topic_id=topic_id("orders"), partitions=partitions)
        scenario.answer(OffsetCommitRequest, OffsetCommitResponse(topics=[by_id]))
        assert reply.result() is None


def test_topics_are_named_by_name_where_an_id_is_not_known() -> None:
    with all_at_rest(ConsumerScenario) as make:
        scenario = make()
        scenario.start_fetching(O0, offset=10)
        commit(scenario, {O0: OffsetAndMetadata(5), TopicPartition("elsewhere", 0): OffsetAndMetadata(3)})
        scenario.serve()
        assert scenario.unsent(OffsetCommitRequest).max_version == 9
        assert committed(scenario) == [{("orders", 0): 5, ("elsewhere", 0): 3}]


# --- what comes back --------------------------------------------------------------------------------------------


def test_a_commit_is_done_when_the_broker_says_so(by_hand: Scenario) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    assert not reply.done
    assert "OffsetCommit" in reply.waiting_for
    by_hand.answer_commit()
    assert reply.result() is None
    assert by_hand.managers.offset_commit.idle


RETRIED = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
def test_a_commit_is_retried_until_it_succeeds(by_hand: Scenario, code: ErrorCode) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    for pause_ms in (100, 200, 400, 800):
        by_hand.answer_commit(code)
        by_hand.serve()
        assert not by_hand.pending(OffsetCommitRequest)
        assert code.name in reply.waiting_for
        by_hand.advance(pause_ms)
    by_hand.answer_commit()
    assert reply.result() is None


# --- topics that are gone ---------------------------------------------------------------------------------------


@pytest.fixture(params=[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID], ids=["by name", "by id"])
def refused(request: pytest.FixtureRequest) -> Iterator[tuple[ConsumerScenario, Reply[None]]]:
    """By hand, on topics with ids: a commit whose topic the coordinator does not know."""
    with all_at_rest(ConsumerScenario) as make:
        scenario = make()
        scenario.start_fetching(O0, O1, offset=10)
        reply = commit(scenario)
        scenario.serve()
        scenario.answer_commit(request.param)
        yield scenario, reply


def until_refreshed(scenario: Scenario) -> None:
    """Metadata is asked for, and answered."""
    scenario.advance(100)
    assert not scenario.pending(OffsetCommitRequest)
    scenario.serve()


def until_known(scenario: Scenario) -> None:
    """The same, again and again for a while; nothing is committed meanwhile."""
    for _ in range(8):
        scenario.advance(250)
        assert not scenario.pending(OffsetCommitRequest)
        scenario.serve()


def test_a_commit_to_a_topic_that_is_still_there_is_retried(refused: tuple[ConsumerScenario, Reply[None]]) -> None:
    """Brokers hear of a new topic one after the other."""
    scenario, reply = refused
    until_refreshed(scenario)
    scenario.advance(100)
    scenario.answer_commit()
    assert reply.result() is None


def test_a_commit_to_a_topic_that_is_gone_fails_when_that_is_known(
    refused: tuple[ConsumerScenario, Reply[None]],
) -> None:
    """It was sent again until the time was over, or until there was another topic of that name."""
    scenario, reply = refused
    del scenario.topics["orders"]
    until_known(scenario)
    assert isinstance(error_of(reply), UnknownTopicOrPartitionError)
    assert scenario.managers.offset_commit.idle


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_not_gone(refused: tuple[ConsumerScenario, Reply[None]]) -> None:
    scenario, reply = refused
    leaders = scenario.topics.pop("orders")
    until_refreshed(scenario)
    scenario.topics["orders"] = leaders
    until_refreshed(scenario)
    scenario.advance(500)
    scenario.answer_commit()
    assert reply.result() is None


def test_nothing_is_said_of_a_topic_while_metadata_has_no_answer(refused: tuple[ConsumerScenario, Reply[None]]) -> None:
    scenario, reply = refused
    scenario.advance(20_000)
    assert not reply.done
    assert not scenario.pending(OffsetCommitRequest)
    scenario.serve()
    scenario.advance(100)
    scenario.answer_commit()
    assert reply.result() is None


def test_what_is_answered_later_decides_and_not_that_a_topic_was_unknown_once(
    refused: tuple[ConsumerScenario, Reply[None]],
) -> None:
    scenario, reply = refused
    until_refreshed(scenario)
    scenario.advance(100)
    for _ in range(5):
        scenario.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        scenario.advance(2_000)
    scenario.answer_commit()
    assert reply.result() is None


def test_a_position_in_a_topic_is_not_committed_to_another_one_of_its_name(
    refused: tuple[ConsumerScenario, Reply[None]],
) -> None:
    """The group would go on there behind records that it has never seen."""
    scenario, reply = refused
    scenario.incarnations["orders"] = 2
    until_refreshed(scenario)
    error = error_of(reply)
    assert "deleted and recreated" in str(error)
    assert not error.retriable  # else it would be committed once more
    scenario.advance(10_000)
    assert not scenario.pending(OffsetCommitRequest)


@pytest.fixture
def missing() -> Iterator[ConsumerScenario]:
    """Metadata has just said that the topic is not there. Made anew, it is known to the coordinator before metadata is
    asked for again."""
    with all_at_rest(ConsumerScenario) as make:
        scenario = make()
        scenario.start_fetching(O0, O1, offset=10)
        for tp in (O0, O1):
            scenario.partition(tp).topic_id = topic_id("orders")  # a leader has served it
        commit(scenario)
        scenario.serve()
        scenario.answer_commit()
        leaders = scenario.topics.pop("orders")
        scenario.managers.metadata.request_update()
        scenario.advance(100)
        scenario.serve()
        assert "orders" in scenario.managers.metadata.unknown
        scenario.topics["orders"] = leaders
        yield scenario


def test_a_position_waits_while_metadata_does_not_have_its_topic(missing: ConsumerScenario) -> None:
    """It landed in the new topic, whose first records the group then passed over."""
    reply = commit(missing)
    assert not missing.pending(OffsetCommitRequest)
    missing.incarnations["orders"] = 2
    missing.advance(200)
    missing.serve()
    assert "deleted and recreated" in str(error_of(reply))
    assert not missing.pending(OffsetCommitRequest)


def test_a_position_is_committed_when_metadata_has_its_topic_again(missing: ConsumerScenario) -> None:
    """A broker that had not heard of it had been asked."""
    reply = commit(missing)
    missing.advance(200)
    missing.serve()
    missing.advance(1)
    missing.answer_commit()
    assert reply.result() is None


def test_a_position_whose_topic_stays_missing_is_not_committed(missing: ConsumerScenario) -> None:
    del missing.topics["orders"]
    reply = commit(missing)
    until_known(missing)
    assert isinstance(error_of(reply), UnknownTopicOrPartitionError)


def test_a_last_commit_does_not_wait_for_a_topic_that_is_missing(missing: ConsumerScenario) -> None:
    missing.topics["payments"] = (1,)
    reply: Reply[None] = Reply()
    offsets = {O0: OffsetAndMetadata(15), TopicPartition("payments", 0): OffsetAndMetadata(3)}
    missing.post(Commit(offsets, reply, is_last=True))
    assert committed(missing) == [{("payments", 0): 3}]
    missing.answer_commit()
    assert reply.result() is None


def test_what_is_in_other_topics_is_committed_though_one_was_recreated(
    refused: tuple[ConsumerScenario, Reply[None]],
) -> None:
    scenario, first = refused
    scenario.topics["payments"] = (1,)
    second = commit(scenario, {O0: OffsetAndMetadata(15), TopicPartition("payments", 0): OffsetAndMetadata(3)})
    scenario.incarnations["orders"] = 2
    until_refreshed(scenario)
    scenario.serve()
    assert committed(scenario) == [{("payments", 0): 3}]
    scenario.answer_commit()
    assert "deleted and recreated" in str(error_of(first))
    assert "orders-0" in str(error_of(second))


@pytest.fixture
def recreated() -> Iterator[ConsumerScenario]:
    """A leader has served the topic, which was deleted and recreated since; the user has to say where to go on."""
    with all_at_rest(ConsumerScenario) as make:
        scenario = make(auto_offset_reset="none")
        scenario.start_fetching(O0, offset=10)
        scenario.partition(O0).topic_id = topic_id("orders")  # a leader has served it
        scenario.incarnations["orders"] = 2
        scenario.managers.metadata.request_update()
        scenario.advance(100)
        scenario.serve()
        yield scenario


def test_a_position_that_is_void_is_not_committed_while_the_user_has_not_said_where_to_go_on(
    recreated: ConsumerScenario,
) -> None:
    reply = commit(recreated)
    recreated.serve()
    assert not recreated.pending(OffsetCommitRequest)
    assert "deleted and recreated" in str(error_of(reply))
    recreated.errors.clear()
    recreated.seek(O0, 0)
    second = commit(recreated, {O0: OffsetAndMetadata(0)})
    recreated.serve()
    recreated.answer_commit()
    assert second.result() is None


def test_offsets_of_records_of_the_old_topic_are_not_committed_to_the_new_one(recreated: ConsumerScenario) -> None:
    """The application is still at records of the old one, and commits each. The group went on behind as many of the
    new one, which nobody ever saw."""
    recreated.errors.clear()
    recreated.seek(O0, 0)
    late = commit(recreated, {O0: OffsetAndMetadata(11)})
    recreated.serve()
    assert not recreated.pending(OffsetCommitRequest)
    assert "deleted and recreated" in str(error_of(late))
    recreated.delivered(O0, 3)
    new = commit(recreated, {O0: OffsetAndMetadata(3)})
    recreated.serve()
    recreated.answer_commit()
    assert new.result() is None


def test_a_commit_to_a_partition_that_is_not_there_fails_when_that_is_known(by_hand: Scenario) -> None:
    reply = commit(by_hand, {TopicPartition("orders", 7): OffsetAndMetadata(3)})
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    until_known(by_hand)
    assert isinstance(error_of(reply), UnknownTopicOrPartitionError)


def test_a_commit_to_a_topic_that_metadata_is_not_asked_for_fails_after_a_while(by_hand: Scenario) -> None:
    reply = commit(by_hand, {TopicPartition("payments", 0): OffsetAndMetadata(3)})
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    by_hand.advance(200)
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert not reply.done
    by_hand.advance(1_000)
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert isinstance(error_of(reply), UnknownTopicOrPartitionError)


def test_a_commit_that_was_given_up_is_not_sent_again(by_hand: Scenario) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    reply.abandon()
    by_hand.advance(10_000)
    assert not by_hand.pending(OffsetCommitRequest)
    assert by_hand.managers.offset_commit.idle


def test_a_commit_goes_on_at_the_new_coordinator(by_hand: Scenario) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.NOT_COORDINATOR)
    by_hand.answer(FindCoordinatorRequest, by_hand.coordinator(node_id=2))
    by_hand.advance(100)
    node = by_hand.unsent(OffsetCommitRequest).destination.node
    assert node is not None
    assert node.id == 2
    by_hand.answer_commit()
    assert reply.result() is None


def test_a_commit_without_an_answer_is_repeated(by_hand: Scenario) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    by_hand.fail(OffsetCommitRequest)
    by_hand.serve()
    by_hand.advance(100)
    by_hand.answer_commit()
    assert reply.result() is None


REFUSED = [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE]


@pytest.mark.parametrize("code", REFUSED, ids=lambda code: code.name)
def test_a_refusal_is_the_answer(by_hand: Scenario, code: ErrorCode) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    by_hand.answer_commit(code)
    error = error_of(reply)
    assert isinstance(error, BrokerError)
    assert error.code == code


def test_a_group_with_members_takes_no_commit_of_partitions_assigned_by_hand(by_hand: Scenario) -> None:
    """The error was that the coordinator did not know this member: nobody could tell what was wrong."""
    reply = commit(by_hand, {O0: OffsetAndMetadata(5)})
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.UNKNOWN_MEMBER_ID)
    with pytest.raises(CommitFailedError) as raised:
        reply.result()
    assert str(raised.value) == (
        "group billing has members, which subscribe, and only they can commit for it; a consumer with partitions "
        "assigned by hand needs another group_id, or none (committing orders-0 for group billing: UNKNOWN_MEMBER_ID "
        "(25): the coordinator does not know this member)"
    )


def test_of_several_errors_the_final_one_counts(by_hand: Scenario) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert "orders-1" in str(error_of(reply))


def test_topics_without_permission_are_named(by_hand: Scenario) -> None:
    reply = commit(by_hand)
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    error = error_of(reply)
    assert isinstance(error, TopicAuthorizationError)
    assert error.topics == {"orders"}


def test_a_group_without_permission_fails_the_commit_at_once(by_hand: Scenario) -> None:
    """The coordinator is looked up again and again all the same; but who waits need not wait for the timeout."""
    reply = commit(by_hand)
    by_hand.answer(FindCoordinatorRequest, by_hand.coordinator(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert isinstance(error_of(reply), GroupAuthorizationError)
    assert not by_hand.errors
    later = commit(by_hand)
    by_hand.advance(100)
    by_hand.serve()
    by_hand.answer_commit()
    assert later.result() is None


# --- asynchronous -----------------------------------------------------------------------------------------------


def test_an_asynchronous_commit_reports_its_success(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(5)})
    by_hand.serve()
    by_hand.answer_commit()
    done = by_hand.take_event(CommitCompleted)
    assert (done.offsets, done.error) == ({O0: OffsetAndMetadata(5)}, None)


def test_an_asynchronous_commit_without_offsets_commits_everything_delivered(by_hand: Scenario) -> None:
    by_hand.delivered(O0, 12)
    by_hand.post(CommitAsync(None, lambda _offsets, _error: None))
    by_hand.serve()
    assert committed(by_hand) == [{("orders", 0): 12, ("orders", 1): 10}]
    by_hand.answer_commit()


def test_an_asynchronous_commit_is_not_retried(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(5)})
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert isinstance(by_hand.take_event(CommitCompleted).error, RetriableCommitFailedError)
    by_hand.advance(10_000)
    assert not by_hand.pending(OffsetCommitRequest)


def test_an_asynchronous_commit_without_a_coordinator_fails_in_time(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(5)})
    by_hand.advance(by_hand.config.default_api_timeout_ms)
    assert isinstance(by_hand.take_event(CommitCompleted).error, RetriableCommitFailedError)
    assert by_hand.managers.offset_commit.idle


def test_a_failed_asynchronous_commit_without_a_callback_is_logged(
    by_hand: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    by_hand.post(CommitAsync({TopicPartition("orders", n): OffsetAndMetadata(n) for n in range(5)}, None))
    by_hand.serve()
    by_hand.fail(OffsetCommitRequest)
    assert "orders-0@0, orders-1@1, orders-2@2 and 2 more" in caplog.text
    assert not by_hand.events


def test_many_asynchronous_commits_leave_room_for_a_heartbeat(by_hand: Scenario) -> None:
    """It goes over the same connection, where brokers answer one request after the other: behind thousands of commits
    a heartbeat was late, and the group went on without the member."""
    positions = [{(O0, O1)[offset % 2]: OffsetAndMetadata(offset)} for offset in range(MAX_IN_FLIGHT + 3)]
    for each in positions:
        commit_async(by_hand, each)
    by_hand.serve()
    sent = [{("orders", offset % 2): offset} for offset in range(MAX_IN_FLIGHT + 1)]
    assert committed(by_hand) == sent[:-1]
    by_hand.answer_commit()
    assert committed(by_hand) == sent[1:]
    for _ in range(MAX_IN_FLIGHT + 2):
        by_hand.answer_commit()
    assert [by_hand.take_event(CommitCompleted).offsets for _ in positions] == positions
    by_hand.serve()


def test_a_commit_behind_many_says_what_it_waits_for(by_hand: Scenario) -> None:
    """A timeout quotes it."""
    replies = [commit(by_hand, {O0: OffsetAndMetadata(offset)}) for offset in range(4)]
    by_hand.serve()
    assert {reply.waiting_for for reply in replies[1:]} == {"a commit that was made before it"}
    for _ in replies:
        by_hand.answer_commit()


def test_however_many_commits_wait_an_answer_has_few_of_them_looked_at(
    by_hand: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand tasks that each commit took a minute, as each answer had all that waited looked at."""
    replies = [commit(by_hand, {O0: OffsetAndMetadata(offset)}) for offset in range(300)]
    by_hand.serve()
    manager, looked_at = by_hand.managers.offset_commit, 0
    assert isinstance(manager, OffsetCommitManager)
    refused = manager._refused

    def counted(one: PendingCommit, now_ms: float) -> bool:
        nonlocal looked_at
        looked_at += 1
        return refused(one, now_ms)

    monkeypatch.setattr(manager, "_refused", counted)
    for _ in replies:
        by_hand.answer_commit()
    assert [reply.result() for reply in replies] == [None] * len(replies)
    assert looked_at < 4 * len(replies)


# --- members ----------------------------------------------------------------------------------------------------


def test_while_the_others_join_a_commit_goes_around_the_open_join_with_the_old_generation(scenario: Scenario) -> None:
    """The broker takes it until the last one is in. A cooperative member reads all the while; without this, what it
    had processed when it was closed was read again by its successor."""
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    assert scenario.pending(JoinGroupRequest)
    reply = commit(scenario, {O0: OffsetAndMetadata(5)})
    assert scenario.request(OffsetCommitRequest).generation_id_or_member_epoch == 1
    assert scenario.unsent(OffsetCommitRequest).destination.channel is Channel.CONTROL
    scenario.answer_commit()
    assert reply.result() is None


def test_a_commit_does_not_overtake_the_one_before_it_on_another_connection(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    commit_async(scenario, {O0: OffsetAndMetadata(5)})
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    commit_async(scenario, {O0: OffsetAndMetadata(6)})
    assert len(scenario.pending(OffsetCommitRequest)) == 1
    scenario.answer_commit()
    assert scenario.unsent(OffsetCommitRequest).destination.channel is Channel.CONTROL


def test_nor_does_it_overtake_one_that_its_caller_has_given_up(scenario: Scenario) -> None:
    """The broker carries that out all the same."""
    scenario.become_stable(O0)
    commit(scenario, {O0: OffsetAndMetadata(5)}).abandon()
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    commit_async(scenario, {O0: OffsetAndMetadata(6)})
    assert committed(scenario) == [{("orders", 0): 5}]
    scenario.answer_commit()
    assert committed(scenario) == [{("orders", 0): 6}]


def test_until_the_leader_has_assigned_a_commit_is_told_to_wait_for_the_next_poll(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    scenario.join(2, leader="member-b")
    assert isinstance(error_of(commit(scenario, {O0: OffsetAndMetadata(5)})), RebalanceInProgressError)


def test_who_joins_for_the_first_time_has_no_generation_to_commit_with(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    assert isinstance(error_of(commit(scenario, {O0: OffsetAndMetadata(5)})), RebalanceInProgressError)


def test_a_consumer_that_is_no_member_yet_cannot_commit(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    assert isinstance(error_of(commit(scenario, {O0: OffsetAndMetadata(5)})), CommitFailedError)


def test_a_commit_in_the_revoke_callback_is_sent_before_the_join(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    reply = commit(scenario, {O0: OffsetAndMetadata(5)})
    scenario.answer_commit()
    assert reply.result() is None
    scenario.run_callback()
    assert scenario.pending(JoinGroupRequest)


def test_the_answer_to_a_commit_of_an_older_generation_does_not_touch_the_new_one(scenario: Scenario) -> None:
    scenario.become_stable(O0)
    reply = commit(scenario, {O0: OffsetAndMetadata(5)})
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    scenario.rejoin(O0, generation=2)
    scenario.answer_commit(ErrorCode.ILLEGAL_GENERATION)  # KAFKA-19242
    assert isinstance(error_of(reply), CommitFailedError)
    assert scenario.managers.membership.identity().generation_id == 2
    assert not scenario.callbacks


def test_a_commit_that_was_made_before_an_unsubscribe_is_the_members_and_goes_before_its_leave(
    scenario: Scenario,
) -> None:
    """Both in one turn: the commit was sent as that of a consumer without a membership, and refused."""
    scenario.become_stable(O0, generation=4)
    scenario.post_beside_an_answer(CommitAsync({O0: OffsetAndMetadata(5)}, None))
    scenario.unsubscribe()
    request = scenario.request(OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id) == (4, "member-a")
    sent = [type(unsent.request) for unsent in scenario.unanswered]
    assert sent.index(OffsetCommitRequest) < sent.index(LeaveGroupRequest)
    assert {unsent.destination.channel for unsent in scenario.unanswered[sent.index(OffsetCommitRequest) :]} == {
        Channel.COORDINATOR
    }


# --- auto-commit ------------------------------------------------------------------------------------------------


@pytest.fixture
def auto(make_scenario: MakeScenario) -> Scenario:
    scenario = make_scenario(enable_auto_commit=True, auto_commit_interval_ms=5_000)
    scenario.start_fetching(O0, offset=10)
    return scenario


def test_auto_commit_takes_only_what_the_application_came_back_from(auto: Scenario) -> None:
    auto.delivered(O0, 20)
    auto.advance(5_000)
    auto.serve()
    assert committed(auto) == [{("orders", 0): 20}]


def test_auto_commit_comes_by_the_interval_and_one_at_a_time(auto: Scenario) -> None:
    auto.advance(5_000)
    auto.serve()
    auto.advance(20_000)
    assert len(committed(auto)) == 1
    auto.answer_commit()
    auto.delivered(O0, 30)
    auto.advance(5_000)
    assert committed(auto) == [{("orders", 0): 30}]


def test_an_auto_commit_that_fails_for_the_moment_is_tried_after_the_backoff_and_logged_if_it_does_not_help(
    auto: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    """Java's resetTimerOnRetriableError. A coordinator that loads for a minute need not fill the log."""
    auto.advance(5_000)
    auto.serve()
    warned = []
    for pause_ms in (100, 200, 400, 800, 1_000, 1_000):
        auto.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert committed(auto) == []
        auto.advance(pause_ms)
        assert committed(auto) == [{("orders", 0): 10}]
        warned.append(caplog.text.count("auto-commit of orders-0@10 failed"))
    assert warned == [0, 0, 0, 0, 1, 1]
    assert not auto.events
    auto.answer_commit()
    auto.advance(4_000)
    assert committed(auto) == []


def test_an_auto_commit_that_is_refused_is_tried_with_the_next_interval(
    auto: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    auto.advance(5_000)
    auto.serve()
    auto.answer_commit(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert "auto-commit of orders-0@10 failed" in caplog.text
    assert not auto.events
    auto.advance(4_900)
    assert committed(auto) == []
    auto.advance(100)
    assert committed(auto) == [{("orders", 0): 10}]


def test_an_auto_commit_that_is_refused_again_and_again_is_logged_once(
    auto: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that was removed from its group, and was at one record for half an hour, wrote 360 warnings."""
    auto.advance(5_000)
    auto.serve()
    warned: list[int] = []
    large, forbidden = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    for code in (large, large, large, forbidden, ErrorCode.NONE, forbidden):
        auto.answer_commit(code)
        auto.delivered(O0, 11 + len(warned))
        auto.advance(5_000)
        warned.append(caplog.text.count("auto-commit of orders-0@"))
    assert warned == [1, 1, 1, 2, 2, 3]


def test_another_assignment_commits_what_the_old_one_consumed(auto: Scenario) -> None:
    auto.delivered(O0, 20)
    auto.assign(O1)
    auto.serve()
    assert committed(auto)[0] == {("orders", 0): 20}


def test_without_auto_commit_nothing_is_committed(by_hand: Scenario) -> None:
    by_hand.delivered(O0, 20)
    by_hand.advance(60_000)
    by_hand.assign(O1)
    assert not by_hand.pending(FindCoordinatorRequest)


def test_an_interval_of_zero_does_not_spin(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(enable_auto_commit=True, auto_commit_interval_ms=0)
    scenario.start_fetching(O0, offset=10)
    scenario.advance(1)
    scenario.serve()
    count = 0
    for _ in range(100):
        scenario.advance(10)
        while scenario.pending(OffsetCommitRequest):
            scenario.answer_commit()
            count += 1
    assert 5 <= count <= 11


def test_a_rebalance_keeps_auto_commit_from_committing_what_is_not_owned(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(enable_auto_commit=True, auto_commit_interval_ms=1_000)
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    scenario.advance(10_000)
    assert not scenario.pending(OffsetCommitRequest)
    scenario.rejoin(O1, generation=2)
    scenario.advance(1_000)
    assert committed(scenario) == [{("orders", 1): 10}]
    while scenario.pending(HeartbeatRequest):
        scenario.answer(HeartbeatRequest, HeartbeatResponse())


# --- order ------------------------------------------------------------------------------------------------------


def test_a_synchronous_commit_returns_after_the_asynchronous_ones_before_it(by_hand: Scenario) -> None:
    """The coordinator moved while the first was on its way: the second, at the new one, was answered earlier. Once it
    returned then, and the callback of the first came later, as if that were the newer one."""
    commit_async(by_hand, {O0: OffsetAndMetadata(1)})
    by_hand.serve()
    first = set_aside(by_hand)
    by_hand.managers.coordinator.lost(DisconnectError("gone"))
    reply = commit(by_hand, {O0: OffsetAndMetadata(2)})
    by_hand.answer(FindCoordinatorRequest, by_hand.coordinator(node_id=2))
    by_hand.answer_commit()
    assert not reply.done
    assert "made before it" in reply.waiting_for
    first.on_failure(DisconnectError("gone"), by_hand.now_ms)
    assert isinstance(by_hand.take_event(CommitCompleted).error, RetriableCommitFailedError)
    assert reply.result() is None
    by_hand.serve()


def test_callbacks_of_asynchronous_commits_come_in_the_order_they_were_made(by_hand: Scenario) -> None:
    positions = [{O0: OffsetAndMetadata(1)}, {O1: OffsetAndMetadata(2)}]
    for each in positions:
        commit_async(by_hand, each)
    by_hand.serve()
    first = set_aside(by_hand)
    by_hand.answer_commit()
    assert not by_hand.events
    first.on_failure(DisconnectError("gone"), by_hand.now_ms)
    assert [by_hand.take_event(CommitCompleted).offsets for _ in positions] == positions
    by_hand.serve()


# --- asynchronous commits that are one request ------------------------------------------------------------------


def test_asynchronous_commits_of_the_same_partitions_are_one_request(by_hand: Scenario) -> None:
    """A commit for each record was a request for each record: 20,000 commits took 5.3 s until the last one was done."""
    positions = [{O0: OffsetAndMetadata(offset)} for offset in (7, 8, 5)]
    commit_async(by_hand, *positions)
    by_hand.serve()
    assert committed(by_hand) == [{("orders", 0): 5}]  # the newest one, which need not be the greatest
    assert not by_hand.events
    by_hand.answer_commit()
    done = [by_hand.take_event(CommitCompleted) for _ in positions]
    assert [(each.offsets, each.error) for each in done] == [(each, None) for each in positions]
    assert by_hand.managers.offset_commit.idle


def test_asynchronous_commits_that_are_one_request_fail_together(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(7)}, {O0: OffsetAndMetadata(8)})
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    errors = [by_hand.take_event(CommitCompleted).error for _ in range(2)]
    assert [type(error) for error in errors] == [RetriableCommitFailedError] * 2
    by_hand.advance(1_000)
    assert committed(by_hand) == []


def test_a_commit_that_is_in_flight_is_not_in_a_later_request(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(7)})
    by_hand.serve()
    commit_async(by_hand, {O0: OffsetAndMetadata(8)}, {O0: OffsetAndMetadata(9)})
    assert committed(by_hand) == [{("orders", 0): 7}, {("orders", 0): 9}]
    by_hand.answer_commit()
    assert by_hand.take_event(CommitCompleted).offsets == {O0: OffsetAndMetadata(7)}
    assert not by_hand.events
    by_hand.answer_commit(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    assert all(by_hand.take_event(CommitCompleted).error is not None for _ in range(2))


def test_a_commit_of_fewer_partitions_does_not_stand_for_one_of_more(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(7), O1: OffsetAndMetadata(7)}, {O0: OffsetAndMetadata(8)})
    by_hand.serve()
    assert committed(by_hand) == [{("orders", 0): 7, ("orders", 1): 7}, {("orders", 0): 8}]
    for _ in range(2):
        by_hand.answer_commit()
        assert by_hand.take_event(CommitCompleted).error is None


def test_a_commit_that_is_waited_for_is_a_request_of_its_own(by_hand: Scenario) -> None:
    """It may be repeated, which an asynchronous one must not be."""
    commit_async(by_hand, {O0: OffsetAndMetadata(7)})
    reply = commit(by_hand, {O0: OffsetAndMetadata(8)})
    commit_async(by_hand, {O0: OffsetAndMetadata(9)})
    by_hand.serve()
    assert committed(by_hand) == [{("orders", 0): 7}, {("orders", 0): 8}]
    by_hand.answer_commit()
    by_hand.answer_commit()
    assert reply.result() is None
    assert committed(by_hand) == [{("orders", 0): 9}]
    by_hand.answer_commit()
    assert all(by_hand.take_event(CommitCompleted).error is None for _ in range(2))


def test_committing_nothing_waits_for_the_commits_before_it(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(1)})
    reply = commit(by_hand, {})
    by_hand.serve()
    assert not reply.done
    by_hand.answer_commit()
    by_hand.take_event(CommitCompleted)
    assert reply.result() is None


def test_a_commit_that_is_repeated_does_not_undo_a_newer_one(by_hand: Scenario) -> None:
    """The last commit before a revocation is waited for across polls, between which the application may commit more."""
    reply: Reply[None] = Reply()
    by_hand.post(Commit({O0: OffsetAndMetadata(5)}, reply, is_last=True))
    by_hand.serve()
    by_hand.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    commit_async(by_hand, {O0: OffsetAndMetadata(9)})
    assert committed(by_hand) == []
    by_hand.advance(100)
    assert committed(by_hand) == [{("orders", 0): 5}]
    by_hand.answer_commit()
    assert committed(by_hand) == [{("orders", 0): 9}]
    by_hand.answer_commit()
    assert by_hand.take_event(CommitCompleted).error is None


def test_a_commit_that_was_given_up_holds_back_nobody(by_hand: Scenario) -> None:
    given_up = commit(by_hand, {O0: OffsetAndMetadata(5)})
    by_hand.serve()
    later = commit(by_hand, {O0: OffsetAndMetadata(9)})
    given_up.abandon()
    by_hand.turn()
    assert committed(by_hand) == [{("orders", 0): 5}, {("orders", 0): 9}]
    by_hand.answer_commit()
    by_hand.answer_commit()
    assert later.result() is None


# --- what must not be taken for a success, and by whom it is made -------------------------------------------------


def test_a_partition_that_the_answer_leaves_out_is_not_committed(by_hand: Scenario) -> None:
    reply = commit(by_hand, {O0: OffsetAndMetadata(1), O1: OffsetAndMetadata(2)})
    by_hand.serve()
    only_one = OffsetCommitResponseTopic(name="orders", partitions=[OffsetCommitResponsePartition(partition_index=0)])
    by_hand.answer(OffsetCommitRequest, OffsetCommitResponse(topics=[only_one]))
    assert str(error_of(reply)).endswith("committing orders-1 for group billing: the answer leaves it out")


def test_what_the_answer_says_of_partitions_that_were_not_committed_is_of_no_interest(by_hand: Scenario) -> None:
    reply = commit(by_hand, {O0: OffsetAndMetadata(1)})
    by_hand.serve()
    partitions = [
        OffsetCommitResponsePartition(partition_index=0),
        OffsetCommitResponsePartition(partition_index=7, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    topic = OffsetCommitResponseTopic(name="orders", partitions=partitions)
    by_hand.answer(OffsetCommitRequest, OffsetCommitResponse(topics=[topic]))
    reply.result()


def test_partitions_assigned_by_hand_are_committed_by_nobody_in_particular(make_scenario: MakeScenario) -> None:
    """An instance id is a member's: with it the broker would look for one."""
    scenario = make_scenario(group_instance_id="i1")
    scenario.start_fetching(O0)
    commit(scenario, {O0: OffsetAndMetadata(5)})
    scenario.serve()
    assert scenario.request(OffsetCommitRequest).group_instance_id is None


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID], ids=lambda c: c.name)
def test_the_answer_to_a_commit_from_before_the_rebalance_says_to_poll(scenario: Scenario, code: ErrorCode) -> None:
    """KAFKA-19242: neither is the new generation touched, nor is an old one's end that of the consumer."""
    scenario.become_stable(O0)
    reply = commit(scenario, {O0: OffsetAndMetadata(5)})
    late = set_aside(scenario)
    scenario.post(EnforceRebalance("for a test"))
    scenario.run_callback()
    scenario.join(generation=2)
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    late.on_answer(
        OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[partition])]), scenario.now_ms
    )
    assert isinstance(error_of(reply), RebalanceInProgressError)
    assert not scenario.errors
    scenario.sync(O0)
    assert scenario.managers.membership.identity().generation_id == 2


def test_what_is_not_answered_when_the_consumer_closes_is_reported(by_hand: Scenario) -> None:
    """Java's CommitAsyncFailsWhenCoordinatorUnavailableDuringClose: once its callback never ran."""
    commit_async(by_hand, {O0: OffsetAndMetadata(5)})
    by_hand.serve()
    commit_async(by_hand, {O0: OffsetAndMetadata(6)})
    by_hand.managers.offset_commit.close()
    errors = [by_hand.take_event(CommitCompleted).error for _ in range(2)]
    assert all(isinstance(error, CommitFailedError) and "may have been carried out" in str(error) for error in errors)
    assert by_hand.managers.offset_commit.idle
    by_hand.answer_commit()
    by_hand.answer_commit()
    assert not by_hand.events


def test_the_loop_wakes_for_the_first_deadline_of_several_commits(by_hand: Scenario) -> None:
    commit_async(by_hand, {O0: OffsetAndMetadata(5)})
    deadline_ms = by_hand.now_ms + by_hand.config.default_api_timeout_ms
    by_hand.advance(1_000)
    commit_async(by_hand, {O0: OffsetAndMetadata(6)})
    assert by_hand.managers.offset_commit.poll(by_hand.now_ms).wake_at_ms == deadline_ms


def test_a_commit_says_what_it_waits_for(by_hand: Scenario) -> None:
    first, second = commit(by_hand, {O0: OffsetAndMetadata(5)}), commit(by_hand, {O0: OffsetAndMetadata(6)})
    assert first.waiting_for == "the coordinator of group billing"
    by_hand.serve()
    assert "to OffsetCommit; it may have been carried out" in first.waiting_for
    assert second.waiting_for == "a commit that was made before it"
    by_hand.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert first.waiting_for.startswith("a retry of OffsetCommit (last error: ")
    by_hand.advance(1_000)
    by_hand.serve()
    by_hand.answer_commit()
    by_hand.answer_commit()
    assert first.done
    assert second.done


def test_what_was_committed_is_known_of_partitions_that_are_still_assigned(by_hand: Scenario) -> None:
    commit(by_hand, {O0: OffsetAndMetadata(5), TopicPartition("elsewhere", 0): OffsetAndMetadata(9)})
    by_hand.serve()
    assert by_hand.partition(O0).committed_offset != 5
    by_hand.answer_commit()
    assert by_hand.partition(O0).committed_offset == 5


def test_three_offsets_are_named_and_the_others_counted(by_hand: Scenario, caplog: pytest.LogCaptureFixture) -> None:
    for count in (3, 4):
        by_hand.post(CommitAsync({TopicPartition("orders", n): OffsetAndMetadata(n) for n in range(count)}, None))
        by_hand.serve()
        by_hand.fail(OffsetCommitRequest)
        by_hand.serve()
    assert "orders-0@0, orders-1@1, orders-2@2 failed" in caplog.text
    assert "orders-0@0, orders-1@1, orders-2@2 and 1 more failed" in caplog.text


def test_a_commit_that_nobody_waits_for_any_more_is_no_reason_to_wait(by_hand: Scenario) -> None:
    commits = by_hand.managers.offset_commit
    reply = commit(by_hand, {O0: OffsetAndMetadata(5)})
    were_idle = [commits.idle]
    reply.abandon()
    were_idle.append(commits.idle)
    assert were_idle == [False, True]
    by_hand.serve()
