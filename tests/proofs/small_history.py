"""A history that is small and has all that changes need: two members, a hole, and records that came twice."""

from __future__ import annotations

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Ended,
    Event,
    Hidden,
    Polled,
    Revoked,
    Sent,
    Started,
)

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("orders", 1)
HOLE = 3


def value(partition: TopicPartition, offset: int) -> str:
    return f"value{partition.partition}-{offset}"


def sent(at_ms: float, partition: TopicPartition, *offsets: int) -> list[Event]:
    return [Sent(at_ms=at_ms, partition=partition, offset=offset, value=value(partition, offset)) for offset in offsets]


def polled(at_ms: float, member: str, partition: TopicPartition, *offsets: int, cursor: str = "") -> Polled:
    values = tuple(value(partition, offset) for offset in offsets)
    return Polled(at_ms=at_ms, member=member, partition=partition, offsets=offsets, values=values, cursor=cursor)


def assigned(at_ms: float, member: str, *partitions: TopicPartition) -> Assigned:
    return Assigned(at_ms=at_ms, member=member, partitions=partitions)


def revoked(at_ms: float, member: str, *partitions: TopicPartition) -> Revoked:
    return Revoked(at_ms=at_ms, member=member, partitions=partitions)


def started(at_ms: float, member: str) -> Started:
    return Started(at_ms=at_ms, member=member, session_timeout_ms=10_000, knows_session=False)


def small_history() -> list[Event]:
    """`a` reads both partitions; `b` takes one over, reads three records of it again, and goes on."""
    return [
        started(0, "a"),
        assigned(10, "a", ORDERS, BILLS),
        *sent(20, ORDERS, 0, 1, 2),
        Hidden(at_ms=21, partition=ORDERS, offsets=(HOLE,)),
        *sent(22, ORDERS, 4, 5),
        *sent(23, BILLS, 0, 1, 2),
        polled(30, "a", ORDERS, 0, 1, 2, 4, 5),
        polled(30, "a", BILLS, 0),
        polled(40, "a", BILLS, 1, 2),
        revoked(50, "a", ORDERS),
        started(50, "b"),
        assigned(60, "b", ORDERS),
        *sent(65, ORDERS, 6, 7),
        polled(70, "b", ORDERS, 2, 4, 5),
        polled(80, "b", ORDERS, 6),
        polled(90, "b", ORDERS, 7),
        revoked(100, "b", ORDERS),
        Closed(at_ms=101, member="b", took_ms=1, timeout_ms=100),
        revoked(102, "a", BILLS),
        Closed(at_ms=103, member="a", took_ms=1, timeout_ms=100),
        Ended(at_ms=110),
    ]
