"""Descriptions of events, for the story of a violation."""

from __future__ import annotations

from kwire.testing.invariants.handling_events import (
    AskedForCommits,
    HandlingBegan,
    HandlingEnded,
    Lined,
    MapArrived,
    ProcessorEnded,
    ProcessorStarted,
    StatusSeen,
    StoredMap,
)
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closed,
    Closing,
    CommitArrived,
    CommitTaken,
    Committed,
    Died,
    Ended,
    Event,
    FaultBegan,
    FaultEnded,
    Frozen,
    Hidden,
    JoinedAnew,
    Killed,
    Lost,
    LowWater,
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
    Vanished,
)
from kwire.testing.invariants.user_events import GivenUp, UserCodeRaised


def words(event: Event) -> str | None:  # noqa: C901  one case for each kind of event
    """The description of an event, without its time. None for frequent events: sending, polling, committing."""
    match event:
        case (
            Sent()
            | Hidden()
            | Polled()
            | Processed()
            | Committed()
            | CommitArrived()
            | CommitTaken()
            | LowWater()
            | Stored()
            | Ended()
            | AskedForCommits()
            | StoredMap()
            | MapArrived()
            | Lined()
        ):
            return None
        case Started():
            return f"{event.member} starts"
        case JoinedAnew():
            return f"{event.member} joins as nobody the group knows"
        case Assigned() | Revoked() | Lost():
            what = type(event).__name__.lower()
            return f"{event.member} {what} {', '.join(map(str, event.partitions)) or 'nothing'}"
        case ProcessorStarted():
            return f"{event.member} has {event.workers} workers"
        case ProcessorEnded():
            return f"{event.member} has no workers any more"
        case HandlingBegan():
            return f"{event.member} works on {event.partition}@{event.offset}"
        case HandlingEnded():
            return f"{event.member} {'is through' if event.is_done else 'FAILED'} with {event.partition}@{event.offset}"
        case StatusSeen():
            return (
                f"{event.member} says: {event.waiting} wait, {event.in_work} in work, {event.retrying} again, "
                f"{event.handled} handled, {event.skipped} skipped, {len(event.paused)} partitions paused"
            )
        case Raised():
            return f"{event.member} {event.call} raised {event.error}: {event.message}"
        case UserCodeRaised():
            over = f" over {event.value}" if event.value else ""
            return f"{event.member}: its {event.place} raises {event.error}{over}"
        case GivenUp():
            return f"{event.member} gives up {event.value}: {event.how}"
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
        case Vanished():
            return f"{event.partition} has lost {len(event.offsets)} records from {event.offsets[0]} on"
        case Paused() | Resumed():
            return f"{event.member} {type(event).__name__.lower()} {event.partition}"
        case Sought():
            return f"{event.member} sought {event.partition} to {event.offset}"
        case Quiet() | Calm() | Closing():
            return type(event).__name__.upper()
