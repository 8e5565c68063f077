"""Worlds of crash orders as ledgers, for judges of those."""

from __future__ import annotations

import pytest

from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.ledger import Ended, Polled, Sent
from kwire.testing.simulation.crash_ledger import TellingJudge
from kwire.testing.simulation.crash_orders import crash_in_order

SEED = 7  # one child at a time, and no log is cut


@pytest.mark.slow
def test_a_ledger_tells_what_the_judge_was_told() -> None:
    ledger = Ledger()
    outcome = crash_in_order(SEED, TellingJudge.of(ledger))
    assert sum(len(event.values) for event in ledger.of(Polled)) == outcome.delivered
    assert len(list(ledger.of(Sent))) == outcome.written
    assert {event.cursor for event in ledger.of(Polled)} == {"main", "child"}
    assert isinstance(ledger.events[-1], Ended)
    assert check(ledger) == list(outcome.violations) == []


@pytest.mark.slow
def test_telling_changes_nothing() -> None:
    assert crash_in_order(SEED, TellingJudge.of(Ledger())).digest == crash_in_order(SEED).digest
