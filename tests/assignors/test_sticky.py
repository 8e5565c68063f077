"""The sticky assignor by example: Kafka's own, and what its user data is for."""

from __future__ import annotations

from kwire.assignors import MemberSubscription, Plan, StickyAssignor
from kwire.model import TopicPartition

sticky = StickyAssignor()


def partitions(text: str) -> list[TopicPartition]:
    return [TopicPartition(name[:-2], int(name[-1])) for name in text.split()]


def member(topics: str, had: str | None = None, generation_id: int = 1, rack: str | None = None) -> MemberSubscription:
    last = None if had is None else partitions(had)
    data = sticky.subscription_user_data(topics.split(), last, generation_id)
    return MemberSubscription(topics=frozenset(topics.split()), user_data=data, rack=rack)


def shown(plan: Plan) -> dict[str, str]:
    return {member_id: " ".join(map(str, sorted(tps))) for member_id, tps in plan.items()}


def assigned(
    counts: dict[str, int], racks: dict[str, str] | None = None, **members: MemberSubscription
) -> dict[str, str]:
    by_partition = {partitions(name)[0]: held for name, held in (racks or {}).items()}
    return shown(sticky.assign(counts, members, partition_racks=by_partition))


def test_a_member_that_was_never_assigned_anything_has_nothing_to_tell() -> None:
    assert sticky.subscription_user_data(["t"], None, -1) is None
    assert sticky.subscription_user_data(["t"], [], 5) is not None


def test_a_fresh_group_is_dealt_out_in_turns() -> None:
    topics = "t0 t1 t2 t3"
    assert assigned(dict.fromkeys(topics.split(), 2), c0=member(topics), c1=member(topics), c2=member(topics)) == {
        "c0": "t0-0 t1-1 t3-0",
        "c1": "t0-1 t2-0 t3-1",
        "c2": "t1-0 t2-1",
    }


def test_when_a_member_leaves_the_others_keep_what_they_have() -> None:
    topics = "t0 t1 t2 t3"
    c0, c2 = member(topics, "t0-0 t1-1 t3-0"), member(topics, "t1-0 t2-1")
    assert assigned(dict.fromkeys(topics.split(), 2), c0=c0, c2=c2) == {
        "c0": "t0-0 t0-1 t1-1 t3-0",
        "c2": "t1-0 t2-0 t2-1 t3-1",
    }


def test_unequal_subscriptions_are_balanced_as_far_as_they_allow() -> None:
    assert assigned({"t0": 1, "t1": 2, "t2": 3}, c0=member("t0"), c1=member("t0 t1"), c2=member("t0 t1 t2")) == {
        "c0": "t0-0",
        "c1": "t1-0 t1-1",
        "c2": "t2-0 t2-1 t2-2",
    }


def test_balance_is_found_by_way_of_a_member_in_between() -> None:
    # c2 can take from c1 alone, and c1 from c0: no single move helps, as c1 has only one more than c2.
    c0, c1, c2 = member("t0", "t0-0 t0-1 t0-2"), member("t0 t1", "t1-0 t1-1"), member("t1", "t1-2")
    assert assigned({"t0": 3, "t1": 3}, c0=c0, c1=c1, c2=c2) == {
        "c0": "t0-0 t0-1",
        "c1": "t0-2 t1-0",
        "c2": "t1-1 t1-2",
    }


def test_a_newcomer_gets_its_share_and_nothing_else_moves() -> None:
    a, b = member("t", "t-0 t-1 t-2"), member("t", "t-3 t-4 t-5")
    assert assigned({"t": 6}, a=a, b=b, c=member("t")) == {"a": "t-0 t-1", "b": "t-3 t-4", "c": "t-2 t-5"}


def test_new_partitions_go_to_those_with_fewer() -> None:
    assert assigned({"t": 5}, a=member("t", "t-0 t-1"), b=member("t", "t-2")) == {"a": "t-0 t-1 t-3", "b": "t-2 t-4"}


def test_partitions_and_topics_that_are_gone_are_forgotten() -> None:
    a = member("t", "t-0 t-3 gone-0")
    assert assigned({"t": 2}, a=a, b=member("t", "t-1")) == {"a": "t-0", "b": "t-1"}


