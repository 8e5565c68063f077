"""A ledger's lines, back to events: what `Ledger.lines()` has written."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import get_args

from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Event

Convert = Callable[..., object]

KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


@functools.cache
def partition_of(text: str) -> TopicPartition:
    """A partition as a line names it: `orders-3`. One object for all lines that do."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _convert(annotation: str) -> Convert | None:
    """What makes a field of what JSON has for it. None: it is what JSON has."""
    match annotation:
        case "TopicPartition":
            return partition_of
        case "tuple[TopicPartition, ...]":
            return lambda names: tuple(map(partition_of, names))
        case "tuple[tuple[int, int], ...]":
            return lambda ranges: tuple(map(tuple, ranges))
        case _ if annotation.startswith("tuple["):
            return tuple
        case _:
            return None


CONVERTS: dict[str, dict[str, Convert]] = {
    name: {each.name: convert for each in fields(kind) if (convert := _convert(str(each.type))) is not None}
    for name, kind in KINDS.items()
}


def event_of(line: str) -> Event:
    """The event of one line.

    Raises:
        InvalidArgumentError: it is no event of a ledger.
    """
    try:
        values = json.loads(line)
        name = values.pop("event")
        for field, convert in CONVERTS[name].items():
            values[field] = convert(values[field])
        return KINDS[name](**values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"no event of a history: {line[:200]!r} ({error})") from error


def events_of(lines: Iterable[str]) -> Iterator[Event]:
    """The events of lines; empty ones are left out."""
    return (event_of(line) for line in lines if line.strip())
