"""Without faults, partitions change hands cleanly: no member reads a partition that another one has, or records that
another one has read.

There are no faults before the first one, and when all is calm again.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closed,
    Event,
    FaultBegan,
    Killed,
    Ledger,
    Lost,
    Polled,
    Revoked,
    Sought,
    Started,
    Stored,
)
from kwire.testing.invariants.violation import Violation


class _PartitionOwners:
    """Who holds each partition, how far it was handed to each member, and where it was when it was revoked."""

    def __init__(self) -> None:
        self.is_well = True
        self.careful: set[str] = set()
        self.holders: dict[TopicPartition, dict[str, None]] = {}
        self.polled: dict[tuple[str, TopicPartition], int] = {}
        self.left_at: dict[TopicPartition, int] = {}

    def poll(self, event: Polled) -> None:
        self.polled[event.member, event.partition] = event.offsets[-1] + 1

    def take(self, event: Assigned) -> Iterator[Violation]:
        for partition in event.partitions:
            holders = self.holders.setdefault(partition, {})
            others = [holder for holder in holders if holder != event.member]
            if others and self.is_well:
                what = f"{event.member} was given {partition}, which {', '.join(others)} still had"
                yield Violation(rule="two-owners", at_ms=event.at_ms, what=what)
            holders[event.member] = None

    def give(self, event: Revoked | Lost) -> None:
        for partition in event.partitions:
            self.holders.get(partition, {}).pop(event.member, None)
            reached = self.polled.pop((event.member, partition), 0)
            if isinstance(event, Revoked) and event.member in self.careful and self.is_well:
                self.left_at[partition] = reached

    def go(self, event: Closed | Killed) -> None:
        for holders in self.holders.values():
            holders.pop(event.member, None)

    def look(self, event: Stored) -> Iterator[Violation]:
        left_at = self.left_at.pop(event.partition, 0)
        if (event.offset or 0) < left_at and self.is_well:
            what = f"{event.partition} is committed up to {event.offset}, and was revoked at {left_at}"
            yield Violation(rule="handed-over-twice", at_ms=event.at_ms, what=what)


def partitions_change_hands_cleanly(ledger: Ledger) -> Iterator[Violation]:
    """While all is well, what is assigned has no owner any more, and is committed as far as its last owner was handed
    it, if that commits when it is revoked."""
    hands = _PartitionOwners()
    for event in ledger.events:
        yield from _take(event, hands)


def _take(event: Event, hands: _PartitionOwners) -> Iterator[Violation]:
    match event:
        case FaultBegan() | Calm():
            hands.is_well = isinstance(event, Calm)
            hands.left_at.clear()
        case Started() if event.commits_on_revoke:
            hands.careful.add(event.member)
        case Polled():
            hands.poll(event)
        case Sought():
            hands.polled.pop((event.member, event.partition), None)
        case Assigned():
            yield from hands.take(event)
        case Revoked() | Lost():
            hands.give(event)
        case Closed() | Killed():
            hands.go(event)
        case Stored():
            yield from hands.look(event)
        case _:
            pass
