"""Records as bytes for standard output: text, JSON lines, raw. Encoded a batch at a time."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

from kwire.errors import ConfigError
from kwire.model import NO_TIMESTAMP, Header, Record

BytesRecord: TypeAlias = Record[bytes, bytes]
Encode: TypeAlias = Callable[[Sequence[BytesRecord]], bytes]
JsonValue: TypeAlias = str | dict[str, str] | None

# What Java's console consumer prints for a null; JSON lines tell it from the text "null".
NULL = b"null"

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|.|$)", re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


class Format(Enum):
    """The formats by the names of `--format`."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


def text(key_separator: bytes | None) -> Encode:
    """A line for each value; with a separator, the key before it."""

    def encode_values(records: Sequence[BytesRecord]) -> bytes:
        return b"".join([(NULL if record.value is None else record.value) + b"\n" for record in records])

    def encode_keys_and_values(records: Sequence[BytesRecord]) -> bytes:
        assert key_separator is not None
        parts: list[bytes] = []
        for record in records:
            key, value = record.key, record.value
            parts += (NULL if key is None else key, key_separator, NULL if value is None else value, b"\n")
        return b"".join(parts)

    return encode_values if key_separator is None else encode_keys_and_values


def raw(delimiter: bytes) -> Encode:
    """The bytes of each value and the delimiter; nothing for a null but the delimiter."""

    def encode(records: Sequence[BytesRecord]) -> bytes:
        return b"".join([(record.value or b"") + delimiter for record in records])

    return encode


def json_lines(records: Sequence[BytesRecord]) -> bytes:
    """One object a line. Keys and values that are not UTF-8 are {"base64": "..."} instead of a string."""
    return "".join([_dump(_to_json(record)) + "\n" for record in records]).encode()


# One encoder for all: json.dumps would make a new one each time for anything but its defaults.
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def _to_json(record: BytesRecord) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp == NO_TIMESTAMP else record.timestamp,
        "key": _bytes_to_json(record.key),
        "value": _bytes_to_json(record.value),
        "headers": [_header_to_json(header) for header in record.headers],
    }


def _header_to_json(header: Header) -> dict[str, JsonValue]:
    return {"key": header.key, "value": _bytes_to_json(header.value)}


def _bytes_to_json(data: bytes | None) -> JsonValue:
    if data is None:
        return None
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}


def unescape(option: str, given: str) -> bytes:
    r"""The bytes that an option means: \n \t \r \0 \\ and \xNN, which shells make hard to type.

    Raises:
        ConfigError: another escape.
    """

    def replace(found: re.Match[str]) -> bytes:
        escape = found[0]
        if escape in _ESCAPES:
            return _ESCAPES[escape].encode()
        if escape.startswith("\\x") and len(escape) == 4:
            return bytes.fromhex(escape[2:])
        raise ConfigError(rf"{option}: {escape!r} is no escape; there are \n \t \r \0 \\ and \xNN")

    # File names and arguments may hold bytes that are not UTF-8; surrogateescape gives back what was typed.
    parts: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(given):
        parts += (given[end : found.start()].encode("utf-8", "surrogateescape"), replace(found))
        end = found.end()
    parts.append(given[end:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)
