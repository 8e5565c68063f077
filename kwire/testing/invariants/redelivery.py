"""Committed records do not come again: a new owner begins where the commits of the previous one end."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Committed,
    Ledger,
    Polled,
    Removed,
    Sent,
    Sought,
    Stored,
    Truncated,
    Vanished,
)
from kwire.testing.invariants.logs import Log
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.invariants.violation import Violation


class _Beginnings:
    """For each partition what is committed, as far as it is known, and for each assignment of one, where it begins."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.stored: dict[TopicPartition, int] = {}
        self.truncated: set[TopicPartition] = set()
        self.polled: dict[TopicPartition, set[int]] = {}
        self.given_up: set[str] = set()
        self.places: dict[str, tuple[TopicPartition, int]] = {}
        self.floors: dict[tuple[str, TopicPartition], int] = {}
        self.exactly: dict[tuple[str, TopicPartition], int] = {}

    def assign(self, event: Assigned) -> None:
        for partition in event.partitions:
            key = event.member, partition
            self.floors[key] = self.committed.get(partition, 0)
            self.exactly.pop(key, None)
            if partition in self.stored:
                self.exactly[key] = self.stored[partition]

    def commit(self, event: Committed) -> None:
        if event.partition not in self.truncated:
            self.committed[event.partition] = event.offset

    def store(self, event: Stored) -> None:
        if event.partition not in self.truncated:
            self.stored[event.partition] = event.offset or 0

    def forget(self, key: tuple[str, TopicPartition]) -> None:
        self.floors.pop(key, None)
        self.exactly.pop(key, None)

    def seek(self, event: Sought) -> None:
        """And the next commit may be one that goes back."""
        self.forget((event.member, event.partition))
        self.committed.pop(event.partition, None)

    def change_log(self, event: Sent | Removed | Truncated | Vanished) -> None:
        self.logs.setdefault(event.partition, Log()).apply(event)
        if isinstance(event, Sent):
            self.places[event.value] = event.partition, event.offset
        if isinstance(event, Truncated):  # commits above are commits of records that are gone, now and later
            self.truncated.add(event.partition)
            self.committed.pop(event.partition, None)
            self.stored.pop(event.partition, None)
            for key in [key for key in self.floors if key[1] == event.partition]:
                self.forget(key)

    def judge(self, event: Polled) -> Iterator[Violation]:
        key = event.member, event.partition
        floor, begins = self.floors.get(key, 0), self.exactly.get(key)
        self.forget(key)
        first = event.offsets[0]
        if first < max(floor, begins or 0):
            yield _violation(event, "redelivered", f"{max(floor, begins or 0)} had been committed")
        elif begins is not None and (skipped := self.skipped(event.partition, begins, first)):
            yield _violation(event, "begins-too-late", f"{begins} was committed, which skips {skipped[:5]}")
        self.polled.setdefault(event.partition, set()).update(event.offsets)

    def step_over(self, event: GivenUp) -> Iterator[Violation]:
        """By seeking behind the first record of an assignment: it is where the commits end."""
        self.given_up.add(event.value)
        partition, offset = self.places.get(event.value, (None, 0))
        if event.how != "seek" or partition is None:
            return
        begins = self.exactly.get((event.member, partition))
        if begins is not None and (skipped := self.skipped(partition, begins, offset)):
            what = f"{event.member} had to step over {partition}@{offset}, and was not given {skipped[:5]}"
            yield Violation(rule="begins-too-late", at_ms=event.at_ms, what=what)

    def skipped(self, partition: TopicPartition, begins: int, first: int) -> list[int]:
        """Those that nobody has polled or given up: a member that does not know yet that another one has taken over
        finds commits which were not there when it was told of its assignment."""
        log = self.logs.setdefault(partition, Log())
        polled = self.polled.get(partition, ())
        unseen = [offset for offset in log.retained_between(begins, first) if offset not in polled]
        return [offset for offset in unseen if log.values[offset] not in self.given_up]


def nothing_committed_comes_again(ledger: Ledger) -> Iterator[Violation]:
    """The first poll of an assignment does not return what somebody had been told is committed before it; and it begins
    just where the group's commits ended (`Stored`), or with the log, if nothing was committed."""
    beginnings = _Beginnings()
    for event in ledger.events:
        match event:
            case Committed() if not event.cursor:  # else it is judged for each cursor, by `catching_up.py`
                beginnings.commit(event)
            case Stored():
                beginnings.store(event)
            case Sent() | Removed() | Truncated() | Vanished():
                beginnings.change_log(event)
            case GivenUp():
                yield from beginnings.step_over(event)
            case Assigned():
                beginnings.assign(event)
            case Sought():
                beginnings.seek(event)
            case Polled() if not event.cursor:
                yield from beginnings.judge(event)
            case _:
                pass


def _violation(event: Polled, rule: str, what: str) -> Violation:
    what = f"{event.member} polled {event.partition} at {event.offsets[0]}; {what}"
    return Violation(rule=rule, at_ms=event.at_ms, what=what)
