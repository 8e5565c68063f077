"""What is fetched behind a seek: the records there, and nothing more until somebody wants it.

A program that looks up single records seeks again as soon as it has one. A fetch that was sent ahead stood in front of
its next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire import TopicPartition
from kwire.managers.fetch import READ_AHEAD_DELAY_MS
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
END = 1000


def data(number: int, records: bytes | None = None, error: ErrorCode = ErrorCode.NONE) -> PartitionData:
    return PartitionData(partition_index=number, records=records, high_watermark=END, error_code=error)


def answer(scenario: Scenario, *partitions: PartitionData) -> None:
    (unsent,) = scenario.pending(FetchRequest)
    scenario.unanswered.remove(unsent)
    topics = [FetchableTopicResponse(topic="orders", partitions=list(partitions))]
    unsent.on_answer(FetchResponse(session_id=77, responses=topics), scenario.now_ms)
    scenario.turn()


def asked(scenario: Scenario) -> dict[int, int]:
    """Where the open fetches begin that have something new, by partition."""
    requests = [unsent.request for unsent in scenario.pending(FetchRequest)]
    topics = [topic for request in requests if isinstance(request, FetchRequest) for topic in request.topics]
    return {partition.partition: partition.fetch_offset for topic in topics for partition in topic.partitions}


@pytest.fixture
def sought(scenario: Scenario) -> Scenario:
    """`orders-0` has been read at its start, and the user has sought to 100; the records there have come."""
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0)
    answer(scenario, data(0, batch(0)))
    answer(scenario, data(0, batch(1)))
    scenario.seek(O0, 100)
    answer(scenario, data(0, batch(2)))  # asked for before the seek
    assert asked(scenario) == {0: 100}
    answer(scenario, data(0, batch(100)))
    return scenario


def test_what_follows_is_not_fetched_until_the_application_comes_back(sought: Scenario) -> None:
    assert asked(sought) == {}
    sought.come_back()
    assert asked(sought) == {0: 101}
    answer(sought, data(0, batch(101)))
    assert asked(sought) == {0: 102}


def test_a_program_that_looks_up_one_record_after_the_other_has_no_fetch_in_its_way(sought: Scenario) -> None:
    for offset in (700, 5, 300):
        sought.seek(O0, offset)
        assert asked(sought) == {0: offset}
        answer(sought, data(0, batch(offset)))
        assert asked(sought) == {}


def test_what_follows_is_fetched_if_the_application_is_long_over_what_it_has(sought: Scenario) -> None:
    sought.advance(READ_AHEAD_DELAY_MS - 1)
    assert asked(sought) == {}
    sought.advance(1)
    assert asked(sought) == {0: 101}


def test_an_error_of_what_follows_has_its_back_off_though_the_application_comes_back(sought: Scenario) -> None:
    sought.advance(READ_AHEAD_DELAY_MS)
    answer(sought, data(0, error=ErrorCode.KAFKA_STORAGE_ERROR))
    sought.come_back()
    assert asked(sought) == {}


def test_a_back_off_behind_a_second_seek_stays_though_the_application_comes_back(sought: Scenario) -> None:
    """The delay behind the first seek ended with the poll, and took what blocked the partition now with it."""
    sought.seek(O0, 700)
    answer(sought, data(0, error=ErrorCode.KAFKA_STORAGE_ERROR))
    sought.come_back()
    assert asked(sought) == {}


def test_a_damaged_batch_behind_a_second_seek_is_not_fetched_twice(sought: Scenario) -> None:
    sought.seek(O0, 700)
    damaged = bytearray(batch(700))
    damaged[16] = 99  # its format
    answer(sought, data(0, bytes(damaged)))
    sought.come_back()
    assert asked(sought) == {}


def test_the_other_partitions_are_read_on(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1)
    answer(scenario, data(0, batch(0)), data(1, batch(0)))
    scenario.seek(O0, 100)
    answer(scenario, data(1, batch(1)))
    answer(scenario, data(0, batch(100)), data(1, batch(2)))
    assert asked(scenario) == {1: 3}


def test_the_first_seek_of_an_assigned_partition_is_where_reading_begins(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, offset=100)
    answer(scenario, data(0, batch(100)))
    assert asked(scenario) == {0: 101}


def test_a_partition_that_went_away_meanwhile_is_nobodys_concern(sought: Scenario) -> None:
    sought.assign(O1)
    sought.come_back()
    assert 0 not in asked(sought)
