"""Messages from and to plain dictionaries: for tests, tools, and people at a prompt.

`Structure.to_dict` is the way out; `from_plain` is the way in. Bytes and uuids may also come as `{"$b64": "..."}` and
`{"$uuid": "..."}`, so that messages can be kept in JSON, and `to_json` writes them like that.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from kwire.errors import InvalidArgumentError
from kwire.protocol.schema import Structure, fields_of

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Tag, TypeTree

S = TypeVar("S", bound=Structure)

UNKNOWN_TAGS = "_unknown_tagged_fields"


def from_plain(struct: type[S], fields: Mapping[str, object]) -> S:
    """Make a structure from its fields; those left out get their defaults.

    Raises:
        InvalidArgumentError: There is no field of that name, or a value has the wrong shape.
    """
    types = {item.name: item.type for item in fields_of(struct)}
    made = struct()
    for name, value in fields.items():
        if name == UNKNOWN_TAGS:
            made._unknown_tagged_fields = _tags(value, struct.__name__)
        elif name in types:
            setattr(made, name, _value(types[name], value, f"{struct.__name__}.{name}"))
        else:
            near = get_close_matches(name, types, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(types)}"
            raise InvalidArgumentError(f"{struct.__name__} has no field {name!r}{hint}")
    return made


def to_json(message: Message, version: int | None = None) -> dict[str, object]:
    """As `to_dict`, with bytes as `{"$b64": ...}` and uuids as `{"$uuid": ...}`."""
    return {name: _jsonable(value) for name, value in message.to_dict(version).items()}


def _jsonable(value: object) -> object:
    match value:
        case dict():
            return {name: _jsonable(item) for name, item in value.items()}
        case list():
            return [_jsonable(item) for item in value]
        case bytes():
            return {"$b64": b64encode(value).decode()}
        case UUID():
            return {"$uuid": str(value)}
        case _:
            return value


def _value(tree: TypeTree, value: object, path: str) -> object:
    match value:
        case {"$b64": str(text)}:
            return _unpacked(text, path)
        case {"$uuid": str(text)}:
            return _uuid(text, path)
        case Mapping():
            if tree.struct is None:
                raise InvalidArgumentError(f"{path} is no structure, so it cannot be made from {value!r:.100}")
            return from_plain(tree.struct, value)
        case list() | tuple():
            if tree.element is None:
                raise InvalidArgumentError(f"{path} is no array, so it cannot be made from {value!r:.100}")
            return [_value(tree.element, item, f"{path}[{index}]") for index, item in enumerate(value)]
        case _:
            return value  # the encoder knows what fits


def _unpacked(text: str, path: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidArgumentError(f"{path}: {text!r:.100} is not base64: {error}") from error


def _uuid(text: str, path: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{path}: {text!r:.100} is not a uuid") from error


def _tags(value: object, owner: str) -> tuple[Tag, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidArgumentError(f"{owner}.{UNKNOWN_TAGS} must be a list, not {value!r:.100}")
    return tuple(_tag(entry, owner) for entry in value)


def _tag(entry: object, owner: str) -> Tag:
    match entry:
        case {"tag": int(tag), "data": bytes(data)}:
            return tag, data
        case {"tag": int(tag), "data": {"$b64": str(text)}}:
            return tag, _unpacked(text, f"{owner}.{UNKNOWN_TAGS}")
        case _:
            wanted = "{'tag': ..., 'data': ...}"
            raise InvalidArgumentError(f"{owner}.{UNKNOWN_TAGS} holds {entry!r:.100} instead of {wanted}")
