"""Whose turn it is: of a broker with more records than fit into an answer, every partition is served.

The brokers' half of the sessions is that of the in-process cluster.
"""

from __future__ import annotations

from itertools import groupby
from random import Random
from typing import TYPE_CHECKING

import pytest

from kwire.events import Reply, SetHold
from kwire.holds import Hold
from kwire.model import TopicPartition
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.testing.cluster.fetch_sessions import FetchedPartition, FetchSessionCache
from kwire.testing.cluster.settings import BrokerSettings

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

ALL = [TopicPartition(topic, number) for topic in ("clicks", "orders") for number in range(6)]
NAMES_VERSION = 12


class CrampedBroker:
    """Leads them all, has records of each without end, and room for one partition's in an answer."""

    def __init__(self, slots: int) -> None:
        settings = {"max.incremental.fetch.session.cache.slots": slots}
        self._settings = BrokerSettings.of(settings)
        self.served: list[TopicPartition] = []
        self.restart()

    def restart(self) -> None:
        """It has forgotten all sessions."""
        self._sessions = FetchSessionCache(self._settings, Random(0))

    def serve(self, scenario: Scenario) -> None:
        """Answer the open fetch; the application takes what came."""
        context = self._sessions.context(scenario.request(FetchRequest), NAMES_VERSION, scenario.now_ms)
        found: list[tuple[FetchedPartition, PartitionData]] = []
        for place, wanted in context.partitions.items():
            records = batch(wanted.fetch_offset) if not found else b""
            found.append((place, PartitionData(partition_index=place.partition, records=records, high_watermark=1000)))
        told = context.told(found)
        self.served += [TopicPartition(place.name, place.partition) for place, data in told if data.records]
        topics = [
            FetchableTopicResponse(topic=name, partitions=[data for _, data in group])
            for name, group in groupby(told, key=lambda each: each[0].name)
        ]
        answer = FetchResponse(error_code=context.error, session_id=context.session_id, responses=topics)
        scenario.answer(FetchRequest, answer)
        while (fetch := scenario.buffer.front()) is not None:
            scenario.buffer.release(fetch)
        scenario.advance(1_000)


@pytest.fixture
def fetching(scenario: Scenario) -> Scenario:
    scenario.topics.update({"clicks": (1,) * 6, "orders": (1,) * 6})
    scenario.start_fetching(*ALL)
    return scenario


def assert_served_in_turn(broker: CrampedBroker) -> None:
    """Nobody is served twice before everybody was once; a session's first request alone moves nobody behind."""
    first_round = broker.served[1:] if broker.served[0] == broker.served[1] else broker.served
    assert first_round[: len(ALL)] == ALL
    assert first_round[len(ALL) : 2 * len(ALL)] == ALL


@pytest.mark.parametrize("slots", [0, 1])
def test_partitions_are_served_in_turn_with_a_session_and_without(fetching: Scenario, slots: int) -> None:
    """Without one the last partition came when all of the others had been read to their ends."""
    broker = CrampedBroker(slots)
    for _ in range(2 * len(ALL) + 1):
        broker.serve(fetching)
    assert_served_in_turn(broker)


def test_sessions_that_do_not_last_change_nobodys_turn(fetching: Scenario) -> None:
    broker = CrampedBroker(slots=1)
    for _ in range(2 * len(ALL)):
        broker.serve(fetching)
        broker.restart()
        broker.serve(fetching)
    assert_served_in_turn(broker)


def test_lost_answers_change_nobodys_turn(fetching: Scenario) -> None:
    broker = CrampedBroker(slots=1)
    for _ in range(2 * len(ALL)):
        broker.serve(fetching)
        fetching.fail(FetchRequest)
        fetching.serve()
        fetching.advance(10_000)
    assert_served_in_turn(broker)


@pytest.mark.parametrize("slots", [0, 1])
def test_a_pause_changes_nobodys_turn(fetching: Scenario, slots: int) -> None:
    """A session forgets what is paused. When it came back the first partition was the first again, each time."""
    broker = CrampedBroker(slots)
    *paused, reads_on = ALL
    for _ in range(2 * len(ALL)):
        fetching.post(SetHold(frozenset(paused), Hold.USER_PAUSED, True, Reply()))
        broker.serve(fetching)
        broker.serve(fetching)
        fetching.post(SetHold(frozenset(paused), Hold.USER_PAUSED, False, Reply()))
        broker.serve(fetching)
        broker.serve(fetching)
    others = [tp for tp in broker.served if tp != reads_on]
    assert len(others) > len(paused)
    assert set(others[: len(paused) + 1]) == set(paused)
