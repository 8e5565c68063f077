"""When nothing is wrong any more, a processor keeps up: what is slow holds up nobody else, commits follow at once, and
nothing is left in its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

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

Processor: TypeAlias = tuple[str, int]
"""A member, and the number of its processor."""


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
    """What the group has stored when the calm ends, and when all have closed, goes up to the first record that nobody
    is done with or has given up. What is passed by while partitions change hands may be left to the next owner."""
    if next(ledger.of(ProcessorStarted), None) is None:
        return
    logs: dict[TopicPartition, Log] = {}
    done: set[str] = set()
    is_calm = is_closing = False
    for event in ledger.events:
        match event:
            case Calm():
                is_calm = True
            case Closing():
                is_closing = True
            case Sent() | Removed() | Truncated() | Vanished():
                logs.setdefault(event.partition, Log()).apply(event)
            case HandlingEnded() | GivenUp() if _is_done(event, is_closing=is_closing):
                done.add(event.value)
            case Stored() if is_calm:
                wanted = _reached(logs.get(event.partition, Log()), done)
                if (event.offset or 0) < wanted:
                    what = f"{event.partition}: {event.offset} is committed, and all in front of {wanted} are done"
                    yield Violation(rule="commit-behind-handling", at_ms=event.at_ms, what=what)
            case _:
                pass


def _is_done(event: HandlingEnded | GivenUp, *, is_closing: bool) -> bool:
    if isinstance(event, GivenUp):
        return not is_closing
    return event.is_done and not (event.is_passed_by and is_closing)


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
    """A processor with nothing to do says so: nothing waits, nothing is in work or paused. What it says it has handled
    is what its handler was done with, but for what it has skipped: that it may leave to the next owner instead."""
    returned: Counter[Processor] = Counter()
    passed_by: Counter[Processor] = Counter()
    for event in ledger.events:
        match event:
            case HandlingEnded(is_passed_by=True) | GivenUp():
                passed_by[event.member, event.processor] += 1
            case HandlingEnded():
                returned[event.member, event.processor] += event.is_done
            case StatusSeen():
                processor = event.member, event.processor
                yield from _judge_status(event, returned[processor], passed_by[processor])
            case _:
                pass


def _judge_status(event: StatusSeen, returned: int, passed_by: int) -> Iterator[Violation]:
    counts = {"wait": event.waiting, "are in work": event.in_work, "are tried again": event.retrying}
    wrong = [f"{count} {what}" for what, count in counts.items() if count]
    if event.paused:
        wrong.append(f"{', '.join(map(str, event.paused))} paused")
    if (handled := event.handled - event.skipped) != returned:
        wrong.append(f"{handled} handled, which were {returned}")
    if event.skipped > passed_by:
        wrong.append(f"{event.skipped} skipped, which were {passed_by}")
    if wrong:
        what = f"{event.member} has nothing to do, and says: {'; '.join(wrong)}"
        yield Violation(rule="counts-left-over", at_ms=event.at_ms, what=what)
