"""What a strike is: a function that does its harm and answers how it is healed.

It runs on a thread of its own, may take its time, and says by `begin` when the harm begins, with what it has looked up:
which broker it was, which member. The ledger then has the fault from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kwire.testing.faults.arena import Arena
from kwire.testing.faults.schedule import Step

Begin: TypeAlias = Callable[[str], None]
Heal: TypeAlias = Callable[[], None]
Strike: TypeAlias = Callable[[Arena, Step, Begin], Heal]


def stays() -> None:
    """The healing of what is not healed: a leader that has moved stays where it is."""
