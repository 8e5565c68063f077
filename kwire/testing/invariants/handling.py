"""Invariants of processors: each record is handled, in order, by one worker at a time; and no commit covers an
unfinished record. For truncated logs fewer rules hold, since positions go back there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.handling_events import (
    AskedForCommits,
    HandlingBegan,
    HandlingEnded,
    Lined,
    MapArrived,
    ProcessorEnded,
    ProcessorStarted,
    StoredMap,
)
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closed,
    Closing,
    Ended,
    Event,
    FaultBegan,
    Killed,
    Ledger,
    Lost,
    Polled,
    Raised,
    Removed,
    Revoked,
    Sent,
    Truncated,
    Vanished,
)
from kwire.testing.invariants.logs import Log, final_logs, given_up
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.invariants.violation import Violation

Place = tuple[str, TopicPartition]
"""A member, and a partition."""


class _Truth:
    """The contents of the logs, and the records that are done or given up; fed with every event."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.done: set[str] = set()
        self.cut: set[TopicPartition] = set()

    def apply(self, event: Event) -> None:
        match event:
            case Sent() | Removed() | Vanished() | Truncated():
                self.logs.setdefault(event.partition, Log()).apply(event)
                if isinstance(event, Truncated):
                    self.cut.add(event.partition)
            case HandlingEnded() if event.is_done:
                self.done.add(event.value)
            case GivenUp():
                self.done.add(event.value)
            case _:
                pass

    def start_of(self, partition: TopicPartition) -> int:
        return self.logs.setdefault(partition, Log()).start

    def undone(self, partition: TopicPartition, first: int, last: int) -> list[int]:
        """Records from `first` up to and without `last` that are there, and that nobody is done with."""
        log = self.logs.setdefault(partition, Log())
        return [offset for offset in log.retained_between(first, last) if log.values[offset] not in self.done]


# --- nothing is left out, nothing is done for nothing -----------------------------------------------------------------


def everything_is_handled(ledger: Ledger) -> Iterator[Violation]:
    """Each record that was sent before it was quiet, and is still in the log, somebody was done with in the end, or has
    given up."""
    end = next(ledger.of(Ended), None)
    if end is None or not _is_processing(ledger):
        return
    done = {event.value for event in ledger.of(HandlingEnded) if event.is_done} | given_up(ledger)
    late = _sent_later(ledger)
    for partition, log in final_logs(ledger).items():
        missing = [
            offset
            for offset, value in sorted(log.values.items())
            if offset >= log.start and value not in done and value not in late
        ]
        if missing:
            what = f"{partition}: nobody handled {len(missing)} records from {missing[0]} on"
            yield Violation(rule="unhandled", at_ms=end.at_ms, what=what)


def commits_follow_handling(ledger: Ledger) -> Iterator[Violation]:
    """Records that a commit or its map says are finished are finished."""
    truth = _Truth()
    checked: dict[TopicPartition, int] = {}
    for event in ledger.events:
        truth.apply(event)
        if not isinstance(event, MapArrived) or event.partition in truth.cut:
            continue
        stretches = [(checked.get(event.partition, 0), event.offset), *event.finished]
        undone = [offset for first, last in stretches for offset in truth.undone(event.partition, first, last)]
        if undone:
            what = f"{event.member} committed {event.partition}@{event.offset}, and {undone[:5]} are not done"
            rule = "commit-unfinished" if undone[0] < event.offset else "map-unfinished"
            yield Violation(rule=rule, at_ms=event.at_ms, what=what)
        checked[event.partition] = max(checked.get(event.partition, 0), event.offset)


