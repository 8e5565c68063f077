"""The notation a message is declared in: a typed dataclass that is at the same time the schema.

    class HeartbeatRequest(Request["HeartbeatResponse"], key=12, versions="0-4", flexible="4+"):
        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: NullableString = field("3+", default=None)

Fields stand in wire order and carry the versions they exist in, with Kafka's own marks ("3+", "0-7", "5"). Whether a
length is compact follows from the message's `flexible` mark (KIP-482), so it is never declared. Type checkers see
plain attributes: `str`, `int`, `list[...]`, `UUID`. Every field has a default, so `HeartbeatRequest()` works.

Instances are slotted and compare by value, but are *not* frozen, unlike kwire's other values: decoding makes them with
`object.__new__` and assigns slots, which is three times faster than a frozen dataclass's `object.__setattr__`
constructor, and a Metadata answer has ten thousand of them.

`kwire.protocol.messages` is written in this notation, `kwire.protocol.layout` turns it into construct Structs, and
`registry`, `framing` and the managers use the classes. Nothing here knows about bytes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from inspect import get_annotations
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, TypeVar, cast, dataclass_transform, get_args
from uuid import UUID

from kwire.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Tag = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Wire:
    """What an annotation means on the wire, under Kafka's name for the type."""

    kind: str
    nullable: bool = False


Bool = Annotated[bool, Wire("bool")]
Int8 = Annotated[int, Wire("int8")]
Int16 = Annotated[int, Wire("int16")]
UInt16 = Annotated[int, Wire("uint16")]
Int32 = Annotated[int, Wire("int32")]
Int64 = Annotated[int, Wire("int64")]
Float64 = Annotated[float, Wire("float64")]
Uuid = Annotated[UUID, Wire("uuid")]
String = Annotated[str, Wire("string")]
NullableString = Annotated[str | None, Wire("string", nullable=True)]
Bytes = Annotated[bytes, Wire("bytes")]
NullableBytes = Annotated[bytes | None, Wire("bytes", nullable=True)]
Records = Annotated[bytes | memoryview | None, Wire("records")]
NullableRecords = Annotated[bytes | memoryview | None, Wire("records", nullable=True)]
Array = Annotated[list[T], Wire("array")]
NullableArray = Annotated[list[T] | None, Wire("array", nullable=True)]


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of message versions, both ends included; `high` is None for "and all later ones"."""

    low: int
    high: int | None

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read Kafka's notation: "3+", "0-7" or "5"."""
        if text.endswith("+"):
            return cls(int(text[:-1]), None)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version and (self.high is None or version <= self.high)


EVERY_VERSION = Versions(0, None)
NO_VERSION = Versions(0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    """What `field()` said."""

    default: object
    versions: Versions = EVERY_VERSION
    null: Versions | None = None
    tag: int | None = None
    ignorable: bool = False
    compact: bool = True


def field(
    versions: str = "0+",
    *,
    default: T,
    null: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
    init: bool = True,
) -> T:
    """Declare one field of a message.

    Args:
        versions: The message versions that have the field.
        default: Its value where the version lacks it or nothing else was said. `[]` and structures are copied.
        null: The versions in which it may be None; a type that allows None means all of them.
        tag: The tag number of a tagged field (KIP-482).
        ignorable: Whether a value may be dropped when a version lacks the field; otherwise encoding refuses.
        compact: False for the one field that keeps its old length prefix in flexible versions.
        init: For type checkers; False only for bookkeeping attributes.
    """
    del init
    marks = _Marks(
        default=default,
        versions=Versions.parse(versions),
        null=None if null is None else Versions.parse(null),
        tag=tag,
        ignorable=ignorable,
        compact=compact,
    )
    return cast("T", marks)


@dataclass(frozen=True, slots=True)
class TypeTree:
    """A field's type: a primitive kind, an array of something, or a structure."""

    kind: str
    element: TypeTree | None = None
    struct: type[Structure] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One declared field, with everything the layout needs."""

    name: str
    type: TypeTree
    default: object
    versions: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool
    compact: bool


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class StructureType(type):
    """Makes slotted classes with a keyword-only constructor from annotated declarations."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, object], **options: object
    ) -> StructureType:
        annotations = cast("dict[str, str]", namespace.get("__annotations__", {}))
        own = {
            attribute: _marks_of(name, attribute, namespace)
            for attribute, text in annotations.items()
            if not text.startswith("ClassVar")
        }
        inherited = {key: marks for base in bases for key, marks in getattr(base, "_marks", {}).items()}
        marks = {**own, **inherited}
        namespace |= {"__slots__": tuple(own), "_marks": marks, "__init__": _constructor(marks)}
        return super().__new__(mcs, name, bases, namespace, **options)


