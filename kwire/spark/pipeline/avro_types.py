"""Avro schemas as Spark's types, in the mapping of Spark's own `from_avro`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import types

from kwire.errors import ConfigError

_PRIMITIVES: dict[str, type[types.DataType]] = {
    "null": types.NullType,
    "boolean": types.BooleanType,
    "int": types.IntegerType,
    "long": types.LongType,
    "float": types.FloatType,
    "double": types.DoubleType,
    "bytes": types.BinaryType,
    "string": types.StringType,
    "enum": types.StringType,
    "fixed": types.BinaryType,
}
_LOGICAL: dict[tuple[str, str], type[types.DataType]] = {
    ("int", "date"): types.DateType,
    ("long", "timestamp-millis"): types.TimestampType,
    ("long", "timestamp-micros"): types.TimestampType,
    ("long", "local-timestamp-millis"): types.TimestampNTZType,
    ("long", "local-timestamp-micros"): types.TimestampNTZType,
}
MAX_DIGITS = 38  # of a decimal of Spark's
_DECIMAL = {("bytes", "decimal"), ("fixed", "decimal")}


def schema_from(text: str) -> dict[str, object] | list[object] | str:
    """A schema as it is to be read: without the logical types that no column has (`uuid`, `time-millis`, ...) or that
    are of another type. Avro has them ignored, and their values are those of the type below.

    Raises:
        ConfigError: It is no JSON.
    """
    try:
        schema: dict[str, object] | list[object] | str = json.loads(text, object_hook=_without_other_logical)
        return schema
    except ValueError as error:
        raise ConfigError(f"value_schema is no JSON: {error}") from None


def _without_other_logical(schema: dict[str, object]) -> dict[str, object]:
    if (str(schema.get("type")), str(schema.get("logicalType"))) not in _LOGICAL.keys() | _DECIMAL:
        schema.pop("logicalType", None)
    return schema


class _Names(NamedTuple):
    """The types that have been described so far, by full name, and the namespace that names without one are in."""

    known: dict[str, Mapping[str, object]]
    namespace: str

    def full(self, name: str, namespace: object = None) -> str:
        """Of a name that may have a namespace in it, or beside it."""
        beside = self.namespace if namespace is None else str(namespace)
        return f"{beside}.{name}" if beside and "." not in name else name

    def with_type(self, schema: Mapping[str, object]) -> _Names:
        """With one more, as it is seen inside it."""
        full_name = self.full(str(schema["name"]), schema.get("namespace"))
        self.known[full_name] = schema
        return self.inside(full_name)

    def inside(self, full_name: str) -> _Names:
        return _Names(self.known, full_name.rpartition(".")[0])


def struct_of(text: str) -> types.StructType:
    """The columns of a record.

    Args:
        text: an Avro schema, JSON, whose top is a record.

    Raises:
        ConfigError: It is no such schema, or has something that a table cannot have; the message names the field.
    """
    found, _is_nullable = _type(schema_from(text), _Names({}, ""), "the value")
    if not isinstance(found, types.StructType):
        raise ConfigError(f"value_schema is of a record, not of {found.simpleString()}")
    return found


def _type(schema: object, names: _Names, path: str) -> tuple[types.DataType, bool]:
    """The type, and whether it may be null."""
    if isinstance(schema, list):
        return _union(schema, names, path)
    if isinstance(schema, str):
        return _named(schema, names, path)
    if not isinstance(schema, Mapping) or "type" not in schema:
        raise ConfigError(f"value_schema: {path} is {schema!r}, which is no type")
    kind = schema["type"]
    if not isinstance(kind, str):
        return _type(kind, names, path)
    if "name" in schema:
        names = names.with_type(schema)
    return _complex(kind, schema, names, path), False


def _named(name: str, names: _Names, path: str) -> tuple[types.DataType, bool]:
    if name in _PRIMITIVES:
        return _PRIMITIVES[name](), name == "null"
    full_name = names.full(name)
    if full_name not in names.known:
        raise ConfigError(f"value_schema: {path} is {name!r}, which is no type")
    schema = names.known[full_name]
    return _complex(str(schema["type"]), schema, names.inside(full_name), path), False


def _complex(kind: str, schema: Mapping[str, object], names: _Names, path: str) -> types.DataType:
    logical = (kind, str(schema.get("logicalType")))
    if logical in _DECIMAL:
        return _decimal(schema, path)
    if logical in _LOGICAL:
        return _LOGICAL[logical]()
    match kind:
        case "record":
            return _record(schema, names, path)
        case "array":
            return types.ArrayType(*_type(schema.get("items"), names, f"{path}[]"))
        case "map":
            return types.MapType(types.StringType(), *_type(schema.get("values"), names, f"{path}{{}}"))
        case _:
            return _named(kind, names, path)[0]


def _decimal(schema: Mapping[str, object], path: str) -> types.DecimalType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= MAX_DIGITS:
        raise ConfigError(
            f"value_schema: {path} is a decimal of precision {precision} and scale {scale}; "
            f"a column has a precision of up to {MAX_DIGITS}, and a scale of up to that"
        )
    return types.DecimalType(precision, scale)


def _record(schema: Mapping[str, object], names: _Names, path: str) -> types.StructType:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise ConfigError(f"value_schema: {path} is a record without fields")
    # A record in itself has no end as a table: while it is described its name means nothing.
    inside = _Names({name: each for name, each in names.known.items() if each is not schema}, names.namespace)
    found = []
    for each in fields:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            raise ConfigError(f"value_schema: {path} has the field {each!r}, which has no name")
        found.append(types.StructField(each["name"], *_type(each.get("type"), inside, f"{path}.{each['name']}")))
    names.known.update(inside.known)
    return types.StructType(found)


def _union(branches: list[object], names: _Names, path: str) -> tuple[types.DataType, bool]:
    others = [each for each in branches if each != "null"]
    if len(others) != 1:
        raise ConfigError(f"value_schema: {path} is one of several types; a column has one, or null")
    found, is_nullable = _type(others[0], names, path)
    return found, is_nullable or len(others) < len(branches)
