"""What a format of keys and values is: how bytes of a record are shown, and what it may have to be told."""

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
    """What JSON has no words for."""
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
    """Numbers that JSON does not have are text, as in Protobuf's JSON: "NaN", "Infinity", "-Infinity"."""
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
    """Bytes are not of a format, or cannot be read now. `advice` says what to do, where it is not another format."""

    def __init__(self, reason: str, advice: str | None = None) -> None:
        super().__init__(reason)
        self.advice = advice


class ValueFormat(NamedTuple):
    """How bytes of a record are shown: as text, and as a JSON value. Both raise ValueError."""

    to_text: Callable[[BytesRecord, bytes], bytes]
    to_json: Callable[[BytesRecord, bytes], str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FormatSetup:
    """What a format may need to be told.

    Attributes:
        field: Whether it is for keys or for values.
        registry: Settings of confluent-kafka's client of a schema registry; empty if there is none.
        protobuf: MODULE:CLASS of messages.
    """

    field: Field
    registry: Mapping[str, object] = dataclasses.field(default_factory=dict)
    protobuf: str | None = None


def of_values(decode: Callable[[BytesRecord, bytes], object]) -> ValueFormat:
    """The format of a function that makes a value of bytes of a record; it raises ValueError if they are not one."""

    def to_json(record: BytesRecord, data: bytes) -> str:
        return dump_json(decode(record, data))

    def to_text(record: BytesRecord, data: bytes) -> bytes:
        value = decode(record, data)
        if isinstance(value, float):
            value = _with_named_numbers(value)
        return in_utf_8(value if isinstance(value, str) else dump_json(value))

    return ValueFormat(to_text, to_json)


def in_utf_8(text: str) -> bytes:
    """With the escapes of JSON for half a surrogate pair, which UTF-8 has no bytes for, and JSON's strings may hold."""
    return text.encode(errors="backslashreplace")


def text_json(data: bytes) -> str:
    """UTF-8 as a string of JSON, other bytes as {"base64": "..."}."""
    try:
        return dump_json(str(data, "utf-8"))
    except UnicodeDecodeError:
        return dump_json({"base64": b64encode(data).decode("ascii")})