def _marks_of(owner: str, attribute: str, namespace: dict[str, object]) -> _Marks:
    if attribute not in namespace:
        raise InternalError(f"{owner}.{attribute} has no default; every field of a message needs Kafka's")
    declared = namespace.pop(attribute)  # a class attribute of that name would collide with the slot
    return declared if isinstance(declared, _Marks) else _Marks(default=declared)


def _constructor(all_marks: dict[str, _Marks]) -> object:
    """The `__init__` of a class until the first call, which puts the real one in its place: most messages are only
    ever decoded, and decoding calls none. Threads that come at once write the same one twice."""

    def __init__(self: Structure, **values: object) -> None:  # noqa: N807  Python's own name, for its error messages
        init = _written_constructor(all_marks)
        type.__setattr__(type(self), "__init__", init)
        init(self, **values)

    return __init__


def _written_constructor(all_marks: dict[str, _Marks]) -> Callable[..., None]:
    """Write `__init__` out as source: messages are made for every request, and a loop over fields is 4x slower."""
    parameters: list[str] = []
    body: list[str] = ["pass"]
    values: dict[str, object] = {"ABSENT": object()}
    for name, marks in all_marks.items():
        if name == "_version":
            body.append(f"self.{name} = None")
            continue
        fresh = fresh_default(marks.default)
        values[f"default_{name}"] = marks.default if fresh is None else fresh
        parameters.append(f"{name}=" + ("ABSENT" if fresh else f"default_{name}"))
        body.append(f"self.{name} = " + (f"default_{name}() if {name} is ABSENT else {name}" if fresh else name))
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n    " + "\n    ".join(body)
    exec(compile(source, "<message constructor>", "exec"), values)
    return cast("Callable[..., None]", values["__init__"])


def fresh_default(default: object) -> type[list[object]] | type[Structure] | None:
    """What to call for a new default value, where it is mutable and must not be shared; None where sharing is fine."""
    if isinstance(default, list):
        return list
    return cast("type[Structure]", type(default)) if isinstance(type(default), StructureType) else None


class Structure(metaclass=StructureType):
    """Base of everything with fields: messages, and the structures inside them."""

    _unknown_tagged_fields: tuple[Tag, ...] = field(default=())
    """Tagged fields that this version of kwire does not know, as (tag, data); written back after the known ones."""

    _marks: ClassVar[dict[str, _Marks]]

    if not TYPE_CHECKING:  # a type checker would take every misspelt attribute for one of these

        def __getattr__(self, name: str) -> Structure:
            """Make the default of a structure that decoding found no bytes for, as late as this.

            Fetch has three of them per partition, almost never sent and almost never asked for, and making them
            took two thirds of the decoding.
            """
            marks = type(self)._marks.get(name)
            if marks is None or not isinstance(marks.default, Structure):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)
            made = type(marks.default)()
            setattr(self, name, made)
            return made

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._marks if name != "_version")

    __hash__ = None  # type: ignore[assignment]  # mutable values must not be dictionary keys; this is Python's own idiom

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, marks in self._marks.items() if self._differs(name, marks))
        return f"{type(self).__name__}({', '.join(shown)})"

    def _differs(self, name: str, marks: _Marks) -> bool:
        return name != "_version" and bool(getattr(self, name) != marks.default)

    def to_dict(self, version: int | None = None) -> dict[str, object]:
        """The fields as plain Python values, nested structures as dictionaries.

        Args:
            version: Leave out fields that this version of the message lacks; None for all fields.
        """
        found = {
            item.name: _plain(getattr(self, item.name), version)
            for item in fields_of(type(self))
            if version is None or version in item.versions
        }
        if self._unknown_tagged_fields:
            found["_unknown_tagged_fields"] = [{"tag": tag, "data": data} for tag, data in self._unknown_tagged_fields]
        return found


