"""The lines a verifiable consumer prints, as values: one JSON object a line, as Kafka's own VerifiableConsumer does it.

`members.py` reads them from the members' processes, `rules.py` judges them. What is no event is refused: a member
that prints something else is not the program it says it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, assert_never

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class LineName(Enum):
    """The events, by the names they have in the lines."""

    STARTUP_COMPLETE = "startup_complete"
    PARTITIONS_REVOKED = "partitions_revoked"
    PARTITIONS_ASSIGNED = "partitions_assigned"
    RECORDS_CONSUMED = "records_consumed"
    OFFSETS_COMMITTED = "offsets_committed"
    SHUTDOWN_REQUESTED = "shutdown_requested"
    SHUTDOWN_COMPLETE = "shutdown_complete"


JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


class BadLineError(ValueError):
    """Not an event of a verifiable consumer, or one of another topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one poll returned of a partition: its first and its last offset, and how many records."""

    partition: int
    first: int
    last: int
    count: int

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.last} of partition {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event. `at_ms` is the clock of the member's machine, which all members share."""

    name: LineName
    at_ms: int
    partitions: tuple[int, ...] = ()
    spans: tuple[Span, ...] = ()
    offsets: tuple[tuple[int, int], ...] = ()
    success: bool = True
    error: str = ""


def read_line(text: str, topic: str) -> Line:
    """The event in a line.

    Raises:
        BadLineError: it is none, or speaks of another topic than the one the group reads.
    """
    try:
        event = json.loads(text)
        return _line(event, topic)
    except (ValueError, KeyError, TypeError) as error:
        raise BadLineError(f"{text.strip()[:200]!r}: {error!r}") from error


def _line(event: Mapping[str, JsonValue], topic: str) -> Line:
    name, at_ms = LineName(event["name"]), _number(event["timestamp"])
    match name:
        case LineName.PARTITIONS_ASSIGNED | LineName.PARTITIONS_REVOKED:
            return Line(name=name, at_ms=at_ms, partitions=tuple(_partition(row, topic) for row in _rows(event)))
        case LineName.RECORDS_CONSUMED:
            return Line(name=name, at_ms=at_ms, spans=tuple(_span(row, topic) for row in _rows(event)))
        case LineName.OFFSETS_COMMITTED:
            offsets = tuple((_partition(row, topic), _number(row["offset"])) for row in _rows(event, "offsets"))
            success, error = event["success"] is True, str(event.get("error") or "")
            return Line(name=name, at_ms=at_ms, offsets=offsets, success=success, error=error)
        case LineName.STARTUP_COMPLETE | LineName.SHUTDOWN_REQUESTED | LineName.SHUTDOWN_COMPLETE:
            return Line(name=name, at_ms=at_ms)
        case _:
            assert_never(name)


def _rows(event: Mapping[str, JsonValue], key: str = "partitions") -> Sequence[Mapping[str, JsonValue]]:
    rows = event[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadLineError(f"{key} is not a list of objects")
    return [row for row in rows if isinstance(row, dict)]


def _span(row: Mapping[str, JsonValue], topic: str) -> Span:
    first, last = _number(row["minOffset"]), _number(row["maxOffset"])
    return Span(partition=_partition(row, topic), first=first, last=last, count=_number(row["count"]))


def _partition(row: Mapping[str, JsonValue], topic: str) -> int:
    if row["topic"] != topic:
        raise BadLineError(f"topic {row['topic']!r} instead of {topic!r}")
    return _number(row["partition"])


def _number(value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadLineError(f"{value!r} is not a whole number")
    return value
