"""Every fault by its name: what may stand in a schedule, and what a report says of it.

    catalogue.KINDS["broker-kill"].bound.formula
    'broker_session_timeout_ms + 2000 ms'

Called by what reads, draws, checks, carries out or reports schedules. Each kind stands in a module of `kinds/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.testing.faults.kinds import brokers, members, network, permissions, topics
from kwire.testing.faults.kinds.kind import FaultKind
from kwire.testing.faults.targets import WORDS

KINDS: Mapping[str, FaultKind] = {
    kind.name: kind for kind in (*brokers.KINDS, *network.KINDS, *members.KINDS, *topics.KINDS, *permissions.KINDS)
}


def described() -> str:
    """The catalogue in words, a paragraph for each kind."""
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
