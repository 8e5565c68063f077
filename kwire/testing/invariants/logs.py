"""The contents of each partition's log over time: the truth that consumers are judged by."""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Ledger, Removed, Sent, Truncated, Vanished
from kwire.testing.invariants.user_events import GivenUp


@dataclass(slots=True)
class Log:
    """One partition, as far as events have been applied to it."""

    start: int = 0
    values: dict[int, str] = field(default_factory=dict)
    truncated_values: set[str] = field(default_factory=set)

    def apply(self, event: Sent | Removed | Truncated | Vanished) -> None:
        match event:
            case Sent():
                self.values[event.offset] = event.value
            case Removed():
                self.start = max(self.start, event.before)
            case Truncated():
                self.start = min(self.start, event.to)  # to 0, as a topic that is recreated
                gone = [offset for offset in self.values if offset >= event.to]
                self.truncated_values |= {self.values.pop(offset) for offset in gone}
            case Vanished():
                for offset in event.offsets:
                    self.values.pop(offset, None)

    def retained_between(self, first: int, last: int) -> list[int]:
        """Offsets of records from `first` up to and without `last` that nobody has removed."""
        return [offset for offset in range(max(first, self.start), last) if offset in self.values]


def given_up(ledger: Ledger) -> set[str]:
    """The values of records that need not be handled."""
    return {event.value for event in ledger.of(GivenUp)}


def final_logs(ledger: Ledger) -> dict[TopicPartition, Log]:
    logs: dict[TopicPartition, Log] = {}
    for event in ledger.events:
        if isinstance(event, (Sent, Removed, Truncated, Vanished)):
            logs.setdefault(event.partition, Log()).apply(event)
    return logs
