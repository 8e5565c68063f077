"""The lines of a verifiable consumer as values: one JSON object a line, as by Kafka's own VerifiableConsumer.

`telling.py` turns them into events of the ledger. Three of them are those of the harness's own runners alone: that
partitions were lost, that a poll failed, and that the call of `close` begins. Members that catch up name a cursor with
all that they read and commit, and tell what `committed()` answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kwire.model import TopicPartition

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = Mapping[str, JsonValue]

MAX_QUOTED = 300


class BadLineError(ValueError):
    """Not an event of a verifiable consumer; the message quotes it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An event without fields: "startup_complete", "closing"."""

    at_ms: int
    name: str


@dataclass(frozen=True, slots=True)
class Callback:
    """Partitions were assigned, revoked or lost, as `name` says."""

    at_ms: int
    name: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Datum:
    """One record of the poll that the next `BatchLine` sums up."""

    at_ms: int
    partition: TopicPartition
    offset: int
    value: str
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """The records of one poll and partition: first offset, last offset, and count."""

    partition: TopicPartition
    count: int
    first: int
    last: int
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One poll."""

    at_ms: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class CommitLine:
    """The result of a commit; `error` is empty if it succeeded. `cursors` has one for each offset, with parallel
    rebalance."""

    at_ms: int
    offsets: tuple[tuple[TopicPartition, int], ...]
    error: str
    cursors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """The answer of `committed()` to a member with parallel rebalance."""

    at_ms: int
    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A poll has raised, and the member goes on."""

    at_ms: int
    error: str
    message: str


Line: TypeAlias = Moment | Callback | Datum | BatchLine | CommitLine | AnswerLine | Failure


def read_line(text: str) -> Line:
    """Parse a line.

    Raises:
        BadLineError: the line is no event.
    """
    try:
        fields = json.loads(text)
        name = fields["name"]
        return _READERS[name](name, _number(fields["timestamp"]), fields)
    except (ValueError, KeyError, TypeError) as error:
        quoted = text.strip()
        quoted = quoted if len(quoted) <= MAX_QUOTED else f"{quoted[:MAX_QUOTED]}..."
        raise BadLineError(f"{quoted!r}: {error!r}") from error


def _moment(name: str, at_ms: int, _fields: JsonObject) -> Line:
    return Moment(at_ms, name)


def _callback(name: str, at_ms: int, fields: JsonObject) -> Line:
    return Callback(at_ms, name, tuple(_partition(row) for row in _rows(fields, "partitions")))


def _datum(_name: str, at_ms: int, fields: JsonObject) -> Line:
    return Datum(at_ms, _partition(fields), _number(fields["offset"]), _text(fields["value"]), _cursor(fields))


def _batch(_name: str, at_ms: int, fields: JsonObject) -> Line:
    return BatchLine(at_ms, tuple(_span(row) for row in _rows(fields, "partitions")))


def _commit(_name: str, at_ms: int, fields: JsonObject) -> Line:
    error = "" if fields["success"] is True else str(fields.get("error") or "no reason")
    cursors = tuple(_cursor(row) for row in _rows(fields, "offsets"))
    return CommitLine(at_ms, _offsets(fields), error, cursors if any(cursors) else ())


def _answer(_name: str, at_ms: int, fields: JsonObject) -> Line:
    return AnswerLine(at_ms, _offsets(fields))


def _failure(_name: str, at_ms: int, fields: JsonObject) -> Line:
    return Failure(at_ms, _text(fields["error"]), _text(fields["message"]))


_READERS: Mapping[str, Callable[[str, int, JsonObject], Line]] = {
    "startup_complete": _moment,
    "partitions_assigned": _callback,
    "partitions_revoked": _callback,
    "partitions_lost": _callback,
    "record_data": _datum,
    "records_consumed": _batch,
    "offsets_committed": _commit,
    "low_water": _answer,
    "poll_failed": _failure,
    "closing": _moment,
    "shutdown_requested": _moment,
    "shutdown_complete": _moment,
}


def _span(row: JsonObject) -> Span:
    first, last = _number(row["minOffset"]), _number(row["maxOffset"])
    return Span(_partition(row), _number(row["count"]), first, last, _cursor(row))


def _offsets(fields: JsonObject) -> tuple[tuple[TopicPartition, int], ...]:
    return tuple((_partition(row), _number(row["offset"])) for row in _rows(fields, "offsets"))


def _cursor(row: JsonObject) -> str:
    return _text(row.get("cursor", ""))


def _rows(fields: JsonObject, name: str) -> list[JsonObject]:
    rows = fields[name]
    if not isinstance(rows, list):
        raise TypeError(f"{name} is no list")
    objects = [row for row in rows if isinstance(row, dict)]
    if len(objects) != len(rows):
        raise TypeError(f"{name} holds what is no object")
    return list(objects)


def _partition(row: JsonObject) -> TopicPartition:
    return TopicPartition(_text(row["topic"]), _number(row["partition"]))


def _number(value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
