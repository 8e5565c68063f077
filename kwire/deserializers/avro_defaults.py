"""Defaults of Avro fields as the values that records have: a schema writes bytes as text, and leaves out of a record
what has a default itself. fastavro hands out what the schema has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal


def with_values_for_defaults(schema: object) -> object:
    """The schema, in which names are replaced by what they name, with values in place of its defaults."""
    if isinstance(schema, list):
        return [with_values_for_defaults(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    parts = {name: with_values_for_defaults(schema[name]) for name in ("type", "items", "values") if name in schema}
    if "fields" in schema:
        parts["fields"] = [_with_value(field) for field in schema["fields"]]
    return {**schema, **parts}


def _with_value(field: Mapping[str, object]) -> Mapping[str, object]:
    kind = with_values_for_defaults(field["type"])
    if "default" not in field:
        return {**field, "type": kind}
    return {**field, "type": kind, "default": _value(field["default"], kind)}


def _value(default: object, kind: object) -> object:
    """The value that a default stands for, of a type whose own defaults are values already."""
    if isinstance(kind, list):
        return _of_union(default, kind)
    if not isinstance(kind, Mapping):
        return _bytes(default) if kind == "bytes" else default
    match kind["type"], default:
        case "bytes" | "fixed", str():
            return _decimal(_bytes(default), kind) if kind.get("logicalType") == "decimal" else _bytes(default)
        case "array", list():
            return [_value(each, kind["items"]) for each in default]
        case "map", dict():
            return {name: _value(each, kind["values"]) for name, each in default.items()}
        case "record", dict():
            return {each["name"]: _of_field(default, each) for each in kind["fields"]}
        case (Mapping() | list()) as inner, _:
            return _value(default, inner)
        case _:
            return default


def _of_union(default: object, branches: list[object]) -> object:
    """Of the first type, or, since Avro 1.12, of any: a column has one beside null."""
    return None if default is None else next((_value(default, kind) for kind in branches if kind != "null"), default)


def _of_field(default: Mapping[str, object], field: Mapping[str, object]) -> object:
    name = str(field["name"])
    return _value(default[name], field["type"]) if name in default else field.get("default")


def _bytes(default: object) -> object:
    return default.encode("latin-1") if isinstance(default, str) else default


def _decimal(unscaled: object, kind: Mapping[str, object]) -> object:
    assert isinstance(unscaled, bytes)
    whole = int.from_bytes(unscaled, "big", signed=True)
    return Decimal(f"{whole}E-{kind.get('scale', 0)}")  # arithmetic would round to 28 digits
