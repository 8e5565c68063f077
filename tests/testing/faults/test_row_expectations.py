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
    FaultEnded,
    Killed,
    Ledger,
    Polled,
    Quiet,
    Raised,
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


FORBIDDEN: list[Event] = [
    Started(at_ms=0, member="member0.1", session_timeout_ms=10_000),
    Started(at_ms=0, member="member1.1", session_timeout_ms=10_000),
    FaultBegan(at_ms=10, fault="topic-forbidden", detail=""),
    Raised(at_ms=11, member="member0.1", call="poll", error="TopicAuthorizationError", message="not you"),
]
ALLOWED = FaultEnded(at_ms=20, fault="topic-forbidden")


def untold(*events: Event) -> list[str]:
    return [violation.what for violation in unmet(Ledger([*FORBIDDEN, *events]), (Expectation.REFUSAL_TOLD,))]


def test_everybody_hears_what_is_forbidden_in_the_words_of_its_client() -> None:
    other = Raised(at_ms=12, member="member1.1", call="poll", error="TOPIC_AUTHORIZATION_FAILED", message="")
    assert not untold(other, ALLOWED)
    assert untold(ALLOWED, other) == ["member1.1 never heard of topic-forbidden"]
    wrong = Raised(at_ms=12, member="member1.1", call="poll", error="CorruptRecordError", message="")
    assert untold(wrong, ALLOWED) == ["member1.1 never heard of topic-forbidden"]


def test_who_comes_later_or_goes_before_need_not_hear_it() -> None:
    came = Started(at_ms=12, member="member2.1", session_timeout_ms=10_000)
    assert not untold(came, Killed(at_ms=15, member="member1.1"), ALLOWED)


def test_what_was_heard_of_one_fault_is_not_heard_of_the_next() -> None:
    again: list[Event] = [
        Killed(at_ms=15, member="member1.1"),
        ALLOWED,
        FaultBegan(at_ms=30, fault="group-forbidden", detail=""),
        FaultEnded(at_ms=40, fault="group-forbidden"),
    ]
    assert untold(*again) == ["member0.1 never heard of group-forbidden"]


def test_without_a_lag_there_was_nothing_to_see_of_a_row_about_lags() -> None:
    def found(cursor: str) -> list[str]:
        polled = Polled(at_ms=20, member="m", partition=A, offsets=(1,), values=("v",), cursor=cursor)
        return [violation.rule for violation in unmet(Ledger([polled]), (Expectation.CAUGHT_UP,))]

    assert (found("child"), found("main")) == ([], ["no-lag"])
