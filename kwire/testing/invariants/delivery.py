"""No record is lost, and a delivered record has the value that was sent."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Ended, Ledger, Polled, Sent
from kwire.testing.invariants.logs import final_logs, given_up
from kwire.testing.invariants.violation import Violation


def nothing_is_lost(ledger: Ledger) -> Iterator[Violation]:
    """Each record that is still in the log was polled by somebody, or given up: "lost-write" if a later one of its
    partition was polled, else "unseen". Judged at the end of the run, after the last polls."""
    end = next(ledger.of(Ended), None)
    if end is None:
        return
    polled: dict[TopicPartition, set[str]] = {}
    last: dict[TopicPartition, int] = {}
    for event in ledger.of(Polled):
        polled.setdefault(event.partition, set()).update(event.values)
        last[event.partition] = max(last.get(event.partition, -1), *event.offsets)
    abandoned = given_up(ledger)
    for partition, log in final_logs(ledger).items():
        seen = polled.get(partition, set()) | abandoned
        missing = [offset for offset, value in log.values.items() if offset >= log.start and value not in seen]
        overtaken = [offset for offset in missing if offset < last.get(partition, -1)]
        behind = [offset for offset in missing if offset >= last.get(partition, -1)]
        if overtaken:
            yield Violation(rule="lost-write", at_ms=end.at_ms, what=f"{partition}: nobody polled {_ranges(overtaken)}")
        if behind:
            yield Violation(rule="unseen", at_ms=end.at_ms, what=f"{partition}: nobody polled {_ranges(behind)}")


def values_are_what_was_sent(ledger: Ledger) -> Iterator[Violation]:
    """An offset has one value, the one that was sent to it; a value has one offset.

    An offset that is given out anew after a truncation has another value then: both were sent to it."""
    sent: dict[str, tuple[TopicPartition, int]] = {}
    for event in ledger.events:
        match event:
            case Sent():
                sent[event.value] = event.partition, event.offset
            case Polled():
                for offset, value in zip(event.offsets, event.values, strict=True):
                    if (known := sent.get(value)) != (event.partition, offset):
                        what = f"{event.member} polled {value!r} at {event.partition}@{offset}; it was sent to {known}"
                        yield Violation(rule="inconsistent-offsets", at_ms=event.at_ms, what=what)
            case _:
                pass


def _ranges(offsets: list[int]) -> str:
    """Offsets as text: "3-7, 9"."""
    ranges: list[list[int]] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
