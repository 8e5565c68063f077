"""Fetching partitions that were sought or resumed: they do not wait until a fetch of others has waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.events import Reply, SetHold
from kwire.holds import Hold
from kwire.managers.fetch_connection import MIN_WAIT_MS
from kwire.managers.fetch_connections import LATE_MS
from kwire.managers.unsent import Channel
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

O0, O1, O2 = (TopicPartition("orders", number) for number in range(3))
END = 10
MAX_WAIT_MS = 500
MakeScenario = Callable[..., "Scenario"]


@pytest.fixture
def waiting(scenario: Scenario) -> Scenario:
    """`orders-0` and `orders-1` are read to their ends, and one fetch waits for more."""
    scenario.topics["orders"] = (1, 1, 1)
    scenario.start_fetching(O0, O1, offset=END)
    answer(scenario, Channel.FETCH, data(0), data(1))
    return scenario


def data(number: int, records: bytes | None = None, *, error: ErrorCode = ErrorCode.NONE) -> PartitionData:
    return PartitionData(partition_index=number, records=records, high_watermark=END, error_code=error)


def answer(scenario: Scenario, channel: Channel, *partitions: PartitionData) -> None:
    (unsent,) = [each for each in scenario.pending(FetchRequest) if each.destination.channel is channel]
    scenario.unanswered.remove(unsent)
    topics = [FetchableTopicResponse(topic="orders", partitions=list(partitions))] if partitions else []
    unsent.on_answer(FetchResponse(session_id=77, responses=topics), scenario.now_ms)
    scenario.turn()


def asked(scenario: Scenario) -> dict[Channel, dict[int, int]]:
    """What each open fetch names, by offset."""
    found: dict[Channel, dict[int, int]] = {}
    for unsent in scenario.pending(FetchRequest):
        assert isinstance(unsent.request, FetchRequest)
        partitions = [partition for topic in unsent.request.topics for partition in topic.partitions]
        found[unsent.destination.channel] = {p.partition: p.fetch_offset for p in partitions}
    return found


def waits_ms(scenario: Scenario, channel: Channel = Channel.FETCH) -> int:
    """How long the broker may wait for records."""
    (unsent,) = [each for each in scenario.pending(FetchRequest) if each.destination.channel is channel]
    assert isinstance(unsent.request, FetchRequest)
    return unsent.request.max_wait_ms


# --- another connection -----------------------------------------------------------------------------------------


def test_what_is_sought_while_a_fetch_waits_is_fetched_over_another_connection(waiting: Scenario) -> None:
    waiting.seek(O0, 3)
    waiting.turn()
    assert asked(waiting) == {Channel.FETCH: {}, Channel.NEW_FETCH: {0: 3}}
    answer(waiting, Channel.NEW_FETCH, data(0, batch(3)))
    assert waiting.buffer.front() is not None
    waiting.come_back()
    assert asked(waiting) == {Channel.FETCH: {}, Channel.NEW_FETCH: {0: 4}}


def test_it_joins_the_others_when_they_are_answered(waiting: Scenario) -> None:
    waiting.seek(O0, 3)
    waiting.turn()
    answer(waiting, Channel.FETCH)
    # Until now the session has it at its old position.
    assert asked(waiting) == {Channel.FETCH: {0: 3}, Channel.NEW_FETCH: {0: 3}}
    answer(waiting, Channel.NEW_FETCH, data(0, batch(3)))
    waiting.come_back()
    assert asked(waiting) == {Channel.FETCH: {0: 3}}
    answer(waiting, Channel.FETCH, data(0, batch(3)))
    assert asked(waiting) == {Channel.FETCH: {0: 4}}
    fetch = waiting.buffer.front()
    assert fetch is not None
    waiting.buffer.release(fetch)
    assert waiting.buffer.front() is None  # what came twice is there once


def test_what_is_assigned_while_a_fetch_waits_needs_no_other_connection(waiting: Scenario) -> None:
    """After a rebalance of a large group brokers would have to do with one more of each member."""
    waiting.assign(O0, O1, O2)
    waiting.seek(O2, 0)
    waiting.turn()
    assert asked(waiting) == {Channel.FETCH: {}}
    answer(waiting, Channel.FETCH)
    assert asked(waiting) == {Channel.FETCH: {2: 0}}
    answer(waiting, Channel.FETCH, data(2))
    assert waits_ms(waiting) == MAX_WAIT_MS


def test_what_is_resumed_while_a_fetch_waits_is_fetched_at_once(waiting: Scenario) -> None:
    waiting.post(SetHold(frozenset((O1,)), Hold.USER_PAUSED, True, Reply()))
    answer(waiting, Channel.FETCH)
    waiting.post(SetHold(frozenset((O1,)), Hold.USER_PAUSED, False, Reply()))
    waiting.turn()
    assert asked(waiting) == {Channel.FETCH: {}, Channel.NEW_FETCH: {1: END}}


def test_what_goes_on_needs_no_other_connection(scenario: Scenario) -> None:
    """Records are on their way, and the next fetch is soon."""
    scenario.topics["orders"] = (1, 1, 1)
    scenario.start_fetching(O0, O1)
    scenario.seek(O0, 3)
    scenario.turn()
    assert set(asked(scenario)) == {Channel.FETCH}
    answer(scenario, Channel.FETCH, data(0, batch(0)), data(1, batch(0)))
    scenario.seek(O0, 2)
    scenario.turn()
    assert set(asked(scenario)) == {Channel.FETCH}


def test_where_both_wait_a_partition_waits_too(waiting: Scenario) -> None:
    waiting.seek(O0, END)
    waiting.turn()
    answer(waiting, Channel.NEW_FETCH, data(0))
    waiting.seek(O0, 3)
    waiting.turn()
    assert asked(waiting) == {Channel.FETCH: {}, Channel.NEW_FETCH: {}}
    answer(waiting, Channel.FETCH)
    assert asked(waiting) == {Channel.FETCH: {0: 3}, Channel.NEW_FETCH: {}}


def test_what_goes_before_the_others_are_answered_is_forgotten(waiting: Scenario) -> None:
    waiting.seek(O0, 3)
    waiting.turn()
    waiting.assign(O1)
    answer(waiting, Channel.NEW_FETCH, data(0, batch(3)))
    assert asked(waiting) == {Channel.FETCH: {}}
    assert waiting.buffer.front() is None


def test_what_was_refused_is_not_in_a_hurry(waiting: Scenario) -> None:
    waiting.seek(O0, 3)
    waiting.turn()
    answer(waiting, Channel.NEW_FETCH, data(0, error=ErrorCode.UNKNOWN_SERVER_ERROR))
    waiting.advance(100)
    assert set(asked(waiting)) == {Channel.FETCH}


# --- how long a broker may wait ---------------------------------------------------------------------------------


def test_a_broker_waits_longer_the_longer_nothing_was_sought(waiting: Scenario) -> None:
    """Who has just sought a position may soon seek another one, which then waits no longer than this one."""
    assert waits_ms(waiting) == MAX_WAIT_MS
    answer(waiting, Channel.FETCH)
    waiting.seek(O0, END)
    waiting.seek(O1, END)
    waiting.turn()
    waits = []
    for _ in range(8):
        waits.append(waits_ms(waiting, Channel.NEW_FETCH))
        waiting.advance(waits[-1])
        answer(waiting, Channel.NEW_FETCH)
    # At most until the fetch is due that these partitions were not to stand behind, and go on with.
    assert waits == [MIN_WAIT_MS, 10, 20, 40, 80, 160, MAX_WAIT_MS - 320, MIN_WAIT_MS]
    waiting.advance(LATE_MS)
    answer(waiting, Channel.NEW_FETCH)
    assert waits_ms(waiting, Channel.NEW_FETCH) == MAX_WAIT_MS  # that fetch has no answer


def test_the_connection_for_what_is_sought_is_free_again_when_the_partitions_have_gone_back(waiting: Scenario) -> None:
    """It waited on, up to half a second, for nobody; and so did the next seek."""
    answer(waiting, Channel.FETCH)
    waiting.seek(O0, 3)
    waiting.advance(MAX_WAIT_MS - 1)
    answer(waiting, Channel.NEW_FETCH, data(0))
    assert waits_ms(waiting, Channel.NEW_FETCH) == MIN_WAIT_MS


def test_the_first_fetch_hardly_waits(scenario: Scenario) -> None:
    """It tells where the logs end. And partitions that are sought one by one stood behind the fetch of the first one,
    half a second long if that was at its end."""
    scenario.topics["orders"] = (1, 1, 1)
    scenario.start_fetching(O0, offset=END)
    assert waits_ms(scenario) == MIN_WAIT_MS
    answer(scenario, Channel.FETCH, data(0))
    assert waits_ms(scenario) == MAX_WAIT_MS


@pytest.mark.parametrize(
    "partitions", [[], [PartitionData(partition_index=0, high_watermark=-1)]], ids=["silent", "-1"]
)
def test_a_broker_that_does_not_tell_where_a_log_ends_may_wait_the_next_time(
    scenario: Scenario, partitions: list[PartitionData]
) -> None:
    scenario.start_fetching(O0, offset=END)
    answer(scenario, Channel.FETCH, *partitions)
    assert waits_ms(scenario) == MAX_WAIT_MS


@pytest.mark.parametrize(
    ("settings", "expected_ms"),
    [({"fetch_max_wait_ms": 5}, 5), ({"fetch_min_bytes": 1000}, 500), ({"fetch_min_bytes": 0}, MIN_WAIT_MS)],
    ids=["a short wait stays", "who wants large answers waits for them", "no bytes are no wish for large answers"],
)
def test_the_wait_is_no_longer_than_the_user_says(
    make_scenario: MakeScenario, settings: dict[str, int], expected_ms: int
) -> None:
    scenario = make_scenario(**settings)
    scenario.start_fetching(O0, offset=END)
    answer(scenario, Channel.FETCH, data(0))
    scenario.seek(O0, 3)
    scenario.turn()
    assert waits_ms(scenario, Channel.NEW_FETCH) == expected_ms


# --- where a log ends -------------------------------------------------------------------------------------------


def test_where_a_log_ends_is_learned_from_the_answer_to_a_fetch_from_before_a_seek(scenario: Scenario) -> None:
    """A session tells it once: the next answers are silent about a partition that has nothing new, and its lag stayed
    unknown."""
    scenario.start_fetching(O0)
    scenario.seek(O0, 3)
    answer(scenario, Channel.FETCH, data(0, batch(0)))
    assert asked(scenario) == {Channel.FETCH: {0: 3}}
    assert scenario.partition(O0).high_watermark == END
    assert scenario.buffer.front() is None


def test_an_error_says_nothing_of_where_a_log_ends(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    scenario.seek(O0, 3)
    answer(scenario, Channel.FETCH, data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert scenario.partition(O0).high_watermark == -1


def test_a_former_leader_does_not_say_where_a_log_ends(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    scenario.seek(O0, 3)
    scenario.turn()
    scenario.managers.metadata.adopt_leaders({O0: LeaderIdAndEpoch(leader_id=2, leader_epoch=9)}, [])
    answer(scenario, Channel.FETCH, data(0, batch(0)))
    assert scenario.partition(O0).high_watermark == -1


def test_read_committed_waits_at_an_open_transaction(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(isolation_level="read_committed")
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1, offset=END - 4)
    at_its_end = [data(number) for number in range(2)]
    for each in at_its_end:
        each.last_stable_offset = END - 4
    answer(scenario, Channel.FETCH, *at_its_end)
    scenario.seek(O0, 3)
    scenario.turn()
    assert asked(scenario) == {Channel.FETCH: {}, Channel.NEW_FETCH: {0: 3}}
