"""Plans of worlds of crash orders: the lives, where in the protocol each ends, and what happens to the log.

A crash is at a point of the protocol and not at a time: the n-th request of a kind, such as a commit to one of the two
logs, is or is not carried out, and its answer never comes. So crashes come at each step of a recovery, a hand-over and
a commit, and between two commits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import Enum

from kwire.parallel_rebalance.token import head_group
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
        """The group whose coordinator gets the request, if it goes to one."""
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
_COMMITS_TO_LOGS = (Point.GROUP_COMMIT, Point.HEAD_COMMIT)
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
    """What happens to the consumer that has sent the request."""

    KILLED = "killed"
    FROZEN = "frozen until its successor is at work"
    UNANSWERED = "left without an answer"
    ANSWERED = "answered as ever"
    """What happens to it comes after that."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Where a life ends: at one of its requests.

    Args:
        nth: the how many-th such request, from 1 on: of this life, or since the crash or the blow that it comes after.
        is_taken: whether it is carried out.
        after_blow: whether it waits for the blow.
        then: what may come next, and not before.
    """

    point: Point
    nth: int
    is_taken: bool
    fate: Fate
    after_blow: bool = False
    then: Crash | None = None

    def __str__(self) -> str:
        how = "taken" if self.is_taken else "not taken"
        return f"{self.fate.value} at {self.point.value} {self.nth}, which is {how}"


class Blow(Enum):
    """What happens to the log during a life."""

    RETENTION = "records-deleted"
    TRUNCATION = "unclean-election"
    RECREATION = "topic-recreated"


class Theme(Enum):
    """What may happen in a world."""

    ANYTHING = "anything"
    TWO_LOGS = "the two logs"
    """Lags last long, and lives end at the commits to the two logs, or between the two."""
    CUT = "a cut log"
    """The log is cut while it is caught up with, and who has noticed ends soon."""


_THEMES = {Theme.ANYTHING: 3, Theme.TWO_LOGS: 3, Theme.CUT: 2}


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
        coordinators_apart: whether the two logs are kept by two brokers, so that one may answer without the other.
        has_gaps: whether offsets are missing, as in a compacted topic; so many that children share what is left.
        tells_epochs: whether the application commits its own offsets with their leader epochs.
        batches: how many of them make up a lag.
        min_lag: `parallel_rebalance_min_lag_records`.
        fetch_bytes: `max_partition_fetch_bytes`: a small one makes a range take many fetches.
        poll_records: `max_poll_records`.
        commits: "sync", "async", "auto", or "parts": some of what each cursor was given.
    """

    seed: int
    theme: Theme
    protocol: str
    coordinators_apart: bool
    partitions: int
    has_gaps: bool
    children: int
    batches: int
    min_lag: int
    fetch_bytes: int
    poll_records: int
    commits: str
    tells_epochs: bool
    read_committed: bool
    lives: tuple[Life, ...]

    def __str__(self) -> str:
        kept = "committed records" if self.read_committed else "all records"
        logs = "coordinators apart" if self.coordinators_apart else "one coordinator"
        holes = " with gaps" if self.has_gaps else ""
        return (
            f"seed {self.seed}, {self.theme.value}: {self.protocol} protocol, {logs}, {self.partitions} partitions"
            f"{holes}, {self.children} children, lags from {self.min_lag} on, commits {self.commits}, "
            f"{self.poll_records} records a poll, {kept}"
        )


def draw_plan(seed: int) -> Plan:
    """The world of a seed."""
    rng = random.Random(f"crash orders {seed}")
    theme = rng.choices(list(_THEMES), list(_THEMES.values()))[0]
    is_slow = theme is not Theme.ANYTHING
    has_gaps = theme is not Theme.CUT and rng.random() < 0.3  # a gap may be all that is skipped behind a cut
    read_committed = theme is not Theme.CUT and rng.random() < 0.3  # what was committed is in no replica's way
    coordinators_apart = rng.random() < 0.75 if theme is Theme.TWO_LOGS else rng.random() < 0.25
    draw = _Draw(rng, theme, cuts_logs=not read_committed, coordinators_apart=coordinators_apart)
    return Plan(
        seed=seed,
        theme=theme,
        protocol=rng.choice(("classic", "consumer")),
        coordinators_apart=coordinators_apart,
        partitions=rng.choice((1, 1, 2)),
        has_gaps=has_gaps,
        children=rng.choice((1, 2, 3)) if has_gaps else rng.choice((1, 1, 2, 3)),
        batches=10 if theme is Theme.CUT else 4 if has_gaps else rng.choice((1, 4)),
        min_lag=1 if is_slow else rng.choice((1, 1, 10)),
        fetch_bytes=rng.choice((1024 * 1024, 300)),
        poll_records=rng.choice(_POLL_RECORDS[theme]),
        commits=rng.choice(_COMMITS[theme]),
        tells_epochs=rng.random() < (0.2 if theme is Theme.CUT else 0.5),
        read_committed=read_committed,
        lives=tuple(draw.life(number) for number in range(rng.randint(3 if theme is Theme.CUT else 2, 4))),
    )