def nothing_finished_runs_again(ledger: Ledger) -> Iterator[Violation]:
    """What the group knew to be finished when a member began with a partition, that member does not do again. Unless
    the group has given the partition to another since, and the member, cut off, cannot know: then it goes on at its own
    position, and what the other one has done meanwhile comes again."""
    truth = _Truth()
    owners: dict[TopicPartition, str] = {}
    stored: dict[TopicPartition, StoredMap] = {}
    known: dict[Place, StoredMap] = {}
    for event in ledger.events:
        truth.apply(event)
        match event:
            case StoredMap():
                stored[event.partition] = event
            case AskedForCommits():
                known |= {(event.member, at): stored[at] for at in event.partitions}
            case Assigned():
                owners |= dict.fromkeys(event.partitions, event.member)
            case HandlingBegan() if event.value in truth.done and event.partition not in truth.cut:
                if owners.get(event.partition, event.member) != event.member:
                    continue
                at = known.get((event.member, event.partition))
                if at is not None and _covers(at, event.offset):
                    what = f"{event.member} began {event.partition}@{event.offset} again, which was committed as done"
                    yield Violation(rule="handled-again", at_ms=event.at_ms, what=what)
            case _:
                pass


def _covers(at: StoredMap, offset: int) -> bool:
    return offset < at.offset or any(first <= offset < last for first, last in at.finished)


# --- order ------------------------------------------------------------------------------------------------------------


class _Lanes:
    """For each member what it was handed, lane by lane, and nobody has done yet."""

    def __init__(self) -> None:
        self.lanes: dict[tuple[Place, str], deque[tuple[int, str]]] = {}
        self.lane_of: dict[tuple[Place, int], tuple[str, str | None]] = {}
        self.values: tuple[str, ...] = ()

    def line_up(self, event: Lined) -> None:
        """Behind a `Polled` of the same records."""
        place = event.member, event.partition
        self.forget(place, event.offsets[0])
        for offset, lane, value in zip(event.offsets, event.lanes, self.values, strict=True):
            self.lane_of[place, offset] = value, lane
            if lane is not None:
                self.lanes.setdefault((place, lane), deque()).append((offset, value))

    def forget(self, place: Place, first: int) -> None:
        """What it was handed from there on: it comes anew, or the partition is gone."""
        for key, lane in self.lanes.items():
            if key[0] == place:
                while lane and lane[-1][0] >= first:
                    lane.pop()

    def in_front_of(self, event: HandlingBegan, truth: _Truth) -> int | None:
        """A record that has to be done before this one, and is not, though it is still there."""
        place = event.member, event.partition
        value, name = self.lane_of.get((place, event.offset), ("", None))
        if name is None or value != event.value:  # of what it was handed before, or in no order
            return None
        lane, start = self.lanes[place, name], truth.start_of(event.partition)
        while lane and lane[0][0] < event.offset and (lane[0][0] < start or lane[0][1] in truth.done):
            lane.popleft()
        return lane[0][0] if lane and lane[0][0] < event.offset else None


def lanes_keep_their_order(ledger: Ledger) -> Iterator[Violation]:
    """A record is begun only when those before it in its lane are done."""
    truth, lanes = _Truth(), _Lanes()
    for event in ledger.events:
        truth.apply(event)
        match event:
            case Polled():
                lanes.values = event.values
            case Lined():
                lanes.line_up(event)
            case Revoked() | Lost():
                for partition in event.partitions:
                    lanes.forget((event.member, partition), 0)
            case HandlingBegan() if (front := lanes.in_front_of(event, truth)) is not None:
                what = f"{event.member} began {event.partition}@{event.offset} before {front}, which is in front of it"
                yield Violation(rule="out-of-order", at_ms=event.at_ms, what=what)
            case _:
                pass


# --- one pair of hands ------------------------------------------------------------------------------------------------


