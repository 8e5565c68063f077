"""Why records came again: each explanation, and what none of them explains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.testing.faults.report.duplicates import (
    CLOSED,
    KILLED,
    LOST,
    OVERTAKEN,
    REVOKED,
    SOUGHT,
    UNEXPLAINED,
    duplicates,
)
from kwire.testing.invariants.ledger import Calm, Closed, Polled, Sought, Stored, Truncated

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event
    from tests.testing.faults.report.report_run import (
        T0,
        assigned,
        began,
        committed,
        killed,
        ledger,
        lost,
        polled,
        revoked,
        sent,
        started,
    )
else:
    from report_run import T0, assigned, began, committed, killed, ledger, lost, polled, revoked, sent, started

BEGIN = [*sent(0, 0, 1, 2, 3), started(), assigned(10), polled(20, 0, 1, 2)]
AGAIN: list[Event] = [started(30, "b"), assigned(60, "b"), polled(70, 1, 2, 3, member="b")]


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (killed(50), KILLED),
        (lost(50), LOST),
        (revoked(50), REVOKED),
        (Closed(at_ms=50, member="a", took_ms=1, timeout_ms=2), CLOSED),
    ],
)
def test_what_was_not_committed_comes_again(ending: Event, why: str) -> None:
    assert duplicates(ledger(BEGIN, committed(25, 1), ending, AGAIN)) == {why: 2}


def test_what_was_committed_may_not_come_again() -> None:
    assert duplicates(ledger(BEGIN, committed(25, 2), killed(50), AGAIN)) == {UNEXPLAINED: 1, KILLED: 1}


def test_what_the_group_had_stored_counts_as_well() -> None:
    stored = Stored(at_ms=55, partition=T0, offset=3, end=4)
    assert duplicates(ledger(BEGIN, killed(50), stored, AGAIN)) == {UNEXPLAINED: 2}


def test_a_reader_that_does_not_know_that_it_was_overtaken() -> None:
    assert duplicates(ledger(BEGIN, AGAIN)) == {OVERTAKEN: 2}


def test_twice_in_one_assignment_is_not_explained_even_if_there_was_one_before() -> None:
    events = ledger(BEGIN, revoked(50), assigned(60), polled(70, 3), polled(80, 3))
    assert duplicates(events) == {UNEXPLAINED: 1}


def test_a_member_that_promises_to_commit_explains_nothing_while_all_is_well() -> None:
    begin = [*sent(0, 0, 1, 2, 3), started(careful=True), assigned(10), polled(20, 0, 1, 2)]
    assert duplicates(ledger(begin, revoked(50), AGAIN)) == {UNEXPLAINED: 2}
    assert duplicates(ledger(began(1, "latency"), begin, revoked(50), AGAIN)) == {REVOKED: 2}
    assert duplicates(ledger(began(1, "latency"), Calm(at_ms=2), begin, revoked(50), AGAIN)) == {UNEXPLAINED: 2}


def test_who_goes_back_reads_again_and_so_does_the_next_owner() -> None:
    back = Sought(at_ms=30, member="a", partition=T0, offset=1)
    assert duplicates(ledger(BEGIN, back, polled(40, 1, 2))) == {SOUGHT: 2}
    assert duplicates(ledger(BEGIN, back, revoked(50), AGAIN)) == {SOUGHT: 2}
    assert duplicates(ledger(BEGIN, back, polled(40, 0))) == {UNEXPLAINED: 1}


def test_offsets_that_are_given_out_anew_are_no_duplicates() -> None:
    """Not even those of the old log that were still buffered when it was cut."""
    cut = Truncated(at_ms=30, partition=T0, to=1)
    anew = Polled(at_ms=50, member="a", partition=T0, offsets=(1, 2, 3), values=("x", "y", "z"))
    assert duplicates(ledger(BEGIN, committed(25, 3), cut, polled(40, 3), anew)) == {}


def test_a_poll_of_what_is_not_assigned_is_not_explained() -> None:
    assert duplicates(ledger(BEGIN, revoked(50), polled(60, 0))) == {REVOKED: 1}
    assert duplicates(ledger(sent(0, 0), polled(60, 0), polled(70, 0))) == {UNEXPLAINED: 1}
