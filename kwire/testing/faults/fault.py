"""A fault: what its kind is, and what carries it out on real brokers.

    @fault(name="broker-freeze", description=..., heals=..., ...)
    def freeze(testbed: Testbed, step: Step, begin: Begin) -> Heal:

An injector does the harm and answers how it is healed. It runs on a thread of its own, may take its time, and says by
`begin` when the harm begins, with what it has looked up: which broker it was, which member. The ledger then has the
fault from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeAlias

from kwire.testing.faults.kind import FaultKind
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.testbed import Testbed

Begin: TypeAlias = Callable[[str], None]
Heal: TypeAlias = Callable[[], None]
Injector: TypeAlias = Callable[[Testbed, Step, Begin], Heal]
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Fault:
    """What the catalogue says of a fault, and the function that carries it out."""

    kind: FaultKind
    injector: Injector


def _with_the_fields_of(kind: Callable[P, FaultKind]) -> Callable[P, Callable[[Injector], Fault]]:
    def described(*args: P.args, **fields: P.kwargs) -> Callable[[Injector], Fault]:
        return lambda injector: Fault(kind(*args, **fields), injector)

    return described


fault = _with_the_fields_of(FaultKind)
"""Decorates an injector with the fields of its `FaultKind`, which makes a `Fault` of both."""


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
