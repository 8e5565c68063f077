"""Who had what, when members' memories collide."""

from __future__ import annotations

from kwire.assignors.claims import Claim, settle
from kwire.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def claim(generation_id: int, *partitions: TopicPartition) -> Claim:
    return Claim(frozenset(partitions), generation_id)


def test_a_claim_that_nobody_disputes_holds_however_old() -> None:
    past = settle({"a": claim(-1, T0), "b": claim(9, T1)})
    assert past.owners == {T0: "a", T1: "b"}


def test_the_newest_generation_wins() -> None:
    past = settle({"a": claim(3, T0), "b": claim(5, T0), "c": claim(4, T0)})
    assert past.owners == {T0: "b"}
    assert past.claimants == {T0: ("b", "c", "a")}


def test_a_claim_without_generation_loses_to_any_other() -> None:
    assert settle({"a": claim(-1, T0), "b": claim(0, T0)}).owners == {T0: "b"}


def test_of_two_in_one_generation_neither_holds() -> None:
    assert settle({"a": claim(5, T0), "b": claim(5, T0, T1)}).owners == {T1: "b"}


def test_two_old_claims_do_not_hurt_a_newer_one() -> None:
    assert settle({"a": claim(4, T0), "b": claim(4, T0), "c": claim(5, T0)}).owners == {T0: "c"}


def test_an_owner_may_go_on_and_anybody_else_waits_for_it() -> None:
    past = settle({"a": claim(4, T0), "b": claim(5, T0)})
    assert not past.still_held(T0, "b")
    assert past.still_held(T0, "a")
    assert past.still_held(T0, "c")
    assert not past.still_held(T1, "c")


def test_nobody_gets_a_disputed_partition_before_all_have_given_it_up() -> None:
    past = settle({"a": claim(5, T0), "b": claim(5, T0)})
    assert all(past.still_held(T0, member_id) for member_id in "abc")
