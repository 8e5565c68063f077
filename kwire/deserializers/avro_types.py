"""Avro schemas as Arrow types, in the mapping of Spark's `from_avro` where Arrow has the type. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kwire.root_errors import InvalidArgumentError

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_NULL = ("null", {"type": "null"})
_OTHERWISE = "leave it out by a reader_schema, or read the records by iteration"
_DIGITS_OF_128_BITS, _MAX_DIGITS = 38, 76
_LOGICAL: Mapping[tuple[object, object], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
"""By type and logical type. On any other type a logical type means nothing: Avro has readers ignore it."""


def arrow_type(schema: object, path: str = "the record") -> pa.DataType:
    """The type of a column of this schema, in which names are replaced by what they name.

    Raises:
        InvalidArgumentError: It has something that a column cannot have; the message names the field.
    """
    if isinstance(schema, list):
        return _union(schema, path)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        raise InvalidArgumentError(f"{path} is a {schema!r} in itself, which no column can be; {_OTHERWISE}")
    assert isinstance(schema, Mapping)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(int(schema["precision"]), int(schema.get("scale", 0)), path)
    if isinstance(kind, str) and isinstance(logical, str) and (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    return _complex(schema, path)


def _complex(schema: Mapping[str, object], path: str) -> pa.DataType:
    match schema["type"]:
        case "record" | "error":
            fields = schema["fields"]
            assert isinstance(fields, list)
            return pa.struct([(each["name"], arrow_type(each["type"], f"{path}.{each['name']}")) for each in fields])
        case "array":
            return pa.list_(arrow_type(schema["items"], f"{path}[]"))
        case "map":
            return pa.map_(pa.string(), arrow_type(schema["values"], f"{path}{{}}"))
        case "fixed":
            return pa.binary(int(str(schema["size"])))
        case kind:
            return arrow_type(kind, path)


def _decimal(precision: int, scale: int, path: str) -> pa.DataType:
    if precision > _MAX_DIGITS:
        raise InvalidArgumentError(f"{path} is a decimal of {precision} digits, and a column has up to {_MAX_DIGITS}")
    return (pa.decimal128 if precision <= _DIGITS_OF_128_BITS else pa.decimal256)(precision, scale)


def beside_null(schema: object) -> list[object]:
    """The types that a value which is not null may have."""
    branches = schema if isinstance(schema, list) else [schema]
    return [each for each in branches if each not in _NULL]


def _union(branches: list[object], path: str) -> pa.DataType:
    others = beside_null(branches)
    if len(others) > 1:
        raise InvalidArgumentError(f"{path} is one of several types, and a column has one; {_OTHERWISE}")
    return arrow_type(others[0], path) if others else pa.null()


def without_uuids(schema: object) -> object:
    """The schema with UUIDs as the text that they are written as, which is what a column of them is."""
    if isinstance(schema, list):
        return [without_uuids(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_uuid = schema.get("logicalType") == "uuid"
    return {
        name: without_uuids(part) if name in ("type", "items", "values", "fields") else part
        for name, part in schema.items()
        if not (is_uuid and name == "logicalType")
    }
