"""Commits never run ahead of the records that were handed out, a member commits only partitions that it owned, and an
acknowledged commit is kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, starmap

from kwire.model import TopicPartition
from kwire.testing.invariants.handling_events import StoredMap
from kwire.testing.invariants.ledger import (
    Assigned,
    CommitArrived,
    CommitTaken,
    Committed,
    Hidden,
    Ledger,
    Polled,
    Processed,
    Removed,
    Sent,
    Sought,
    Started,
    Truncated,
)
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.invariants.violation import Violation


class _Delivered:
    """How far each partition has been handed out: to each member, and as far as anybody may know."""

    def __init__(self) -> None:
        self.to_member: dict[tuple[str, TopicPartition], int] = {}
        self.processed: dict[tuple[str, TopicPartition], int] = {}
        self.in_hand: dict[str, set[TopicPartition]] = {}
        self.tell_processing: set[str] = set()
        self.known: dict[TopicPartition, int] = {}
        self.hidden: dict[TopicPartition, set[int]] = {}
        self.finished: dict[TopicPartition, set[int]] = {}
        self.ever_owned: set[tuple[str, TopicPartition]] = set()
        self.places: dict[str, tuple[TopicPartition, int]] = {}

    def polled(self, event: Polled) -> None:
        key = event.member, event.partition
        self.to_member[key] = max(self.to_member.get(key, 0), event.offsets[-1] + 1)
        self.in_hand.setdefault(event.member, set()).add(event.partition)

    def process(self, member: str) -> None:
        for partition in self.in_hand.pop(member, ()):
            self.processed[member, partition] = self.to_member[member, partition]

    def is_unprocessed(self, event: CommitArrived) -> bool:
        """Whether a commit covers records that the application is still processing."""
        if event.member not in self.tell_processing or event.partition not in self.in_hand.get(event.member, ()):
            return False
        processed = self.processed.get((event.member, event.partition), 0)
        return event.offset > self.over_hidden(event.partition, max(processed, self.known.get(event.partition, 0)))

    def learn(self, partition: TopicPartition, offset: int) -> None:
        self.known[partition] = max(self.known.get(partition, 0), offset)

    def limit(self, event: CommitArrived | Committed) -> int:
        """A member may commit what it was handed; and what it found committed, or at the start of the log."""
        handed = self.to_member.get((event.member, event.partition), 0)
        return self.over_hidden(event.partition, max(handed, self.known.get(event.partition, 0)))

    def skip(self, event: Hidden | StoredMap) -> None:
        """These need not be polled."""
        if isinstance(event, Hidden):
            self.hidden.setdefault(event.partition, set()).update(event.offsets)
        else:
            self.finished[event.partition] = set(chain.from_iterable(starmap(range, event.finished)))

    def give_up(self, value: str) -> None:
        """Nor need this."""
        if value in self.places:
            partition, offset = self.places[value]
            self.hidden.setdefault(partition, set()).add(offset)

    def over_hidden(self, partition: TopicPartition, offset: int) -> int:
        """A position moves on over what no poll returns, and over what the group knew to be finished, polled or not."""
        hidden, finished = self.hidden.get(partition, ()), self.finished.get(partition, ())
        while offset in hidden or offset in finished:
            offset += 1
        return offset


def commits_follow_delivery(ledger: Ledger) -> Iterator[Violation]:  # noqa: C901  one case for each kind of event
    """A member commits, or is told of a commit for, only records that it was handed before."""
    delivered = _Delivered()
    for event in ledger.events:
        match event:
            case Assigned():
                delivered.ever_owned.update((event.member, partition) for partition in event.partitions)
            case Started() if event.tells_processing:
                delivered.tell_processing.add(event.member)
            case Polled():
                delivered.polled(event)
            case Processed():
                delivered.process(event.member)
            case Hidden() | StoredMap():
                delivered.skip(event)
            case Sent():
                delivered.places[event.value] = event.partition, event.offset
            case GivenUp():
                delivered.give_up(event.value)
            case Removed():
                delivered.learn(event.partition, event.before)
            case Committed() if event.cursor:
                pass  # judged for each cursor, by `catching_up.py`
            case CommitArrived() | Committed():
                yield from _judge(event, delivered)
                delivered.learn(event.partition, event.offset)
            case _:
                pass


def commits_are_kept(ledger: Ledger) -> Iterator[Violation]:
    """A member that is told of a commit can rely on it: the group has one of that partition that goes as far. Only
    where the group's own view is in the ledger, and not of logs that were cut: positions in those go back."""
    if next(ledger.of(CommitTaken), None) is None:
        return
    furthest: dict[TopicPartition, int] = {}
    cut: set[TopicPartition] = set()
    for event in ledger.events:
        match event:
            case CommitTaken():
                furthest[event.partition] = max(furthest.get(event.partition, 0), event.offset)
            case Removed():  # a member in front of that is reset, and has nothing to commit meanwhile
                furthest[event.partition] = max(furthest.get(event.partition, 0), event.before)
            case Truncated():
                cut.add(event.partition)
            case Committed() if event.partition not in cut:
                if event.offset > (kept := furthest.get(event.partition, 0)):
                    what = f"{event.member} was told that {event.partition}@{event.offset} is committed; {kept} is"
                    yield Violation(rule="commit-not-kept", at_ms=event.at_ms, what=what)
            case _:
                pass


def commits_are_not_undone(ledger: Ledger) -> Iterator[Violation]:
    """Once a member was told of a commit, no other one goes back behind it, except over what no poll returns. A broker
    may carry out a commit long after its member has made it again. Not where logs were cut, or members sought."""
    told: dict[TopicPartition, int] = {}
    hidden: dict[TopicPartition, set[int]] = {}
    goes_back: set[TopicPartition] = set()
    for event in ledger.events:
        match event:
            case Committed() if not event.cursor:  # else there are several, each with a position of its own
                told[event.partition] = max(told.get(event.partition, 0), event.offset)
            case Hidden():
                hidden.setdefault(event.partition, set()).update(event.offsets)
            case Sought() | Truncated():
                goes_back.add(event.partition)
            case CommitTaken() if event.partition not in goes_back:
                before = told.get(event.partition, 0)
                if not set(range(event.offset, before)) <= hidden.get(event.partition, set()):
                    what = f"{event.partition}@{before} was told to be committed, and {event.offset} was after that"
                    yield Violation(rule="commit-undone", at_ms=event.at_ms, what=what)
            case _:
                pass


def _judge(event: CommitArrived | Committed, delivered: _Delivered) -> Iterator[Violation]:
    commit = f"{event.member} committed {event.partition}@{event.offset}"
    if event.offset > (limit := delivered.limit(event)):
        yield Violation(rule="commit-ahead", at_ms=event.at_ms, what=f"{commit}, but it was handed none behind {limit}")
    elif isinstance(event, CommitArrived) and delivered.is_unprocessed(event):
        yield Violation(rule="commit-unprocessed", at_ms=event.at_ms, what=f"{commit}, and was not through with it")
    if (event.member, event.partition) not in delivered.ever_owned:
        yield Violation(rule="commit-not-owned", at_ms=event.at_ms, what=f"{commit}, which it never owned")
