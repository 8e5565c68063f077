"""Histories of any size for `scripts/prove spark-audit`: a group reads many partitions, and nothing is wrong with it
but what is planted.

Members take turns with the partitions. In each round a partition gets a poll's worth of records, its owner polls them,
is through with them and commits; every few rounds all partitions go to the next member. What each plant does is told
beside it, and the rule that has to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from kwire.model import TopicPartition
from kwire.testing.invariants import Ledger
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    CommitArrived,
    CommitTaken,
    Committed,
    Died,
    Ended,
    Event,
    Hidden,
    Polled,
    Processed,
    Quiet,
    Revoked,
    Sent,
    Started,
    Stored,
)

TOPIC = "orders"
ROUND_MS = 100.0
ROUNDS_OF_AN_OWNER = 10
SESSION_MS = 10_000.0
CLOSE_TIMEOUT_MS = 1_000.0


@dataclass(slots=True)
class Round:
    """What one partition sees in one round; plants change it before it is told.

    Args:
        polled: offsets and values; None for no poll.
        commit: what is committed in the end.
        behind: what else is told, after all that.
    """

    at_ms: float
    partition: TopicPartition
    member: str
    offsets: list[int]
    sent: list[str]
    polled: list[tuple[int, str]] | None
    commit: int
    behind: list[Event] = field(default_factory=list)


Plant: TypeAlias = Callable[[Round], None]


def lose(one: Round) -> None:
    """Three records in the middle are handed to nobody."""
    assert one.polled is not None
    del one.polled[5:8]


def skip_and_find(one: Round) -> None:
    """Three records are skipped, and polled after what comes behind them: nothing is lost, but the order is."""
    assert one.polled is not None
    late = one.polled[5:8]
    del one.polled[5:8]
    one.behind.append(_poll(one, one.member, late))
    one.behind.append(_poll(one, one.member, one.polled[-1:]))


def repeat(one: Round) -> None:
    """The same ten records come twice to one member."""
    assert one.polled is not None
    one.behind.append(_poll(one, one.member, one.polled[-10:]))


def change(one: Round) -> None:
    """A value comes out that nobody has sent."""
    assert one.polled is not None
    one.polled[7] = one.polled[7][0], "nobody's"


def swap(one: Round) -> None:
    """Two values come out at each other's offsets."""
    assert one.polled is not None
    (first, left), (second, right) = one.polled[3], one.polled[4]
    one.polled[3:5] = [(first, right), (second, left)]


def commit_ahead(one: Round) -> None:
    """What is committed nobody was handed."""
    one.commit += 50


def poll_unassigned(one: Round) -> None:
    """Somebody polls what it was never given: the same records once more."""
    assert one.polled is not None
    one.behind.append(_poll(one, "stranger", one.polled[20:30]))


def commit_unowned(one: Round) -> None:
    """Somebody commits what it never owned."""
    one.behind.append(CommitArrived(at_ms=one.at_ms, member="stranger", partition=one.partition, offset=one.commit))


def revoke_twice(one: Round) -> None:
    """A member is told that it loses what it has never had."""
    one.behind.append(Revoked(at_ms=one.at_ms, member="stranger", partitions=(one.partition,)))


def own_beside_owner(one: Round) -> None:
    """Somebody is given a partition that has an owner."""
    one.behind.append(Assigned(at_ms=one.at_ms, member="second", partitions=(one.partition,)))
    one.behind.append(Revoked(at_ms=one.at_ms, member="second", partitions=(one.partition,)))


def promise_a_commit(one: Round) -> None:
    """A member is told of a commit that the group does not have."""
    one.behind.append(Committed(at_ms=one.at_ms, member=one.member, partition=one.partition, offset=one.commit + 1))


def die(one: Round) -> None:
    """A network side ends by an exception."""
    one.behind.append(Died(at_ms=one.at_ms, member=one.member, error="KeyError"))


