"""What happens in a world of crash orders: its lives, where in the protocol each ends, and what befalls the log.

A crash is at a point of the protocol and not at a time: the n-th request of a kind, such as a commit to one of the two
logs, was or was not carried out, and its answer never comes. So each step of a recovery, of a hand-over and of a commit
has its turn, and the space between two commits as well.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from kwire.catch_up.token import head_group
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.protocol.schema import Message, Request

GROUP = "crashing"
HEAD_GROUP = head_group(GROUP)


class Point(Enum):
    """A request that a life ends at."""

    GROUP_COMMIT = "commit to the group's log"
    HEAD_COMMIT = "commit to the head's log"
    GROUP_LOOK_UP = "look-up in the group's log"
    HEAD_LOOK_UP = "look-up in the head's log"
    LOG_END = "look-up of the log's end"
    EPOCH_END = "look-up of an epoch's end"
    FETCH = "fetch"

    @property
    def request(self) -> type[Request[Message]]:
        return _REQUESTS[self]

    @property
    def group(self) -> str | None:
        """Whose coordinator it is for, if it is for one."""
        return _GROUPS.get(self)


_REQUESTS: dict[Point, type[Request[Message]]] = {
    Point.GROUP_COMMIT: OffsetCommitRequest,
    Point.HEAD_COMMIT: OffsetCommitRequest,
    Point.GROUP_LOOK_UP: OffsetFetchRequest,
    Point.HEAD_LOOK_UP: OffsetFetchRequest,
    Point.LOG_END: ListOffsetsRequest,
    Point.EPOCH_END: OffsetForLeaderEpochRequest,
    Point.FETCH: FetchRequest,
}
_GROUPS = {
    Point.GROUP_COMMIT: GROUP,
    Point.GROUP_LOOK_UP: GROUP,
    Point.HEAD_COMMIT: HEAD_GROUP,
    Point.HEAD_LOOK_UP: HEAD_GROUP,
}
# Commits and what a hand-over asks come more often than they would by themselves: that is where things can be lost.
_WEIGHTS = {
    Point.GROUP_COMMIT: 8,
    Point.HEAD_COMMIT: 8,
    Point.GROUP_LOOK_UP: 1,
    Point.HEAD_LOOK_UP: 2,
    Point.LOG_END: 2,
    Point.EPOCH_END: 1,
    Point.FETCH: 3,
}


class Fate(Enum):
    """What becomes of who has sent that request."""

    KILLED = "killed"
    FROZEN = "frozen until its successor is at work"
    UNANSWERED = "left without an answer"


@dataclass(frozen=True, slots=True)
class Crash:
    """Args:
    nth: the how many-th such request of this life; from 1 on.
    is_taken: whether it is carried out.
    """

    point: Point
    nth: int
    is_taken: bool
    fate: Fate

    def __str__(self) -> str:
        how = "taken" if self.is_taken else "not taken"
        return f"{self.fate.value} at {self.point.value} {self.nth}, which is {how}"


class Blow(Enum):
    """What befalls the log while a life is at work."""

    RETENTION = "records-deleted"
    TRUNCATION = "unclean-election"
    RECREATION = "topic-made-anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One consumer.

    Args:
        catches_up: whether it has parallel rebalance; a client without is in the group as Java's would be.
        lag: about how many records each partition gets before it starts.
        crashes: in the order in which they may come; it is closed after `rounds` polls if none has ended it.
        is_joined: whether its successor starts while it is at work: a rebalance in the middle of a range.
        blow: what befalls the log in the middle of it.
        pauses: whether it pauses and resumes a partition.
    """

    catches_up: bool
    lag: int
    rounds: int
    crashes: tuple[Crash, ...]
    is_joined: bool
    blow: Blow | None
    pauses: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A world.

    Args:
        min_lag: `parallel_rebalance_min_lag_records`.
        fetch_bytes: `max_partition_fetch_bytes`: a small one makes a range take many fetches.
        poll_records: `max_poll_records`.
        commits: "sync", "async", "auto", or "parts": some of what each cursor was given.
    """

    seed: int
    protocol: str
    partitions: int
    children: int
    min_lag: int
    fetch_bytes: int
    poll_records: int
    commits: str
    read_committed: bool
    lives: tuple[Life, ...]

    def __str__(self) -> str:
        kept = "committed records" if self.read_committed else "all records"
        return (
            f"seed {self.seed}: {self.protocol} protocol, {self.partitions} partitions, {self.children} children, "
            f"lags from {self.min_lag} on, commits {self.commits}, {self.poll_records} records a poll, {kept}"
        )


def draw_plan(seed: int) -> Plan:
    """The world of a seed."""
    rng = random.Random(f"crash orders {seed}")
    read_committed = rng.random() < 0.3
    count = rng.randint(2, 4)
    lives = [_draw_life(rng, is_first=number == 0, cuts_logs=not read_committed) for number in range(count)]
    return Plan(
        seed=seed,
        protocol=rng.choice(("classic", "consumer")),
        partitions=rng.choice((1, 1, 2)),
        children=rng.choice((1, 1, 2, 3)),
        min_lag=rng.choice((1, 1, 10)),
        fetch_bytes=rng.choice((1024 * 1024, 300)),
        poll_records=rng.choice((500, 10, 3)),
        commits=rng.choice(("sync", "sync", "parts", "parts", "async", "auto")),
        read_committed=read_committed,
        lives=tuple(lives),
    )


def _draw_life(rng: random.Random, *, is_first: bool, cuts_logs: bool) -> Life:
    blow = None
    if rng.random() < 0.25:
        blow = rng.choice(list(Blow) if cuts_logs else [Blow.RETENTION, Blow.RECREATION])
    return Life(
        catches_up=rng.random() < 0.9,
        lag=rng.randint(5, 60),
        rounds=rng.randint(4, 16),
        crashes=tuple(_draw_crash(rng) for _ in range(1 if is_first else rng.randint(0, 2))),
        is_joined=rng.random() < 0.25,
        blow=blow,
        pauses=rng.random() < 0.1,
    )


def _draw_crash(rng: random.Random) -> Crash:
    return Crash(
        point=rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0],
        nth=rng.choice((1, 1, 2, 2, 3, 4, 6)),
        is_taken=rng.random() < 0.5,
        fate=rng.choices((Fate.KILLED, Fate.FROZEN, Fate.UNANSWERED), (6, 1, 2))[0],
    )
