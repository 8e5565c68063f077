"""Operations of a history in the form of Jepsen's workload for Kafka, as EDN, which its checker reads, and as JSON.

Partitions are *keys*, small integers. A process is one thread of an application: a producer, or a consumer. Each
operation is there twice: `invoke` when it begins, and `ok`, `info` (nobody knows) or `fail` when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

NANOS_IN_MS = 1_000_000

Kind: TypeAlias = Literal["invoke", "ok", "info", "fail"]
Function: TypeAlias = Literal["send", "poll", "assign", "crash"]


@dataclass(frozen=True, slots=True)
class Send:
    """A record for a key. The offset is None where its producer does not know it."""

    key: int
    value: str
    offset: int | None = None
    is_told: bool = False

    def form(self) -> list[object]:
        return [Word("send"), self.key, [self.offset, self.value] if self.is_told else self.value]


@dataclass(frozen=True, slots=True)
class Poll:
    """The records of one poll, by key: offsets and values, in order. None while it is under way."""

    records: Mapping[int, tuple[tuple[int, str], ...]] | None = None

    def form(self) -> list[object]:
        return [Word("poll")] if self.records is None else [Word("poll"), self.records]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One line of a history.

    Args:
        value: one `Send` or `Poll`; or all keys that the process reads from now on (`assign`); None for a `crash`.
    """

    process: int
    kind: Kind
    function: Function
    value: Send | Poll | tuple[int, ...] | None
    at_ms: float

    def form(self) -> dict[object, object]:
        value = self.value
        return {
            Word("process"): self.process,
            Word("type"): Word(self.kind),
            Word("f"): Word(self.function),
            Word("value"): [value.form()] if isinstance(value, (Send, Poll)) else value,
            Word("time"): round(self.at_ms * NANOS_IN_MS),
        }


class Word(str):
    """A keyword of EDN; a plain string in JSON."""

    __slots__ = ()


def edn_lines(operations: Iterable[Operation]) -> Iterator[str]:
    return (edn(operation.form()) for operation in operations)


def json_lines(operations: Iterable[Operation]) -> Iterator[str]:
    """Keys of partitions are strings there: JSON has no others."""
    return (json.dumps(operation.form(), separators=(",", ":")) for operation in operations)


def edn(value: object) -> str:
    """Raises: TypeError, for what has no place in a history."""
    match value:
        case None:
            return "nil"
        case Word():
            return f":{value}"
        case str():
            return json.dumps(value)
        case int():
            return str(value)
        case Mapping():
            return "{" + ", ".join(f"{edn(key)} {edn(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + " ".join(map(edn, value)) + "]"
        case _:
            raise TypeError(f"no part of a history: {value!r}")