def test_a_topic_that_is_no_longer_wanted_goes_to_another() -> None:
    assert assigned({"t": 1, "u": 1}, a=member("t", "t-0 u-0"), b=member("u t")) == {"a": "t-0", "b": "u-0"}


def test_a_member_that_missed_a_rebalance_does_not_take_from_those_that_did_not() -> None:
    late, ours = member("t", "t-0 t-1", generation_id=1), member("t", "t-0", generation_id=2)
    other = member("t", "t-1", generation_id=2)
    assert assigned({"t": 3}, late=late, other=other, ours=ours) == {"late": "t-2", "other": "t-1", "ours": "t-0"}


def test_a_member_that_missed_a_rebalance_gets_back_what_has_to_move_anyway() -> None:
    late, busy = member("t", "t-1", generation_id=1), member("t", "t-0 t-1 t-2", generation_id=2)
    assert assigned({"t": 3}, late=late, busy=busy) == {"busy": "t-0 t-2", "late": "t-1"}


def test_of_what_is_free_each_member_gets_back_its_own() -> None:
    y, z = member("t", "t-1", generation_id=1), member("t", "t-0", generation_id=1)
    busy = member("t", "t-0 t-1 t-2 t-3 t-4 t-5", generation_id=2)
    assert assigned({"t": 6}, busy=busy, y=y, z=z) == {"busy": "t-2 t-3", "y": "t-1 t-4", "z": "t-0 t-5"}


def test_members_of_the_first_version_have_no_generation() -> None:
    old = member("t", "t-0")
    assert old.user_data is not None
    old = MemberSubscription(topics=old.topics, user_data=old.user_data[:-4])
    assert assigned({"t": 2}, old=old, new=member("t")) == {"old": "t-0", "new": "t-1"}


def test_a_member_that_wants_nothing_that_exists_gets_nothing() -> None:
    assert assigned({"t": 2}, a=member("t"), b=member(""), c=member("gone")) == {"a": "t-0 t-1", "b": "", "c": ""}
    assert assigned({}, a=member("t")) == {"a": ""}
    assert assigned({"t": 0}, a=member("t")) == {"a": ""}
    assert assigned({"t": 3}, b=member("u")) == {"b": ""}


def test_only_what_has_to_move_does() -> None:
    b, c = member("t0", "t0-1"), member("t0 t1 t2", "t0-0 t1-0 t2-0")
    assert assigned({"t0": 2, "t1": 1, "t2": 1}, a=member("t2"), b=b, c=c) == {
        "a": "t2-0",
        "b": "t0-1",
        "c": "t0-0 t1-0",
    }


def test_what_is_far_from_all_stays_where_it_is() -> None:
    racks = {"t-0": "z", "t-1": "y"}
    assert assigned({"t": 2}, racks, a=member("t", rack="y"), b=member("t", "t-0", rack="y")) == {
        "a": "t-1",
        "b": "t-0",
    }


def test_racks_come_before_stickiness() -> None:
    racks = {"t-0": "y", "t-1": "x"}
    a, b = member("t", "t-0", rack="x"), member("t", "t-1", rack="y")
    assert assigned({"t": 2}, racks, a=a, b=b) == {"a": "t-1", "b": "t-0"}


def test_balance_comes_before_racks() -> None:
    racks = {"t-0": "x", "t-1": "x", "t-2": "x", "t-3": "x", "u-0": "y"}
    plan = assigned({"t": 4}, racks, a=member("t", rack="x"), b=member("t", rack="y"))
    assert {member_id: len(text.split()) for member_id, text in plan.items()} == {"a": 2, "b": 2}


def test_racks_do_not_matter_when_all_of_them_hold_everything() -> None:
    racks = {"t-0": "xy", "t-1": "yx"}
    a, b = member("t", "t-1", rack="x"), member("t", "t-0", rack="y")
    assert assigned({"t": 2}, racks, a=a, b=b) == {"a": "t-1", "b": "t-0"}


def test_a_member_without_a_rack_is_near_to_all() -> None:
    racks = {"t-0": "x", "t-1": "y"}
    assert assigned({"t": 2}, racks, a=member("t"), b=member("t", rack="x")) == {"a": "t-1", "b": "t-0"}
