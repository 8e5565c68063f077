"""Fetching many partitions: those with something to say are not asked about together with all the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.errors import DisconnectError
from kwire.events import Reply, Seek, SetHold
from kwire.fetching.idle_partitions import IDLE_AFTER_MS, MANY_PARTITIONS
from kwire.holds import Hold
from kwire.managers.unsent import Channel
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

COUNT = MANY_PARTITIONS + 1
ALL = [TopicPartition("orders", number) for number in range(COUNT)]
TWO_RECORDS = batch(0, 1)
SESSION_ID = 77
MakeScenario = Callable[..., "Scenario"]


@pytest.fixture
def many(scenario: Scenario) -> Scenario:
    """So many partitions of one broker that they are asked about among the quiet ones; no answer yet."""
    return begin(scenario)


def begin(scenario: Scenario) -> Scenario:
    scenario.topics["orders"] = (1,) * COUNT
    scenario.start_fetching(*ALL)
    return scenario


def data(
    number: int, records: bytes | None = None, *, end: int = 0, error: ErrorCode = ErrorCode.NONE
) -> PartitionData:
    return PartitionData(
        partition_index=number, records=records, high_watermark=end, last_stable_offset=end, error_code=error
    )


def asked(scenario: Scenario, channel: Channel) -> tuple[dict[int, int], list[int]]:
    """What the open fetch of this connection has anew, by offset, and what it forgets."""
    request = open_fetch(scenario, channel)
    wanted = {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}
    return wanted, [number for topic in request.forgotten_topics_data for number in topic.partitions]


def open_fetch(scenario: Scenario, channel: Channel) -> FetchRequest:
    (unsent,) = [each for each in scenario.pending(FetchRequest) if each.destination.channel is channel]
    assert isinstance(unsent.request, FetchRequest)
    return unsent.request


def open_channels(scenario: Scenario) -> set[Channel]:
    return {each.destination.channel for each in scenario.pending(FetchRequest)}


def answer(scenario: Scenario, channel: Channel, *partitions: PartitionData) -> None:
    (unsent,) = [each for each in scenario.pending(FetchRequest) if each.destination.channel is channel]
    scenario.unanswered.remove(unsent)
    topics = [FetchableTopicResponse(topic="orders", partitions=list(partitions))] if partitions else []
    unsent.on_answer(FetchResponse(session_id=SESSION_ID, responses=topics), scenario.now_ms)
    scenario.turn()


def first_answer(scenario: Scenario, *lively: PartitionData) -> None:
    """A full answer: it speaks of every partition."""
    speaking = {each.partition_index: each for each in lively}
    answer(scenario, Channel.IDLE_FETCH, *(speaking.get(number) or data(number) for number in range(COUNT)))


def buffered(scenario: Scenario) -> list[tuple[int, int]]:
    found = []
    while (fetch := scenario.buffer.front()) is not None:
        found.append((fetch.topic_partition.partition, fetch.fetch_offset))
        scenario.buffer.release(fetch)
    return found


def test_a_few_partitions_are_asked_about_together(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1,) * MANY_PARTITIONS
    scenario.start_fetching(*ALL[:MANY_PARTITIONS])
    answer(scenario, Channel.FETCH, *(data(number) for number in range(MANY_PARTITIONS)))
    assert open_channels(scenario) == {Channel.FETCH}


def test_many_begin_among_the_quiet_ones_and_those_that_say_something_are_fetched_by_themselves(
    many: Scenario,
) -> None:
    wanted, _ = asked(many, Channel.IDLE_FETCH)
    assert len(wanted) == COUNT
    first_answer(many, data(3, TWO_RECORDS, end=2), data(5, TWO_RECORDS, end=2))
    assert asked(many, Channel.FETCH) == ({3: 2, 5: 2}, [])
    assert asked(many, Channel.IDLE_FETCH) == ({}, [3, 5])
    assert buffered(many) == [(3, 0), (5, 0)]


def test_one_that_there_was_no_room_for_has_something_to_say(many: Scenario) -> None:
    first_answer(many, data(3, TWO_RECORDS, end=2), data(4, end=9))
    assert asked(many, Channel.FETCH) == ({3: 2, 4: 0}, [])


def test_records_that_nobody_may_see_yet_are_nothing_to_say(make_scenario: MakeScenario) -> None:
    scenario = begin(make_scenario(isolation_level="read_committed"))
    uncommitted = data(4, end=9)
    uncommitted.last_stable_offset = 0
    first_answer(scenario, uncommitted)
    assert open_channels(scenario) == {Channel.IDLE_FETCH}


def test_who_says_nothing_for_a_while_goes_back_to_the_quiet_ones(many: Scenario) -> None:
    first_answer(many, data(3, TWO_RECORDS, end=2), data(5, TWO_RECORDS, end=2))
    many.advance(IDLE_AFTER_MS - 1.0)
    answer(many, Channel.FETCH, data(5, batch(2, 3), end=4))
    many.advance(1.0)
    answer(many, Channel.FETCH)
    answer(many, Channel.IDLE_FETCH)
    assert asked(many, Channel.FETCH) == ({}, [3])
    assert asked(many, Channel.IDLE_FETCH) == ({3: 2}, [])


def test_a_quiet_one_that_begins_to_speak_is_fetched_with_the_others_from_then_on(many: Scenario) -> None:
    first_answer(many, data(3, TWO_RECORDS, end=2))
    answer(many, Channel.IDLE_FETCH, data(7, TWO_RECORDS, end=2))
    answer(many, Channel.FETCH, data(3, batch(2, 3), end=4))
    assert asked(many, Channel.FETCH) == ({3: 4, 7: 2}, [])
    assert asked(many, Channel.IDLE_FETCH) == ({}, [7])


def test_what_is_sought_to_or_resumed_does_not_wait_behind_the_long_poll_of_the_quiet_ones(many: Scenario) -> None:
    first_answer(many)
    assert open_channels(many) == {Channel.IDLE_FETCH}
    paused = frozenset({ALL[8]})
    many.post(SetHold(paused, Hold.USER_PAUSED, True, Reply()))
    many.post(SetHold(paused, Hold.USER_PAUSED, False, Reply()), Seek(ALL[9], OffsetAndMetadata(1), Reply()))
    assert asked(many, Channel.FETCH) == ({8: 0, 9: 1}, [])


def test_an_answer_of_the_connection_a_partition_has_left_counts_once(many: Scenario) -> None:
    """It moves: both brokers' sessions have it for as long as a request is open."""
    first_answer(many, data(3, TWO_RECORDS, end=2))
    many.advance(IDLE_AFTER_MS)
    answer(many, Channel.IDLE_FETCH)
    assert asked(many, Channel.IDLE_FETCH) == ({3: 2}, [])
    answer(many, Channel.IDLE_FETCH, data(3, batch(2, 3), end=4))
    answer(many, Channel.FETCH, data(3, batch(2, 3), end=4))
    assert buffered(many) == [(3, 0), (3, 2)]


def test_trouble_with_the_quiet_ones_leaves_the_others_at_work(many: Scenario) -> None:
    first_answer(many, data(3, TWO_RECORDS, end=2))
    (unsent,) = [each for each in many.pending(FetchRequest) if each.destination.channel is Channel.IDLE_FETCH]
    many.unanswered.remove(unsent)
    unsent.on_failure(DisconnectError("the broker hung up"), many.now_ms)
    answer(many, Channel.FETCH, data(3, batch(2, 3), end=4))
    assert asked(many, Channel.FETCH) == ({3: 4}, [])
    assert open_channels(many) == {Channel.FETCH}


def test_both_sessions_are_closed_at_the_end(many: Scenario) -> None:
    first_answer(many, data(3, TWO_RECORDS, end=2))
    answer(many, Channel.FETCH)
    farewells = many.managers.main.fetch.poll_on_close()
    requests = [each.request for each in farewells if isinstance(each.request, FetchRequest)]
    assert [request.session_epoch for request in requests] == [-1, -1]
    assert {each.destination.channel for each in farewells} == {Channel.CONTROL}
