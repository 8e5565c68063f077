"""The range assignor: Kafka's examples, Kafka's own answers, and what must hold for any group."""

from __future__ import annotations

import gzip
import json
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.assignors import MemberSubscription, RangeAssignor
from kwire.model import TopicPartition

# 400 random groups with what RangeAssignor of Apache Kafka 4.3.1's own kafka-clients made of them; in the first 200 the
# racks changed the outcome. A line: `replica_racks` topic -> racks of each partition, `members` id -> [topics, instance
# id, rack], `assignment` id -> sorted partitions.
GOLDEN = Path(__file__).parent / "golden" / "range.jsonl.gz"

range_assignor = RangeAssignor()


def member(*topics: str, instance: str | None = None, rack: str | None = None) -> MemberSubscription:
    return MemberSubscription(topics=frozenset(topics), group_instance_id=instance, rack=rack)


def assigned(
    partitions_per_topic: dict[str, int],
    members: dict[str, MemberSubscription],
    replica_racks: dict[str, list[list[str]]] | None = None,
) -> dict[str, list[str]]:
    racks = {
        TopicPartition(topic, number): held
        for topic, partitions in (replica_racks or {}).items()
        for number, held in enumerate(partitions)
    }
    answer = range_assignor.assign(partitions_per_topic, members, partition_racks=racks)
    return {member_id: [str(tp) for tp in partitions] for member_id, partitions in answer.items()}


def test_a_member_without_topics_gets_nothing() -> None:
    assert assigned({}, {"c1": member()}) == {"c1": []}


def test_a_topic_that_does_not_exist_is_skipped() -> None:
    assert assigned({}, {"c1": member("t1")}) == {"c1": []}


def test_only_subscribed_topics_are_assigned() -> None:
    assert assigned({"t1": 3, "other": 3}, {"c1": member("t1")}) == {"c1": ["t1-0", "t1-1", "t1-2"]}


def test_a_topic_without_partitions_is_skipped() -> None:
    assert assigned({"t1": 0, "t2": 1}, {"c1": member("t1", "t2")}) == {"c1": ["t2-0"]}


def test_more_members_than_partitions_leaves_the_last_ones_idle() -> None:
    assert assigned({"t1": 1}, {"c1": member("t1"), "c2": member("t1")}) == {"c1": ["t1-0"], "c2": []}


def test_members_share_only_the_topics_they_want() -> None:
    members = {"c1": member("t1"), "c2": member("t1", "t2"), "c3": member("t1")}
    assert assigned({"t1": 3, "t2": 2}, members) == {"c1": ["t1-0"], "c2": ["t1-1", "t2-0", "t2-1"], "c3": ["t1-2"]}


def test_co_partitioned_topics_are_cut_at_the_same_places() -> None:
    members = {"c1": member("t1", "t2"), "c2": member("t1", "t2")}
    assert assigned({"t1": 3, "t2": 3}, members) == {
        "c1": ["t1-0", "t1-1", "t2-0", "t2-1"],
        "c2": ["t1-2", "t2-2"],
    }


def test_static_members_are_ordered_by_instance_id_not_member_id() -> None:
    members = {"b": member("t1", instance="instance1"), "a": member("t1", instance="instance2")}
    assert assigned({"t1": 3}, members) == {"b": ["t1-0", "t1-1"], "a": ["t1-2"]}


def test_static_members_come_before_dynamic_ones() -> None:
    members = {"a": member("t1"), "b": member("t1", instance="instance1")}
    assert assigned({"t1": 3}, members) == {"b": ["t1-0", "t1-1"], "a": ["t1-2"]}


def test_static_members_keep_their_partitions_when_their_member_ids_change() -> None:
    before = {"c1": member("t", instance="i1"), "c2": member("t", instance="i2"), "c3": member("t", instance="i3")}
    after = {"c1": before["c1"], "c5": before["c2"], "c4": before["c3"]}
    old, new = assigned({"t": 5}, before), assigned({"t": 5}, after)
    assert (new["c1"], new["c5"], new["c4"]) == (old["c1"], old["c2"], old["c3"])


def test_names_are_ordered_as_java_does_by_utf16_units() -> None:
    emoji, tilde = "\U0001f600", "\uff5e"
    assert tilde < emoji  # to Python
    assert assigned({"t": 1}, {tilde: member("t"), emoji: member("t")}) == {emoji: ["t-0"], tilde: []}


