"""The formats of keys and values, `--key-format` and `--value-format`: one table of formats by name.

A format is added as a row of `FORMATS`. Its options, such as the address of a schema registry, are in a `FormatSetup`.
Used by `formats.py` and `templates.py`.
"""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from kwire.cli.shown_values import BytesRecord, FormatSetup, ValueFormat, of_values, text_json
from kwire.errors import ConfigError

_FLOATS = {4: ">f", 8: ">d"}
_LINE_ENDS = re.compile(r"[\r\n]")


MakeFormat: TypeAlias = Callable[[FormatSetup], ValueFormat]


def format_named(name: str, setup: FormatSetup) -> ValueFormat:
    """The format of this name. Raises: ConfigError, for an unknown name, or a setup that the format cannot use."""
    make = FORMATS.get(name)
    if make is None:
        raise ConfigError(f"--{setup.field}-format {name}: there is no such format; there are {', '.join(FORMATS)}")
    return make(setup)


def parsed_json(data: bytes) -> str | None:
    """The JSON on one line; None if it is no JSON. Numbers and the order of keys stay as they are."""
    try:
        given = str(data, "utf-8")
        json.loads(given, parse_constant=_no_json, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return _LINE_ENDS.sub(" ", given).strip()  # in strings they are escaped, so these are between tokens


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is Python's, not JSON's")


def _json_where_it_parses(_record: BytesRecord, data: bytes) -> str:
    return parsed_json(data) or text_json(data)


def _one_line(_record: BytesRecord, data: bytes) -> bytes:
    found = parsed_json(data)
    return data if found is None else found.encode()


def _integer(_record: BytesRecord, data: bytes) -> int:
    if len(data) not in (1, 2, 4, 8):
        raise ValueError(f"an integer has 1, 2, 4 or 8 bytes, and this has {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def _float(_record: BytesRecord, data: bytes) -> float:
    form = _FLOATS.get(len(data))
    if form is None:
        raise ValueError(f"a floating-point number has 4 or 8 bytes, and this has {len(data)}")
    number: float = struct.unpack(form, data)[0]
    return number


def registry_format(name: str) -> MakeFormat:
    """A format of a schema registry, imported when it is used, since it imports confluent-kafka."""

    def make(setup: FormatSetup) -> ValueFormat:
        from kwire.cli.registry_formats import decoder

        return of_values(decoder(name, setup))

    return make


TEXT = ValueFormat(lambda _record, data: data, lambda _record, data: text_json(data))

FORMATS: dict[str, MakeFormat] = {
    "text": lambda _setup: TEXT,
    "json": lambda _setup: ValueFormat(_one_line, _json_where_it_parses),
    "hex": lambda _setup: of_values(lambda _record, data: data.hex()),
    "base64": lambda _setup: of_values(lambda _record, data: b64encode(data).decode("ascii")),
    "int": lambda _setup: of_values(_integer),
    "float": lambda _setup: of_values(_float),
    "avro": registry_format("avro"),
    "json-schema": registry_format("json-schema"),
    "protobuf": registry_format("protobuf"),
}
