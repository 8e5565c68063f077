"""Duplicates: records that came more than once, and the reason, such as a reader that ended before its commit.

The invariants judge; this tells how many there were of each kind. A record is explained by how the hands it came from
last let go of its partition, unless the group had committed it before the new owner began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closed,
    CommitTaken,
    Committed,
    Died,
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
    Truncated,
)

UNEXPLAINED = "unexplained"
# Why a record may come again; the words are the report's.
KILLED = "not committed when its reader was killed"
LOST = "not committed when its reader lost the partition"
REVOKED = "not committed when the partition was revoked"
CLOSED = "not committed when its reader closed"
OVERTAKEN = "its reader was out of touch, and did not know yet that another one has the partition"
SOUGHT = "the application went back"

# In place of an assignment's number.
_NOBODY, _HANDED_BACK = -1, -2


@dataclass(slots=True)
class _Partition:
    """Which assignment of it to a member read each offset last, how each of them ended, and what is committed."""

    readers: dict[int, tuple[int, str]] = field(default_factory=dict)
    holders: dict[str, int] = field(default_factory=dict)
    let_go: dict[int, str] = field(default_factory=dict)
    floors: dict[int, int] = field(default_factory=dict)
    committed: int = 0

    def take(self, member: str) -> None:
        number = len(self.floors)
        self.holders[member] = number
        self.floors[number] = self.committed

    def give(self, member: str, why: str) -> None:
        if (number := self.holders.pop(member, None)) is not None:
            self.let_go[number] = why

    def read(self, offset: int, value: str, member: str) -> str | None:
        """Why a record comes again, to this member; None if it comes for the first time. After a truncation another one
        may have its offset."""
        now = self.holders.get(member, _NOBODY)
        last, known = self.readers.get(offset, (_NOBODY, None))
        self.readers[offset] = now, value
        if value != known:
            return None
        if last == _HANDED_BACK:
            return SOUGHT
        if offset < self.floors.get(now, 0) or last == now:
            return UNEXPLAINED
        return OVERTAKEN if last in self.holders.values() else self.let_go.get(last, UNEXPLAINED)

    def seek(self, to: int) -> None:
        """The member that reads on from here, this one or the next, is meant to read it again."""
        again = {offset: (_HANDED_BACK, value) for offset, (_, value) in self.readers.items() if offset >= to}
        self.readers.update(again)

    def cut(self, to: int) -> None:
        """Offsets from here on are given out anew."""
        self.committed = min(self.committed, to)
        self.floors = {number: min(floor, to) for number, floor in self.floors.items()}


class _Duplicates:
    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, _Partition] = {}
        self.counts: Counter[str] = Counter()
        self.is_well = True
        self.careful: set[str] = set()

    def of(self, partition: TopicPartition) -> _Partition:
        return self.partitions.setdefault(partition, _Partition())

    def poll(self, event: Polled) -> None:
        partition = self.of(event.partition)
        for offset, value in zip(event.offsets, event.values, strict=True):
            if why := partition.read(offset, value, event.member):
                self.counts[why] += 1

    def give(self, event: Revoked | Lost) -> None:
        """Who commits before it gives up what it has, and can, leaves nothing that comes again."""
        fails_for_nothing = isinstance(event, Revoked) and event.member in self.careful and self.is_well
        why = LOST if isinstance(event, Lost) else UNEXPLAINED if fails_for_nothing else REVOKED
        for partition in event.partitions:
            self.of(partition).give(event.member, why)

    def go(self, event: Closed | Killed | Died) -> None:
        why = CLOSED if isinstance(event, Closed) else KILLED
        for partition in self.partitions.values():
            partition.give(event.member, why)

    def take(self, event: Event) -> None:
        match event:
            case FaultBegan() | Calm():
                self.is_well = isinstance(event, Calm)
            case Started() if event.commits_on_revoke:
                self.careful.add(event.member)
            case Assigned():
                for each in event.partitions:
                    self.of(each).take(event.member)
            case Revoked() | Lost():
                self.give(event)
            case Closed() | Killed() | Died():
                self.go(event)
            case Polled():
                self.poll(event)
            case _:
                self.know(event)

    def know(self, event: Event) -> None:
        """What the group has committed, and what makes that void."""
        match event:
            case Committed() if event.cursor:
                pass  # of one cursor: no offset in front of which all is committed
            case Committed() | CommitTaken():
                self.of(event.partition).committed = event.offset
            case Stored():
                self.of(event.partition).committed = event.offset or 0
            case Sought():
                self.of(event.partition).seek(event.offset)
            case Truncated():
                self.of(event.partition).cut(event.to)
            case _:
                pass


def duplicates(ledger: Ledger) -> Mapping[str, int]:
    """How many records came again, by the reason; the most frequent first."""
    found = _Duplicates()
    for event in ledger.events:
        found.take(event)
    return dict(sorted(found.counts.items(), key=lambda each: (-each[1], each[0])))
