"""Spans of time from a ledger: faults, lives of members, and owners of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Died,
    FaultBegan,
    FaultEnded,
    Frozen,
    Killed,
    Ledger,
    Lost,
    Revoked,
    Started,
    Thawed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpan:
    """One fault, from its strike to its healing; a momentary one has no end."""

    fault: str
    detail: str
    began_ms: float
    ended_ms: float | None

    @property
    def over_ms(self) -> float:
        """From when on recovery is to be expected: the heal, or the strike of what heals by itself."""
        return self.began_ms if self.ended_ms is None else self.ended_ms

    def is_at_work(self, from_ms: float, to_ms: float) -> bool:
        return self.began_ms < to_ms and self.over_ms > from_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpan:
    """One incarnation of a consumer. `ending` is "closed", "killed", "died", or "" for one that still runs."""

    member: str
    began_ms: float
    ended_ms: float
    ending: str
    frozen: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSpan:
    """A partition in the hands of a member, between the two callbacks, or until the member ended."""

    member: str
    partition: TopicPartition
    began_ms: float
    ended_ms: float
    ending: str


def ends_ms(ledger: Ledger) -> float:
    """The time of the last event."""
    return max((event.at_ms for event in ledger.events), default=0.0)


def fault_spans(ledger: Ledger) -> tuple[FaultSpan, ...]:
    """In the order they struck. Of two alike that overlap, the one that began first is the first to end."""
    found: list[FaultSpan] = []
    open_ones: dict[str, list[int]] = {}
    for event in ledger.events:
        if isinstance(event, FaultBegan):
            open_ones.setdefault(event.fault, []).append(len(found))
            found.append(FaultSpan(fault=event.fault, detail=event.detail, began_ms=event.at_ms, ended_ms=None))
        elif isinstance(event, FaultEnded) and (waiting := open_ones.get(event.fault)):
            number = waiting.pop(0)
            begun = found[number]
            found[number] = FaultSpan(
                fault=begun.fault, detail=begun.detail, began_ms=begun.began_ms, ended_ms=event.at_ms
            )
    return tuple(found)


@dataclass(slots=True)
class _Life:
    began_ms: float
    ended_ms: float
    ending: str = ""
    frozen_since_ms: float | None = None
    frozen: list[tuple[float, float]] = field(default_factory=list)

    def thaw(self, at_ms: float) -> None:
        if self.frozen_since_ms is not None:
            self.frozen.append((self.frozen_since_ms, at_ms))
            self.frozen_since_ms = None

    def end(self, at_ms: float, ending: str) -> None:
        self.thaw(at_ms)
        if not self.ending:
            self.ended_ms, self.ending = at_ms, ending


def member_spans(ledger: Ledger) -> tuple[MemberSpan, ...]:
    """In the order they started."""
    end_ms = ends_ms(ledger)
    lives: dict[str, _Life] = {}
    for event in ledger.events:
        if not isinstance(event, (Started, Frozen, Thawed, Closed, Killed, Died)):
            continue
        life = lives.setdefault(event.member, _Life(event.at_ms, end_ms))
        match event:
            case Started():
                pass
            case Frozen():
                life.frozen_since_ms = event.at_ms
            case Thawed():
                life.thaw(event.at_ms)
            case Closed() | Killed() | Died():
                life.end(event.at_ms, type(event).__name__.lower())
    return tuple(_member_span(member, life, end_ms) for member, life in lives.items())


def _member_span(member: str, life: _Life, end_ms: float) -> MemberSpan:
    life.thaw(end_ms)
    return MemberSpan(
        member=member, began_ms=life.began_ms, ended_ms=life.ended_ms, ending=life.ending, frozen=tuple(life.frozen)
    )


class _OwnerSpans:
    """Who has which partition since when."""

    def __init__(self) -> None:
        self.since_ms: dict[tuple[str, TopicPartition], float] = {}

    def take(self, event: Assigned) -> None:
        for partition in event.partitions:
            self.since_ms.setdefault((event.member, partition), event.at_ms)

    def give(self, key: tuple[str, TopicPartition], at_ms: float, ending: str) -> Iterator[OwnerSpan]:
        if (since_ms := self.since_ms.pop(key, None)) is not None:
            yield OwnerSpan(member=key[0], partition=key[1], began_ms=since_ms, ended_ms=at_ms, ending=ending)

    def go(self, event: Closed | Killed | Died) -> Iterator[OwnerSpan]:
        for key in [key for key in self.since_ms if key[0] == event.member]:
            yield from self.give(key, event.at_ms, type(event).__name__.lower())


def owner_spans(ledger: Ledger) -> tuple[OwnerSpan, ...]:
    """By partition, and by when they began."""
    hands = _OwnerSpans()
    spans: list[OwnerSpan] = []
    for event in ledger.events:
        match event:
            case Assigned():
                hands.take(event)
            case Revoked() | Lost():
                ending = type(event).__name__.lower()
                for partition in event.partitions:
                    spans += hands.give((event.member, partition), event.at_ms, ending)
            case Closed() | Killed() | Died():
                spans += hands.go(event)
            case _:
                pass
    end_ms = ends_ms(ledger)
    for key in list(hands.since_ms):
        spans += hands.give(key, end_ms, "")
    return tuple(sorted(spans, key=lambda span: (span.partition, span.began_ms, span.member)))
