"""A fault: its kind, and the injector that carries it out on real brokers.

    @fault(name="broker-freeze", description=..., heals=..., ...)
    def freeze(testbed: Testbed, step: Step, begin: Begin) -> Heal:

An injector carries the fault out and returns the function that heals it. It runs on a thread of its own and may wait.
It calls `begin` when the fault begins, with what it has looked up, such as which broker or member it strikes. From then
on the ledger has the fault.
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
    """A fault of the catalogue: its description, and the function that carries it out."""

    kind: FaultKind
    injector: Injector


def _with_the_fields_of(kind: Callable[P, FaultKind]) -> Callable[P, Callable[[Injector], Fault]]:
    def described(*args: P.args, **fields: P.kwargs) -> Callable[[Injector], Fault]:
        return lambda injector: Fault(kind(*args, **fields), injector)

    return described


fault = _with_the_fields_of(FaultKind)
"""A decorator that makes a `Fault` of an injector and the fields of its `FaultKind`."""


def stays() -> None:
    """The healing of a fault that is not undone, such as a leader that has moved: does nothing."""


def stay_so(testbed: Testbed, step: Step) -> None:
    """Wait for the whole duration of the step from now on, after a change that the cluster had to make first.

    A cluster without one of its brokers takes seconds for such a change. By then the step's time could be over, and the
    fault be healed before it has had any effect.

    Raises:
        StoppedError: the run is aborted.
    """
    assert step.lasts_ms is not None
    testbed.sleep(step.lasts_ms)
