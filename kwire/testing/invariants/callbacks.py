"""Callbacks come in pairs: an assigned partition is revoked or lost once before it is assigned again, and at the end.

This includes a member that was expelled and joins again: its partitions may have other owners by then.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Assigned, Closed, FaultBegan, JoinedAnew, Ledger, Lost, Revoked
from kwire.testing.invariants.violation import Violation


def callbacks_come_in_pairs(ledger: Ledger) -> Iterator[Violation]:
    """No member is assigned a partition that it has, or loses one that it does not have. A member that closes or joins
    anew has none left. Without faults, no partition is lost."""
    held: dict[str, set[TopicPartition]] = {}
    has_been_calm = True
    for event in ledger.events:
        match event:
            case FaultBegan():
                has_been_calm = False
            case Assigned():
                has = held.setdefault(event.member, set())
                yield from _told("assigned-twice", event, has & set(event.partitions))
                has |= set(event.partitions)
            case Revoked() | Lost():
                has = held.setdefault(event.member, set())
                yield from _told("revoked-twice", event, set(event.partitions) - has)
                has -= set(event.partitions)
                if isinstance(event, Lost) and has_been_calm:
                    yield from _told("lost-for-nothing", event, set(event.partitions))
            case JoinedAnew():
                yield from _told("joins-holding", event, held.pop(event.member, set()))
            case Closed():
                yield from _told("never-revoked", event, held.pop(event.member, set()))
            case _:
                pass


def _told(
    rule: str, event: Assigned | Revoked | Lost | JoinedAnew | Closed, wrong: set[TopicPartition]
) -> Iterator[Violation]:
    if wrong:
        names = ", ".join(map(str, sorted(wrong)))
        what = f"{event.member} {type(event).__name__.lower()}: {names}"
        yield Violation(rule=rule, at_ms=event.at_ms, what=what)
