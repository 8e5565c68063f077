"""Commits never run ahead of what was handed out, and a member commits nothing that it never owned."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Assigned, CommitArrived, Committed, Ledger, Polled, Removed
from kwire.testing.invariants.violation import Violation


class _Delivered:
    """How far each partition has been handed out: to each member, and as far as anybody may know."""

    def __init__(self) -> None:
        self.to_member: dict[tuple[str, TopicPartition], int] = {}
        self.known: dict[TopicPartition, int] = {}
        self.ever_owned: set[tuple[str, TopicPartition]] = set()

    def polled(self, event: Polled) -> None:
        key = event.member, event.partition
        self.to_member[key] = max(self.to_member.get(key, 0), event.offsets[-1] + 1)

    def learn(self, partition: TopicPartition, offset: int) -> None:
        self.known[partition] = max(self.known.get(partition, 0), offset)

    def limit(self, event: CommitArrived | Committed) -> int:
        """A member may commit what it was handed; and what it found committed, or at the start of the log."""
        return max(self.to_member.get((event.member, event.partition), 0), self.known.get(event.partition, 0))


def commits_follow_delivery(ledger: Ledger) -> Iterator[Violation]:
    """What a member commits, or is told is committed, it was handed before."""
    delivered = _Delivered()
    for event in ledger.events:
        match event:
            case Assigned():
                delivered.ever_owned.update((event.member, partition) for partition in event.partitions)
            case Polled():
                delivered.polled(event)
            case Removed():
                delivered.learn(event.partition, event.before)
            case CommitArrived() | Committed():
                yield from _judge(event, delivered)
                delivered.learn(event.partition, event.offset)
            case _:
                pass


def _judge(event: CommitArrived | Committed, delivered: _Delivered) -> Iterator[Violation]:
    commit = f"{event.member} committed {event.partition}@{event.offset}"
    if event.offset > (limit := delivered.limit(event)):
        yield Violation(rule="commit-ahead", at_ms=event.at_ms, what=f"{commit}, but it was handed none behind {limit}")
    if (event.member, event.partition) not in delivered.ever_owned:
        yield Violation(rule="commit-not-owned", at_ms=event.at_ms, what=f"{commit}, which it never owned")
