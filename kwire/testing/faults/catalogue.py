"""The catalogue of faults: the description of each by its name, and the function that carries it out.

    catalogue.KINDS["broker-kill"].bound.formula
    'broker_session_timeout_ms + 2000 ms'

A fault is added by defining it in a module of `kinds/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType

from kwire.testing.faults.fault import Fault, Injector
from kwire.testing.faults.kind import FaultKind, Value
from kwire.testing.faults.kinds import (
    answers,
    brokers,
    connections,
    elections,
    logs,
    members,
    membership,
    permissions,
    records,
    topics,
    toxics,
    unclean,
)
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import WORDS, Target


def faults_in(family: ModuleType) -> tuple[Fault, ...]:
    """The faults of a module, in the order of their definitions."""
    return tuple(each for each in vars(family).values() if isinstance(each, Fault))


FAMILIES: tuple[ModuleType, ...] = (
    *(brokers, elections, unclean),
    *(toxics, connections, answers),
    *(members, membership),
    *(topics, logs, records),
    permissions,
)
FAULTS: Mapping[str, Fault] = {each.kind.name: each for family in FAMILIES for each in faults_in(family)}
KINDS: Mapping[str, FaultKind] = {name: each.kind for name, each in FAULTS.items()}
INJECTORS: Mapping[str, Injector] = {name: each.injector for name, each in FAULTS.items()}


def strike(at_ms: int, fault: str, target: Target, *, lasts_ms: int | None = None, **values: Value) -> Step:
    """A step of a schedule, with the catalogue's defaults for what is not given.

    Raises:
        ValueError: there is no such fault, parameter or target, or a value is out of range.
    """
    if fault not in KINDS:
        raise ValueError(f"{fault!r} is no fault; allowed: {', '.join(KINDS)}")
    kind = KINDS[fault]
    if kind.lasting is not None and lasts_ms is None:
        lasts_ms = kind.lasting.default_ms
    given = tuple((dict(kind.defaults) | values).items())
    return Step(at_ms=at_ms, kind=kind, target=target, lasts_ms=lasts_ms, values=given)


def described() -> str:
    """A description of all faults, a paragraph for each kind."""
    return "\n".join(line for kind in KINDS.values() for line in _paragraph(kind))


def _paragraph(kind: FaultKind) -> Iterator[str]:
    duration = "a moment" if kind.lasting is None else f"lasts {kind.lasting.default_ms} ms unless told otherwise"
    yield f"{kind.name}: {kind.description}"
    yield f"    strikes    {', '.join(WORDS[target] for target in kind.targets)}; {duration}"
    for each in kind.parameters:
        default = each.render(each.default)
        yield f"    parameter  {each.name}: {each.doc} ({each.allowed}; {default} unless told otherwise)"
    yield f"    heals      {kind.heals}"
    yield f"    well       within {kind.bound.formula}, {kind.since.value}"
    for need in kind.needs:
        yield f"    needs      {need.value}"
    if kind.claims:
        yield f"    alone with {', '.join(claim.value for claim in kind.claims)}"
