"""When nothing is wrong any more, a processor keeps up: what is slow holds up nobody else, commits follow at once, and
nothing is left in its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.handling_events import (
    HandlingBegan,
    HandlingEnded,
    ProcessorStarted,
    StatusSeen,
)
from kwire.testing.invariants.ledger import (
    Calm,
    Closing,
    Ledger,
    Lost,
    Removed,
    Sent,
    Stored,
    Truncated,
    Vanished,
)
from kwire.testing.invariants.logs import Log
from kwire.testing.invariants.recovery import given_up_at, reached_in_time
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.invariants.violation import Violation

# From the leader to a worker, behind a few records that take a millisecond.
AT_ONCE_MS = 2_500.0
# Whatever takes longer may hold up its partition.
LONG_MS = 1_000.0


def handling_recovers(ledger: Ledger) -> Iterator[Violation]:
    """After `Quiet`, all that was sent before is done, or given up, within a session timeout and `RECOVERY_MS`."""
    if next(ledger.of(ProcessorStarted), None) is None:
        return
    done = given_up_at(ledger)
    for event in ledger.of(HandlingEnded):
        if event.is_done:
            done.setdefault(event.value, event.at_ms)
    yield from reached_in_time(ledger, done, rule="handling-recovery", what="done")


def nobody_waits_for_the_slow(ledger: Ledger) -> Iterator[Violation]:
    """In calm each record is done at once, but where a partition has a slow one, or members one worker."""
    if min((event.workers for event in ledger.of(ProcessorStarted)), default=1) < 2:
        return
    sent: dict[str, tuple[TopicPartition, float]] = {}
    late: list[tuple[TopicPartition, float, str]] = []
    is_calm = False
    for event in ledger.events:
        match event:
            case Calm():
                is_calm = True
            case Closing():
                is_calm = False
            case Sent() if is_calm:
                sent[event.value] = event.partition, event.at_ms
            case HandlingEnded() if event.is_done:
                partition, at_ms = sent.pop(event.value, (event.partition, event.at_ms))
                if event.at_ms - at_ms > AT_ONCE_MS:
                    late.append((partition, event.at_ms, f"done {event.at_ms - at_ms:.0f} ms after it was sent"))
            case _:
                pass
    slow = _slow(ledger)
    for partition, at_ms, what in late:
        if partition not in slow:
            yield Violation(rule="held-up", at_ms=at_ms, what=f"a record of {partition} was {what}")


def _slow(ledger: Ledger) -> set[TopicPartition]:
    """Partitions in which a record took long, or was still in work, in calm."""
    began: dict[str, tuple[TopicPartition, float]] = {}
    slow: set[TopicPartition] = set()
    is_calm = False
    for event in ledger.events:
        match event:
            case Calm():
                is_calm = True
            case HandlingBegan():
                began[event.value] = event.partition, event.at_ms
            case HandlingEnded():
                partition, at_ms = began.pop(event.value, (event.partition, event.at_ms))
                if is_calm and event.at_ms - at_ms > LONG_MS:
                    slow.add(partition)
            case _:
                pass
    return slow | {partition for partition, _ in began.values()}


def commits_keep_up_with_handling(ledger: Ledger) -> Iterator[Violation]:
    """What the group has stored when the calm ends, and whenever partitions change hands after it, goes up to the first
    record that nobody is done with or has given up."""
    if next(ledger.of(ProcessorStarted), None) is None:
        return
    logs: dict[TopicPartition, Log] = {}
    done: set[str] = set()
    is_calm = False
    for event in ledger.events:
        match event:
            case Calm():
                is_calm = True
            case Sent() | Removed() | Truncated() | Vanished():
                logs.setdefault(event.partition, Log()).apply(event)
            case HandlingEnded() if event.is_done:
                done.add(event.value)
            case GivenUp():
                done.add(event.value)
            case Stored() if is_calm:
                wanted = _reached(logs.get(event.partition, Log()), done)
                if (event.offset or 0) < wanted:
                    what = f"{event.partition}: {event.offset} is committed, and all in front of {wanted} are done"
                    yield Violation(rule="commit-behind-handling", at_ms=event.at_ms, what=what)
            case _:
                pass


def _reached(log: Log, done: set[str]) -> int:
    """The first offset that is not done; behind the last record, if all are."""
    reached = 0
    for offset, value in sorted(log.values.items()):
        if offset < log.start:
            continue
        if value not in done:
            return offset
        reached = offset + 1
    return reached


def counts_come_to_nothing(ledger: Ledger) -> Iterator[Violation]:
    """A processor with nothing to do says so: nothing waits, nothing is in work or paused, and what it says it has
    handled is what its handler was done with."""
    done = _Done()
    for event in ledger.events:
        match event:
            case HandlingBegan():
                done.began(event)
            case Lost():
                done.lost(event)
            case HandlingEnded():
                done.ended(event)
            case GivenUp():
                done.given_up(event)
            case StatusSeen():
                yield from _judge_status(event, done.counted_by((event.member, event.processor)))
            case _:
                pass


class _Done:
    """How many records each processor may say that its handler was done with.

    A record that fails for good is done with, for it is passed by; not if its partition was lost or given back
    meanwhile, for then it is its next owner's. A world cannot tell the two apart: either may be counted, of what was in
    work when its partition was lost, and of what is handled again. So may what was given up.
    """

    def __init__(self) -> None:
        self._most: Counter[tuple[str, int]] = Counter()
        self._doubtful: Counter[tuple[str, int]] = Counter()
        self._in_work: dict[tuple[str, int, str], TopicPartition | None] = {}  # None: it was lost meanwhile
        self._done_by: dict[str, tuple[str, int]] = {}  # who was done with a record last, if there is no doubt yet

    def counted_by(self, processor: tuple[str, int]) -> range:
        most = self._most[processor]
        return range(most - self._doubtful[processor], most + 1)

    def began(self, event: HandlingBegan) -> None:
        self._in_work[event.member, event.processor, event.value] = event.partition
        if (before := self._done_by.pop(event.value, None)) is not None:
            self._doubtful[before] += 1

    def lost(self, event: Lost) -> None:
        for each, partition in self._in_work.items():
            if each[0] == event.member and partition in event.partitions:
                self._in_work[each] = None

    def ended(self, event: HandlingEnded) -> None:
        processor = event.member, event.processor
        was_lost = self._in_work.pop((*processor, event.value), event.partition) is None
        self._most[processor] += event.is_done
        self._doubtful[processor] += event.is_done and was_lost
        if event.is_done and not was_lost:
            self._done_by[event.value] = processor

    def given_up(self, event: GivenUp) -> None:
        self._most[event.member, event.processor] += 1
        self._doubtful[event.member, event.processor] += 1


def _judge_status(event: StatusSeen, done: range) -> Iterator[Violation]:
    counts = {"wait": event.waiting, "are in work": event.in_work, "are tried again": event.retrying}
    wrong = [f"{count} {what}" for what, count in counts.items() if count]
    if event.paused:
        wrong.append(f"{', '.join(map(str, event.paused))} paused")
    if event.handled not in done:
        wrong.append(f"{event.handled} handled, which were {done[-1]}")
    if wrong:
        what = f"{event.member} has nothing to do, and says: {'; '.join(wrong)}"
        yield Violation(rule="counts-left-over", at_ms=event.at_ms, what=what)
