"""What led to each violation: the last events of its partition and members, and the faults around it."""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from kwire.testing.faults.report.figures import moment
from kwire.testing.invariants.ledger import (
    Assigned,
    Committed,
    Event,
    Ledger,
    Lost,
    Paused,
    Polled,
    Removed,
    Resumed,
    Revoked,
    Sought,
    Stored,
    Truncated,
)
from kwire.testing.invariants.violation import Violation
from kwire.testing.invariants.words import words

# As much as one reads; the ledger has the rest.
LINES = 14
MAX_STORIES = 20
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Lines, each with its time in front, up to the violation."""

    violation: Violation
    lines: tuple[str, ...]


def stories(ledger: Ledger, violations: Iterable[Violation], lines: int = LINES) -> tuple[Story, ...]:
    """Of the first violations, no more than `MAX_STORIES`."""
    index = _Index(ledger)
    return tuple(_story(index, violation, lines) for violation in islice(violations, MAX_STORIES))


def _story(index: _Index, violation: Violation, lines: int) -> Story:
    """Of the partition, if the violation names one, with the members that had to do with it; else of a member."""
    named = {name.rstrip(".") for name in _NAME.findall(violation.what)}
    about = [index.of_partitions[name] for name in sorted(named & index.of_partitions.keys())]
    members = {_member(event) for events in about for _, event in events} if about else named
    around = [each for each in index.around if not _member(each[1]) or _member(each[1]) in members]
    told = _Lines(lines)
    for _, event in heapq.merge(*about, around, key=lambda each: each[0]):
        if event.at_ms > violation.at_ms:
            break
        told.take(event)
    return Story(violation=violation, lines=tuple(told.lines))


class _Index:
    """What can be told, with its place in the ledger: by partition, and what has none, such as faults and kills."""

    def __init__(self, ledger: Ledger) -> None:
        self.of_partitions: dict[str, list[tuple[int, Event]]] = {}
        self.around: list[tuple[int, Event]] = []
        for position, event in enumerate(ledger.events):
            if isinstance(event, (Assigned, Revoked, Lost)):
                for partition in event.partitions:
                    self.of_partitions.setdefault(str(partition), []).append((position, event))
            elif isinstance(event, (Polled, Committed, Stored, Sought, Paused, Resumed, Removed, Truncated)):
                self.of_partitions.setdefault(str(event.partition), []).append((position, event))
            elif words(event) is not None:
                self.around.append((position, event))


class _Lines:
    """The last ones. Polls of a member that go on where the last one ended are one."""

    def __init__(self, most: int) -> None:
        self.lines: deque[str] = deque(maxlen=most)
        self.first: Polled | None = None
        self.end = 0

    def take(self, event: Event) -> None:
        if isinstance(event, Polled):
            self.poll(event)
        elif (told := _told(event)) is not None:
            self.first = None
            self.lines.append(f"{moment(event.at_ms)}  {told}")

    def poll(self, event: Polled) -> None:
        first = self.first
        goes_on = first is not None and (first.member, first.partition, first.cursor, self.end) == (
            event.member,
            event.partition,
            event.cursor,
            event.offsets[0],
        )
        if first is not None and goes_on:
            self.lines.pop()
        else:
            first = event
        self.first, self.end = first, event.offsets[-1] + 1
        what = f"{event.member} polled {event.partition} {first.offsets[0]}-{event.offsets[-1]}"
        self.lines.append(f"{moment(first.at_ms)}  {what}")


def _told(event: Event) -> str | None:
    """Commits are part of these stories."""
    match event:
        case Committed():
            of = f" of its {event.cursor} cursor" if event.cursor else ""
            return f"{event.member} committed {event.partition} up to {event.offset}{of}"
        case Stored():
            return f"{event.partition} is committed up to {event.offset}"
        case _:
            return words(event)


def _member(event: Event) -> str:
    member = getattr(event, "member", "")
    return member if isinstance(member, str) else ""
