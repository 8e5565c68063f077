"""Expectations of a row of the table of faults beside the invariants, checked on the ledger. Pure; the harness calls
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire.model import TopicPartition
from kwire.testing.faults.catalogue import KINDS
from kwire.testing.faults.kind import Need
from kwire.testing.faults.report.duplicates import duplicates
from kwire.testing.faults.scenario_rows import Expectation
from kwire.testing.invariants.catching_up import CHILD
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    FaultBegan,
    FaultEnded,
    Killed,
    Ledger,
    Lost,
    Polled,
    Quiet,
    Raised,
    Revoked,
    Started,
)
from kwire.testing.invariants.violation import Violation

FORBIDDING = frozenset(name for name, kind in KINDS.items() if Need.PERMISSIONS in kind.needs)
# In the name that each client has for it.
AUTHORIZATION = "authorization"


def unmet(ledger: Ledger, expects: Sequence[Expectation]) -> Iterator[Violation]:
    """The violations of these expectations."""
    if Expectation.NO_REBALANCE in expects:
        yield from _rebalances(ledger)
    if Expectation.NO_DUPLICATES in expects:
        yield from _duplicates(ledger)
    if Expectation.REFUSAL_TOLD in expects:
        yield from _untold(ledger)
    if Expectation.CAUGHT_UP in expects:
        yield from _nothing_to_catch_up(ledger)


def _nothing_to_catch_up(ledger: Ledger) -> Iterator[Violation]:
    """Without a lag there was nothing to see of what the row is about."""
    if not any(event.cursor == CHILD for event in ledger.of(Polled)):
        what = "no child had anything to give"
        yield Violation(rule="no-lag", at_ms=ledger.events[-1].at_ms, what=what)


def _rebalances(ledger: Ledger) -> Iterator[Violation]:
    """From the first fault until all is quiet, members that stay give partitions only to new members."""
    given: list[Revoked | Lost] = []
    goes = {event.member for event in ledger.events if isinstance(event, (Closed, Killed)) and _is_early(event, ledger)}
    newcomers: set[str] = set()
    to_newcomers: set[TopicPartition] = set()
    has_begun = False
    for event in ledger.events:
        match event:
            case FaultBegan():
                has_begun = True
            case Quiet():
                break
            case Started() if has_begun:
                newcomers.add(event.member)
            case Assigned() if event.member in newcomers:
                to_newcomers |= set(event.partitions)
            case Revoked() | Lost() if has_begun and event.member not in goes and event.partitions:
                given.append(event)
            case _:
                pass
    for event in given:
        if kept := set(event.partitions) - to_newcomers:
            names = ", ".join(map(str, sorted(kept)))
            what = f"{event.member}, which stayed, {type(event).__name__.lower()}: {names}"
            yield Violation(rule="rebalanced", at_ms=event.at_ms, what=what)


def _is_early(event: Closed | Killed, ledger: Ledger) -> bool:
    """Whether a member left before all was quiet; at the end all members leave."""
    quiet = next(ledger.of(Quiet), None)
    return quiet is None or event.at_ms < quiet.at_ms


def _untold(ledger: Ledger) -> Iterator[Violation]:
    """Members that live through a time in which something is forbidden, and hear nothing of it."""
    running, asked, told = set[str](), set[str](), set[str]()
    for event in ledger.events:
        match event:
            case Started():
                running.add(event.member)
            case Closed() | Killed():
                running.discard(event.member)
            case FaultBegan() if event.fault in FORBIDDING:
                asked, told = set(running), set()
            case Raised() if AUTHORIZATION in f"{event.error} {event.message}".lower():
                told.add(event.member)
            case FaultEnded() if event.fault in FORBIDDING:
                for member in sorted((asked & running) - told):
                    what = f"{member} never heard of {event.fault}"
                    yield Violation(rule="untold", at_ms=event.at_ms, what=what)
            case _:
                pass


def _duplicates(ledger: Ledger) -> Iterator[Violation]:
    counts = duplicates(ledger)
    if counts:
        told = ", ".join(f"{number} {why}" for why, number in counts.items())
        at_ms = ledger.events[-1].at_ms
        yield Violation(rule="came-again", at_ms=at_ms, what=f"{sum(counts.values())} records came again: {told}")
