"""The cluster snapshot: what a Metadata answer does to it, and what it never unlearns."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.cluster import MAX_CONTRADICTIONS, MAX_FORMER_IDS, MAX_TOPICS_GONE, ClusterSnapshot
from kwire.model import Node, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from kwire.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

O0 = TopicPartition("orders", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)


def topic(
    *leaders: int, name: str | None = "orders", topic_id: UUID = ID, epoch: int = 5, error: ErrorCode = ErrorCode.NONE
) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1]
        )
        for number, leader in enumerate(leaders)
    ]
    return MetadataResponseTopic(name=name, topic_id=topic_id, error_code=error, partitions=partitions)


def answer(*topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2), cluster_id: str = "c") -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n, host=f"broker-{n}", port=9092, rack="r") for n in nodes]
    return MetadataResponse(brokers=brokers, topics=list(topics), cluster_id=cluster_id)


@pytest.fixture
def known() -> ClusterSnapshot:
    return ClusterSnapshot().updated(answer(topic(1, 2)))


def test_nothing_is_known_at_first() -> None:
    empty = ClusterSnapshot()
    assert (empty.leader_id(O0), empty.leader_epoch(O0), empty.partition(O0)) == (None, -1, None)
    assert empty.topic_id("orders") == UUID(int=0)
    assert empty.partition_infos("orders") == []


def test_an_answer_brings_nodes_topics_and_leaders(known: ClusterSnapshot) -> None:
    assert known.version == 1
    assert known.cluster_id == "c"
    assert known.nodes[1] == Node(1, "broker-1", 9092, "r")
    assert (known.leader_id(O0), known.leader_epoch(O0), known.topic_id("orders")) == (1, 5, ID)


def test_the_public_description_is_in_partition_order(known: ClusterSnapshot) -> None:
    first, second = known.partition_infos("orders")
    assert (first.partition, second.partition) == (0, 1)
    assert first.leader == Node(1, "broker-1", 9092, "r")
    assert (first.leader_epoch, first.replicas, first.in_sync_replicas) == (5, (1, 2), (1,))


@pytest.mark.parametrize("leader", [-1, 99])
def test_a_leader_that_is_nobody_is_none(leader: int) -> None:
    cluster = ClusterSnapshot().updated(answer(topic(leader, epoch=-1)))
    assert cluster.leader_id(O0) is None
    assert cluster.partition_infos("orders")[0].leader is None
    assert cluster.partition_infos("orders")[0].leader_epoch is None


def test_a_snapshot_does_not_change(known: ClusterSnapshot) -> None:
    known.updated(answer(topic(2, 2, epoch=6)))
    assert known.leader_id(O0) == 1


def test_a_newer_leader_epoch_is_taken_and_an_older_one_is_not(known: ClusterSnapshot) -> None:
    assert known.updated(answer(topic(2, 2, epoch=6))).leader_id(O0) == 2
    assert known.updated(answer(topic(2, 2, epoch=5))).leader_id(O0) == 2
    assert known.updated(answer(topic(2, 2, epoch=4))).leader_id(O0) == 1  # KIP-320


def test_an_epoch_that_every_answer_contradicts_is_given_up(known: ClusterSnapshot) -> None:
    """A broker named a leader of epoch 1,000,000 that there has never been; without this nobody else was ever asked."""
    lied_to = known.with_leaders(led_by(9, 1_000_000), [NodeEndpoint(node_id=9, host="nowhere", port=1)])
    for _ in range(MAX_CONTRADICTIONS - 1):
        before, lied_to = lied_to, lied_to.updated(answer(topic(2, 2)), in_doubt=True)
        assert lied_to.leader_epoch(O0) == 1_000_000
        assert lied_to.topics == before.topics, "nothing has changed: asking again has to wait longer and longer"
    assert lied_to.updated(answer(topic(2, 2))).leader_epoch(O0) == 1_000_000, "nobody has missed the leader"
    confirmed = lied_to.updated(answer(topic(2, 2, epoch=1_000_000)))
    assert confirmed.updated(answer(topic(2)), in_doubt=True).leader_epoch(O0) == 1_000_000
    told = lied_to.updated(answer(topic(2, 2)), in_doubt=True)
    assert (told.leader_id(O0), told.leader_epoch(O0)) == (2, 5)


def test_an_old_broker_that_knows_no_epochs_is_believed(known: ClusterSnapshot) -> None:
    assert known.updated(answer(topic(2, 2, epoch=-1))).leader_id(O0) == 2


def test_a_recreated_topic_begins_with_low_epochs(known: ClusterSnapshot) -> None:
    recreated = known.updated(answer(topic(2, topic_id=OTHER_ID, epoch=0)))
    assert (recreated.leader_id(O0), recreated.leader_epoch(O0)) == (2, 0)
    assert recreated.partition(TopicPartition("orders", 1)) is None


def test_a_recreated_topic_does_not_become_the_former_one_again(known: ClusterSnapshot) -> None:
    """A broker that lagged behind named the former id once more, and the position in the new topic was thrown away."""
    lagging = answer(topic(1, 1, epoch=9))
    recreated = known.updated(answer(topic(2, topic_id=OTHER_ID, epoch=0))).updated(lagging)
    assert (recreated.topic_id("orders"), recreated.leader_id(O0), recreated.leader_epoch(O0)) == (OTHER_ID, 2, 0)
    third = recreated.updated(answer(topic(1, topic_id=UUID(int=3))))
    assert third.topic_id("orders") == UUID(int=3)
    assert third.updated(lagging).updated(answer(topic(2, topic_id=OTHER_ID))).topic_id("orders") == UUID(int=3)


def test_a_former_topic_does_not_come_back_while_the_new_one_is_away(known: ClusterSnapshot) -> None:
    away = answer(topic(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_id=UUID(int=0)))
    recreated = known.updated(away).updated(answer(topic(2, topic_id=OTHER_ID))).updated(away)
    assert recreated.updated(answer(topic(1))).topics == {}
    assert recreated.updated(answer(topic(2, topic_id=OTHER_ID))).topic_id("orders") == OTHER_ID


def test_a_former_id_that_every_answer_names_is_believed(known: ClusterSnapshot) -> None:
    """Who hears of the new topic first, and then of the old one for the first time, takes the old one for the newer."""
    wrong = known.updated(answer(topic(1, topic_id=OTHER_ID)))
    for _ in range(MAX_CONTRADICTIONS - 1):
        before, wrong = wrong, wrong.updated(answer(topic(1)), in_doubt=True)
        assert (wrong.topic_id("orders"), wrong.topics) == (OTHER_ID, before.topics)
    assert wrong.updated(answer(topic(1))).topic_id("orders") == OTHER_ID, "its leader serves"
    confirmed = wrong.updated(answer(topic(1, topic_id=OTHER_ID)))
    assert confirmed.updated(answer(topic(1)), in_doubt=True).topic_id("orders") == OTHER_ID
    assert wrong.updated(answer(topic(1)), in_doubt=True).topic_id("orders") == ID


def test_a_topic_of_a_former_cluster_is_taken_at_once(known: ClusterSnapshot) -> None:
    """Back from another cluster, whose topics have other ids."""
    elsewhere = known.without_nodes().updated(answer(topic(2, topic_id=OTHER_ID), cluster_id="d"))
    assert elsewhere.topic_id("orders") == OTHER_ID
    back = elsewhere.without_nodes().updated(answer(topic(1)), in_doubt=True)
    assert (back.topic_id("orders"), back.leader_id(O0)) == (ID, 1)


def test_of_topics_that_are_gone_as_many_ids_are_kept_as_there_is_room_for(known: ClusterSnapshot) -> None:
    names = [f"t{number}" for number in range(MAX_TOPICS_GONE)]
    many = known.updated(answer(*(topic(1, name=name, topic_id=OTHER_ID) for name in names)))
    assert len(many.ids) == MAX_TOPICS_GONE + 1
    assert many.updated(answer()).ids.keys() == set(names)
    for number in range(3, 3 + 2 * MAX_FORMER_IDS):
        known = known.updated(answer(topic(1, topic_id=UUID(int=number))))
    assert len(known.ids["orders"].former) == MAX_FORMER_IDS


def test_a_topic_in_trouble_keeps_what_was_known(known: ClusterSnapshot) -> None:
    troubled = known.updated(answer(topic(error=ErrorCode.LEADER_NOT_AVAILABLE)))
    assert troubled.leader_id(O0) == 1


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_topic_that_is_gone_is_forgotten(known: ClusterSnapshot, error: ErrorCode) -> None:
    assert "orders" not in known.updated(answer(topic(error=error))).topics


def test_a_topic_that_was_not_asked_for_is_forgotten(known: ClusterSnapshot) -> None:
    assert known.updated(answer(topic(1, name="clicks"))).topics.keys() == {"clicks"}


def test_a_topic_without_a_name_is_passed_by() -> None:
    assert ClusterSnapshot().updated(answer(topic(name=None, error=ErrorCode.UNKNOWN_TOPIC_ID))).topics == {}


def test_an_answer_without_a_cluster_id_keeps_the_one_that_is_known(known: ClusterSnapshot) -> None:
    assert known.updated(MetadataResponse()).cluster_id == "c"


# --- leaders that a fetch tells of (KIP-951) --------------------------------------------------------------------


def led_by(leader_id: int, leader_epoch: int) -> dict[TopicPartition, LeaderIdAndEpoch]:
    return {O0: LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)}


NEW_BROKER = NodeEndpoint(node_id=9, host="broker-9", port=9, rack="r")


def test_a_newer_leader_is_adopted_with_its_address(known: ClusterSnapshot) -> None:
    newer = known.with_leaders(led_by(9, 6), [NEW_BROKER])
    assert (newer.leader_id(O0), newer.leader_epoch(O0)) == (9, 6)
    assert newer.nodes[9] == Node(9, "broker-9", 9, "r")
    assert newer.version == known.version + 1
    assert newer.partition(TopicPartition("orders", 1)) == known.partition(TopicPartition("orders", 1))
    assert (newer.topic_id("orders"), known.leader_id(O0)) == (ID, 1), "the snapshot it was made from has not changed"


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_leader_of_an_epoch_that_is_not_newer_is_passed_by(known: ClusterSnapshot, epoch: int) -> None:
    assert known.with_leaders(led_by(2, epoch), [NEW_BROKER]) is known


def test_a_leader_without_an_address_is_passed_by(known: ClusterSnapshot) -> None:
    assert known.with_leaders(led_by(8, 6), []) is known
    assert known.with_leaders(led_by(-1, 6), [NodeEndpoint(node_id=-1)]) is known


def test_a_partition_that_is_not_known_gets_no_leader(known: ClusterSnapshot) -> None:
    elsewhere = {TopicPartition(name, 7): LeaderIdAndEpoch(leader_id=2, leader_epoch=6) for name in ("orders", "ghost")}
    assert known.with_leaders(elsewhere, []) is known


def test_a_leader_that_a_fetch_told_of_is_not_unlearned_from_older_metadata(known: ClusterSnapshot) -> None:
    newer = known.with_leaders(led_by(2, 6), [])
    assert newer.updated(answer(topic(1, 2, epoch=5))).leader_id(O0) == 2


# --- back to the bootstrap servers ------------------------------------------------------------------------------


def test_without_nodes_nobody_leads_and_nothing_else_is_forgotten(known: ClusterSnapshot) -> None:
    bare = known.without_nodes()
    assert (bare.leader_id(O0), bare.leader_epoch(O0), bare.topic_id("orders")) == (None, 5, ID)
    assert bare.version == known.version + 1
    assert bare.updated(answer(topic(1, 2))).leader_id(O0) == 1
