"""What `scripts/prove losses` counts as lost, and its table."""

from __future__ import annotations

import pytest
from losses_cell import ALL, TARGET, Place
from losses_faults import Fault
from losses_judge import Outcome, lost_records
from losses_sense import why_not
from losses_table import table
from losses_ways import Way

EVERYTHING = {0: 100, 1: 100}


def test_a_record_behind_the_commit_that_nobody_has_handled_is_lost() -> None:
    missing = Place(1, 42)
    assert lost_records(Way.POLL_COMMIT, Fault.NONE, ALL - {missing}, EVERYTHING) == [missing]


def test_what_is_not_committed_comes_again_and_is_not_lost() -> None:
    assert lost_records(Way.POLL_COMMIT, Fault.NONE, ALL - {Place(1, 42)}, {0: 100, 1: 42}) == []


@pytest.mark.parametrize(("way", "lost"), [(Way.BY_KEY, []), (Way.DEAD_LETTERS, [TARGET])])
def test_a_bad_record_may_be_missing_unless_there_are_dead_letters(way: Way, lost: list[Place]) -> None:
    assert lost_records(way, Fault.BAD_VALUE, ALL - {TARGET}, EVERYTHING) == lost


@pytest.mark.parametrize(("fault", "gap"), [(Fault.RETENTION_NONE, range(40)), (Fault.CORRUPT, range(40, 60))])
def test_what_the_log_does_not_have_may_be_missing_and_nothing_next_to_it(fault: Fault, gap: range) -> None:
    gone = {Place(0, offset) for offset in gap}
    behind = Place(0, gap.stop)
    assert lost_records(Way.POLL_AUTO, fault, ALL - gone, EVERYTHING) == []
    assert lost_records(Way.POLL_AUTO, fault, ALL - gone - {behind}, EVERYTHING) == [behind]


def test_the_table_names_what_was_lost_and_why_cells_are_missing() -> None:
    kept = Outcome(Way.POLL_COMMIT, Fault.BAD_VALUE, delivered=199, handled=199, committed=200, lives=1)
    lossy = Outcome(Way.POLL_AUTO, Fault.FORK, committed=200, lost=[TARGET], told=["Error: losses-01234567-0 | gone"])
    senseless = Outcome(Way.COMMAND, Fault.BAD_KEY, why_not(Way.COMMAND, Fault.BAD_KEY))
    lines = table([kept, lossy, senseless]).splitlines()
    assert "| poll-commit | bad-value | 199 | 199 | 200 | 0 | 0 | 1 |  |" in lines
    assert "| poll-auto-commit | fork | 0 | 0 | 200 | 1 | 0 | 0 | Error: topic-0 / gone |" in lines
    assert "* bad-key: it prints bytes as they are (command-line)." in lines