def test_a_replica_in_the_members_rack_comes_first() -> None:
    members = {"c0": member("t", rack="a"), "c1": member("t", rack="b")}
    assert assigned({"t": 4}, members, {"t": [["b"], ["a"], ["b"], ["a"]]}) == {
        "c0": ["t-1", "t-3"],
        "c1": ["t-0", "t-2"],
    }


def test_balance_comes_before_racks() -> None:
    members = {"c0": member("t", rack="a"), "c1": member("t", rack="b")}
    assert assigned({"t": 4}, members, {"t": [["a"], ["a"], ["a"], ["b"]]}) == {
        "c0": ["t-0", "t-1"],
        "c1": ["t-2", "t-3"],
    }


def test_co_partitioning_comes_before_racks() -> None:
    members = {"c0": member("t1", "t2", rack="a"), "c1": member("t1", "t2", rack="b")}
    apart = {"t1": [["a"], ["b"]], "t2": [["b"], ["a"]]}
    assert assigned({"t1": 2, "t2": 2}, members, apart) == {"c0": ["t1-0", "t2-0"], "c1": ["t1-1", "t2-1"]}


def test_racks_are_ignored_when_every_rack_holds_everything() -> None:
    members = {"c0": member("t", rack="b"), "c1": member("t", rack="a")}
    assert assigned({"t": 2}, members, {"t": [["a", "b"], ["b", "a"]]}) == {"c0": ["t-0"], "c1": ["t-1"]}


def test_every_group_is_assigned_as_kafkas_own_class_does() -> None:
    disagreements = []
    lines = gzip.decompress(GOLDEN.read_bytes()).splitlines()
    for line in lines:
        case = json.loads(line)
        members = {
            member_id: member(*topics, instance=instance, rack=rack)
            for member_id, (topics, instance, rack) in case["members"].items()
        }
        counts = {topic: len(partitions) for topic, partitions in case["replica_racks"].items()}
        if assigned(counts, members, case["replica_racks"]) != case["assignment"]:
            disagreements.append(case)
    assert len(lines) == 400
    assert disagreements == []


TOPICS = ("t1", "t2", "t3")
NAMES = "aB\uff5e\U0001f600"
RACKS = st.sampled_from(["a", "b", "c"])
members_of_any_group = st.dictionaries(
    st.text(NAMES, max_size=4),
    st.builds(
        MemberSubscription,
        topics=st.frozensets(st.sampled_from([*TOPICS, "unknown"])),
        group_instance_id=st.none() | st.text(NAMES, max_size=2),
        rack=st.none() | RACKS,
    ),
    min_size=1,
    max_size=7,
)
counts_of_any_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12))
racks_of_any_partition = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 11)), st.sets(RACKS)
)


@pytest.mark.parametrize("with_racks", [False, True], ids=["without racks", "with racks"])
@given(counts=counts_of_any_topics, members=members_of_any_group, racks=racks_of_any_partition)
def test_each_wanted_partition_goes_to_exactly_one_interested_member_and_shares_are_even(
    counts: dict[str, int],
    members: dict[str, MemberSubscription],
    racks: dict[TopicPartition, set[str]],
    with_racks: bool,
) -> None:
    answer = range_assignor.assign(counts, members, partition_racks=racks if with_racks else {})
    assert answer.keys() == members.keys()
    for topic, count in counts.items():
        wanting = [member_id for member_id in members if topic in members[member_id].topics]
        given_out = {
            member_id: [tp.partition for tp in partitions if tp.topic == topic]
            for member_id, partitions in answer.items()
        }
        assert sorted(chain.from_iterable(given_out.values())) == (list(range(count)) if wanting else [])
        assert {member_id for member_id, numbers in given_out.items() if numbers} <= set(wanting)
        shares = [len(given_out[member_id]) for member_id in wanting]
        assert max(shares, default=0) - min(shares, default=0) <= 1


@given(counts=counts_of_any_topics, members=members_of_any_group)
def test_without_racks_each_share_is_one_run(counts: dict[str, int], members: dict[str, MemberSubscription]) -> None:
    for partitions in range_assignor.assign(counts, members).values():
        for topic in counts:
            numbers = [tp.partition for tp in partitions if tp.topic == topic]
            assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True


@given(counts=counts_of_any_topics, members=members_of_any_group, racks=racks_of_any_partition)
def test_the_order_of_the_inputs_does_not_matter(
    counts: dict[str, int], members: dict[str, MemberSubscription], racks: dict[TopicPartition, set[str]]
) -> None:
    expected = range_assignor.assign(counts, members, partition_racks=racks)
    backwards = dict(reversed(members.items()))
    assert range_assignor.assign(dict(reversed(counts.items())), backwards, partition_racks=racks) == expected
