"""When nothing is wrong any more, a group is at rest: records come at once, nobody rebalances, commits keep up."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.handling_events import ProcessorStarted
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closed,
    Closing,
    Event,
    Ledger,
    Lost,
    Polled,
    Raised,
    Revoked,
    Sent,
    Started,
    Stored,
)
from kwire.testing.invariants.violation import Violation

# From the leader to the application: two ways over the wire, and a poll that may be busy with a few records.
AT_ONCE_MS = 1_000.0
# A commit, a farewell, and what others do meanwhile: less than until the next heartbeat, which would hide much.
CLOSES_WITHIN_MS = 300.0


def a_calm_group_is_at_rest(ledger: Ledger) -> Iterator[Violation]:
    """Between `Calm` and `Closing` no callback is run and no call raises, and each record is polled at once; by members
    with a processor, which pause what they have enough of, when there is room."""
    processing = {event.member for event in ledger.of(ProcessorStarted)}
    sent: dict[str, tuple[TopicPartition, float]] = {}
    is_calm = False
    for event in ledger.events:
        match event:
            case Calm():
                is_calm = True
            case Closing():
                is_calm = False
            case Sent() if is_calm:
                sent[event.value] = event.partition, event.at_ms
            case Polled() if event.member not in processing:
                yield from _late(event, sent)
            case Assigned() | Revoked() | Lost() | Raised() if is_calm:
                what = f"{event.member} {_words(event)}, though nothing had happened"
                yield Violation(rule="restless", at_ms=event.at_ms, what=what)
            case _:
                pass


def commits_keep_up(ledger: Ledger) -> Iterator[Violation]:
    """What the group has stored when the calm ends is the end of each partition; and when everybody has closed, it is
    what was polled last. Only where members commit whatever they are handed."""
    if not all(event.commits_on_revoke for event in ledger.of(Started)):
        return
    by_themselves = all(event.commits_by_itself for event in ledger.of(Started))
    is_calm = has_closed = False
    polled: dict[TopicPartition, int] = {}
    for event in ledger.events:
        match event:
            case Calm():
                is_calm = True
            case Closing():
                has_closed = is_calm
            case Polled():
                polled[event.partition] = event.offsets[-1] + 1
            case Stored() if has_closed or (is_calm and by_themselves):
                wanted = polled.get(event.partition, 0) if has_closed else event.end
                if (event.offset or 0) < wanted:
                    what = f"{event.partition}: {event.offset} is committed, and {wanted} reached"
                    yield Violation(rule="commit-behind", at_ms=event.at_ms, what=what)
            case _:
                pass


def closing_is_quick(ledger: Ledger) -> Iterator[Violation]:
    """Without faults, no member needs its whole timeout to close."""
    is_closing = False
    for event in ledger.events:
        match event:
            case Closing():
                is_closing = True
            case Closed() if is_closing and event.took_ms > CLOSES_WITHIN_MS:
                what = f"{event.member}: close took {event.took_ms:.0f} ms, though nothing was wrong"
                yield Violation(rule="close-slow", at_ms=event.at_ms, what=what)
            case _:
                pass


def _late(event: Polled, sent: dict[str, tuple[TopicPartition, float]]) -> Iterator[Violation]:
    for value in event.values:
        partition, sent_at_ms = sent.pop(value, (event.partition, event.at_ms))
        if event.at_ms - sent_at_ms > AT_ONCE_MS:
            what = f"{event.member} polled {value!r} of {partition} {event.at_ms - sent_at_ms:.0f} ms after it was sent"
            yield Violation(rule="late", at_ms=event.at_ms, what=what)


def _words(event: Event) -> str:
    return f"raised {event.error}" if isinstance(event, Raised) else f"was called back: {type(event).__name__.lower()}"
