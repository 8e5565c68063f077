"""`partition_assignment_strategy`: the names of assignors, or of the Java classes with the same names."""

from __future__ import annotations

from kwire.config.parsers import BadValueError, Parser, split_list

_PACKAGE = "org.apache.kafka.clients.consumer."

# Kafka's assignors by the names they carry on the wire. `kwire.assignors` has the functions.
JAVA_CLASSES = {
    "range": f"{_PACKAGE}RangeAssignor",
    "roundrobin": f"{_PACKAGE}RoundRobinAssignor",
    "sticky": f"{_PACKAGE}StickyAssignor",
    "cooperative-sticky": f"{_PACKAGE}CooperativeStickyAssignor",
}
SUPPORTED = ("range", "roundrobin")

VALID = ", ".join((*SUPPORTED, *(JAVA_CLASSES[name] for name in SUPPORTED)))

_NAMES = {java_class: name for name, java_class in JAVA_CLASSES.items()}


def assignor_names() -> Parser[tuple[str, ...]]:
    return Parser(_read, VALID)


def _read(value: object) -> tuple[str, ...]:
    names = tuple(map(_read_one, split_list(value)))
    if not names:
        raise BadValueError("no assignor")
    if len(set(names)) < len(names):
        raise BadValueError("an assignor is listed twice")
    return names


def _read_one(item: object) -> str:
    if not isinstance(item, str):
        raise BadValueError(f"{item!r} is not text")
    name = _NAMES.get(item.strip(), item.strip())
    if name not in SUPPORTED:
        raise BadValueError(f"kwire does not have {item!r} yet" if name in JAVA_CLASSES else f"no assignor {item!r}")
    return name
