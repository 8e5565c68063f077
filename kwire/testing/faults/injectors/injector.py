"""What a strike is: a function that does its harm and answers how it is healed.

It runs on a thread of its own, may take its time, and says by `begin` when the harm begins, with what it has looked up:
which broker it was, which member. The ledger then has the fault from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kwire.testing.faults.schedule import Step
from kwire.testing.faults.testbed import Testbed

Begin: TypeAlias = Callable[[str], None]
Heal: TypeAlias = Callable[[], None]
Injector: TypeAlias = Callable[[Testbed, Step, Begin], Heal]


def stays() -> None:
    """The healing of what is not healed: a leader that has moved stays where it is."""


def stay_so(testbed: Testbed, step: Step) -> None:
    """Wait for all of the step's time, from now on: for what the cluster had to be asked for first.

    One that is short of a broker takes seconds to agree to anything. The step's time could be over by then, and the
    harm be healed before it has met anybody.

    Raises:
        StoppedError: the run is given up.
    """
    assert step.lasts_ms is not None
    testbed.sleep(step.lasts_ms)
