"""ListOffsets: grouped by leader, retried in part, and never held up by one partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.errors import BrokerError, InvalidTopicError, KafkaError, TopicAuthorizationError
from kwire.events import GetLag, LookUpOffsets, Reply
from kwire.managers.unsent import Channel
from kwire.model import OffsetAndTimestamp, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario, error_of
else:
    from scenario import error_of

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
GHOST = TopicPartition("ghost", 0)
BEYOND = TopicPartition("orders", 7)
LATEST = -1
EARLIEST = -2
Found = dict[TopicPartition, OffsetAndTimestamp | None]


def ask(scenario: Scenario, *partitions: TopicPartition, timestamp: int = LATEST) -> Reply[Found]:
    reply: Reply[Found] = Reply()
    scenario.post(LookUpOffsets(dict.fromkeys(partitions, timestamp), reply))
    return reply


def asked(scenario: Scenario) -> list[tuple[int, list[int]]]:
    """Broker and partitions of each unanswered request."""
    return [
        (unsent.destination.node.id, [p.partition_index for topic in request.topics for p in topic.partitions])
        for unsent, request in zip(
            scenario.pending(ListOffsetsRequest), scenario.requests(ListOffsetsRequest), strict=True
        )
        if unsent.destination.node is not None
    ]


def test_each_leader_gets_one_request(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1, 2, 1, 2)
    reply = ask(scenario, *(TopicPartition("orders", n) for n in range(4)))
    scenario.serve()
    assert sorted((node, sorted(parts)) for node, parts in asked(scenario)) == [(1, [0, 2]), (2, [1, 3])]
    scenario.answer_offsets({TopicPartition("orders", n): n for n in (0, 2)})
    assert not reply.done
    scenario.answer_offsets({TopicPartition("orders", n): n for n in (1, 3)})
    found = reply.result()
    assert {tp.partition: offset.offset for tp, offset in found.items() if offset} == {0: 0, 1: 1, 2: 2, 3: 3}


def test_the_request_says_which_leader_it_means(scenario: Scenario) -> None:
    ask(scenario, O0, timestamp=1_234)
    scenario.serve()
    partition = scenario.request(ListOffsetsRequest).topics[0].partitions[0]
    assert (partition.timestamp, partition.current_leader_epoch) == (1_234, 5)
    assert scenario.unsent(ListOffsetsRequest).destination.channel is Channel.CONTROL


@pytest.mark.parametrize(("level", "version"), [("read_committed", 2), ("read_uncommitted", None)])
def test_read_committed_needs_a_version_that_knows_it(
    make_scenario: Callable[..., Scenario], level: str, version: int | None
) -> None:
    scenario = make_scenario(isolation_level=level)
    ask(scenario, O0)
    scenario.serve()
    assert scenario.unsent(ListOffsetsRequest).min_version == version
    assert scenario.request(ListOffsetsRequest).isolation_level == (1 if version else 0)


def test_a_time_after_the_last_record_has_no_offset(scenario: Scenario) -> None:
    reply = ask(scenario, O0, timestamp=9_999)
    scenario.serve()
    scenario.answer_offsets({O0: -1})
    assert reply.result() == {O0: None}


def test_a_log_without_timestamps_has_no_offset_for_a_time(scenario: Scenario) -> None:
    reply = ask(scenario, O0, timestamp=9_999)
    scenario.serve()
    scenario.answer_offsets({O0: -1}, {O0: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
    assert reply.result() == {O0: None}


def test_no_partitions_are_answered_without_a_request(scenario: Scenario) -> None:
    assert ask(scenario).result() == {}
    assert not scenario.unanswered


def test_a_partition_asked_for_twice_goes_into_two_requests(scenario: Scenario) -> None:
    """A broker refuses a request that names a partition twice."""
    replies = [ask(scenario, O0), ask(scenario, O0, timestamp=-2)]
    scenario.serve()
    assert asked(scenario) == [(1, [0]), (1, [0])]
    scenario.answer_offsets({O0: 50})
    scenario.answer_offsets({O0: 3})
    assert [found.offset for reply in replies if (found := reply.result()[O0])] == [50, 3]


# --- leaders ----------------------------------------------------------------------------------------------------


def test_a_partition_without_a_leader_holds_up_nobody_else(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1, -1)
    reply = ask(scenario, O0, O1)
    scenario.serve_once()
    assert asked(scenario) == [(1, [0])]
    assert reply.waiting_for
    scenario.answer_offsets({O0: 10})
    scenario.topics["orders"] = (1, 2)
    scenario.advance(1_000)
    scenario.serve()
    assert asked(scenario) == [(2, [1])]
    scenario.answer_offsets({O1: 20})
    assert {tp: offset.offset for tp, offset in reply.result().items() if offset} == {O0: 10, O1: 20}


def test_a_topic_is_asked_about_only_while_a_call_waits_for_it(scenario: Scenario) -> None:
    """It was for five minutes, with leave to create it: a topic that was deleted meanwhile came back."""
    scenario.topics["clicks"] = (1,)
    found, missing = ask(scenario, O0), ask(scenario, GHOST)
    scenario.serve_once()
    assert topics_asked_about(scenario) == ["ghost", "orders"]
    scenario.serve_once()
    scenario.answer_offsets({O0: 1})
    assert found.done
    scenario.advance(1_000)
    assert topics_asked_about(scenario) == ["ghost"]
    missing.abandon()
    scenario.serve_once()
    scenario.advance(1_000)
    assert not scenario.unanswered
    ask(scenario, TopicPartition("clicks", 0))
    assert topics_asked_about(scenario) == ["clicks"]
    scenario.serve_once()
    scenario.answer_offsets({TopicPartition("clicks", 0): 1})
    scenario.advance(1_000_000)
    assert not scenario.unanswered


def topics_asked_about(scenario: Scenario) -> list[str | None]:
    return [topic.name for topic in scenario.request(MetadataRequest).topics or ()]


@pytest.mark.parametrize(
    ("tp", "reason"), [(GHOST, "topic 'ghost', which does not exist"), (BEYOND, "orders-7, which does not exist")]
)
def test_what_does_not_exist_is_waited_for_without_hurry(scenario: Scenario, tp: TopicPartition, reason: str) -> None:
    """Metadata is asked for again and again, but at most once a second: a partition that is missing from an otherwise
    complete answer made a request of every turn."""
    reply = ask(scenario, tp)
    count = 0
    for _ in range(600):
        scenario.advance(100)
        while scenario.pending(MetadataRequest):
            scenario.answer(MetadataRequest, scenario.metadata())
            count += 1
            assert count < 100, "a spin"
    assert 55 <= count <= 70
    assert reason in reply.waiting_for
    reply.abandon()
    scenario.advance(5_000)
    scenario.unanswered.clear()
    scenario.advance(60_000)
    assert not scenario.pending(ListOffsetsRequest)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
    ],
)
def test_a_topic_that_metadata_refuses_fails_the_call_and_not_the_next_poll(
    scenario: Scenario, code: ErrorCode, error: type[KafkaError]
) -> None:
    for _ in range(2):
        reply = ask(scenario, GHOST)
        scenario.advance(1_000)
        scenario.answer(MetadataRequest, scenario.metadata(errors={"ghost": code}))
        assert isinstance(error_of(reply), error)
        assert not scenario.errors


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_topic_that_metadata_refuses_when_the_call_is_over_does_not_fail_the_next_poll(
    scenario: Scenario, code: ErrorCode
) -> None:
    reply = ask(scenario, GHOST)
    scenario.advance(1_000)
    assert scenario.pending(MetadataRequest)
    reply.abandon()
    scenario.advance(100)
    scenario.answer(MetadataRequest, scenario.metadata(errors={"ghost": code}))
    assert not scenario.errors


# --- errors -----------------------------------------------------------------------------------------------------

RETRIED = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE]


@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
def test_what_may_go_away_is_asked_again_with_fresh_metadata_and_the_rest_is_kept(
    scenario: Scenario, code: ErrorCode
) -> None:
    scenario.topics["orders"] = (1, 1)
    reply = ask(scenario, O0, O1)
    scenario.serve()
    scenario.answer_offsets({O0: 10, O1: -1}, {O1: code})
    scenario.topics["orders"] = (1, 2)
    scenario.advance(100)
    scenario.answer(MetadataRequest, scenario.metadata())
    assert asked(scenario)[-1][1] == [1]
    scenario.advance(1_000)
    scenario.unanswered = scenario.pending(ListOffsetsRequest)[-1:]
    scenario.answer_offsets({O1: 20})
    assert {tp: offset.offset for tp, offset in reply.result().items() if offset} == {O0: 10, O1: 20}


@pytest.mark.parametrize("code", [-1, 999, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_an_error_that_does_not_say_why_is_no_answer(scenario: Scenario, code: int) -> None:
    """One unknown error of a broker failed the call, where Java's consumer asks again. And no log lacks an end, however
    old it is: a partition that was reset to it waited for ever."""
    reply = ask(scenario, O0)
    scenario.serve()
    scenario.answer_offsets({O0: -1}, {O0: ErrorCode.of(code)})
    assert not reply.done
    scenario.advance(100)
    scenario.serve()
    scenario.answer_offsets({O0: 4})
    assert [found.offset for found in reply.result().values() if found] == [4]


def test_a_final_error_is_the_answer_of_the_call(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.serve()
    scenario.answer_offsets({O0: -1}, {O0: ErrorCode.INVALID_REQUEST})
    error = error_of(reply)
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.INVALID_REQUEST


def test_topics_without_permission_are_named(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.serve()
    scenario.answer_offsets({O0: -1}, {O0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    error = error_of(reply)
    assert isinstance(error, TopicAuthorizationError)
    assert error.topics == {"orders"}


def test_a_broker_that_leaves_a_partition_out_is_an_error_or_asked_again(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.serve()
    scenario.answer(ListOffsetsRequest, ListOffsetsResponse())
    scenario.advance(100)
    scenario.answer_offsets({O0: 1})
    assert reply.done


@pytest.mark.parametrize(("timestamp", "offset"), [(LATEST, -1), (EARLIEST, -1), (EARLIEST, -5), (9_999, -5)])
def test_an_offset_that_cannot_be_is_asked_for_again(scenario: Scenario, timestamp: int, offset: int) -> None:
    """A log has both ends, always. A partition that was reset to one of them waited for ever, or went to the other."""
    reply = ask(scenario, O0, timestamp=timestamp)
    scenario.serve()
    scenario.answer_offsets({O0: offset})
    assert not reply.done
    assert f"answered {offset} as the offset of orders-0" in reply.waiting_for
    scenario.advance(100)
    scenario.serve()
    scenario.answer_offsets({O0: 4})
    assert [found.offset for found in reply.result().values() if found] == [4]


def test_a_lost_connection_is_repeated(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.serve()
    scenario.fail(ListOffsetsRequest)
    assert "the broker hung up" in reply.waiting_for
    scenario.advance(100)
    scenario.serve()
    scenario.answer_offsets({O0: 4})
    assert reply.done


def test_a_lost_connection_makes_metadata_suspect(scenario: Scenario) -> None:
    ask(scenario, O0)
    scenario.serve()
    scenario.fail(ListOffsetsRequest)
    scenario.advance(1_000)
    assert scenario.pending(MetadataRequest)
    scenario.serve()
    scenario.answer_offsets({O0: 1})


def test_the_loop_wakes_for_the_first_of_several_repetitions(scenario: Scenario) -> None:
    ask(scenario, O0)
    ask(scenario, O1)
    scenario.serve()
    scenario.fail(ListOffsetsRequest)
    first_ms = scenario.now_ms + 100
    scenario.advance(50)
    scenario.fail(ListOffsetsRequest)
    assert scenario.managers.list_offsets.poll(scenario.now_ms).wake_at_ms == first_ms
    scenario.advance(1_000)
    scenario.serve()


def test_an_error_of_the_connection_that_stays_is_the_answer(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.serve()
    scenario.fail(ListOffsetsRequest, KafkaError("this broker offers no ListOffsets"))
    assert "offers no" in str(error_of(reply))


def test_a_call_that_was_given_up_asks_no_more(scenario: Scenario) -> None:
    reply = ask(scenario, O0)
    scenario.serve()
    reply.abandon()
    scenario.fail(ListOffsetsRequest)
    scenario.advance(10_000)
    assert not scenario.pending(ListOffsetsRequest)


# --- the lag that follows ---------------------------------------------------------------------------------------


def lag(scenario: Scenario, tp: TopicPartition) -> int | None:
    reply: Reply[int | None] = Reply()
    scenario.post(GetLag(tp, None, reply))
    return reply.result()


def test_the_lag_is_known_once_the_end_was_looked_up(scenario: Scenario) -> None:
    """It stayed unknown until a fetch was answered, in a paused partition for ever."""
    scenario.start_fetching(O0, offset=50)
    ask(scenario, O0)
    assert lag(scenario, O0) is None
    scenario.answer_offsets({O0: 90})
    assert lag(scenario, O0) == 40


def test_where_the_log_begins_says_nothing_of_the_lag(scenario: Scenario) -> None:
    scenario.start_fetching(O0, offset=50)
    ask(scenario, O0, timestamp=EARLIEST)
    scenario.answer_offsets({O0: 90})
    assert lag(scenario, O0) is None


def test_a_later_fetch_knows_the_end_better(scenario: Scenario) -> None:
    """The log may have been truncated since."""
    scenario.start_fetching(O0, offset=50)
    ask(scenario, O0)
    scenario.answer_offsets({O0: 90})
    data = PartitionData(partition_index=0, high_watermark=60)
    topic = FetchableTopicResponse(topic="orders", partitions=[data])
    scenario.answer(FetchRequest, FetchResponse(session_id=7, responses=[topic]))
    assert lag(scenario, O0) == 10


def test_an_end_that_is_looked_up_later_is_believed_as_well(scenario: Scenario) -> None:
    """While a partition is paused, no fetch tells of records that come."""
    test_a_later_fetch_knows_the_end_better(scenario)
    ask(scenario, O0)
    scenario.answer_offsets({O0: 70})
    assert lag(scenario, O0) == 20
