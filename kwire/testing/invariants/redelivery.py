"""What is committed does not come again: a new owner begins where the commits of the one before it end."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Assigned, Committed, Ledger, Polled, Truncated
from kwire.testing.invariants.violation import Violation


class _Floors:
    """For each partition the offset that was committed last, and for each assignment of one, where it may begin."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self.beginning: dict[tuple[str, TopicPartition], int] = {}

    def assign(self, event: Assigned) -> None:
        for partition in event.partitions:
            self.beginning[event.member, partition] = self.committed.get(partition, 0)

    def truncate(self, event: Truncated) -> None:
        """Commits above are commits of records that are gone."""
        self.committed.pop(event.partition, None)
        for key in [key for key in self.beginning if key[1] == event.partition]:
            del self.beginning[key]


def nothing_committed_comes_again(ledger: Ledger) -> Iterator[Violation]:
    """The first poll of an assignment does not return what somebody had been told is committed before it."""
    floors = _Floors()
    for event in ledger.events:
        match event:
            case Committed():
                floors.committed[event.partition] = event.offset
            case Truncated():
                floors.truncate(event)
            case Assigned():
                floors.assign(event)
            case Polled():
                floor = floors.beginning.pop((event.member, event.partition), 0)
                if event.offsets[0] < floor:
                    what = f"{event.member} polled {event.partition} at {event.offsets[0]}; {floor} had been committed"
                    yield Violation(rule="redelivered", at_ms=event.at_ms, what=what)
            case _:
                pass
