"""Events of processors, beside those of their consumers: which worker has which record, and what commits say.

A *lane* is what keeps its order: records of one partition with the same lane go one after the other. Written by worlds
whose members run a `Processor`, and by programs whose lines tell the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorStarted:
    """A member begins to work on what its consumer has.

    Args:
        processor: its number: what an earlier one has left in the middle may go on beside it.
        workers: how many records it works on at once, at most.
    """

    at_ms: float
    member: str
    processor: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorEnded:
    """A processor begins no more records. Records that it has left unfinished may still end.

    Args:
        is_cut_short: it was told to stop with a timeout that its handlers may outlast.
    """

    at_ms: float
    member: str
    processor: int
    is_cut_short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedForCommits:
    """A member looks up the group's commits of these partitions, to begin there. A `StoredMap` of each comes before
    this."""

    at_ms: float
    member: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMap:
    """What the group knows to be finished of a partition: everything in front of `offset`, and the ranges behind it,
    each from its first offset up to and without its last."""

    at_ms: float
    partition: TopicPartition
    offset: int
    finished: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapArrived:
    """A member's commit of one partition reached a broker, with what it says of records behind it."""

    at_ms: float
    member: str
    partition: TopicPartition
    offset: int
    finished: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lined:
    """In which lane each of these records is, which a poll of this member has returned just now. None: in no order."""

    at_ms: float
    member: str
    partition: TopicPartition
    offsets: tuple[int, ...]
    lanes: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlingBegan:
    """A worker of this member's processor begins a record."""

    at_ms: float
    member: str
    processor: int
    partition: TopicPartition
    offset: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlingEnded:
    """A worker ends a record.

    Args:
        is_done: whether it counts as done; else the handler has failed, and has to have it again.
        is_passed_by: whether it counts as done because it has failed for good. If its partition is being taken away,
            it is left to the next owner instead: a world cannot tell the two apart.
    """

    at_ms: float
    member: str
    processor: int
    partition: TopicPartition
    offset: int
    value: str
    is_done: bool
    is_passed_by: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSeen:
    """The status of a processor that has nothing to do."""

    at_ms: float
    member: str
    processor: int
    waiting: int
    in_work: int
    retrying: int
    handled: int
    skipped: int
    paused: tuple[TopicPartition, ...]
