"""Every rule finds what breaks it, and leaves alone what only looks like it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.handling_events import StoredMap
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    CommitArrived,
    CommitTaken,
    Committed,
    Died,
    Ended,
    FaultBegan,
    Frozen,
    Hidden,
    Killed,
    Lost,
    Polled,
    Quiet,
    Raised,
    Removed,
    Revoked,
    Sent,
    Sought,
    Started,
    Thawed,
    Truncated,
)

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
SESSION_MS = 10_000.0
FAULT = FaultBegan(at_ms=0.0, fault="storm", detail="")


def sent(offset: int, value: str | None = None, at: float = 0.0) -> Sent:
    return Sent(at_ms=at, partition=T0, offset=offset, value=value or f"v{offset}")


def polled(*offsets: int, member: str = "a", at: float = 100.0, values: tuple[str, ...] | None = None) -> Polled:
    given = values or tuple(f"v{offset}" for offset in offsets)
    return Polled(at_ms=at, member=member, partition=T0, offsets=offsets, values=given)


def started(member: str = "a") -> Started:
    return Started(at_ms=0.0, member=member, session_timeout_ms=SESSION_MS)


def assigned(member: str = "a", at: float = 50.0) -> Assigned:
    return Assigned(at_ms=at, member=member, partitions=(T0,))


def revoked(member: str = "a", at: float = 500.0) -> Revoked:
    return Revoked(at_ms=at, member=member, partitions=(T0,))


def rules(*events: Event) -> list[str]:
    return [violation.rule for violation in check(Ledger(list(events)))]


BEGIN = (started(), sent(0), sent(1), sent(2), assigned())
END = Ended(at_ms=100_000.0)
CLOSED = Closed(at_ms=600.0, member="a", took_ms=10.0, timeout_ms=1_000.0)
GONE = (revoked(), CLOSED)


def test_a_run_in_which_all_is_well() -> None:
    commit = CommitArrived(at_ms=150.0, member="a", partition=T0, offset=3)
    told = Committed(at_ms=160.0, member="a", partition=T0, offset=3)
    quiet = Quiet(at_ms=300.0)
    assert rules(*BEGIN, polled(0, 1), polled(2), commit, told, quiet, *GONE, END) == []


def test_a_record_that_nobody_polled() -> None:
    assert rules(*BEGIN, polled(0), *GONE, END) == ["unseen"]
    assert rules(*BEGIN, polled(0), *GONE, assigned("b"), polled(2, member="b"), END) == ["lost-write"]


def test_what_was_deleted_or_truncated_need_not_be_polled() -> None:
    assert rules(*BEGIN, Removed(at_ms=60.0, partition=T0, before=2), polled(2), *GONE, END) == []
    assert rules(*BEGIN, polled(0), Truncated(at_ms=110.0, partition=T0, to=1), *GONE, END) == []


def test_a_topic_that_was_recreated_has_to_be_read_from_its_start_wherever_the_old_one_began() -> None:
    old = polled(0, 1, 2), Removed(at_ms=110.0, partition=T0, before=3), Truncated(at_ms=120.0, partition=T0, to=0)
    assert rules(*BEGIN, *old, sent(0, "new", at=130.0), *GONE, END) == ["lost-write"]
    read = polled(0, values=("new",), at=140.0)
    assert rules(*BEGIN, *old, sent(0, "new", at=130.0), read, *GONE, END) == []


def test_a_value_that_was_sent_elsewhere() -> None:
    assert rules(*BEGIN, polled(0, values=("v1",))) == ["inconsistent-offsets"]
    assert rules(*BEGIN, polled(0, values=("garbage",))) == ["inconsistent-offsets"]


@pytest.mark.parametrize(
    ("second", "rule"),
    [(polled(2), "poll-skip"), (polled(0), "nonmonotonic-poll"), (polled(1, 1), "nonmonotonic-poll")],
    ids=["skips", "goes back", "twice in one poll"],
)
def test_a_position_that_jumps(second: Polled, rule: str) -> None:
    assert rules(*BEGIN, polled(0), second) == [rule]


def test_a_position_may_jump_over_what_was_deleted_and_between_two_assignments() -> None:
    assert rules(*BEGIN, polled(0), Removed(at_ms=110.0, partition=T0, before=2), polled(2)) == []
    assert rules(*BEGIN, polled(0, 1), revoked(), assigned(at=600.0), polled(0, at=700.0)) == []


def test_a_truncation_allows_one_way_back() -> None:
    cut = Truncated(at_ms=110.0, partition=T0, to=1)
    anew = sent(1, "new", at=120.0)
    old = polled(0, 1), cut, anew, polled(2)  # what was buffered of the old log still comes
    assert rules(*BEGIN, *old, polled(1, values=("new",))) == []
    assert rules(*BEGIN, *old, polled(0)) == ["nonmonotonic-poll"]
    again = polled(1, values=("new",))
    assert rules(*BEGIN, *old, again, again) == ["nonmonotonic-poll"]


def test_each_truncation_allows_a_way_of_its_own_back() -> None:
    """The log is cut at 2, and then at 1: a member that has been to the first place may go on to the second one."""
    cuts = Truncated(at_ms=110.0, partition=T0, to=2), Truncated(at_ms=130.0, partition=T0, to=1)
    log = polled(0, 1, 2), cuts[0], sent(2, "two", at=120.0), cuts[1], sent(1, "one", at=140.0)
    one, two = polled(1, values=("one",)), polled(2, values=("two",))
    assert rules(*BEGIN, *log, two, one) == []
    assert rules(*BEGIN, *log, one) == [], "both were found out at once"
    assert rules(*BEGIN, *log, one, one) == ["nonmonotonic-poll"]
    assert rules(*BEGIN, *log, two, two) == ["nonmonotonic-poll"], "the same record again is never explained"


def test_two_truncations_at_one_place_allow_two_ways_back() -> None:
    """What came between them was buffered by a member that had paused, handed out behind the second one, and void."""
    first, second = (Truncated(at_ms=at, partition=T0, to=1) for at in (110.0, 130.0))
    log = polled(0, 1), first, sent(1, "between", at=120.0), second, sent(1, "last", at=140.0)
    assert rules(*BEGIN, *log, polled(1, values=("between",)), polled(1, values=("last",))) == []


def test_a_truncation_in_front_of_where_a_member_began_allows_a_way_back() -> None:
    cut = Truncated(at_ms=110.0, partition=T0, to=0)
    log = polled(1, 2), cut, sent(0, "zero", at=120.0), sent(1, "one", at=120.0)
    assert rules(*BEGIN, *log, polled(0, 1, values=("zero", "one"))) == []


def test_a_poll_of_what_is_not_assigned() -> None:
    assert rules(started(), sent(0), polled(0)) == ["not-assigned"]
    assert rules(*BEGIN, revoked(at=60.0), polled(0)) == ["not-assigned"]


def test_two_owners_for_longer_than_a_session() -> None:
    both = (FAULT, *BEGIN, assigned("b", at=1_000.0))
    assert rules(*both, revoked("a", at=5_000.0)) == []
    assert rules(*both, revoked("a", at=14_000.0)) == ["one-owner"]
    assert rules(*both, polled(0, at=14_000.0)) == ["one-owner"]
    lost = Lost(at_ms=14_000.0, member="a", partitions=(T0,))
    assert rules(*both, lost) == ["one-owner"]


def test_a_member_that_was_never_told_its_session_timeout_has_one_from_when_all_is_quiet() -> None:
    unknowing = Started(at_ms=0.0, member="a", session_timeout_ms=SESSION_MS, knows_session=False)
    both = (FAULT, unknowing, sent(0), sent(1), sent(2), assigned(), assigned("b", at=1_000.0))
    drained = polled(0, 1, 2, member="b", at=1_100.0)
    quiet = Quiet(at_ms=60_000.0)
    assert rules(*both, drained, revoked("a", at=50_000.0)) == []
    assert rules(*both, drained, quiet, revoked("a", at=70_000.0)) == []
    assert rules(*both, drained, quiet, revoked("a", at=80_000.0)) == ["one-owner"]


def test_the_dead_and_the_frozen_own_nothing() -> None:
    both = (FAULT, *BEGIN, assigned("b", at=1_000.0))
    assert rules(*BEGIN, Killed(at_ms=900.0, member="a"), assigned("b"), revoked("b", at=90_000.0)) == []
    frozen = Frozen(at_ms=900.0, member="a"), Thawed(at_ms=30_000.0, member="a")
    assert rules(*both, *frozen, revoked("a", at=31_000.0)) == []
    assert rules(*both, *frozen, revoked("a", at=45_000.0)) == ["one-owner"]


def test_a_commit_ahead_of_what_was_handed_out() -> None:
    commit = CommitArrived(at_ms=150.0, member="a", partition=T0, offset=2)
    assert rules(*BEGIN, polled(0), commit) == ["commit-ahead"]
    assert rules(*BEGIN, polled(0, 1), commit) == []
    told = Committed(at_ms=150.0, member="a", partition=T0, offset=2)
    assert rules(*BEGIN, polled(0), told) == ["commit-ahead"]


def test_a_commit_over_what_an_earlier_life_has_finished() -> None:
    stored = StoredMap(at_ms=50.0, partition=T0, offset=0, finished=((1, 3),))
    commit = CommitArrived(at_ms=150.0, member="a", partition=T0, offset=3)
    assert rules(*BEGIN, stored, polled(0), commit) == [], "2 was never polled, and need not be"
    assert rules(*BEGIN, polled(0), commit) == ["commit-ahead"]
    assert rules(*BEGIN, replace(stored, finished=((2, 3),)), polled(0), commit) == ["commit-ahead"], (
        "1 is not finished"
    )
    assert rules(*BEGIN, stored, polled(0), replace(commit, offset=4)) == ["commit-ahead"]


def test_a_commit_of_what_another_member_was_handed() -> None:
    other = (started("b"), polled(0, 1), revoked(), assigned("b", at=600.0))
    commit = CommitArrived(at_ms=700.0, member="b", partition=T0, offset=2)
    assert rules(*BEGIN, *other, commit) == ["commit-ahead"]
    before = CommitArrived(at_ms=400.0, member="a", partition=T0, offset=2)
    assert rules(*BEGIN, before, *other, commit) == ["commit-ahead"], "a's was ahead when it came"
    assert rules(*BEGIN, *other[:2], before, *other[2:], commit) == [], "b found it committed"


def test_a_commit_of_what_the_member_never_owned() -> None:
    commit = CommitArrived(at_ms=150.0, member="b", partition=T0, offset=0)
    assert rules(*BEGIN, commit) == ["commit-not-owned"]


def test_what_was_committed_and_comes_again() -> None:
    told = Committed(at_ms=150.0, member="a", partition=T0, offset=2)
    before = (*BEGIN, polled(0, 1), told, revoked(), assigned("b", at=600.0))
    assert rules(*before, polled(1, 2, member="b", at=700.0)) == ["redelivered"]
    assert rules(*before, polled(2, member="b", at=700.0)) == []
    cut = Truncated(at_ms=650.0, partition=T0, to=1)
    assert rules(*before, cut, sent(1, "new", at=660.0), polled(1, member="b", at=700.0, values=("new",))) == []


def test_a_commit_of_what_a_log_had_in_front_of_a_cut_binds_nobody() -> None:
    """The member does not know of the cut yet; the next owner is told by the leader, and begins where it was."""
    cut = Truncated(at_ms=140.0, partition=T0, to=1)
    told = Committed(at_ms=150.0, member="a", partition=T0, offset=2)
    before = (*BEGIN, polled(0, 1), cut, sent(1, "new", at=145.0), told, revoked(), assigned("b", at=600.0))
    assert rules(*before, polled(1, member="b", at=700.0, values=("new",))) == []


def test_a_commit_that_was_told_as_done_and_that_the_group_does_not_have() -> None:
    told = Committed(at_ms=150.0, member="a", partition=T0, offset=2)
    taken = [CommitTaken(at_ms=140.0, partition=T0, offset=offset) for offset in (1, 2)]
    assert rules(*BEGIN, polled(0, 1), told) == [], "the ledger does not say what the group has"
    assert rules(*BEGIN, polled(0, 1), taken[0], told) == ["commit-not-kept"]
    assert rules(*BEGIN, polled(0, 1), *taken, told) == []
    assert rules(*BEGIN, polled(0, 1), taken[1], taken[0], told) == [], "it was overwritten since"
    cut = Truncated(at_ms=130.0, partition=T0, to=1)
    assert rules(*BEGIN, polled(0, 1), cut, taken[0], told) == []
    removed = Removed(at_ms=130.0, partition=T0, before=2)
    assert rules(*BEGIN, polled(0, 1), removed, taken[0], told) == []


def test_a_commit_that_undoes_what_was_told_to_be_committed() -> None:
    """It was made before, and again, and is carried out now."""
    told = Committed(at_ms=150.0, member="a", partition=T0, offset=2)
    taken = [CommitTaken(at_ms=at_ms, partition=T0, offset=offset) for at_ms, offset in ((140.0, 2), (160.0, 1))]
    before = (*BEGIN, polled(0, 1), taken[0], told)
    assert rules(*before, taken[1]) == ["commit-undone"]
    assert rules(*before, Hidden(at_ms=155.0, partition=T0, offsets=(1,)), taken[1]) == []
    assert rules(*before, Sought(at_ms=155.0, member="a", partition=T0, offset=0), taken[1]) == []
    assert rules(*before, Truncated(at_ms=155.0, partition=T0, to=1), taken[1]) == []


def test_a_partition_that_is_drained_too_late() -> None:
    quiet = Quiet(at_ms=300.0)
    assert rules(*BEGIN, polled(0), quiet, polled(1, 2, at=30_000.0)) == []
    assert rules(*BEGIN, polled(0), quiet, polled(1, 2, at=60_000.0)) == ["recovery"]


def test_calls_that_end_badly() -> None:
    assert rules(Died(at_ms=1.0, member="a", error="ValueError()")) == ["died"]
    raised = Raised(at_ms=1.0, member="a", call="poll", error="InternalError", message="")
    assert rules(raised) == ["internal-error"]
    expected = Raised(at_ms=1.0, member="a", call="poll", error="KafkaTimeoutError", message="")
    assert rules(expected) == []
    assert rules(Closed(at_ms=9.0, member="a", took_ms=2_000.0, timeout_ms=1_000.0)) == ["close-late"]


def test_a_member_that_never_ends() -> None:
    seen = polled(0, 1, 2)
    assert rules(*BEGIN, seen, END) == ["never-closed"]
    assert rules(*BEGIN, seen, Killed(at_ms=200.0, member="a"), END) == []


def test_violations_come_in_the_order_in_which_they_happened() -> None:
    late = Closed(at_ms=10.0, member="a", took_ms=2_000.0, timeout_ms=1_000.0)
    assert rules(late, *BEGIN[:4], polled(0, at=20.0)) == ["close-late", "not-assigned"]


def test_the_bytes_of_a_ledger_are_canonical() -> None:
    ledger = Ledger([sent(0), polled(0, values=("é\n",)), assigned()])
    assert list(ledger.lines()) == [
        '{"event":"Sent","at_ms":0.0,"partition":"t-0","offset":0,"value":"v0"}',
        '{"event":"Polled","at_ms":100.0,"member":"a","partition":"t-0","offsets":[0],"values":["\\u00e9\\n"]}',
        '{"event":"Assigned","at_ms":50.0,"member":"a","partitions":["t-0"]}',
    ]
    assert ledger.digest() == Ledger(list(ledger.events)).digest()
    assert ledger.digest() != Ledger(ledger.events[:2]).digest()
