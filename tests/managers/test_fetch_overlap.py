"""Much to fetch from one broker: half of it is asked about in a second request, so that the broker is never idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.errors import DisconnectError
from kwire.fetching import overlap
from kwire.fetching.overlap import GIVEN_UP_MS
from kwire.managers.unsent import Channel
from kwire.model import TopicPartition
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from kwire.managers.unsent import AnyUnsentRequest
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

ALL = [TopicPartition("orders", number) for number in range(4)]
ONE_BATCH_BYTES = len(batch(0))
SESSION_IDS = {Channel.FETCH: 77, Channel.SECOND_FETCH: 78}


@pytest.fixture
def lag(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """Four partitions of one broker, and two batches are much."""
    monkeypatch.setattr(overlap, "MUCH_BYTES", 2 * ONE_BATCH_BYTES)
    monkeypatch.setattr(overlap, "LITTLE_BYTES", ONE_BATCH_BYTES)
    scenario.topics["orders"] = (1, 1, 1, 1)
    scenario.start_fetching(*ALL)
    return scenario


def open_fetch(scenario: Scenario, channel: Channel) -> AnyUnsentRequest:
    (unsent,) = [each for each in scenario.pending(FetchRequest) if each.destination.channel is channel]
    return unsent


def asked(scenario: Scenario, channel: Channel) -> tuple[dict[int, int], list[int]]:
    """What the open fetch of this connection has anew, by offset, and what it forgets."""
    request = open_fetch(scenario, channel).request
    assert isinstance(request, FetchRequest)
    wanted = {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}
    return wanted, [number for topic in request.forgotten_topics_data for number in topic.partitions]


def open_channels(scenario: Scenario) -> set[Channel]:
    return {each.destination.channel for each in scenario.pending(FetchRequest)}


def answer(scenario: Scenario, channel: Channel, **offsets: int) -> None:
    """Answer with a record of each of these partitions, at an offset."""
    unsent = open_fetch(scenario, channel)
    scenario.unanswered.remove(unsent)
    partitions = [
        PartitionData(partition_index=int(name[1:]), records=batch(offset), high_watermark=99, last_stable_offset=99)
        for name, offset in offsets.items()
    ]
    topics = [FetchableTopicResponse(topic="orders", partitions=partitions)] if partitions else []
    unsent.on_answer(FetchResponse(session_id=SESSION_IDS[channel], responses=topics), scenario.now_ms)
    scenario.turn()


def taken(scenario: Scenario) -> list[tuple[int, int]]:
    found = []
    while (fetch := scenario.buffer.take()) is not None:
        found.append((fetch.topic_partition.partition, fetch.fetch_offset))
        scenario.buffer.release(fetch)
    return found


def test_little_is_asked_for_in_one_request(lag: Scenario) -> None:
    answer(lag, Channel.FETCH, p2=0)
    assert asked(lag, Channel.FETCH) == ({2: 1}, [])
    assert open_channels(lag) == {Channel.FETCH}


def test_after_a_large_answer_every_other_partition_is_in_a_second_request(lag: Scenario) -> None:
    answer(lag, Channel.FETCH, p0=0, p1=0, p2=0, p3=0)
    assert asked(lag, Channel.FETCH) == ({0: 1, 2: 1}, [1, 3])
    assert asked(lag, Channel.SECOND_FETCH) == ({1: 1, 3: 1}, [])


def test_each_of_the_two_goes_on_by_itself(lag: Scenario) -> None:
    answer(lag, Channel.FETCH, p0=0, p1=0, p2=0, p3=0)
    assert taken(lag) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    answer(lag, Channel.SECOND_FETCH, p1=1, p3=1)
    answer(lag, Channel.SECOND_FETCH, p1=2, p3=2)
    answer(lag, Channel.FETCH, p0=1, p2=1)
    assert asked(lag, Channel.FETCH) == ({0: 2, 2: 2}, [])
    assert asked(lag, Channel.SECOND_FETCH) == ({1: 3, 3: 3}, [])
    assert taken(lag) == [(1, 1), (3, 1), (1, 2), (3, 2), (0, 1), (2, 1)]


def test_an_application_that_does_not_keep_up_is_served_by_one(lag: Scenario) -> None:
    answer(lag, Channel.FETCH, p0=0, p1=0, p2=0, p3=0)
    answer(lag, Channel.SECOND_FETCH, p1=1)
    answer(lag, Channel.FETCH, p0=1)
    assert asked(lag, Channel.FETCH) == ({0: 2, 1: 2, 3: 1}, [])
    answer(lag, Channel.SECOND_FETCH)
    answer(lag, Channel.FETCH, p0=2, p1=2)
    assert open_channels(lag) == {Channel.FETCH}


def test_when_the_lag_is_read_one_request_waits_for_all(lag: Scenario) -> None:
    """The partitions of the second go over when the first is free to take them: none is without a request meanwhile.
    What the second still brings counts, and the first's is not taken twice."""
    answer(lag, Channel.FETCH, p0=0, p1=0, p2=0, p3=0)
    answer(lag, Channel.SECOND_FETCH)
    assert open_channels(lag) == {Channel.FETCH, Channel.SECOND_FETCH}
    answer(lag, Channel.FETCH, p0=1)
    assert asked(lag, Channel.FETCH) == ({0: 2, 1: 1, 3: 1}, [])
    taken(lag)
    answer(lag, Channel.SECOND_FETCH, p1=1)
    answer(lag, Channel.FETCH, p1=1)
    assert taken(lag) == [(1, 1)]
    assert asked(lag, Channel.FETCH) == ({1: 2}, [])
    assert open_channels(lag) == {Channel.FETCH}


