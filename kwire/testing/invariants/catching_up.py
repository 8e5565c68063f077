"""Members that catch up with a lag beside the newest records (`enable_parallel_rebalance`): what must hold of each of
their two cursors, and of the group's own offset, which is the low-water mark of both.

That nothing of the union is lost, and that values are what was sent, is judged as for everybody. Here it is judged for
each cursor what `positions.py`, `redelivery.py` and `commits.py` judge for members with one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Committed,
    Killed,
    Ledger,
    Lost,
    LowWater,
    Polled,
    Removed,
    Revoked,
    Sent,
    Started,
    Truncated,
    Vanished,
)
from kwire.testing.invariants.logs import Log
from kwire.testing.invariants.violation import Violation

MAIN, CHILD = "main", "child"
# The end of the log is asked for when a partition is assigned: before the application is told, on a busy machine by so
# much. Records that were sent later than that need not lie in front of the newest.
ASKED_BEFORE_MS = 2_000.0


@dataclass(slots=True)
class _Cursor:
    """One cursor of a partition, as the ledger shows it.

    Args:
        position: behind the last record that it gave.
        run: values since its last jump, by offset: the range that a commit of an offset covers.
    """

    position: int
    run: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _CursorHolding:
    """What a member has been given of a partition, in this assignment of it.

    Args:
        done: what was committed when it began: it must not come again.
        first: of the main cursor.
    """

    at_ms: float
    done: frozenset[str]
    cursors: dict[str, _Cursor] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    last_of_child: int = -1
    first: int | None = None


class _TwoCursors:
    """All members that catch up."""

    def __init__(self) -> None:
        self.logs: defaultdict[TopicPartition, Log] = defaultdict(Log)
        self.sent_at_ms: dict[str, float] = {}
        self.holdings: dict[tuple[str, TopicPartition], _CursorHolding] = {}
        self.catches_up_from: dict[str, int] = {}
        self.polled: set[str] = set()
        self.committed: defaultdict[TopicPartition, set[str]] = defaultdict(set)

    def change(self, event: Sent | Removed | Vanished | Truncated) -> None:
        self.logs[event.partition].apply(event)
        if isinstance(event, Sent):
            self.sent_at_ms[event.value] = event.at_ms
        elif isinstance(event, Truncated):  # positions in it mean nothing any more, nor do commits
            self.committed[event.partition].clear()
            for key, holding in self.holdings.items():
                if key[1] == event.partition:
                    self.holdings[key] = _CursorHolding(holding.at_ms, frozenset())

    def assign(self, event: Assigned) -> None:
        for partition in event.partitions:
            done = frozenset(self.committed[partition])
            self.holdings[event.member, partition] = _CursorHolding(event.at_ms, done)

    def give(self, event: Revoked | Lost) -> None:
        for partition in event.partitions:
            self.holdings.pop((event.member, partition), None)

    def go(self, member: str) -> None:
        for key in [key for key in self.holdings if key[0] == member]:
            del self.holdings[key]

    # --- records --------------------------------------------------------------------------------------------

    def poll(self, event: Polled) -> Iterator[Violation]:
        holding = self.holdings.get((event.member, event.partition))
        if holding is None:
            yield _violation("not-assigned", event, f"{event.partition}, which is not assigned to it")
            return
        yield from self._come_again(event, holding)
        yield from self._sides(event, holding)
        for offset, value in zip(event.offsets, event.values, strict=True):
            yield from self._step(event, holding, offset, value)
        holding.seen.update(event.offsets)
        self.polled.update(event.values)

    def _come_again(self, event: Polled, holding: _CursorHolding) -> Iterator[Violation]:
        if twice := holding.seen.intersection(event.offsets):
            yield _violation("overlap", event, f"{event.partition}@{min(twice)}, which one of its cursors gave before")
        if again := holding.done.intersection(event.values):
            story = f"{len(again)} of {event.partition}, such as {min(again)}, which were committed before it had them"
            yield _violation("redelivered", event, story)

    def _sides(self, event: Polled, holding: _CursorHolding) -> Iterator[Violation]:
        """The main cursor begins with the newest; a child stays in front of that."""
        if event.cursor == CHILD:
            holding.last_of_child = max(holding.last_of_child, *event.offsets)
        elif holding.first is None:
            holding.first = event.offsets[0]
            yield from self._begin(event, holding, holding.first)
        if holding.first is not None and holding.last_of_child >= holding.first:
            story = f"{event.partition}: a child is at {holding.last_of_child}, and the main one began at"
            yield _violation("ranges-overlap", event, f"{story} {holding.first}")
            holding.last_of_child = -1  # told once

    def _begin(self, event: Polled, holding: _CursorHolding, first: int) -> Iterator[Violation]:
        """Or in order, if there is no lag that is long enough, or nothing is committed: that is no lag, but all."""
        known_ms = holding.at_ms - ASKED_BEFORE_MS
        log = self.logs[event.partition]
        ahead = [at for at, value in log.values.items() if at >= first and self.sent_at_ms[value] < known_ms]
        if holding.done and len(ahead) >= self.catches_up_from.get(event.member, 1):
            story = f"{event.partition} from {first} on, where {len(ahead)} records lay in front of the newest"
            yield _violation("newest-late", event, story)

    def _step(self, event: Polled, holding: _CursorHolding, offset: int, value: str) -> Iterator[Violation]:
        """A main cursor leaves nothing out, a child only what somebody has been given."""
        cursor = holding.cursors.setdefault(event.cursor, _Cursor(offset))
        where = f"{event.partition}@{offset} by its {event.cursor} cursor"
        between = self.logs[event.partition].retained_between(cursor.position, offset)
        if offset < cursor.position:
            yield _violation("nonmonotonic-poll", event, f"{where}, behind its position {cursor.position}")
        elif skipped := [each for each in between if not self._may_skip(event, each)]:
            yield _violation("poll-skip", event, f"{where}, and skipped {skipped[:5]}")
        if between:
            cursor.run.clear()
        cursor.run[offset] = value
        cursor.position = offset + 1

    def _may_skip(self, event: Polled, offset: int) -> bool:
        return event.cursor == CHILD and self.logs[event.partition].values[offset] in self.polled

    # --- commits --------------------------------------------------------------------------------------------

    def commit(self, event: Committed) -> Iterator[Violation]:
        """Covers the range that the cursor is in: of others before that it may have failed to commit something."""
        what = f"{event.partition}@{event.offset} of its {event.cursor} cursor"
        holding = self.holdings.get((event.member, event.partition))
        if holding is None:
            yield _violation("commit-not-owned", event, f"{what}, which it does not have")
            return
        cursor = holding.cursors.get(event.cursor)
        if cursor is None or event.offset > cursor.position:
            yield _violation("commit-ahead", event, f"{what}, behind what that has given")
        if cursor is not None:
            covered = (value for offset, value in cursor.run.items() if offset < event.offset)
            self.committed[event.partition].update(covered)

    def answer(self, event: LowWater) -> Iterator[Violation]:
        log = self.logs[event.partition]
        undone = [offset for offset in log.retained_between(0, event.offset) if log.values[offset] not in self.polled]
        if undone:
            story = f"that {event.partition} is committed up to {event.offset}, and nobody was given {undone[:5]}"
            yield _violation("low-water-ahead", event, story)


def lags_are_caught_up_with(ledger: Ledger) -> Iterator[Violation]:
    """In each assignment of a partition the main cursor begins with the newest records and leaves nothing out; children
    give what lies in front of that, each offset once, in order, and leave out only what somebody was given before.
    What a cursor has committed comes to nobody again, and the group's offset is never behind what nobody was given."""
    cursors = _TwoCursors()
    for event in ledger.events:
        match event:
            case Sent() | Removed() | Vanished() | Truncated():
                cursors.change(event)
            case Started() if event.catches_up_from:
                cursors.catches_up_from[event.member] = event.catches_up_from
            case Assigned() if event.member in cursors.catches_up_from:
                cursors.assign(event)
            case Revoked() | Lost():
                cursors.give(event)
            case Killed() | Closed():
                cursors.go(event.member)
            case Polled() if event.cursor:
                yield from cursors.poll(event)
            case Committed() if event.cursor:
                yield from cursors.commit(event)
            case LowWater():
                yield from cursors.answer(event)
            case _:
                pass


def _violation(rule: str, event: Polled | Committed | LowWater, what: str) -> Violation:
    did = {Polled: "polled", Committed: "committed", LowWater: "was told"}[type(event)]
    return Violation(rule=rule, at_ms=event.at_ms, what=f"{event.member} {did} {what}")
