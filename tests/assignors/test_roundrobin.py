"""The round-robin assignor: Kafka's examples, and what must hold for any group."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from kwire.assignors import MemberSubscription, RoundRobinAssignor, check_plan


def member(*topics: str, instance: str | None = None) -> MemberSubscription:
    return MemberSubscription(topics=frozenset(topics), group_instance_id=instance)


def assigned(counts: dict[str, int], members: dict[str, MemberSubscription]) -> dict[str, list[str]]:
    plan = RoundRobinAssignor().assign(counts, members)
    return {member_id: [str(tp) for tp in partitions] for member_id, partitions in plan.items()}


def test_partitions_of_all_topics_are_dealt_out_in_turns() -> None:
    members = {"c0": member("t0", "t1"), "c1": member("t0", "t1")}
    assert assigned({"t1": 3, "t0": 3}, members) == {"c0": ["t0-0", "t0-2", "t1-1"], "c1": ["t0-1", "t1-0", "t1-2"]}


def test_members_that_do_not_want_a_topic_are_passed_over() -> None:
    members = {"c0": member("t0"), "c1": member("t0", "t1"), "c2": member("t0", "t1", "t2")}
    assert assigned({"t0": 1, "t1": 2, "t2": 3}, members) == {
        "c0": ["t0-0"],
        "c1": ["t1-0"],
        "c2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


def test_static_members_come_first_by_instance_id() -> None:
    members = {"a": member("t"), "b": member("t", instance="2"), "c": member("t", instance="1")}
    assert assigned({"t": 4}, members) == {"c": ["t-0", "t-3"], "b": ["t-1"], "a": ["t-2"]}


def test_what_nobody_wants_or_does_not_exist_is_left_out() -> None:
    assert assigned({"other": 2, "empty": 0}, {"c": member("gone", "empty")}) == {"c": []}


topics = st.sampled_from(["t1", "t2", "t3"])
groups = st.dictionaries(
    st.text("abc", max_size=3),
    st.builds(
        MemberSubscription, topics=st.frozensets(topics), group_instance_id=st.none() | st.text("xyz", max_size=3)
    ),
    min_size=1,
    max_size=6,
)


@given(counts=st.dictionaries(topics, st.integers(0, 9)), members=groups)
def test_every_wanted_partition_goes_to_one_member_that_wants_it(
    counts: dict[str, int], members: dict[str, MemberSubscription]
) -> None:
    plan = RoundRobinAssignor().assign(counts, members)
    check_plan(plan, counts, members)
    assert plan.keys() == members.keys()
    wanted = {topic for topic in counts if any(topic in found.topics for found in members.values())}
    assert len(list(chain.from_iterable(plan.values()))) == sum(counts[topic] for topic in wanted)
    assert all(tp.topic in members[member_id].topics for member_id in plan for tp in plan[member_id])


@given(counts=st.dictionaries(topics, st.integers(0, 9)), size=st.integers(1, 6))
def test_equal_subscriptions_make_equal_shares(counts: dict[str, int], size: int) -> None:
    members = {f"c{number}": member(*counts) for number in range(size)}
    shares = [len(partitions) for partitions in RoundRobinAssignor().assign(counts, members).values()]
    assert max(shares) - min(shares) <= 1
