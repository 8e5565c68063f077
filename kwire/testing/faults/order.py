"""What a run is asked for, what it tells while it goes on, and what comes of it: values alone.

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
        name: of the client, as the report shows it.
        bounds: by fault, where they are other than the catalogue's.
        expects: what has to hold beside the invariants.
        replay: the command that does it again.
        secured: whether members come over TLS and log in, in sessions that end.
    """

    schedule: Schedule
    name: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    expects: tuple[Expectation, ...] = ()
    replay: str = ""
    secured: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far it is.

    Args:
        at_ms: since the run began; 0 before that.
        faults: those that are at work.
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
    """What a run came to.

    Args:
        run: for the report.
        notes: what is worth knowing and nobody's violation, such as records that brokers have lost.
        logs: a directory with what the members printed. The caller deletes it.
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
