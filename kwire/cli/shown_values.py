"""Formats of keys and values: how the bytes of a record are shown, and the options that a format may need."""

from __future__ import annotations

import dataclasses
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, time
from math import inf, isfinite
from typing import NamedTuple, TypeAlias

from kwire.model import Record
from kwire.serialization_context import Field

_NAMES = {inf: "Infinity", -inf: "-Infinity"}
BytesRecord: TypeAlias = Record[bytes, bytes]


def _plain(value: object) -> object:
    """Convert values that JSON does not have."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": b64encode(value).decode("ascii")}
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)


# One encoder for all: json.dumps would make a new one each time for anything but its defaults.
_encode: Callable[[object], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, default=_plain, allow_nan=False
).encode


def dump_json(value: object) -> str:
    """Encode as JSON. Numbers that JSON does not have become text, as in Protobuf's JSON: "NaN", "Infinity",
    "-Infinity"."""
    try:
        return _encode(value)
    except ValueError:
        return _encode(_with_named_numbers(value))


def _with_named_numbers(value: object) -> object:
    match value:
        case float():
            return value if isfinite(value) else _NAMES.get(value, "NaN")
        case dict():
            return {name: _with_named_numbers(each) for name, each in value.items()}
        case list() | tuple():
            return [_with_named_numbers(each) for each in value]
        case _:
            return value


class ValueFormatError(ValueError):
    """Bytes are not of a format, or cannot be decoded now. `advice` says what to do, if it is not to choose another
    format."""

    def __init__(self, reason: str, advice: str | None = None) -> None:
        super().__init__(reason)
        self.advice = advice


class ValueFormat(NamedTuple):
    """How bytes of a record are shown: as text, and as a JSON value. Both raise ValueError."""

    to_text: Callable[[BytesRecord, bytes], bytes]
    to_json: Callable[[BytesRecord, bytes], str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FormatSetup:
    """The options of a format.

    Attributes:
        field: Whether it is for keys or for values.
        registry: Settings of confluent-kafka's client of a schema registry; empty if there is none.
        protobuf: MODULE:CLASS of messages.
    """

    field: Field
    registry: Mapping[str, object] = dataclasses.field(default_factory=dict)
    protobuf: str | None = None


def of_values(decode: Callable[[BytesRecord, bytes], object]) -> ValueFormat:
    """The format of a function that decodes the bytes of a record, and raises ValueError if it cannot."""

    def to_json(record: BytesRecord, data: bytes) -> str:
        return dump_json(decode(record, data))

    def to_text(record: BytesRecord, data: bytes) -> bytes:
        value = decode(record, data)
        if isinstance(value, float):
            value = _with_named_numbers(value)
        return in_utf_8(value if isinstance(value, str) else dump_json(value))

    return ValueFormat(to_text, to_json)


def in_utf_8(text: str) -> bytes:
    """The text with JSON's escapes for single surrogates, which JSON may have and UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace")


def text_json(data: bytes) -> str:
    """UTF-8 as a string of JSON, other bytes as {"base64": "..."}."""
    try:
        return dump_json(str(data, "utf-8"))
    except UnicodeDecodeError:
        return dump_json({"base64": b64encode(data).decode("ascii")})