def test_a_second_lag_uses_the_session_that_is_there(lag: Scenario) -> None:
    answer(lag, Channel.FETCH, p0=0, p1=0, p2=0, p3=0)
    answer(lag, Channel.SECOND_FETCH)
    answer(lag, Channel.FETCH)
    answer(lag, Channel.SECOND_FETCH)
    taken(lag)
    answer(lag, Channel.FETCH, p2=1, p3=1)
    assert asked(lag, Channel.SECOND_FETCH) == ({3: 2}, [1])


def test_one_partition_has_no_half(lag: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MUCH_BYTES", 1)
    answer(lag, Channel.FETCH, p2=0)
    assert open_channels(lag) == {Channel.FETCH}


def test_several_brokers_need_no_second_request(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MUCH_BYTES", 1)
    scenario.topics["orders"] = (1, 1, 2, 2)
    scenario.start_fetching(*ALL)
    (of_the_first,) = [each for each in scenario.pending(FetchRequest) if getattr(each.destination.node, "id", 0) == 1]
    scenario.unanswered.remove(of_the_first)
    data = [PartitionData(partition_index=n, records=batch(0), high_watermark=9) for n in (0, 1)]
    topics = [FetchableTopicResponse(topic="orders", partitions=data)]
    of_the_first.on_answer(FetchResponse(session_id=77, responses=topics), scenario.now_ms)
    scenario.turn()
    assert open_channels(scenario) == {Channel.FETCH}


def test_a_broker_that_takes_no_second_connection_answers_all_on_the_first(lag: Scenario) -> None:
    answer(lag, Channel.FETCH, p0=0, p1=0, p2=0, p3=0)
    refused = open_fetch(lag, Channel.SECOND_FETCH)
    lag.unanswered.remove(refused)
    refused.on_failure(DisconnectError("too many connections"), lag.now_ms)
    lag.turn()
    answer(lag, Channel.FETCH, p0=1, p2=1)
    assert asked(lag, Channel.FETCH) == ({0: 2, 1: 1, 2: 2, 3: 1}, [])
    answer(lag, Channel.FETCH, p0=2, p1=1, p2=2, p3=1)
    assert open_channels(lag) == {Channel.FETCH}
    taken(lag)
    answer(lag, Channel.FETCH, p0=3, p1=2, p2=3, p3=2)
    assert open_channels(lag) == {Channel.FETCH}
    taken(lag)
    lag.now_ms += GIVEN_UP_MS
    answer(lag, Channel.FETCH, p0=4, p1=3, p2=4, p3=3)
    assert open_channels(lag) == {Channel.FETCH, Channel.SECOND_FETCH}
