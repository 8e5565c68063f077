"""Invariants of consumer groups, checked on a ledger of events. Pure: no consumer, no clock, no I/O.

`check(ledger)` returns every `Violation`. Simulations write such ledgers, and so can programs that run real consumers.
"""

from __future__ import annotations

from kwire.testing.invariants.check import check
from kwire.testing.invariants.ledger import Ledger
from kwire.testing.invariants.violation import Violation

__all__ = ["Ledger", "Violation", "check"]
