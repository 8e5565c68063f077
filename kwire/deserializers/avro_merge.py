"""Several Avro schemas as one that has what any of them has, to read the records of all into one column. Pure.

A field that some of the schemas lack can be null, unless the newest schema has a default for it. It is left out if the
newest schema lacks it and no column can be made of it. Of two types the wider one is taken, if it holds all values of
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kwire.deserializers.avro_types import arrow_type, beside_null
from kwire.root_errors import InvalidArgumentError

Field = Mapping[str, object]

_WIDER = MappingProxyType(
    {
        frozenset({"int", "long"}): "long",
        frozenset({"int", "float"}): "double",
        frozenset({"int", "double"}): "double",
        frozenset({"float", "double"}): "double",
    }
)
_FINER = MappingProxyType(
    {"timestamp-millis": "timestamp-micros", "local-timestamp-millis": "local-timestamp-micros"},
)


def merged(newest: object, older: object) -> object:
    """`newest`, with what it lacks of `older`. In both, names are replaced by what they name."""
    if newest == older:
        return newest
    mine, theirs = beside_null(newest), beside_null(older)
    if len(mine) > 1 or len(theirs) > 1:
        return newest  # one of several types, which is no column
    kinds = [_both(mine[0], theirs[0])] if mine and theirs else mine or theirs
    can_be_null = _can_be_null(newest) or _can_be_null(older)
    return ["null", *kinds] if can_be_null or not kinds else kinds[0]


def _can_be_null(schema: object) -> bool:
    return len(beside_null(schema)) < (len(schema) if isinstance(schema, list) else 1)


def _both(newest: object, older: object) -> object:
    """Of two schemas that are no unions."""
    if isinstance(newest, Mapping) and isinstance(older, Mapping) and newest["type"] == older["type"]:
        return _of_one_kind(newest, older)
    return _WIDER.get(frozenset({_plain(newest), _plain(older)}), newest)


def _plain(schema: object) -> str:
    """The name of a type without a logical one; Kafka Connect writes `{"type": "int", "connect.type": "int16"}`."""
    return str(schema["type"] if isinstance(schema, Mapping) and "logicalType" not in schema else schema)


def _of_one_kind(newest: Mapping[str, Any], older: Mapping[str, Any]) -> Mapping[str, object]:
    match newest["type"]:
        case "record":
            return {**newest, "fields": _fields(newest["fields"], older["fields"])}
        case "enum":
            return {**newest, "symbols": list(dict.fromkeys([*newest["symbols"], *older["symbols"]]))}
        case "array":
            return {**newest, "items": merged(newest["items"], older["items"])}
        case "map":
            return {**newest, "values": merged(newest["values"], older["values"])}
        case _:
            is_finer = older.get("logicalType") == _FINER.get(str(newest.get("logicalType")), "")
            return older if is_finer else newest


def _fields(newest: Sequence[Field], older: Sequence[Field]) -> list[Field]:
    left = {field["name"]: field for field in older}
    found: list[Field] = []
    for field in newest:
        names = [field["name"], *_aliases(field)]
        twin = next((left.pop(name) for name in names if name in left), None)
        if twin is not None:
            found.append({**field, "type": merged(field["type"], twin["type"])})
        else:
            found.append(field if "default" in field else _optional(field))
    return [*found, *(_optional(field) for field in left.values() if _makes_column(field["type"]))]


def _makes_column(schema: object) -> bool:
    try:
        arrow_type(schema)
    except InvalidArgumentError:
        return False
    return True


def _aliases(field: Field) -> Sequence[object]:
    """Names that the field had before."""
    aliases = field.get("aliases", ())
    assert isinstance(aliases, Sequence)
    return aliases


def _optional(field: Field) -> Field:
    """The same field, null where a record has none."""
    return {**field, "type": ["null", *beside_null(field["type"])], "default": None}
