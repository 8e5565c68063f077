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
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.invariants.violation import Violation


class _Positions:
    """The position of each member in each of its partitions, in the current assignment."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.owned: dict[tuple[str, TopicPartition], int | None] = {}
        self.handed: dict[tuple[str, TopicPartition], dict[int, str]] = {}
        self.paused: set[tuple[str, TopicPartition]] = set()
        self.sought: set[tuple[str, TopicPartition]] = set()
        self.places: dict[str, tuple[TopicPartition, int]] = {}

    def change(self, event: Sent | Removed | Vanished | Truncated) -> None:
        self.logs.setdefault(event.partition, Log()).apply(event)
        if isinstance(event, Sent):
            self.places[event.value] = event.partition, event.offset
        if isinstance(event, Truncated):
            for key in [key for key in self.sought if key[1] == event.partition]:
                self.owned[key] = None

    def apply(self, event: Polled) -> Iterator[Violation]:
        key = event.member, event.partition
        if key not in self.owned:
            yield _violation("not-assigned", event, "is not assigned to it")
            return
        if key in self.paused:
            yield _violation("paused-poll", event, "which it has paused")
        self.sought.discard(key)
        log = self.logs.setdefault(event.partition, Log())
        position = self.owned[key]
        handed = self.handed.setdefault(key, {})
        for offset, value in zip(event.offsets, event.values, strict=True):
            if (
                position is not None
                and offset < position
                and not _is_replaced(handed, range(offset, position), value, log)
            ):
                yield _violation("nonmonotonic-poll", event, f"at {offset}, behind its position {position}")
            elif position is not None and (skipped := log.retained_between(position, offset)):
                yield _violation("poll-skip", event, f"at {offset}, and skipped {skipped[:5]}")
            position = offset + 1
            handed[offset] = value
        self.owned[key] = position

    def step_over(self, event: GivenUp) -> Iterator[Violation]:
        """By seeking behind a record: all in front of it has been returned."""
        partition, offset = self.places.get(event.value, (None, 0))
        if event.how != "seek" or partition is None:
            return
        position, log = self.owned.get((event.member, partition)), self.logs[partition]
        skipped = [] if position is None or log.truncated_values else log.retained_between(position, offset)
        if skipped:
            what = f"{event.member} had to step over {partition}@{offset}, and was not given {skipped[:5]}"
            yield Violation(rule="raised-too-early", at_ms=event.at_ms, what=what)

    def begin(self, event: Assigned) -> None:
        for partition in event.partitions:
            self.owned[event.member, partition] = None
            self.handed.pop((event.member, partition), None)

    def end(self, event: Revoked | Lost) -> None:
        for partition in event.partitions:
            self.owned.pop((event.member, partition), None)
            self.paused.discard((event.member, partition))

    def seek(self, event: Sought) -> None:
        """To an offset that means nothing where the log was cut, or is, before anything is polled."""
        key, log = (event.member, event.partition), self.logs.setdefault(event.partition, Log())
        self.sought.add(key)
        self.owned[key] = None if log.truncated_values else event.offset


def _is_replaced(handed: dict[int, str], offsets: range, value: str, log: Log) -> bool:
    """Whether a log that was cut explains that the member goes back over these, to a record of this value: the first
    one that it was given there before is not in the log any more. It may have been given that after the cut, out of
    its buffer; and where it began may lie behind the cut."""
    before = next((handed[offset] for offset in offsets if offset in handed), None)
    return before in log.truncated_values and before != value


def positions_are_contiguous(ledger: Ledger) -> Iterator[Violation]:  # noqa: C901  one case for each kind of event
    """Within one assignment of a partition to a member, each poll goes on where the one before it ended, or at the
    offset that was sought since; what is paused is not polled; what a member has to step over is what comes next."""
    positions = _Positions()
    for event in ledger.events:
        match event:
            case Sent() | Removed() | Vanished() | Truncated():
                positions.change(event)
            case GivenUp():
                yield from positions.step_over(event)
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
            case Polled() if not event.cursor:  # else it is judged for each cursor, by `catching_up.py`
                yield from positions.apply(event)
            case _:
                pass


def _violation(rule: str, event: Polled, what: str) -> Violation:
    return Violation(rule=rule, at_ms=event.at_ms, what=f"{event.member} polled {event.partition} {what}")
