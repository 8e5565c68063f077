"""`partition_assignment_strategy`: names of assignors, of the Java classes with these names, or assignors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias, cast

from kwire.config.parsers import BadValueError, Parser, split_list

_PACKAGE = "org.apache.kafka.clients.consumer."

# Kafka's assignors by the names they carry on the wire. `kwire.assignors` has the functions.
JAVA_CLASSES = {
    "range": f"{_PACKAGE}RangeAssignor",
    "roundrobin": f"{_PACKAGE}RoundRobinAssignor",
    "sticky": f"{_PACKAGE}StickyAssignor",
    "cooperative-sticky": f"{_PACKAGE}CooperativeStickyAssignor",
}

VALID = f"{', '.join((*JAVA_CLASSES, *JAVA_CLASSES.values()))}, or assignors of your own"

_PYTHON_CLIENTS = ("kafka", "aiokafka")
_NAMES = {java_class: name for name, java_class in JAVA_CLASSES.items()}


class NamedAssignor(Protocol):
    """As much of a `kwire.assignors.Assignor` as settings look at."""

    @property
    def name(self) -> str: ...


Strategy: TypeAlias = str | NamedAssignor | type[NamedAssignor]


def strategies() -> Parser[tuple[str | NamedAssignor, ...]]:
    return Parser(_read, VALID)


def _read(value: object) -> tuple[str | NamedAssignor, ...]:
    found = tuple(map(_read_one, _items(value)))
    if not found:
        raise BadValueError("no assignor")
    names = [one if isinstance(one, str) else one.name for one in found]
    if len(set(names)) < len(names):
        raise BadValueError("an assignor is listed twice")
    return found


def _items(value: object) -> Iterable[object]:
    return [value] if _assigns(value) else split_list(value)


def _read_one(item: object) -> str | NamedAssignor:
    if _assigns(item):
        return _own(item)
    if not isinstance(item, str):
        raise BadValueError(f"{item!r} is neither the name of an assignor nor one itself")
    name = _NAMES.get(item.strip(), item.strip())
    if name not in JAVA_CLASSES:
        raise BadValueError(f"no assignor {item!r}")
    return name


def _assigns(item: object) -> bool:
    return callable(getattr(item, "assign", None))


def _own(item: object) -> str | NamedAssignor:
    """An assignor of the user's own; a class is made an instance of, as the Java client does. A class of kafka-python's
    or aiokafka's is the assignor of Kafka's that it is named after."""
    if isinstance(item, type) and item.__module__.split(".")[0] in _PYTHON_CLIENTS:
        return _read_one(getattr(item, "name", None))
    try:
        assignor = item() if isinstance(item, type) else item
    except TypeError as error:
        raise BadValueError(f"{item!r} cannot be made without arguments ({error}); give an instance") from None
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name:
        raise BadValueError(f"{assignor!r} has no name that a group's members could agree on")
    if name in JAVA_CLASSES:
        raise BadValueError(f"{assignor!r} calls itself {name!r}, which is one of Kafka's")
    return cast("NamedAssignor", assignor)
