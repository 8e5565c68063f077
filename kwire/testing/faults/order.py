"""Values of a run: its order, its progress, and its outcome.

Made and read by callers of `harness.run`, such as the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kwire.testing.faults import report
from kwire.testing.faults.bounds import Bound
from kwire.testing.faults.kind import Since
from kwire.testing.faults.scenario_rows import Expectation
from kwire.testing.faults.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One run that is wanted: its schedule, its client, where it writes.

    Args:
        name: the name of the client in the report.
        bounds: bounds by fault, where they differ from the catalogue's.
        expects: the expectations beside the invariants.
        replay: the command that repeats the run.
        secured: whether members connect over TLS and log in, in sessions with a lifetime.
    """

    schedule: Schedule
    name: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    expects: tuple[Expectation, ...] = ()
    replay: str = ""
    secured: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run.

    Args:
        at_ms: the time since the run began; 0 before that.
        faults: the faults that are active.
    """

    phase: str
    at_ms: float = 0.0
    sent: int = 0
    polled: int = 0
    unread: int = 0
    members: int = 0
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run.

    Args:
        run: the data for the report.
        notes: remarks that are no violations, such as records that brokers have lost.
        logs: a directory with the output of the members, which the caller deletes.
    """

    run: report.FaultRun
    notes: tuple[str, ...]
    logs: Path


def expected(order: RunOrder) -> Mapping[str, report.ExpectedRecovery]:
    """What the report is to know of each kind of fault that strikes."""
    found: dict[str, report.ExpectedRecovery] = {}
    for kind in {step.fault: step.kind for step in order.schedule.steps}.values():
        bound = order.bounds.get(kind.name, kind.bound)
        found[kind.name] = report.ExpectedRecovery(
            bound_ms=bound.in_ms(order.schedule.settings),
            since_strike=kind.since is Since.STRIKE,
            formula=bound.formula,
            about=kind.description,
        )
    return found
