"""A broker that lost a partition names the new leader in its answer to Fetch (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.model import Node, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kwire.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
EPOCH = 5  # of every leader in the scenario's metadata
each_error = pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH], ids=lambda code: code.name
)


def lost(
    scenario: Scenario,
    *,
    leader: int = -1,
    epoch: int = -1,
    address: str | None = None,
    code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER,
) -> None:
    """The oldest fetch is answered: `orders-0` is somebody else's."""
    data = PartitionData(
        partition_index=0, error_code=code, current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    )
    answer = FetchResponse(session_id=1, responses=[FetchableTopicResponse(topic="orders", partitions=[data])])
    if address is not None:
        answer.node_endpoints = [NodeEndpoint(node_id=leader, host=address, port=9092)]
    scenario.answer(FetchRequest, answer)


def fetches(scenario: Scenario) -> dict[int, int]:
    """Which broker is asked for `orders-0` at the moment, and in which leader epoch."""
    return {
        unsent.destination.node.id: partition.current_leader_epoch
        for unsent, request in zip(scenario.pending(FetchRequest), scenario.requests(FetchRequest), strict=True)
        for topic in request.topics
        for partition in topic.partitions
        if partition.partition == 0 and unsent.destination.node is not None
    }


@pytest.fixture
def fetching(scenario: Scenario) -> Scenario:
    """`orders-0` is fetched from broker 1; the last metadata was a while ago."""
    scenario.start_fetching(O0)
    scenario.advance(1_000)
    return scenario


@each_error
def test_the_new_leader_is_asked_at_once_and_metadata_all_the_same(fetching: Scenario, code: ErrorCode) -> None:
    lost(fetching, leader=2, epoch=EPOCH + 1, code=code)
    assert fetches(fetching) == {2: EPOCH + 1}
    assert fetching.pending(MetadataRequest)


def test_a_new_leader_that_metadata_has_never_named_is_asked_at_the_address_in_the_answer(fetching: Scenario) -> None:
    lost(fetching, leader=9, epoch=EPOCH + 1, address="broker-9")
    assert fetching.unsent(FetchRequest).destination.node == Node(9, "broker-9", 9092)


@each_error
@pytest.mark.parametrize(("leader", "epoch"), [(2, EPOCH), (2, EPOCH - 1), (9, EPOCH + 1), (-1, -1)])
def test_without_news_metadata_is_waited_for(fetching: Scenario, code: ErrorCode, leader: int, epoch: int) -> None:
    """An old epoch, a broker without an address, no leader at all: after the back-off, the one that is known."""
    lost(fetching, leader=leader, epoch=epoch, code=code)
    assert fetches(fetching) == {}
    assert fetching.pending(MetadataRequest)
    fetching.advance(100)
    assert fetches(fetching) == {1: EPOCH}


def test_metadata_that_is_behind_does_not_lead_back_to_the_old_leader(fetching: Scenario) -> None:
    lost(fetching, leader=2, epoch=EPOCH + 1)
    fetching.answer(MetadataRequest, fetching.metadata(epoch=EPOCH))
    assert fetches(fetching) == {2: EPOCH + 1}


def test_brokers_that_name_each_other_are_asked_ten_times_a_second_at_most(fetching: Scenario) -> None:
    """A hint is followed once: the next one has to be of a newer epoch."""
    count = 0
    for _ in range(100):
        while fetching.pending(FetchRequest):
            (asked,) = fetches(fetching)
            lost(fetching, leader=3 - asked, epoch=EPOCH + 1)
            count += 1
            assert count < 150, "a spin"
        if fetching.pending(MetadataRequest):
            fetching.answer(MetadataRequest, fetching.metadata(epoch=EPOCH))
        fetching.advance(100)
    assert 90 < count < 110


def test_brokers_that_name_each_other_with_newer_epochs_are_asked_ten_times_a_second_at_most(
    fetching: Scenario,
) -> None:
    """The same with an epoch that grows each time, as no election can make it: it was a spin."""
    count = 0
    for _ in range(100):
        while fetching.pending(FetchRequest):
            (asked,) = fetches(fetching)
            count += 1
            lost(fetching, leader=3 - asked, epoch=EPOCH + count)
            assert count < 150, "a spin"
        if fetching.pending(MetadataRequest):
            fetching.answer(MetadataRequest, fetching.metadata(epoch=EPOCH))
        fetching.advance(100)
    assert 90 < count < 110


def test_a_leader_that_metadata_has_named_meanwhile_is_not_held_up_by_the_old_ones_answer(fetching: Scenario) -> None:
    """The old leader's answer used to block the partition, though the fetch from the new one was under way."""
    fetching.topics["orders"] = (2, 2)
    fetching.managers.metadata.request_update()
    fetching.turn()
    fetching.answer(MetadataRequest, fetching.metadata(epoch=EPOCH + 1))
    assert fetches(fetching) == {1: EPOCH, 2: EPOCH + 1}
    lost(fetching)
    assert fetches(fetching) == {2: EPOCH + 1}


def test_an_answer_from_before_a_seek_still_tells_of_the_leader(fetching: Scenario) -> None:
    fetching.seek(O0, 77)
    lost(fetching, leader=2, epoch=EPOCH + 1)
    assert fetches(fetching) == {2: EPOCH + 1}


def test_a_partition_that_was_given_up_is_left_alone(fetching: Scenario) -> None:
    fetching.assign(O1)
    lost(fetching, leader=3, epoch=EPOCH + 1)
    assert fetches(fetching) == {}


def test_a_partition_that_comes_back_follows_its_first_hint_at_once(fetching: Scenario) -> None:
    """It was given up while it followed one, and was taken for a partition that is sent on and on."""
    lost(fetching, leader=2, epoch=EPOCH + 1)
    fetching.assign()
    lost(fetching, leader=2, epoch=EPOCH + 1)  # nobody waits for this answer any more
    fetching.start_fetching(O0)
    assert fetches(fetching) == {2: EPOCH + 1}
    lost(fetching, leader=3, epoch=EPOCH + 2)
    assert fetches(fetching) == {3: EPOCH + 2}
