"""A message class and a version make a layout: the construct Struct that says which bytes it has on the wire.

The compiler takes layouts apart; tests parse and build with them to check what the compiler wrote.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kwire.errors import UnsupportedVersionError
from kwire.protocol.primitives import (
    FIXED,
    Blob,
    Construct,
    FieldInPlace,
    Fields,
    Length,
    Maybe,
    Sequence,
    Text,
    Unique,
)
from kwire.protocol.schema import Message, Structure, TypeTree, fields_of

if TYPE_CHECKING:
    from kwire.protocol.schema import Field

UNIQUE = Unique()


@cache
def layout_of(message: type[Message], version: int) -> Fields:
    """The layout of one version of a message.

    Raises:
        UnsupportedVersionError: The message has no such version.
    """
    if version not in message.versions:
        raise UnsupportedVersionError(
            f"{message.__name__} has versions {message.min_version} to {message.max_version} here, not {version}"
        )
    return _fields(message, version, flexible=version in message.flexible)


def _fields(struct: type[Structure], version: int, *, flexible: bool) -> Fields:
    declared = fields_of(struct)
    present = [item for item in declared if version in item.versions]
    members = [_member(item, version, flexible=flexible) for item in present]
    tagged = {member.declared.tag: member for member in members if member.declared.tag is not None}
    return Fields(
        struct,
        plain=[member for member in members if member.declared.tag is None],
        tagged=dict(sorted(tagged.items())) if flexible else None,
        absent=[item for item in declared if version not in item.versions],
    )


def _member(item: Field, version: int, *, flexible: bool) -> FieldInPlace:
    nullable = version in item.nullable
    return FieldInPlace(
        declared=item,
        type=_type(item.type, version, nullable=nullable, flexible=flexible, compact=item.compact),
        default=item.default.to_dict(version) if isinstance(item.default, Structure) else item.default,
    )


def _type(tree: TypeTree, version: int, *, nullable: bool, flexible: bool, compact: bool) -> Construct:
    if tree.struct is not None:
        inner = _fields(tree.struct, version, flexible=flexible)
        return Maybe(inner) if nullable else inner
    if tree.kind in FIXED:
        return FIXED[tree.kind]
    if tree.kind == "uuid":
        return UNIQUE
    width_bytes = 2 if tree.kind == "string" else 4
    length = Length(compact=flexible and compact, nullable=nullable, width_bytes=width_bytes)
    if tree.element is not None:
        # Elements of arrays are never null (the guide has no type for it).
        return Sequence(length, _type(tree.element, version, nullable=False, flexible=flexible, compact=compact))
    return Text(length) if tree.kind == "string" else Blob(length, zero_copy=tree.kind == "records")
