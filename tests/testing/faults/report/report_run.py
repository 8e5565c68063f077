"""A small run, told by hand, that tests change and put through the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.model import TopicPartition
from kwire.testing.faults.report.run import FaultRun
from kwire.testing.invariants import Ledger
from kwire.testing.invariants.ledger import (
    Assigned,
    Committed,
    FaultBegan,
    FaultEnded,
    Killed,
    Lost,
    Polled,
    Revoked,
    Sent,
    Started,
)

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event

T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)


def sent(at: float, *offsets: int, partition: TopicPartition = T0) -> list[Event]:
    return [Sent(at_ms=at, partition=partition, offset=each, value=f"{partition}@{each}") for each in offsets]


def polled(at: float, *offsets: int, member: str = "a", partition: TopicPartition = T0) -> Polled:
    values = tuple(f"{partition}@{each}" for each in offsets)
    return Polled(at_ms=at, member=member, partition=partition, offsets=offsets, values=values)


def started(at: float = 0.0, member: str = "a", *, careful: bool = False) -> Started:
    return Started(at_ms=at, member=member, session_timeout_ms=10_000.0, commits_on_revoke=careful)


def assigned(at: float, member: str = "a", *partitions: TopicPartition) -> Assigned:
    return Assigned(at_ms=at, member=member, partitions=partitions or (T0,))


def revoked(at: float, member: str = "a", *partitions: TopicPartition) -> Revoked:
    return Revoked(at_ms=at, member=member, partitions=partitions or (T0,))


def lost(at: float, member: str = "a", *partitions: TopicPartition) -> Lost:
    return Lost(at_ms=at, member=member, partitions=partitions or (T0,))


def killed(at: float, member: str = "a") -> Killed:
    return Killed(at_ms=at, member=member)


def committed(at: float, offset: int, member: str = "a") -> Committed:
    return Committed(at_ms=at, member=member, partition=T0, offset=offset)


def began(at: float, fault: str, detail: str = "") -> FaultBegan:
    return FaultBegan(at_ms=at, fault=fault, detail=detail)


def healed(at: float, fault: str) -> FaultEnded:
    return FaultEnded(at_ms=at, fault=fault)


def ledger(*events: Event | Sequence[Event]) -> Ledger:
    return Ledger([each for event in events for each in (event if isinstance(event, Sequence) else [event])])


def run(*events: Event | Sequence[Event]) -> FaultRun:
    return FaultRun(name="kwire", ledger=ledger(*events))