class _Hands:
    """Which records are in whose hands now; and whether all is well, so that nobody holds what is not his."""

    def __init__(self) -> None:
        self.is_well = True
        self.workers: dict[tuple[str, int], int] = {}
        self.lanes: dict[str, tuple[TopicPartition, str | None]] = {}
        self.held: dict[tuple[str, int], list[str]] = {}
        self.given_up: set[Place] = set()
        self.ended: set[tuple[str, int]] = set()
        self.cut_short: set[tuple[str, int]] = set()
        """Processors that ended before their handlers did: by an exception of a signal handler, or by a timeout of
        stop(). Nothing stops a handler."""

    def begin(self, event: HandlingBegan) -> Iterator[Violation]:
        run = event.member, event.processor
        lane = self.lanes.get(event.value, (event.partition, None))
        for (member, number), values in self.held.items():
            is_mine = (member, number) == run
            shared = [v for v in values if lane[1] is not None and self.lanes.get(v) == lane]
            counts = self.is_well and member != event.member and (member, number) not in self.cut_short
            if shared and (is_mine or counts):
                what = f"{event.member} began {event.partition}@{event.offset} while {member} had one of its lane"
                yield Violation(rule="two-hands", at_ms=event.at_ms, what=what)
        mine = self.held.setdefault(run, [])
        mine.append(event.value)
        if len(mine) > self.workers[run]:
            what = f"{event.member} has {len(mine)} records in work, with {self.workers[run]} workers"
            yield Violation(rule="too-many-hands", at_ms=event.at_ms, what=what)
        if run in self.ended:
            what = f"{event.member} began {event.partition}@{event.offset} with a processor that had ended"
            yield Violation(rule="after-its-end", at_ms=event.at_ms, what=what)
        if self.is_well and (event.member, event.partition) in self.given_up:
            what = f"{event.member} began {event.partition}@{event.offset}, which it had given up"
            yield Violation(rule="not-its-own", at_ms=event.at_ms, what=what)

    def end(self, event: HandlingEnded) -> None:
        self.held[event.member, event.processor].remove(event.value)

    def interrupt(self, member: str) -> None:
        self.cut_short.add(max(run for run in self.workers if run[0] == member))

    def go(self, member: str) -> None:
        for key in [key for key in self.held if key[0] == member]:
            del self.held[key]


def one_pair_of_hands(ledger: Ledger) -> Iterator[Violation]:
    """A lane has one record in work at a time: of one processor always, of a group while nothing is wrong. And nobody
    has more in work than workers, begins anything when it has ended, or, while nothing is wrong, what it has given
    up."""
    hands, values = _Hands(), tuple[str, ...]()
    for event in ledger.events:
        if isinstance(event, Polled):
            values = event.values
        elif isinstance(event, Lined):
            hands.lanes |= {v: (event.partition, lane) for v, lane in zip(values, event.lanes, strict=True)}
        elif isinstance(event, HandlingBegan):
            yield from hands.begin(event)
        else:
            _change_hands(event, hands)


def _change_hands(event: Event, hands: _Hands) -> None:
    match event:
        case FaultBegan() | Calm():
            hands.is_well = isinstance(event, Calm)
        case ProcessorStarted():
            hands.workers[event.member, event.processor] = event.workers
        case Raised() if event.call == "processor" and event.error == "Interrupt":
            hands.interrupt(event.member)
        case ProcessorEnded():
            hands.ended.add((event.member, event.processor))
            if event.is_cut_short:
                hands.cut_short.add((event.member, event.processor))
        case HandlingEnded():
            hands.end(event)
        case Revoked() | Lost():
            hands.given_up |= {(event.member, at) for at in event.partitions}
        case Assigned():
            hands.given_up -= {(event.member, at) for at in event.partitions}
        case Killed() | Closed():
            hands.go(event.member)
        case _:
            pass


def _is_processing(ledger: Ledger) -> bool:
    return next(ledger.of(ProcessorStarted), None) is not None


def _sent_later(ledger: Ledger) -> set[str]:
    """Values that were sent when members had begun to close: the next members handle them."""
    closing = next(ledger.of(Closing), None)
    return set() if closing is None else {event.value for event in ledger.of(Sent) if event.at_ms >= closing.at_ms}
