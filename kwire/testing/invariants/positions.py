"""Positions are contiguous while a member owns a partition: no record skipped, none twice, no way back."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Assigned, Killed, Ledger, Lost, Polled, Removed, Revoked, Sent, Truncated
from kwire.testing.invariants.logs import Log
from kwire.testing.invariants.violation import Violation


class _Positions:
    """Where each member stands in each of its partitions, in this assignment of it."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.owned: dict[tuple[str, TopicPartition], int | None] = {}
        self.may_go_back_to: dict[tuple[str, TopicPartition], int] = {}

    def apply(self, event: Polled) -> Iterator[Violation]:
        key = event.member, event.partition
        if key not in self.owned:
            yield _violation("not-assigned", event, "is not assigned to it")
            return
        log = self.logs.setdefault(event.partition, Log())
        position = self.owned[key]
        for offset in event.offsets:
            if position is not None and self.may_go_back_to.get(key, position) <= offset < position:
                del self.may_go_back_to[key]
            elif position is not None and offset < position:
                yield _violation("nonmonotonic-poll", event, f"at {offset}, behind its position {position}")
            elif position is not None and (skipped := log.retained_between(position, offset)):
                yield _violation("poll-skip", event, f"at {offset}, and skipped {skipped[:5]}")
            position = offset + 1
        self.owned[key] = position

    def begin(self, event: Assigned) -> None:
        for partition in event.partitions:
            self.owned[event.member, partition] = None
            self.may_go_back_to.pop((event.member, partition), None)

    def truncate(self, event: Truncated) -> None:
        """Members may go back once to where the logs parted, when they come to know; what they have buffered of the
        old log may come before that."""
        for key in self.owned:
            if key[1] == event.partition:
                self.may_go_back_to[key] = min(event.to, self.may_go_back_to.get(key, event.to))


def positions_are_contiguous(ledger: Ledger) -> Iterator[Violation]:
    """Within one assignment of a partition to a member, each poll goes on where the one before it ended."""
    positions = _Positions()
    for event in ledger.events:
        match event:
            case Sent() | Removed():
                positions.logs.setdefault(event.partition, Log()).apply(event)
            case Truncated():
                positions.logs.setdefault(event.partition, Log()).apply(event)
                positions.truncate(event)
            case Assigned():
                positions.begin(event)
            case Revoked() | Lost():
                for partition in event.partitions:
                    positions.owned.pop((event.member, partition), None)
            case Killed():
                for key in [key for key in positions.owned if key[0] == event.member]:
                    del positions.owned[key]
            case Polled():
                yield from positions.apply(event)
            case _:
                pass


def _violation(rule: str, event: Polled, what: str) -> Violation:
    return Violation(rule=rule, at_ms=event.at_ms, what=f"{event.member} polled {event.partition} {what}")
