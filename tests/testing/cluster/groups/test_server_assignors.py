"""The broker's assignors: ranges in the order of members, uniform shares that move as little as can be."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.testing.cluster.groups.server_assignors import (
    SERVER_ASSIGNORS,
    Candidate,
    Plan,
    ServerAssignment,
    assign_ranges,
    assign_uniformly,
)

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def task(partitions: dict[UUID, int], **members: Candidate) -> ServerAssignment:
    return ServerAssignment(members=members, partitions=partitions)


def wants(*topics: UUID, has: Plan | None = None, instance_id: str | None = None) -> Candidate:
    held = {topic: frozenset(some) for topic, some in (has or {}).get("", {}).items()}
    return Candidate(topic_ids=topics, target=held, instance_id=instance_id)


def test_ranges_follow_the_members_in_each_topic() -> None:
    plan = assign_ranges(task({A: 3, B: 2}, two=wants(A, B), one=wants(A, B)))
    assert plan == {"one": {A: {0, 1}, B: {0}}, "two": {A: {2}, B: {1}}}


def test_static_members_come_first_in_ranges_by_their_instance_ids() -> None:
    plan = assign_ranges(task({A: 2}, aaa=wants(A), zzz=wants(A, instance_id="i2"), yyy=wants(A, instance_id="i1")))
    assert plan == {"yyy": {A: {0}}, "zzz": {A: {1}}, "aaa": {}}


def test_ranges_go_to_subscribers_only() -> None:
    assert assign_ranges(task({A: 2, B: 2}, one=wants(A), two=wants(A, B))) == {
        "one": {A: {0}},
        "two": {A: {1}, B: {0, 1}},
    }


def test_a_member_keeps_up_to_its_share_and_a_new_one_gets_the_rest() -> None:
    has = {"": {A: {0, 1, 2, 3}}}
    assert assign_uniformly(task({A: 4}, one=wants(A, has=has), two=wants(A))) == {
        "one": {A: {0, 1}},
        "two": {A: {2, 3}},
    }


def test_the_odd_partition_stays_where_it_is() -> None:
    one, two = {"": {A: {0}}}, {"": {A: {1, 2}}}
    plan = assign_uniformly(task({A: 3}, one=wants(A, has=one), two=wants(A, has=two)))
    assert plan == {"one": {A: {0}}, "two": {A: {1, 2}}}


def test_new_partitions_go_out_before_those_that_others_give_up() -> None:
    has = {"": {A: {0, 1, 2, 3}}}
    plan = assign_uniformly(task({A: 4, B: 2}, one=wants(A, B, has=has), two=wants(A, B)))
    assert plan == {"one": {A: {0, 1, 2}}, "two": {B: {0, 1}, A: {3}}}


def test_with_different_subscriptions_the_wide_one_makes_room() -> None:
    has = {"": {A: {0, 1}, B: {0, 1}}}
    plan = assign_uniformly(task({A: 2, B: 2}, one=wants(A, B, has=has), two=wants(B)))
    assert plan == {"one": {A: {0, 1}}, "two": {B: {0, 1}}}


def test_nobody_gets_what_it_does_not_want_any_more() -> None:
    has = {"": {C: {0}, A: {0}}}
    plan = assign_uniformly(task({A: 2, B: 1}, one=wants(B, has=has), two=wants(A)))
    assert plan == {"one": {B: {0}}, "two": {A: {0, 1}}}


TOPICS = [UUID(int=number) for number in range(1, 4)]


@st.composite
def tasks(draw: st.DrawFn) -> ServerAssignment:
    partitions = {topic: draw(st.integers(1, 5)) for topic in TOPICS}
    subscriptions = draw(st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=5))
    members = {f"m{n}": Candidate(topic_ids=tuple(sorted(some))) for n, some in enumerate(subscriptions)}
    return ServerAssignment(members=members, partitions=partitions)


def check_complete(task: ServerAssignment, plan: Plan) -> None:
    """Each partition that somebody wants has one owner, who wants it."""
    given_out = [(topic, partition) for some in plan.values() for topic, ps in some.items() for partition in ps]
    wanted = {topic for member in task.members.values() for topic in member.topic_ids}
    assert sorted(given_out) == sorted((topic, p) for topic in wanted for p in range(task.partitions[topic]))
    for member_id, some in plan.items():
        assert some.keys() <= set(task.members[member_id].topic_ids)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVER_ASSIGNORS)
@given(task=tasks())
def test_each_partition_has_one_owner_who_wants_it(name: str, task: ServerAssignment) -> None:
    check_complete(task, SERVER_ASSIGNORS[name](task))


@pytest.mark.slow
@given(task=tasks())
def test_a_uniform_assignment_stays_as_it_is(task: ServerAssignment) -> None:
    plan = assign_uniformly(task)
    again = {
        member_id: Candidate(
            topic_ids=member.topic_ids,
            target={topic: frozenset(some) for topic, some in plan.get(member_id, {}).items()},
        )
        for member_id, member in task.members.items()
    }
    assert assign_uniformly(ServerAssignment(members=again, partitions=task.partitions)) == plan


@pytest.mark.slow
@given(task=tasks())
def test_no_topic_could_be_moved_to_somebody_with_two_partitions_less(task: ServerAssignment) -> None:
    plan = assign_uniformly(task)
    sizes = {member_id: sum(map(len, plan.get(member_id, {}).values())) for member_id in task.members}
    for topic in TOPICS:
        subscribers = [member_id for member_id, member in task.members.items() if topic in member.topic_ids]
        for owner in (member_id for member_id in subscribers if topic in plan[member_id]):
            assert sizes[owner] - min(sizes[member_id] for member_id in subscribers) <= 1
