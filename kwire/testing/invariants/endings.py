"""Calls end well: `close` in time, no call by an error that means a bug, and no network side by any error."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.testing.invariants.ledger import Closed, Died, Ended, Killed, Ledger, Raised, Started
from kwire.testing.invariants.violation import Violation

# Sockets that are still to be closed when the time is up.
GRACE_MS = 150.0
# Errors that Kafka does not cause: they mean a bug of kwire.
BUGS = frozenset(
    ("AssertionError", "AttributeError", "IndexError", "InternalError", "KeyError", "RuntimeError", "TypeError")
)


def everybody_ends(ledger: Ledger) -> Iterator[Violation]:
    """By the end of the run, each member that has started has closed, or was killed."""
    running: dict[str, None] = {}
    for event in ledger.events:
        match event:
            case Started():
                running[event.member] = None
            case Closed() | Killed():
                running.pop(event.member, None)
            case Ended():
                for member in running:
                    yield Violation(rule="never-closed", at_ms=event.at_ms, what=f"{member} is still running")
            case _:
                pass


def calls_end_well(ledger: Ledger) -> Iterator[Violation]:
    """No network side dies; no call raises an error that means a bug of kwire; `close` returns within its timeout."""
    for event in ledger.events:
        match event:
            case Died():
                what = f"{event.member}: the network side died: {event.error}"
                yield Violation(rule="died", at_ms=event.at_ms, what=what)
            case Raised() if event.error in BUGS:
                what = f"{event.member}: {event.call} raised {event.error}: {event.message}"
                yield Violation(rule="internal-error", at_ms=event.at_ms, what=what)
            case Closed() if event.took_ms > event.timeout_ms + GRACE_MS:
                what = f"{event.member}: close took {event.took_ms:.0f} ms, it had {event.timeout_ms:.0f}"
                yield Violation(rule="close-late", at_ms=event.at_ms, what=what)
            case _:
                pass
