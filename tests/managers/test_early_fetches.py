"""The fetches that a short turn sends in front of everything else (`network/short_turns.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

import pytest

from kwire.clock import NEVER_MS
from kwire.events import Reply, Seek
from kwire.managers.fetch import READ_AHEAD_DELAY_MS
from kwire.managers.unsent import AnyUnsentRequest
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.network.client import NetworkClient
from kwire.network.short_turns import OTHERS_WAIT_MS, ShortTurns
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Sent:
    """In the place of the network client: keeps what it is given."""

    def __init__(self) -> None:
        self.requests: list[AnyUnsentRequest] = []

    def send(self, requests: Iterable[AnyUnsentRequest], _now_ms: float) -> None:
        self.requests.extend(requests)

    def poll(self, _now_ms: float) -> float:
        return NEVER_MS

    def of(self, kind: type[object]) -> list[AnyUnsentRequest]:
        return [each for each in self.requests if isinstance(each.request, kind)]


@pytest.fixture
def scenario(make_scenario: Callable[..., Scenario]) -> Scenario:
    """Both partitions are fetched from one broker."""
    made = make_scenario()
    made.topics["orders"] = (1, 1)
    made.start_fetching(O0, O1)
    return made


def short_turn(scenario: Scenario) -> tuple[Sent, float | None]:
    """An answer with records of the first partition, and the turn that follows."""
    data = PartitionData(partition_index=0, high_watermark=10, records=batch(0))
    topic = FetchableTopicResponse(topic="orders", topic_id=scenario.request(FetchRequest).topics[0].topic_id)
    topic.partitions = [data]
    unsent = scenario.unsent(FetchRequest)
    scenario.unanswered.remove(unsent)
    unsent.on_answer(FetchResponse(session_id=1, responses=[topic]), scenario.now_ms)
    assert scenario.managers.main.fetch.may_poll_early
    sent = Sent()
    return sent, ShortTurns(lambda: None).begin(scenario.managers, cast("NetworkClient", sent), 1, scenario.now_ms)


def test_no_fetch_overtakes_the_validation_of_its_position(scenario: Scenario) -> None:
    """A position with an epoch was fetched from before anybody had asked whether its log was truncated."""
    scenario.post_beside_an_answer(Seek(O1, OffsetAndMetadata(5, leader_epoch=4), Reply()))
    sent, _ = short_turn(scenario)
    assert len(sent.of(OffsetForLeaderEpochRequest)) == 1
    fetches = [unsent.request for unsent in sent.of(FetchRequest) if isinstance(unsent.request, FetchRequest)]
    assert {each.partition for fetch in fetches for topic in fetch.topics for each in topic.partitions} == {0}


def test_a_fetch_that_is_due_before_the_others_are_looked_at_is_sent_in_time(scenario: Scenario) -> None:
    """A short turn has the loop sleep for as long as the other managers may wait."""
    scenario.managers.main.fetch._blocked[O1] = scenario.now_ms + READ_AHEAD_DELAY_MS
    sent, wake_at_ms = short_turn(scenario)
    assert len(sent.of(FetchRequest)) == 1
    assert wake_at_ms == scenario.now_ms + READ_AHEAD_DELAY_MS < scenario.now_ms + OTHERS_WAIT_MS
