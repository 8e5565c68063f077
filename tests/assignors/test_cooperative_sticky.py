"""The cooperative sticky assignor: what is to move waits until its owner has given it up."""

from __future__ import annotations

from kwire.assignors import CooperativeStickyAssignor, MemberSubscription, RebalanceProtocol
from kwire.assignors.user_data import encode_generation
from kwire.model import TopicPartition

cooperative = CooperativeStickyAssignor()


def member(*owned: int, generation_id: int = 1, topic: str = "t", user_data: bytes | None = None) -> MemberSubscription:
    return MemberSubscription(
        topics=frozenset({topic}),
        owned_partitions=frozenset(TopicPartition("t", number) for number in owned),
        generation_id=generation_id,
        user_data=user_data,
    )


def assigned(count: int, **members: MemberSubscription) -> dict[str, list[int]]:
    plan = cooperative.assign({"t": count}, members)
    return {member_id: sorted(tp.partition for tp in partitions) for member_id, partitions in plan.items()}


def test_it_is_fit_for_both_protocols() -> None:
    assert set(cooperative.protocols) == set(RebalanceProtocol)


def test_it_tells_its_generation_to_leaders_that_look_for_it_in_the_user_data() -> None:
    assert cooperative.subscription_user_data(["t"], None, -1) == b"\xff\xff\xff\xff"
    assert cooperative.subscription_user_data(["t"], [TopicPartition("t", 0)], 5) == b"\x00\x00\x00\x05"


def test_a_fresh_group_gets_everything_at_once() -> None:
    assert assigned(4, a=member(), b=member()) == {"a": [0, 2], "b": [1, 3]}


def test_a_newcomer_waits_for_the_second_step() -> None:
    assert assigned(4, a=member(0, 1, 2, 3), b=member()) == {"a": [0, 1], "b": []}
    assert assigned(4, a=member(0, 1), b=member()) == {"a": [0, 1], "b": [2, 3]}


def test_what_a_member_left_behind_moves_at_once() -> None:
    assert assigned(4, a=member(0, 1)) == {"a": [0, 1, 2, 3]}


def test_a_partition_is_not_moved_while_a_member_that_no_longer_wants_it_still_has_it() -> None:
    assert assigned(1, a=member(0, topic="u"), b=member()) == {"a": [], "b": []}


def test_the_newer_generation_keeps_a_disputed_partition() -> None:
    late, ours = member(0, 1, generation_id=3), member(0, generation_id=4)
    assert assigned(2, late=late, ours=ours) == {"late": [1], "ours": [0]}


def test_of_two_owners_in_one_generation_both_have_to_give_up() -> None:
    assert assigned(2, a=member(0), b=member(0)) in ({"a": [], "b": [1]}, {"a": [1], "b": []})
    assert assigned(2, a=member(), b=member(1)) == {"a": [0], "b": [1]}


def test_the_generation_of_older_members_is_in_their_user_data() -> None:
    older = member(0, generation_id=-1, user_data=encode_generation(5))
    assert assigned(2, newer=member(0, generation_id=4), older=older) == {"newer": [1], "older": [0]}
