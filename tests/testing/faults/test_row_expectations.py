"""What rows demand beside the invariants: that nobody who stays gives partitions away, and that nothing comes twice."""

from __future__ import annotations

from kwire.model import TopicPartition
from kwire.testing.faults.expectations import unmet
from kwire.testing.faults.scenario_rows import Expectation
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Event,
    FaultBegan,
    Killed,
    Ledger,
    Polled,
    Quiet,
    Revoked,
    Started,
)

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
BEFORE: list[Event] = [
    Started(at_ms=0, member="member0.1", session_timeout_ms=10_000),
    Started(at_ms=0, member="member1.1", session_timeout_ms=10_000),
    Assigned(at_ms=1, member="member0.1", partitions=(A, B)),
    Revoked(at_ms=2, member="member0.1", partitions=(B,)),
    Assigned(at_ms=3, member="member1.1", partitions=(B,)),
    FaultBegan(at_ms=10, fault="leader-move", detail=""),
]
STAYS = (Expectation.NO_REBALANCE,)


def broken(*events: Event) -> list[str]:
    return [violation.rule for violation in unmet(Ledger([*BEFORE, *events]), STAYS)]


def test_what_happens_before_the_first_fault_is_the_group_coming_together() -> None:
    assert broken() == []


def test_who_stays_keeps_what_it_has() -> None:
    assert broken(Revoked(at_ms=20, member="member0.1", partitions=(A,))) == ["rebalanced"]


def test_it_may_give_to_who_has_joined() -> None:
    assert not broken(
        Started(at_ms=20, member="member2.1", session_timeout_ms=10_000),
        Revoked(at_ms=21, member="member0.1", partitions=(A,)),
        Assigned(at_ms=22, member="member2.1", partitions=(A,)),
    )


def test_who_goes_gives_up_all() -> None:
    revoked = Revoked(at_ms=20, member="member0.1", partitions=(A,))
    assert not broken(revoked, Closed(at_ms=21, member="member0.1", took_ms=1, timeout_ms=9))
    assert not broken(revoked, Killed(at_ms=21, member="member0.1"))


def test_in_the_end_all_go_and_that_is_no_excuse_for_before() -> None:
    quiet = Quiet(at_ms=30)
    closed = Closed(at_ms=41, member="member0.1", took_ms=1, timeout_ms=9)
    assert not broken(quiet, Revoked(at_ms=40, member="member0.1", partitions=(A,)), closed)
    assert broken(Revoked(at_ms=20, member="member0.1", partitions=(A,)), quiet, closed) == ["rebalanced"]


def test_nothing_comes_twice_where_nothing_may() -> None:
    polled = Polled(at_ms=5, member="member0.1", partition=A, offsets=(0, 1), values=("a", "b"))
    again = Polled(at_ms=9, member="member0.1", partition=A, offsets=(1,), values=("b",))
    exact = (Expectation.NO_DUPLICATES,)
    assert list(unmet(Ledger([*BEFORE, polled]), exact)) == []
    (violation,) = unmet(Ledger([*BEFORE, polled, again]), exact)
    assert (violation.rule, violation.what) == ("came-again", "1 records came again: 1 unexplained")
    assert list(unmet(Ledger([*BEFORE, polled, again]), ())) == []
