"""The story of a run: the events around its violations, in words."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Event, Polled
from kwire.testing.invariants.words import words
from kwire.testing.simulation.run import WorldOutcome

LINES = 150
AFTERMATH_MS = 3_000.0


def story(outcome: WorldOutcome, lines: int = LINES) -> str:
    """The scenario; the last events up to a little behind the first violation, alike ones as one; what was found."""
    told = list(_told(_relevant(outcome)))
    left_out = [f"  ... {len(told) - lines} lines before"] if len(told) > lines else []
    found = [f"VIOLATION {violation}" for violation in outcome.violations]
    return "\n".join((*_scenario(outcome), *left_out, *told[-lines:], *found))


def _scenario(outcome: WorldOutcome) -> list[str]:
    scenario = outcome.scenario
    how = f"classic protocol, {'/'.join(scenario.assignors)}" if scenario.protocol == "classic" else "consumer protocol"
    return [
        f"seed {scenario.seed}: {scenario.brokers} brokers ({scenario.release}), {scenario.topics} partitions",
        f"  {scenario.members} members, {how}, commits {scenario.committing}, processing {scenario.processing_ms} ms",
        f"  {scenario.records_per_second:.0f} records/s for {scenario.busy_ms / 1000:.0f} s, {scenario.habits}",
        *(f"  {each}" for each in (scenario.handling, scenario.user_faults) if each is not None),
    ]


def _relevant(outcome: WorldOutcome) -> list[Event]:
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
        elif (told := words(event)) is not None:
            yield from (_poll(first, end) for first, end in polls.values())
            polls.clear()
            if told != last:
                yield f"  {event.at_ms / 1000:9.3f}  {told}"
            last = told
    yield from (_poll(first, end) for first, end in polls.values())


def _poll(first: Polled, end: int) -> str:
    return f"  {first.at_ms / 1000:9.3f}  {first.member} polled {first.partition} {first.offsets[0]}-{end - 1}"