def _plain(value: object, version: int | None) -> object:
    if isinstance(value, Structure):
        return value.to_dict(version)
    if isinstance(value, list):
        return [_plain(item, version) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


class Message(Structure):
    """A structure that travels on its own and has versions."""

    versions: ClassVar[range] = range(0)
    flexible: ClassVar[Versions] = NO_VERSION
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = -1

    _version: int | None = field(default=None, init=False)
    """The version it was decoded from; None for one made by hand. Not part of its value."""

    def __init_subclass__(cls, *, versions: str | None = None, flexible: str | None = None) -> None:
        super().__init_subclass__()
        if versions is not None:
            span = Versions.parse(versions)
            if span.high is None:
                raise InternalError(f"{cls.__name__}: a message's versions have an upper end, not {versions!r}")
            cls.versions = range(span.low, span.high + 1)
            cls.min_version, cls.max_version = span.low, span.high
            cls.flexible = NO_VERSION if flexible is None else Versions.parse(flexible)

    def to_dict(self, version: int | None = None) -> dict[str, object]:
        """As in `Structure`; a message that was decoded shows the fields of the version it came in."""
        return super().to_dict(self._version if version is None else version)


class Response(Message):
    """The answer to the request named by `to`, whose key and versions it shares."""

    api_key: ClassVar[int] = -1
    flexible_header: ClassVar[bool] = True

    def __init_subclass__(cls, *, to: type[Request[Message]], flexible_header: bool = True) -> None:
        super().__init_subclass__()
        cls.api_key, cls.versions, cls.flexible = to.api_key, to.versions, to.flexible
        cls.min_version, cls.max_version = to.min_version, to.max_version
        cls.flexible_header = flexible_header
        to.response_type = cls

    @classmethod
    def header_version(cls, version: int) -> int:
        """The ResponseHeader version before this message's version: 1 adds tagged fields (KIP-482)."""
        return 1 if cls.flexible_header and version in cls.flexible else 0


R_co = TypeVar("R_co", bound=Message, covariant=True)


class Request(Message, Generic[R_co]):
    """A question with an API key; `R_co` is the class of its answer."""

    api_key: ClassVar[int] = -1
    response_type: ClassVar[type[Response]]

    def __init_subclass__(cls, *, key: int, versions: str, flexible: str | None = None) -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.api_key = key

    @classmethod
    def header_version(cls, version: int) -> int:
        """The RequestHeader version before this message's version: 2 adds tagged fields (KIP-482)."""
        return 2 if version in cls.flexible else 1


@cache
def fields_of(struct: type[Structure]) -> tuple[Field, ...]:
    """The declared fields in wire order, types resolved."""
    return tuple(_field(name, marks, _hint(struct, name)) for name, marks in struct._marks.items() if name[0] != "_")


def _hint(struct: type[Structure], name: str) -> object:
    """What a field is annotated with. `typing.get_type_hints` finds the same, but evaluates every name of every base:
    that was half of what it takes to compile a message."""
    owner = next(base for base in struct.__mro__ if name in get_annotations(base))
    text, names = get_annotations(owner)[name], vars(sys.modules[owner.__module__])
    return names[text] if text in names else eval(compile(text, "<annotation>", "eval"), names)


def _field(name: str, marks: _Marks, hint: object) -> Field:
    tree, nullable = _type_tree(hint)
    null = marks.null or (marks.versions if nullable else NO_VERSION)
    return Field(
        name=name,
        type=tree,
        default=marks.default,
        versions=marks.versions,
        nullable=null,
        tag=marks.tag,
        ignorable=marks.ignorable,
        compact=marks.compact,
    )


def _type_tree(hint: object) -> tuple[TypeTree, bool]:
    """Resolve one annotation to its type and whether it allows None."""
    if isinstance(hint, StructureType):
        return TypeTree("struct", struct=cast("type[Structure]", hint)), False
    wire = next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Wire)), None)
    if wire is None:  # the one form without a mark is `SomeStructure | None`
        struct = next(option for option in get_args(hint) if isinstance(option, StructureType))
        return TypeTree("struct", struct=cast("type[Structure]", struct)), True
    if wire.kind != "array":
        return TypeTree(wire.kind), wire.nullable
    return TypeTree("array", element=_type_tree(_element_hint(hint))[0]), wire.nullable


def _element_hint(hint: object) -> object:
    """The `X` of `Array[X]` or `NullableArray[X]`."""
    annotated = get_args(hint)[0]
    listed = next((option for option in get_args(annotated) if get_args(option)), annotated)
    is_union = type(None) in get_args(annotated)
    return get_args(listed if is_union else annotated)[0]
