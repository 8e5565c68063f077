"""Positions are contiguous while a member owns a partition: no record skipped, none twice, no way back."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Killed,
    Ledger,
    Lost,
    Paused,
    Polled,
    Removed,
    Resumed,
    Revoked,
    Sent,
    Sought,
    Truncated,
    Vanished,
)
from kwire.testing.invariants.logs import Log
from kwire.testing.invariants.violation import Violation


class _Positions:
    """Where each member stands in each of its partitions, in this assignment of it."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.owned: dict[tuple[str, TopicPartition], int | None] = {}
        self.may_go_back_to: dict[tuple[str, TopicPartition], list[int]] = {}
        self.paused: set[tuple[str, TopicPartition]] = set()

    def apply(self, event: Polled) -> Iterator[Violation]:
        key = event.member, event.partition
        if key not in self.owned:
            yield _violation("not-assigned", event, "is not assigned to it")
            return
        if key in self.paused:
            yield _violation("paused-poll", event, "which it has paused")
        log = self.logs.setdefault(event.partition, Log())
        position = self.owned[key]
        for offset in event.offsets:
            if position is not None and offset < position and not self.goes_back(key, offset):
                yield _violation("nonmonotonic-poll", event, f"at {offset}, behind its position {position}")
            elif position is not None and (skipped := log.retained_between(position, offset)):
                yield _violation("poll-skip", event, f"at {offset}, and skipped {skipped[:5]}")
            position = offset + 1
        self.owned[key] = position

    def begin(self, event: Assigned) -> None:
        for partition in event.partitions:
            self.owned[event.member, partition] = None
            self.may_go_back_to.pop((event.member, partition), None)

    def end(self, event: Revoked | Lost) -> None:
        for partition in event.partitions:
            self.owned.pop((event.member, partition), None)
            self.paused.discard((event.member, partition))

    def seek(self, event: Sought) -> None:
        self.owned[event.member, event.partition] = event.offset

    def truncate(self, event: Truncated) -> None:
        """Members may go back once to where the logs parted, when they come to know; what they have buffered of the
        old log may come before that."""
        for key in self.owned:
            if key[1] == event.partition:
                self.may_go_back_to.setdefault(key, []).append(event.to)

    def goes_back(self, key: tuple[str, TopicPartition], offset: int) -> bool:
        """Whether a log that was cut explains that. Cuts further on do not matter any more."""
        cuts = self.may_go_back_to.get(key, [])
        explaining = max((cut for cut in cuts if cut <= offset), default=None)
        if explaining is None:
            return False
        self.may_go_back_to[key] = [cut for cut in cuts if cut < explaining]
        return True


def positions_are_contiguous(ledger: Ledger) -> Iterator[Violation]:  # noqa: C901  one case for each kind of event
    """Within one assignment of a partition to a member, each poll goes on where the one before it ended, or at the
    offset that was sought since; and what is paused is not polled."""
    positions = _Positions()
    for event in ledger.events:
        match event:
            case Sent() | Removed() | Vanished():
                positions.logs.setdefault(event.partition, Log()).apply(event)
            case Truncated():
                positions.logs.setdefault(event.partition, Log()).apply(event)
                positions.truncate(event)
            case Assigned():
                positions.begin(event)
            case Revoked() | Lost():
                positions.end(event)
            case Sought():
                positions.seek(event)
            case Paused():
                positions.paused.add((event.member, event.partition))
            case Resumed():
                positions.paused.discard((event.member, event.partition))
            case Killed():
                for key in [key for key in positions.owned if key[0] == event.member]:
                    del positions.owned[key]
            case Polled():
                yield from positions.apply(event)
            case _:
                pass


def _violation(rule: str, event: Polled, what: str) -> Violation:
    return Violation(rule=rule, at_ms=event.at_ms, what=f"{event.member} polled {event.partition} {what}")
