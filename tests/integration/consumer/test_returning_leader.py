"""A static leader that is restarted leads on without assigning (KIP-814), and still every partition gets an owner.

Nobody but the leader watches the partitions of the group's topics.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias, Unpack

import pytest

from kwire import Consumer, TopicPartition
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GrowTopic, MakeTopic
    from tests.integration.consumer.conftest import BytesConsumer, BytesSettings, OpenConsumer, PollUntil
    from tests.integration.kafkas import Side

pytestmark = pytest.mark.slow

Wanted: TypeAlias = "list[str] | re.Pattern[str]"
EAGER, COOPERATIVE = "range", "cooperative-sticky"


class Pair:
    """Two static members: `leads` came first, and is restarted; `follows` stays."""

    def __init__(self, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, strategy: str) -> None:
        self._group_id = group_id
        self._open = open_consumer
        self._poll_until = poll_until
        self._strategy = strategy

    def start(self, leads: Wanted, follows: Wanted, owned: set[TopicPartition]) -> None:
        """Join one after the other, until they own all of that."""
        self._wanted = leads
        self.leads = self.member("leads", leads)
        self._poll_until(lambda: bool(self.leads.assignment()), self.leads)
        self.follows = self.member("follows", follows)
        self._poll_until(lambda: bool(self.follows.assignment()), self.leads, self.follows)
        self.until_owned(owned)

    def member(self, instance_id: str, wanted: Wanted) -> BytesConsumer:
        consumer = self._open(
            group_id=self._group_id,
            group_instance_id=instance_id,
            heartbeat_interval_ms=100,
            metadata_max_age_ms=200,
            allow_auto_create_topics=False,
            partition_assignment_strategy=self._strategy,
        )
        consumer.subscribe(wanted)
        return consumer

    def restart(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.leads.close()
        meanwhile()
        self.leads = self.member("leads", self._wanted)
        self._poll_until(lambda: bool(self.leads.assignment()), self.leads, self.follows)

    def until_owned(self, wanted: set[TopicPartition]) -> None:
        """Fails when any of it stays without an owner."""

        def owned() -> bool:
            shares = self.leads.assignment(), self.follows.assignment()
            return shares[0] | shares[1] == wanted and sum(map(len, shares)) == len(wanted)

        self._poll_until(owned, self.leads, self.follows)


@pytest.fixture(params=[EAGER, COOPERATIVE])
def pair(request: pytest.FixtureRequest, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil) -> Pair:
    return Pair(group_id, open_consumer, poll_until, request.param)


def all_of(topic: str, partitions: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in range(partitions)}


def next_name(topic: str) -> str:
    """The name that the next topic of the test will have."""
    stem, number = topic.rsplit("-", 1)
    return f"{stem}-{int(number) + 1}"


def test_partitions_that_are_added_after_the_leader_came_back_get_owners(
    pair: Pair, topic: MakeTopic, grow: GrowTopic
) -> None:
    name = topic(2)
    pair.start([name], [name], all_of(name, 2))
    pair.restart()
    grow(name, 4)
    pair.until_owned(all_of(name, 4))


def test_partitions_that_were_added_while_the_leader_was_away_get_owners(
    pair: Pair, topic: MakeTopic, grow: GrowTopic
) -> None:
    name = topic(2)
    pair.start([name], [name], all_of(name, 2))
    pair.restart(meanwhile=lambda: grow(name, 4))
    pair.until_owned(all_of(name, 4))


def test_the_leader_that_came_back_looks_after_topics_of_the_others(
    pair: Pair, topic: MakeTopic, grow: GrowTopic
) -> None:
    own, other = topic(2), topic(2)
    pair.start([own], [other], all_of(own, 2) | all_of(other, 2))
    pair.restart()
    grow(other, 4)
    pair.until_owned(all_of(own, 2) | all_of(other, 4))


def test_a_topic_that_is_created_after_the_leader_came_back_gets_an_owner(pair: Pair, topic: MakeTopic) -> None:
    first = topic(2)
    later = next_name(first)
    pair.start([first], [first, later], all_of(first, 2))
    pair.restart()
    assert topic(2) == later
    pair.until_owned(all_of(first, 2) | all_of(later, 2))


def test_a_topic_that_is_created_while_the_leader_of_a_pattern_is_away_gets_an_owner(
    pair: Pair, topic: MakeTopic
) -> None:
    """It comes back with a subscription of more topics than the group was assigned for, and the broker takes it in."""
    first = topic(2)
    later = next_name(first)
    pattern = re.compile(f"^({re.escape(first)}|{re.escape(later)})$")
    pair.start(pattern, [first], all_of(first, 2))
    made: list[str] = []
    pair.restart(meanwhile=lambda: made.append(topic(2)))
    assert made == [later]
    pair.until_owned(all_of(first, 2) | all_of(later, 2))


def test_a_leader_that_comes_back_to_unchanged_topics_makes_no_rebalance(pair: Pair, topic: MakeTopic) -> None:
    name = topic(2)
    pair.start([name], [name], all_of(name, 2))
    before = pair.follows.group_metadata().generation_id
    pair.restart()
    pair.until_owned(all_of(name, 2))
    for _ in range(20):  # metadata is refreshed several times
        pair.leads.poll(0.02)
        pair.follows.poll(0.02)
    assert pair.leads.group_metadata().generation_id == pair.follows.group_metadata().generation_id == before


@pytest.mark.only("fake", reason="a release that names the leader's predecessor as the leader; Kafka's jars are of one")
def test_a_leader_that_comes_back_to_a_release_before_kip_814_leads_on(
    side: Side, group_id: str, poll_until: PollUntil
) -> None:
    with Cluster(release="2.8", topics={"own": 2, "other": 2}) as cluster, ExitStack() as opened:

        def open_consumer(*topics: str, **settings: Unpack[BytesSettings]) -> BytesConsumer:
            mine: BytesSettings = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
            return opened.enter_context(Consumer(*topics, **(mine | settings)))

        pair = Pair(group_id, open_consumer, poll_until, EAGER)
        pair.start(["own"], ["other"], all_of("own", 2) | all_of("other", 2))
        pair.restart(meanwhile=lambda: cluster.grow_topic("own", 4))
        pair.until_owned(all_of("own", 4) | all_of("other", 2))
        cluster.grow_topic("other", 4)
        pair.until_owned(all_of("own", 4) | all_of("other", 4))
