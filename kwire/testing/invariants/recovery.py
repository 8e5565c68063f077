"""Recovery is bounded: once all is quiet, every partition is drained within a given time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.testing.invariants.ledger import Ledger, Polled, Quiet, Sent, Started
from kwire.testing.invariants.logs import final_logs
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.invariants.violation import Violation

# Beyond a session timeout (a dead member's partitions): a request that runs into its own timeout, a back-off, a
# rebalance, and reading what has piled up.
RECOVERY_MS = 30_000.0


def everything_is_drained_in_time(ledger: Ledger) -> Iterator[Violation]:
    """After `Quiet`, all that was sent before is polled, or given up, within a session timeout and `RECOVERY_MS`."""
    return reached_in_time(ledger, _first_polled(ledger), rule="recovery", what="polled")


def reached_in_time(ledger: Ledger, reached: Mapping[str, float], *, rule: str, what: str) -> Iterator[Violation]:
    """The same of anything that happens to each value, given when it first did."""
    quiet = next(ledger.of(Quiet), None)
    if quiet is None:
        return
    session_ms = max((event.session_timeout_ms for event in ledger.of(Started)), default=0.0)
    allowed_ms = session_ms + RECOVERY_MS
    deadline_ms = quiet.at_ms + allowed_ms
    later = {event.value for event in ledger.of(Sent) if event.at_ms > quiet.at_ms}
    for partition, log in final_logs(ledger).items():
        wanted = [value for offset, value in log.values.items() if offset >= log.start and value not in later]
        if late := [value for value in wanted if reached.get(value, float("inf")) > deadline_ms]:
            story = f"{len(late)} records not {what} {allowed_ms:.0f} ms after all was quiet"
            yield Violation(rule=rule, at_ms=deadline_ms, what=f"{partition}: {story}")


def _first_polled(ledger: Ledger) -> dict[str, float]:
    first: dict[str, float] = {}
    for event in ledger.of(Polled):
        for value in event.values:
            first.setdefault(value, event.at_ms)
    return given_up_at(ledger) | first


def given_up_at(ledger: Ledger) -> dict[str, float]:
    """When each record was first given up."""
    return {event.value: event.at_ms for event in reversed(list(ledger.of(GivenUp)))}
