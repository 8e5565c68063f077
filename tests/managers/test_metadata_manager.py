"""Metadata: kept fresh for what is of interest, asked for again with a growing pause, looked up for users."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from kwire.clock import NEVER_MS
from kwire.errors import BrokerError, InvalidTopicError, KafkaError, TopicAuthorizationError
from kwire.events import FoundTopics, LookUpTopics, Reply, Subscribe
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
BEYOND = TopicPartition("orders", 7)
MakeScenario = Callable[..., "Scenario"]


def names(scenario: Scenario) -> list[str | None] | None:
    topics = scenario.request(MetadataRequest).topics
    return None if topics is None else [topic.name for topic in topics]


def answered_in(scenario: Scenario, duration_ms: int, answer: Callable[[], object]) -> int:
    """How many requests there are in that time when each is answered at once."""
    count = 0
    for _ in range(duration_ms // 10):
        scenario.advance(10)
        while scenario.pending(MetadataRequest):
            scenario.answer(MetadataRequest, answer())
            count += 1
            assert count < duration_ms, "a spin"
    return count


# --- what is of interest ----------------------------------------------------------------------------------------


def test_nothing_is_asked_while_nothing_is_of_interest(scenario: Scenario) -> None:
    scenario.advance(1_000_000)
    assert not scenario.unanswered


def test_a_subscription_is_asked_for_at_once(scenario: Scenario) -> None:
    scenario.subscribe("orders", "clicks")
    assert names(scenario) == ["clicks", "orders"]


def test_a_pattern_asks_for_all_topics(scenario: Scenario) -> None:
    scenario.post(Subscribe(pattern=re.compile("x"), reply=Reply()))
    assert names(scenario) is None


def test_a_topic_that_joins_the_subscription_while_an_answer_is_due_is_asked_for_behind_it(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    scenario.subscribe("orders", "clicks")
    assert len(scenario.pending(MetadataRequest)) == 1
    scenario.serve_once()
    assert names(scenario) == ["clicks", "orders"]


def test_a_topic_that_leaves_needs_no_request(scenario: Scenario) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.subscribe("orders", "clicks")
    scenario.serve()
    scenario.subscribe("orders")
    scenario.advance(10_000)
    assert not scenario.pending(MetadataRequest)


@pytest.mark.parametrize(("leaderless", "at_least", "at_most"), [("clicks", 0, 0), ("orders", 5, 8)])
def test_a_pattern_looks_after_the_leaders_of_the_topics_that_it_matches(
    scenario: Scenario, leaderless: str, at_least: int, at_most: int
) -> None:
    """The metadata of the whole cluster was asked for every second while any topic of it had no leader."""
    scenario.topics = {"orders": (1,), "clicks": (1,), leaderless: (-1,)}
    scenario.post(Subscribe(pattern=re.compile("ord"), reply=Reply()))
    scenario.serve_once()
    assert at_least <= answered_in(scenario, 5_000, scenario.metadata) <= at_most


def test_creating_topics_can_be_forbidden(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(allow_auto_create_topics=False)
    scenario.subscribe("orders")
    assert not scenario.request(MetadataRequest).allow_auto_topic_creation
    assert scenario.unsent(MetadataRequest).min_version == 4  # KIP-204: before, the broker creates what it is asked for


def test_creating_topics_is_left_to_the_broker_by_default(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    assert scenario.request(MetadataRequest).allow_auto_topic_creation
    assert scenario.unsent(MetadataRequest).min_version is None


# --- when -------------------------------------------------------------------------------------------------------


def test_it_is_refreshed_when_it_is_old(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(metadata_max_age_ms=5_000)
    scenario.subscribe("orders")
    scenario.serve()
    scenario.advance(4_999)
    assert not scenario.pending(MetadataRequest)
    scenario.advance(1)
    assert scenario.pending(MetadataRequest)


def test_an_age_of_zero_is_no_spin(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(metadata_max_age_ms=0)
    scenario.subscribe("orders")
    assert answered_in(scenario, 1_000, scenario.metadata) <= 11


def test_one_request_is_in_flight_at_a_time(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    for _ in range(5):
        scenario.managers.metadata.request_update()
        scenario.turn()
    assert len(scenario.pending(MetadataRequest)) == 1


def test_a_failed_request_is_repeated_with_a_growing_pause(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    for pause_ms in (100, 200, 400, 800, 1_000, 1_000):
        scenario.fail(MetadataRequest)
        scenario.advance(pause_ms - 1)
        assert not scenario.pending(MetadataRequest)
        scenario.advance(1)
        assert scenario.pending(MetadataRequest)


def test_a_failure_is_no_news_once_brokers_answer(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    scenario.fail(MetadataRequest)
    assert "last error" in str(scenario.managers.metadata.last_error)
    scenario.advance(100)
    scenario.answer(MetadataRequest, scenario.metadata())
    assert not str(scenario.managers.metadata.last_error)


def test_an_unknown_topic_is_asked_for_again_with_a_growing_pause(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    scenario.subscribe("ghost")
    assert 5 <= answered_in(scenario, 5_000, scenario.metadata) <= 8
    assert caplog.text.count("'ghost' does not exist") == 1
    assert not scenario.errors
    scenario.topics["ghost"] = (1,)
    scenario.advance(1_000)
    scenario.serve()
    assert "ghost" in scenario.managers.metadata.cluster.topics
    assert answered_in(scenario, 10_000, scenario.metadata) == 0


@pytest.mark.parametrize("leader", [-1, 99], ids=["no leader", "a leader that is no known broker"])
def test_a_partition_without_a_reachable_leader_is_asked_for_again_with_a_growing_pause(
    scenario: Scenario, leader: int
) -> None:
    """A leader that the answer did not list as a broker counted as known: the fetching asked for metadata at once, and
    again, as fast as the broker answered."""
    scenario.topics["orders"] = (leader, 2)
    scenario.subscribe("orders")
    assert 5 <= answered_in(scenario, 5_000, scenario.metadata) <= 8


def test_a_partition_that_does_not_exist_is_asked_for_with_a_growing_pause(scenario: Scenario) -> None:
    scenario.assign(BEYOND)
    scenario.seek(BEYOND, 0)
    scenario.serve_once()
    assert 5 <= answered_in(scenario, 5_000, scenario.metadata) <= 8


def test_after_quiet_times_a_demand_is_met_at_once(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    scenario.serve()
    scenario.advance(5_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    assert scenario.pending(MetadataRequest)


# --- what is told -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
    ],
)
def test_a_refused_topic_is_raised_by_poll(scenario: Scenario, code: ErrorCode, error: type[KafkaError]) -> None:
    scenario.subscribe("orders", "secret")
    scenario.answer(MetadataRequest, scenario.metadata(errors={"secret": code}))
    assert "secret" in str(scenario.take_error(error))
    assert "orders" in scenario.managers.metadata.cluster.topics


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
@pytest.mark.parametrize("wanted", ["topics", "a pattern", "partitions", "nothing"])
def test_an_answer_tells_nothing_of_a_subscription_that_is_over(
    scenario: Scenario, code: ErrorCode, wanted: str
) -> None:
    """It was raised as an error of the new one. The program had caught the first error, and died of the second."""
    scenario.topics["clicks"] = (1,)
    scenario.subscribe("secret")
    late = scenario.metadata(errors={"secret": code})
    if wanted == "topics":
        scenario.subscribe("clicks")
    elif wanted == "a pattern":
        scenario.post(Subscribe(pattern=re.compile("^c"), reply=Reply()))
    else:
        scenario.unsubscribe()
        if wanted == "partitions":
            scenario.assign(TopicPartition("clicks", 0))
    scenario.answer(MetadataRequest, late)
    assert not scenario.errors
    assert not scenario.managers.metadata.refused


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_topic_that_stays_in_the_subscription_is_told_of(scenario: Scenario, code: ErrorCode) -> None:
    scenario.subscribe("orders", "secret")
    late = scenario.metadata(errors={"secret": code})
    scenario.subscribe("secret")
    scenario.answer(MetadataRequest, late)
    assert "secret" in str(scenario.take_error(KafkaError))


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_what_is_wrong_with_a_topic_is_told_again_when_it_is_subscribed_again(
    scenario: Scenario, code: ErrorCode
) -> None:
    """A leader covers the topics that it joined with until it has joined again, so the answer for the subscription in
    between covered this one, too: nobody was told, and nobody asked again before `metadata_max_age_ms`."""
    metadata, secret = scenario.managers.metadata, frozenset({"secret"})
    scenario.topics["clicks"] = (1,)
    scenario.subscribe("secret")
    metadata.watch(secret, own=secret)
    scenario.answer(MetadataRequest, scenario.metadata(errors={"secret": code}))
    scenario.take_error(KafkaError)
    scenario.subscribe("clicks")
    scenario.answer(MetadataRequest, scenario.metadata(errors={"secret": code}))
    assert not scenario.errors
    assert not scenario.pending(MetadataRequest)
    scenario.subscribe("secret")
    scenario.answer(MetadataRequest, scenario.metadata(errors={"secret": code}))
    assert "secret" in str(scenario.take_error(KafkaError))
    assert not scenario.pending(MetadataRequest)


def test_a_forbidden_topic_is_asked_about_until_it_is_permitted(scenario: Scenario) -> None:
    """Nobody says that it is: a member used to sit there with nothing until its metadata was five minutes old."""
    scenario.subscribe("orders")
    for pause_ms in (100, 200, 400):
        scenario.answer(MetadataRequest, scenario.metadata(errors={"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}))
        scenario.take_error(TopicAuthorizationError)
        scenario.advance(pause_ms - 1)
        assert not scenario.pending(MetadataRequest)
        scenario.advance(1)
    scenario.serve_once()
    assert "orders" in scenario.managers.metadata.cluster.topics


def test_an_error_of_the_whole_answer_keeps_what_was_known(scenario: Scenario) -> None:
    scenario.subscribe("orders")
    scenario.serve()
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    scenario.answer(MetadataRequest, MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    assert "orders" in scenario.managers.metadata.cluster.topics
    assert "refreshing metadata" in str(scenario.take_error(BrokerError))
    scenario.advance(1_000)
    assert scenario.pending(MetadataRequest)


def test_a_broker_that_has_just_started_is_not_believed(scenario: Scenario) -> None:
    """It knows of no broker, not even itself, and of no topic. Its answer used to make every topic vanish."""
    scenario.subscribe("orders")
    scenario.serve()
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    before = scenario.managers.metadata.cluster
    gone = scenario.metadata(errors={"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}).topics
    scenario.answer(MetadataRequest, MetadataResponse(brokers=[], topics=gone))
    assert scenario.managers.metadata.cluster is before
    scenario.advance(1_000)
    assert scenario.pending(MetadataRequest)
    assert not scenario.errors


def test_a_topic_that_a_lagging_broker_names_by_a_former_id_is_asked_for_again(scenario: Scenario) -> None:
    def refreshed(topic_id: int, error: ErrorCode = ErrorCode.NONE) -> None:
        answer = scenario.metadata(errors={"orders": error} if error else {})
        answer.topics[0].topic_id = UUID(int=topic_id)
        scenario.answer(MetadataRequest, answer)
        scenario.advance(1_000)

    scenario.subscribe("orders")
    for topic_id in (1, 2):
        refreshed(topic_id)
        scenario.managers.metadata.request_update()
        scenario.turn()
    refreshed(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refreshed(1)
    refreshed(2)
    assert scenario.managers.metadata.cluster.topic_id("orders") == UUID(int=2)
    assert not scenario.pending(MetadataRequest)


@pytest.mark.parametrize(("version", "epoch"), [(8, -1), (9, 5)])
def test_leader_epochs_of_kafka_before_2_4_are_not_believed(scenario: Scenario, version: int, epoch: int) -> None:
    """They may be over for long (KAFKA-9212): leaders refused to be asked with them, without end."""
    scenario.subscribe("orders")
    scenario.written_for(MetadataRequest, version)
    scenario.serve_once()
    cluster = scenario.managers.metadata.cluster
    assert (cluster.leader_id(O0), cluster.leader_epoch(O0)) == (1, epoch)


# --- look-ups ---------------------------------------------------------------------------------------------------


def look_up(scenario: Scenario, *topics: str) -> Reply[FoundTopics]:
    reply: Reply[FoundTopics] = Reply()
    scenario.post(LookUpTopics(frozenset(topics) if topics else None, reply))
    return reply


def test_a_look_up_does_not_change_what_is_of_interest(scenario: Scenario) -> None:
    reply = look_up(scenario, "orders")
    assert names(scenario) == ["orders"]
    scenario.serve_once()
    assert [info.partition for info in reply.result()["orders"]] == [0, 1]
    assert scenario.managers.metadata.cluster.version == 0
    scenario.advance(1_000_000)
    assert not scenario.unanswered


def test_all_topics_can_be_looked_up(scenario: Scenario) -> None:
    scenario.topics["clicks"] = (1,)
    reply = look_up(scenario)
    assert names(scenario) is None
    scenario.serve_once()
    assert set(reply.result()) == {"clicks", "orders"}


def test_an_unknown_topic_is_absent(scenario: Scenario) -> None:
    reply = look_up(scenario, "ghost")
    scenario.serve_once()
    assert reply.result() == {}


def test_a_topic_just_created_is_waited_for_with_a_growing_pause(scenario: Scenario) -> None:
    reply = look_up(scenario, "orders")
    for pause_ms in (100, 200, 400):
        scenario.answer(MetadataRequest, scenario.metadata(errors={"orders": ErrorCode.LEADER_NOT_AVAILABLE}))
        scenario.advance(pause_ms - 1)
        assert not scenario.pending(MetadataRequest)
        scenario.advance(1)
    scenario.serve_once()
    assert "orders" in reply.result()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
    ],
)
def test_a_refused_topic_is_the_answer_of_the_look_up(
    scenario: Scenario, code: ErrorCode, error: type[KafkaError]
) -> None:
    reply = look_up(scenario, "secret")
    scenario.answer(MetadataRequest, scenario.metadata(errors={"secret": code}))
    with pytest.raises(error):
        reply.result()
    assert not scenario.errors


def test_an_error_of_the_whole_answer_is_no_empty_cluster(scenario: Scenario) -> None:
    reply = look_up(scenario)
    scenario.answer(MetadataRequest, MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    with pytest.raises(BrokerError, match="looking up topics"):
        reply.result()


def test_a_look_up_without_an_answer_is_repeated_until_it_is_given_up(scenario: Scenario) -> None:
    reply = look_up(scenario, "orders")
    scenario.fail(MetadataRequest)
    assert "the broker hung up" in reply.waiting_for
    scenario.advance(100)
    scenario.fail(MetadataRequest)
    reply.abandon()
    scenario.advance(10_000)
    assert not scenario.pending(MetadataRequest)


def test_a_look_up_that_cannot_be_answered_fails(scenario: Scenario) -> None:
    reply = look_up(scenario, "orders")
    scenario.fail(MetadataRequest, KafkaError("no version in common"))
    with pytest.raises(KafkaError, match="no version"):
        reply.result()


# --- who needs to know ----------------------------------------------------------------------------------------


def test_the_next_refresh_is_known_but_while_an_answer_is_awaited(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(metadata_max_age_ms=10_000)
    scenario.subscribe("orders")
    assert scenario.managers.metadata.next_refresh_ms == NEVER_MS
    scenario.serve_once()
    assert scenario.managers.metadata.next_refresh_ms == scenario.now_ms + 10_000
    scenario.advance(5_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    scenario.fail(MetadataRequest)
    assert scenario.managers.metadata.next_refresh_ms == scenario.now_ms + 200


def test_topics_that_do_not_exist_are_known_since_the_first_answer_that_lacked_them(scenario: Scenario) -> None:
    scenario.subscribe("ghost")
    scenario.serve_once()
    since_ms = scenario.now_ms
    scenario.advance(5_000)
    scenario.serve_once()
    assert scenario.managers.metadata.unknown == {"ghost": since_ms}
    scenario.topics["ghost"] = (1,)
    scenario.advance(5_000)
    scenario.serve()
    assert scenario.managers.metadata.unknown == {}


def test_that_a_topic_does_not_exist_and_that_it_does_now_are_logged_once(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kwire")
    scenario.subscribe("ghost")
    for _ in range(3):
        scenario.serve_once()
        scenario.advance(1_000)
    scenario.topics["ghost"] = (1,)
    scenario.serve_once()
    scenario.advance(1_000)
    scenario.serve()
    assert [message for message in caplog.messages if "ghost" in message] == [
        "topic 'ghost' does not exist (yet); waiting for it",
        "topic 'ghost' exists now",
    ]


def test_what_somebody_waits_for_is_covered_until_nobody_does(scenario: Scenario) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.subscribe("orders")
    scenario.serve_once()
    scenario.managers.metadata.set_transient(frozenset({"clicks"}))
    assert scenario.managers.metadata.of_interest() == frozenset({"clicks", "orders"})
    scenario.managers.metadata.set_transient(frozenset())
    assert scenario.managers.metadata.of_interest() == frozenset({"orders"})


def test_a_look_up_that_is_answered_says_what_it_waited_for(scenario: Scenario) -> None:
    reply = look_up(scenario, "orders")
    assert reply.waiting_for == "the answer of a broker to Metadata"
    scenario.fail(MetadataRequest)
    assert reply.waiting_for == "a broker to answer Metadata (last error: the broker hung up)"
    scenario.advance(100)
    scenario.serve_once()
    assert reply.done
