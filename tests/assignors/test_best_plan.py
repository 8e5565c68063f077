"""The promise of the sticky assignors: no plan is better balanced, then nearer, then stickier. And two steps do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kwire.assignors import CooperativeStickyAssignor, MemberSubscription, Plan, StickyAssignor, check_plan
from kwire.assignors.best_plan import assign_stickily
from kwire.assignors.claims import Claim, settle
from kwire.assignors.exchanges import PATIENCE_SLOTS
from kwire.assignors.user_data import encode_last_assignment
from kwire.model import TopicPartition

TOPICS = ("t0", "t1", "t2")
RACKS = ("x", "y", "z")

Group = dict[str, MemberSubscription]
Racks = dict[TopicPartition, frozenset[str]]

any_partition = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 7))
racks_of_partitions = st.one_of(
    st.just(Racks()),
    st.fixed_dictionaries(
        {TopicPartition(topic, number): st.frozensets(st.sampled_from(RACKS), min_size=1, max_size=2)
         for topic in TOPICS for number in range(6)}
    ),
)  # fmt: skip


def groups(max_size: int) -> st.SearchStrategy[Group]:
    subscriptions = st.builds(
        MemberSubscription,
        topics=st.frozensets(st.sampled_from([*TOPICS, "unknown"]), min_size=1),
        owned_partitions=st.frozensets(any_partition, max_size=5),
        generation_id=st.integers(1, 3),
        rack=st.none() | st.sampled_from(RACKS),
    )
    return st.dictionaries(st.sampled_from("abcdefgh"), subscriptions, min_size=1, max_size=max_size)


def counts(most: int) -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(st.sampled_from(TOPICS), st.integers(0, most))


def owners(members: Group) -> Mapping[TopicPartition, str]:
    return settle({m: Claim(found.owned_partitions, found.generation_id) for m, found in members.items()}).owners


def rating(
    plan: Mapping[str, list[TopicPartition]], members: Group, racks: Racks, past: Mapping[TopicPartition, str]
) -> tuple[int, int, int]:
    """Imbalance, partitions far from their members, and partitions that did not stay: less is better."""
    placed = [(tp, member_id) for member_id, partitions in plan.items() for tp in partitions]
    far = sum(1 for tp, m in placed if members[m].rack is not None and members[m].rack not in racks.get(tp, ()))
    return (
        sum(len(partitions) ** 2 for partitions in plan.values()),
        far if racks else 0,
        -sum(1 for tp, member_id in placed if past.get(tp) == member_id),
    )


def that_matter(counts: dict[str, int], members: Group, racks: Racks) -> Racks:
    """The racks of what is assigned; none if no choice brings a read nearer."""
    wanting = [found for found in members.values() if any(counts.get(topic) for topic in found.topics)]
    wanted = frozenset[str]().union(*(found.topics for found in wanting))
    held = {
        tp: racks.get(tp, frozenset())
        for topic, count in counts.items()
        for tp in (TopicPartition(topic, number) for number in range(count))
        if topic in wanted
    }
    all_racks = frozenset[str]().union(*held.values())
    near_to_some = any(found.rack in all_racks for found in wanting)
    return held if near_to_some and set(held.values()) != {all_racks} else {}


def all_plans(partitions_per_topic: dict[str, int], members: Group) -> Iterator[Plan]:
    wanted = {
        TopicPartition(topic, number): [m for m, found in members.items() if topic in found.topics]
        for topic, count in partitions_per_topic.items()
        for number in range(count)
    }
    wanted = {tp: takers for tp, takers in wanted.items() if takers}
    for takers in product(*wanted.values()):
        plan: Plan = {member_id: [] for member_id in members}
        for tp, member_id in zip(wanted, takers, strict=True):
            plan[member_id].append(tp)
        yield plan


def eager(members: Group) -> Group:
    """The same group before it joins eagerly: what it had is in the user data."""
    return {
        member_id: MemberSubscription(
            topics=found.topics,
            rack=found.rack,
            user_data=encode_last_assignment(found.owned_partitions, found.generation_id),
        )
        for member_id, found in members.items()
    }


@given(counts=counts(2), members=groups(3), racks=racks_of_partitions)
def test_of_all_plans_there_are_none_is_better(counts: dict[str, int], members: Group, racks: Racks) -> None:
    past = owners(members)
    plan = StickyAssignor().assign(counts, eager(members), partition_racks=racks)
    known = that_matter(counts, members, racks)
    best = min(rating(one, members, known, past) for one in all_plans(counts, members))
    assert rating(plan, members, known, past) == best


@given(counts=counts(6), members=groups(8), racks=racks_of_partitions)
def test_each_wanted_partition_is_assigned_once(counts: dict[str, int], members: Group, racks: Racks) -> None:
    plan = StickyAssignor().assign(counts, eager(members), partition_racks=racks)
    check_plan(plan, counts, members)
    assert plan.keys() == members.keys()
    wanted = frozenset[str]().union(*(found.topics for found in members.values()))
    assert sum(map(len, plan.values())) == sum(count for topic, count in counts.items() if topic in wanted)
    assert all(tp.topic in members[member_id].topics for member_id, tps in plan.items() for tp in tps)


@given(counts=counts(6), members=groups(8))
def test_equal_subscriptions_make_equal_shares(counts: dict[str, int], members: Group) -> None:
    same = {
        member_id: MemberSubscription(topics=frozenset(TOPICS), user_data=found.user_data)
        for member_id, found in eager(members).items()
    }
    shares = [len(partitions) for partitions in StickyAssignor().assign(counts, same).values()]
    assert max(shares) - min(shares) <= 1


@given(counts=counts(6), members=groups(8), racks=racks_of_partitions)
def test_a_plan_that_is_followed_stays_as_it_is(counts: dict[str, int], members: Group, racks: Racks) -> None:
    plan = StickyAssignor().assign(counts, eager(members), partition_racks=racks)
    again = StickyAssignor().assign(counts, eager(owning(members, plan)), partition_racks=racks)
    assert {member_id: set(partitions) for member_id, partitions in again.items()} == {
        member_id: set(partitions) for member_id, partitions in plan.items()
    }


@given(counts=counts(6), members=groups(8), racks=racks_of_partitions)
def test_the_order_of_the_inputs_does_not_matter(counts: dict[str, int], members: Group, racks: Racks) -> None:
    expected = CooperativeStickyAssignor().assign(counts, members, partition_racks=racks)
    backwards = dict(reversed(members.items()))
    assert (
        CooperativeStickyAssignor().assign(dict(reversed(counts.items())), backwards, partition_racks=racks) == expected
    )


def owning(members: Group, plan: Plan) -> Group:
    """The group after it has followed the plan."""
    return {
        member_id: MemberSubscription(
            topics=found.topics, rack=found.rack, owned_partitions=frozenset(plan[member_id]), generation_id=9
        )
        for member_id, found in members.items()
    }


@given(counts=counts(6), members=groups(8), racks=racks_of_partitions)
def test_two_cooperative_steps_lead_to_the_best_plan(counts: dict[str, int], members: Group, racks: Racks) -> None:
    assignor = CooperativeStickyAssignor()
    first = assignor.assign(counts, members, partition_racks=racks)
    # What had two owners in one generation stays with neither, which check_plan does not know about.
    check_plan(first, counts, members)
    moved = {tp: m for m, tps in first.items() for tp in tps if tp not in members[m].owned_partitions}
    assert not any(tp in found.owned_partitions for tp in moved for found in members.values())
    halfway = owning(members, first)
    second = assignor.assign(counts, halfway, partition_racks=racks)
    check_plan(second, counts, halfway, cooperative=True)
    assert all(set(first[member_id]) <= set(second[member_id]) for member_id in members)  # nothing has to wait again
    past = owners(members)
    known = that_matter(counts, members, racks)
    best = StickyAssignor().assign(counts, eager(members), partition_racks=racks)
    assert rating(second, members, known, past) <= rating(best, members, known, past)


AT_ONCE = -1  # the patience that ends before the first exchange


def rebalances(counts: dict[str, int], members: Group, racks: Racks, patience_slots: int) -> int:
    """How many a cooperative group takes until nobody has to give up anything."""
    for number in range(1, 10):
        past = settle({m: Claim(found.owned_partitions, found.generation_id) for m, found in members.items()})
        plan = assign_stickily(counts, members, past, racks, patience_slots=patience_slots)
        check_plan(plan, counts, members)
        follow_up = {m: [tp for tp in partitions if not past.still_held(tp, m)] for m, partitions in plan.items()}
        if follow_up == plan:
            return number
        members = owning(members, follow_up)
    return number


@given(counts=counts(6), members=groups(8), racks=racks_of_partitions)
def test_a_group_settles_however_little_patience_there_is(counts: dict[str, int], members: Group, racks: Racks) -> None:
    assert rebalances(counts, members, racks, PATIENCE_SLOTS) <= 2
    assert rebalances(counts, members, racks, AT_ONCE) <= 4


def test_groups_with_racks_settle_without_patience() -> None:
    random = Random(1)
    for _ in range(250):
        counts = {topic: random.randint(1, 8) for topic in TOPICS}
        racks = {
            TopicPartition(topic, number): frozenset(random.sample(RACKS, random.randint(1, 2)))
            for topic, count in counts.items()
            for number in range(count)
        }
        members = {name: MemberSubscription(topics=frozenset(TOPICS[: random.randint(1, 3)])) for name in "abcdefgh"}
        had: Plan = {name: [] for name in members}
        for tp in racks:
            had[random.choice([name for name, found in members.items() if tp.topic in found.topics] or ["a"])].append(
                tp
            )
        members = {name: replace(found, rack=random.choice(RACKS)) for name, found in owning(members, had).items()}
        assert rebalances(counts, members, racks, AT_ONCE) <= 3
