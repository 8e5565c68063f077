"""`kwire wire show`: the messages there are, and a message's fields, in tables like those of Kafka's protocol guide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from kwire.errors import UnsupportedVersionError
from kwire.protocol.registry import message_class, message_classes
from kwire.protocol.schema import (
    EVERY_VERSION,
    Field,
    Message,
    Request,
    Response,
    Structure,
    TypeTree,
    Versions,
    fields_of,
)

FIELD_HEADINGS = ("field", "type", "versions", "nullable", "tag", "default")
MESSAGE_HEADINGS = ("key", "message", "versions", "flexible")
INDENT = "  "
# Types with a length, which flexible versions write in the compact form (KIP-482).
SIZED = ("string", "bytes", "records", "array")


def list_messages() -> list[str]:
    """Every message: those with an API key first, in its order."""
    classes = sorted(message_classes().values(), key=lambda cls: (_key(cls) < 0, _key(cls), cls.__name__))
    rows = [
        (str(_key(cls)) if _key(cls) >= 0 else "", cls.__name__, _span(cls), _marked(cls.flexible)) for cls in classes
    ]
    return _columns([MESSAGE_HEADINGS, *rows])


def describe_message(name: str, version: int | None) -> list[str]:
    """A message's fields; those of its structures are indented.

    Args:
        name: The message's name.
        version: Show this version, with the types as it writes them; None for all, with the versions of each field.

    Raises:
        InvalidArgumentError: There is no such message.
        UnsupportedVersionError: It has no such version.
    """
    cls = message_class(name)
    if version is not None and version not in cls.versions:
        raise UnsupportedVersionError(f"{name} has versions {_span(cls)} here, not {version}")
    key = f", API key {_key(cls)}" if _key(cls) >= 0 else ""
    flexible = _marked(cls.flexible) or "never"
    head = f"{name}{key}, versions {_span(cls)}, flexible: {flexible}"
    if version is not None:
        head = f"{name} version {version}{key}{_header(cls, version)}"
    rows = list(_fields(cls, cls, version, EVERY_VERSION, ""))
    return [head, "", *_columns([FIELD_HEADINGS, *rows])] if rows else [head, "", "no fields"]


def _fields(
    struct: type[Structure], message: type[Message], version: int | None, outer: Versions, indent: str
) -> Iterator[Sequence[str]]:
    """A row for each field; `outer` are the versions that have the structure."""
    shown = [item for item in fields_of(struct) if version is None or version in item.versions]
    for item in sorted(shown, key=lambda item: -1 if item.tag is None else item.tag):
        versions = _both(item.versions, outer)
        yield (
            indent + item.name,
            _type(item, message, version),
            _marked(versions),
            _nullable(item),
            "" if item.tag is None else str(item.tag),
            _default(item),
        )
        inner = item.type.struct or (item.type.element and item.type.element.struct)
        if inner:
            yield from _fields(inner, message, version, versions, indent + INDENT)


def _both(one: Versions, other: Versions) -> Versions:
    highs = [high for high in (one.high, other.high) if high is not None]
    return Versions(max(one.low, other.low), min(highs, default=None))


def _type(item: Field, message: type[Message], version: int | None) -> str:
    """Kafka's name of the type; with a version, as that version writes it."""
    compact = version is not None and version in message.flexible and item.compact
    return _named(item.type, compact=compact, nullable=version is not None and version in item.nullable)


def _named(tree: TypeTree, *, compact: bool, nullable: bool) -> str:
    if tree.struct is not None:
        return f"{'nullable ' if nullable else ''}{tree.struct.__name__}"
    name = ("compact_" if compact and tree.kind in SIZED else "") + ("nullable_" if nullable else "") + tree.kind
    return name if tree.element is None else f"{name} of {_named(tree.element, compact=compact, nullable=False)}"


def _nullable(item: Field) -> str:
    return "yes" if item.nullable == item.versions else _marked(item.nullable)


def _default(item: Field) -> str:
    match item.default:
        case None:
            return "null"
        case bool(value):
            return str(value).lower()
        case "" | b"":
            return "empty"
        case list():
            return "[]"
        case Structure():
            return ""
        case UUID() as value:
            return "zero" if value.int == 0 else str(value)
        case _:
            return str(item.default)


def _key(cls: type[Message]) -> int:
    return cls.api_key if issubclass(cls, Request | Response) else -1


def _span(cls: type[Message]) -> str:
    return f"{cls.min_version}" if len(cls.versions) == 1 else f"{cls.min_version}-{cls.max_version}"


def _marked(versions: Versions) -> str:
    """A range in Kafka's notation; nothing for the empty one."""
    if versions.high is None:
        return f"{versions.low}+"
    if versions.high < versions.low:
        return ""
    return f"{versions.low}" if versions.low == versions.high else f"{versions.low}-{versions.high}"


def _header(cls: type[Message], version: int) -> str:
    if issubclass(cls, Request):
        return f", behind request header {cls.header_version(version)}"
    if issubclass(cls, Response):
        return f", behind response header {cls.header_version(version)}"
    return ""


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
    return ["".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