_POLL_RECORDS = {Theme.ANYTHING: (500, 10, 3), Theme.TWO_LOGS: (10, 3, 3), Theme.CUT: (3,)}
_COMMITS = {
    Theme.ANYTHING: ("sync", "sync", "parts", "parts", "async", "auto"),
    Theme.TWO_LOGS: ("sync", "parts", "parts", "parts", "async", "auto"),
    Theme.CUT: ("parts",),
}


class _Draw:
    """Draws lives."""

    def __init__(self, rng: random.Random, theme: Theme, *, cuts_logs: bool, coordinators_apart: bool) -> None:
        self._rng = rng
        self._theme = theme
        self._cuts_logs = cuts_logs
        self._coordinators_apart = coordinators_apart

    def life(self, number: int) -> Life:
        rng = self._rng
        is_slow = self._theme is not Theme.ANYTHING
        is_cut = self._theme is Theme.CUT and number == 1
        blow = self._blow(number)
        return Life(
            catches_up=(self._theme is Theme.CUT and number > 0) or rng.random() < 0.9,
            lag=rng.randint(30, 60) if is_slow else rng.randint(5, 60),
            rounds=rng.randint(4, 16),
            crashes=tuple(self._crash(blow) for _ in range(1 if number == 0 or is_cut else rng.randint(0, 2))),
            is_joined=rng.random() < (0.1 if is_slow else 0.25),
            blow=blow,
            pauses=rng.random() < 0.1,
        )

    def _blow(self, number: int) -> Blow | None:
        if self._theme is Theme.CUT and number == 1:
            return Blow.TRUNCATION
        if self._rng.random() < 0.25:
            return self._rng.choice(list(Blow) if self._cuts_logs else [Blow.RETENTION, Blow.RECREATION])
        return None

    def _crash(self, blow: Blow | None) -> Crash:
        rng = self._rng
        if self._theme is Theme.CUT and blow is not None:
            at_claim = Crash(Point.GROUP_COMMIT, rng.choice((1, 1, 2)), True, Fate.KILLED)
            crash = rng.choice((at_claim, Crash(Point.HEAD_COMMIT, 1, False, Fate.KILLED)))
            return replace(crash, after_blow=True)
        if self._theme is Theme.ANYTHING or rng.random() < 0.2:
            return self._any_crash()
        if rng.random() < 0.3:
            return self._after_a_head()
        if self._coordinators_apart and rng.random() < 0.6:
            return self._between()
        return replace(self._any_crash(), point=rng.choice((Point.HEAD_COMMIT, Point.HEAD_COMMIT, Point.GROUP_COMMIT)))

    def _any_crash(self) -> Crash:
        rng = self._rng
        return Crash(
            point=rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0],
            nth=rng.choice((1, 1, 2, 2, 3, 4, 6)),
            is_taken=rng.random() < 0.5,
            fate=rng.choices((Fate.KILLED, Fate.FROZEN, Fate.UNANSWERED), (6, 1, 2))[0],
        )

    def _between(self) -> Crash:
        """One log does not get a commit, and with what the other one gets the life ends."""
        rng = self._rng
        lost, taken = rng.sample(_COMMITS_TO_LOGS, 2)
        end = Crash(taken, 1, True, rng.choices((Fate.KILLED, Fate.FROZEN), (6, 1))[0])
        return Crash(lost, rng.choice((1, 2, 3, 4)), False, Fate.UNANSWERED, then=end)

    def _after_a_head(self) -> Crash:
        """What the head's log has been given, and has answered, the group's log never hears."""
        end = Crash(Point.GROUP_COMMIT, 1, False, Fate.KILLED)
        return Crash(Point.HEAD_COMMIT, self._rng.choice((1, 2, 3, 4)), True, Fate.ANSWERED, then=end)
