"""A run in words: what happened around its violations, for whoever has to find out why."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closed,
    Closing,
    CommitArrived,
    Committed,
    Died,
    Ended,
    Event,
    FaultBegan,
    FaultEnded,
    Frozen,
    Hidden,
    Killed,
    Lost,
    Paused,
    Polled,
    Processed,
    Quiet,
    Raised,
    Removed,
    Resumed,
    Revoked,
    Sent,
    Sought,
    Started,
    Stored,
    Thawed,
    Truncated,
)
from kwire.testing.simulation.run import Outcome

LINES = 150
AFTERMATH_MS = 3_000.0


def story(outcome: Outcome, lines: int = LINES) -> str:
    """The scenario; the last events up to a little behind the first violation, alike ones as one; what was found."""
    told = list(_told(_relevant(outcome)))
    left_out = [f"  ... {len(told) - lines} lines before"] if len(told) > lines else []
    found = [f"VIOLATION {violation}" for violation in outcome.violations]
    return "\n".join((*_scenario(outcome), *left_out, *told[-lines:], *found))


def _scenario(outcome: Outcome) -> list[str]:
    scenario = outcome.scenario
    how = f"classic protocol, {'/'.join(scenario.assignors)}" if scenario.protocol == "classic" else "consumer protocol"
    return [
        f"seed {scenario.seed}: {scenario.brokers} brokers, topics of {scenario.topics} partitions",
        f"  {scenario.members} members, {how}, commits {scenario.committing}, processing {scenario.processing_ms} ms",
        f"  {scenario.records_per_second:.0f} records/s for {scenario.busy_ms / 1000:.0f} s, {scenario.habits}",
    ]


def _relevant(outcome: Outcome) -> list[Event]:
    events = outcome.ledger.events
    if not outcome.violations:
        return events
    until_ms = outcome.violations[0].at_ms + AFTERMATH_MS
    return [event for event in events if event.at_ms <= until_ms]


def _told(events: list[Event]) -> Iterator[str]:
    """One line for each event that matters; for a member's polls of a partition in a row, and the commits in between,
    one for all."""
    polls: dict[tuple[str, TopicPartition], tuple[Polled, int]] = {}
    last = ""
    for event in events:
        if isinstance(event, Polled):
            key = event.member, event.partition
            first, end = polls.get(key, (event, event.offsets[0]))
            if end != event.offsets[0]:
                yield _poll(first, end)
                first = event
            polls[key] = first, event.offsets[-1] + 1
        elif (words := _words(event)) is not None:
            yield from (_poll(first, end) for first, end in polls.values())
            polls.clear()
            if words != last:
                yield f"  {event.at_ms / 1000:9.3f}  {words}"
            last = words
    yield from (_poll(first, end) for first, end in polls.values())


def _poll(first: Polled, end: int) -> str:
    return f"  {first.at_ms / 1000:9.3f}  {first.member} polled {first.partition} {first.offsets[0]}-{end - 1}"


def _words(event: Event) -> str | None:  # noqa: C901  one case for each kind of event
    match event:
        case Sent() | Hidden() | Polled() | Processed() | Committed() | CommitArrived() | Stored() | Ended():
            return None
        case Started():
            return f"{event.member} starts"
        case Assigned() | Revoked() | Lost():
            what = type(event).__name__.lower()
            return f"{event.member} {what} {', '.join(map(str, event.partitions)) or 'nothing'}"
        case Raised():
            return f"{event.member} {event.call} raised {event.error}: {event.message}"
        case Died():
            return f"{event.member} DIED of {event.error}"
        case Closed():
            return f"{event.member} closed in {event.took_ms:.0f} ms"
        case Killed() | Frozen() | Thawed():
            return f"{event.member} {type(event).__name__.lower()}"
        case FaultBegan():
            return f"FAULT {event.fault}: {event.detail}"
        case FaultEnded():
            return f"HEALED {event.fault}"
        case Removed():
            return f"{event.partition} begins at {event.before}"
        case Truncated():
            return f"{event.partition} truncated to {event.to}"
        case Paused() | Resumed():
            return f"{event.member} {type(event).__name__.lower()} {event.partition}"
        case Sought():
            return f"{event.member} sought {event.partition} to {event.offset}"
        case Quiet() | Calm() | Closing():
            return type(event).__name__.upper()