PLANTS: dict[str, Plant] = {
    "lost-write": lose,
    "poll-skip": skip_and_find,
    "nonmonotonic-poll": repeat,
    "inconsistent-offsets": change,
    "inconsistent-offsets of two": swap,
    "commit-ahead": commit_ahead,
    "not-assigned": poll_unassigned,
    "commit-not-owned": commit_unowned,
    "revoked-twice": revoke_twice,
    "two-owners": own_beside_owner,
    "commit-not-kept": promise_a_commit,
    "died": die,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A history to be told.

    Args:
        rounds: of all partitions; the first and the last of an owner are left as they are.
        records: of a poll.
        marker_every: each so many rounds, a marker of a transaction stands behind a poll's records.
        plants: which, by name; each in a partition and a round of its own.
    """

    rounds: int
    partitions: int = 40
    members: int = 5
    records: int = 500
    marker_every: int = 7
    plants: tuple[str, ...] = ()

    @property
    def events(self) -> int:
        """About how many, polled records counted each."""
        return self.rounds * self.partitions * (2 * self.records + 4)

    def where(self) -> dict[tuple[int, int], str]:
        """Each plant's round and partition."""
        usable = [number for number in range(self.rounds) if 0 < number % ROUNDS_OF_AN_OWNER < ROUNDS_OF_AN_OWNER - 1]
        step = max(1, len(usable) // max(1, len(self.plants)))
        numbered = enumerate(self.plants)
        return {(usable[n * step % len(usable)], n * 7 % self.partitions): plant for n, plant in numbered}


def tell(story: Story) -> Iterator[Event]:
    """All that happens, in order."""
    members = [f"member{number}" for number in range(story.members)]
    partitions = [TopicPartition(TOPIC, number) for number in range(story.partitions)]
    ends = dict.fromkeys(partitions, 0)
    planted = story.where()
    for member in members:
        yield Started(at_ms=0.0, member=member, session_timeout_ms=SESSION_MS, tells_processing=True)
    owner_of: dict[TopicPartition, str] = {}
    for number in range(story.rounds):
        at_ms = ROUND_MS * number
        if number % ROUNDS_OF_AN_OWNER == 0:
            yield from _hand_over(at_ms, number // ROUNDS_OF_AN_OWNER, members, owner_of, ends)
        for index, partition in enumerate(partitions):
            one = _round(at_ms, partition, owner_of[partition], ends[partition], story.records)
            if plant := planted.get((number, index)):
                PLANTS[plant](one)
            has_marker = number % story.marker_every == 0
            ends[partition] += story.records + has_marker
            yield from _told(one, marker=one.offsets[-1] + 1 if has_marker else None)
    yield from _end(ROUND_MS * story.rounds, members, owner_of)


def _round(at_ms: float, partition: TopicPartition, member: str, start: int, records: int) -> Round:
    offsets = list(range(start, start + records))
    values = [f"{partition.partition}:{offset}" for offset in offsets]
    polled = list(zip(offsets, values, strict=True))
    return Round(at_ms, partition, member, offsets, values, polled, commit=offsets[-1] + 1)


def _told(one: Round, marker: int | None) -> Iterator[Event]:
    at_ms, partition, member = one.at_ms, one.partition, one.member
    for offset, value in zip(one.offsets, one.sent, strict=True):
        yield Sent(at_ms=at_ms, partition=partition, offset=offset, value=value)
    if marker is not None:
        yield Hidden(at_ms=at_ms, partition=partition, offsets=(marker,))
    if one.polled:
        yield _poll(one, member, one.polled)
    yield Processed(at_ms=at_ms, member=member)
    yield CommitArrived(at_ms=at_ms, member=member, partition=partition, offset=one.commit)
    yield CommitTaken(at_ms=at_ms, partition=partition, offset=one.commit)
    yield Committed(at_ms=at_ms, member=member, partition=partition, offset=one.commit)
    yield from one.behind


def _poll(one: Round, member: str, records: list[tuple[int, str]]) -> Polled:
    offsets, values = tuple(offset for offset, _ in records), tuple(value for _, value in records)
    return Polled(at_ms=one.at_ms, member=member, partition=one.partition, offsets=offsets, values=values)


def _hand_over(
    at_ms: float, turn: int, members: list[str], owner_of: dict[TopicPartition, str], ends: dict[TopicPartition, int]
) -> Iterator[Event]:
    for partition, end in ends.items():
        if owner := owner_of.get(partition):
            yield Revoked(at_ms=at_ms, member=owner, partitions=(partition,))
        yield Stored(at_ms=at_ms, partition=partition, offset=end or None, end=end)
        owner_of[partition] = members[(partition.partition + turn) % len(members)]
        yield Assigned(at_ms=at_ms, member=owner_of[partition], partitions=(partition,))


def _end(at_ms: float, members: list[str], owner_of: dict[TopicPartition, str]) -> Iterator[Event]:
    yield Quiet(at_ms=at_ms)
    for partition, owner in owner_of.items():
        yield Revoked(at_ms=at_ms, member=owner, partitions=(partition,))
    for member in members:
        yield Closed(at_ms=at_ms, member=member, took_ms=1.0, timeout_ms=CLOSE_TIMEOUT_MS)
    yield Ended(at_ms=at_ms)


def ledger(story: Story) -> Ledger:
    return Ledger(list(tell(story)))


def lines(story: Story) -> Iterator[str]:
    """The lines of `ledger(story)`, without having it; what there is most of is written without `json`."""
    for event in tell(story):
        if isinstance(event, Sent):
            yield (
                f'{{"event":"Sent","at_ms":{event.at_ms!r},"partition":"{event.partition}",'
                f'"offset":{event.offset},"value":"{event.value}"}}'
            )
        else:
            yield from Ledger([event]).lines()
