"""A plan that no group can follow is refused, with everything that is wrong with it."""

from __future__ import annotations

import pytest

from kwire.assignors import MemberSubscription, check_plan
from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition


def tps(*numbers: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def member(*owned: int) -> MemberSubscription:
    return MemberSubscription(topics=frozenset({"t"}), owned_partitions=frozenset(tps(*owned)))


def test_a_plan_that_can_be_followed_passes() -> None:
    check_plan({"a": tps(0, 1), "b": []}, {"t": 3}, {"a": member(), "b": member()})


def test_a_partition_given_to_two_members_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="t-1 is given to 'a' and to 'b'"):
        check_plan({"a": tps(0, 1), "b": tps(1)}, {"t": 2}, {"a": member(), "b": member()})


def test_a_partition_given_twice_to_one_member_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="t-0 is given to 'a' and to 'a'"):
        check_plan({"a": tps(0, 0)}, {"t": 1}, {"a": member()})


def test_a_member_that_is_not_in_the_group_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'b' is no member of the group"):
        check_plan({"a": tps(0), "b": []}, {"t": 1}, {"a": member()})


@pytest.mark.parametrize(("topic", "number"), [("t", 1), ("t", -1), ("other", 0)])
def test_a_partition_that_does_not_exist_is_refused(topic: str, number: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{topic}-{number}, given to 'a', does not exist"):
        check_plan({"a": tps(number, topic=topic)}, {"t": 1}, {"a": member()})


def test_all_problems_are_told_at_once_but_not_endlessly() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        check_plan({"a": tps(*range(20)), "x": tps(0)}, {"t": 1}, {"a": member()})
    text = str(raised.value)
    assert "'x' is no member" in text
    assert "t-5, given to 'a', does not exist; and 14 more like it; t-0 is given to 'a' and to 'x'" in text
    assert "t-6" not in text


def test_a_cooperative_plan_must_not_move_a_partition_that_is_still_owned() -> None:
    plan = {"a": tps(0), "b": tps(1)}
    members = {"a": member(0, 1), "b": member()}
    check_plan(plan, {"t": 2}, members)
    with pytest.raises(InvalidArgumentError, match="t-1 is given to 'b' while 'a' has not given it up"):
        check_plan(plan, {"t": 2}, members, cooperative=True)
    check_plan({"a": tps(0), "b": []}, {"t": 2}, members, cooperative=True)


def test_a_topic_that_the_member_does_not_subscribe_to_is_refused() -> None:
    """The member took it, and returned records of a topic that it has no code for."""
    with pytest.raises(InvalidArgumentError, match="u-0 is given to 'a', which does not subscribe to 'u'"):
        check_plan({"a": tps(0) + tps(0, topic="u")}, {"t": 1, "u": 1}, {"a": member()})
