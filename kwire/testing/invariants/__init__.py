"""What a group of consumers must have done, judged by a ledger of what happened. Pure: no consumer, no clock, no I/O.

`check(ledger)` answers every `Violation`. A simulation writes such a ledger, and so can a program that drives
real consumers.
"""

from __future__ import annotations

from kwire.testing.invariants.check import check
from kwire.testing.invariants.ledger import Ledger
from kwire.testing.invariants.violation import Violation

__all__ = ["Ledger", "Violation", "check"]
