"""Recovery is bounded: once all is quiet, every partition is drained within a time."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.testing.invariants.ledger import Ledger, Polled, Quiet, Sent, Started
from kwire.testing.invariants.logs import final_logs
from kwire.testing.invariants.violation import Violation

# Beyond a session timeout (a dead member's partitions): a request that runs into its own timeout, a back-off, a
# rebalance, and reading what has piled up.
RECOVERY_MS = 30_000.0


def everything_is_drained_in_time(ledger: Ledger) -> Iterator[Violation]:
    """After `Quiet`, all that was sent before is polled within a session timeout and `RECOVERY_MS`."""
    quiet = next(ledger.of(Quiet), None)
    if quiet is None:
        return
    session_ms = max((event.session_timeout_ms for event in ledger.of(Started)), default=0.0)
    deadline_ms = quiet.at_ms + session_ms + RECOVERY_MS
    reached = _first_polled(ledger)
    later = {event.value for event in ledger.of(Sent) if event.at_ms > quiet.at_ms}
    for partition, log in final_logs(ledger).items():
        wanted = [value for offset, value in log.values.items() if offset >= log.start and value not in later]
        late = [value for value in wanted if reached.get(value, float("inf")) > deadline_ms]
        if late:
            allowed_ms = deadline_ms - quiet.at_ms
            what = (
                f"{partition}: {len(late)} of {len(wanted)} records not polled {allowed_ms:.0f} ms after all was quiet"
            )
            yield Violation(rule="recovery", at_ms=deadline_ms, what=what)


def _first_polled(ledger: Ledger) -> dict[str, float]:
    first: dict[str, float] = {}
    for event in ledger.of(Polled):
        for value in event.values:
            first.setdefault(value, event.at_ms)
    return first
