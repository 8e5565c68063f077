"""Reads the lines that a verifiable consumer writes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypeAlias

Event: TypeAlias = dict[str, object]


@dataclass
class LinesInMemory:
    """Where an `EventLog` may write to."""

    written: list[bytes] = field(default_factory=list)

    def write(self, data: bytes, /) -> None:
        self.written.append(data)

    def events(self) -> list[Event]:
        """What was written, without the timestamps."""
        return events_of(b"".join(self.written).decode())


def events_of(text: str) -> list[Event]:
    """The events in these lines, without their timestamps. Every line is whole, and an event."""
    assert text == "" or text.endswith("\n")
    events: list[Event] = [json.loads(line) for line in text.splitlines()]
    for event in events:
        timestamp_ms = event.pop("timestamp")
        assert isinstance(timestamp_ms, int)
        assert timestamp_ms > 1_700_000_000_000
    return events
