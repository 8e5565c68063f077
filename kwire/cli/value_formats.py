"""The formats of keys and values (`--key-format`, `--value-format`): one table from a name to what makes text of bytes.

A format is added as a row of `FORMATS`. What it needs to be told, such as where a schema registry is, it finds in the
settings of the command. Used by `formats.py` and `templates.py`.
"""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn, TypeAlias

from kwire.errors import ConfigError

Settings: TypeAlias = Mapping[str, object]
_FLOATS = {4: ">f", 8: ">d"}
_LINE_ENDS = re.compile(r"[\r\n]")

# One encoder for all: json.dumps would make a new one each time for anything but its defaults.
dump_json: Callable[[object], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False
).encode


class ValueFormat(NamedTuple):
    """How bytes of a topic are shown: as text, and as a JSON value. Both take topic and bytes, and raise ValueError."""

    to_text: Callable[[str, bytes], bytes]
    to_json: Callable[[str, bytes], str]


MakeFormat: TypeAlias = Callable[[Settings], ValueFormat]


def of_values(decode: Callable[[str, bytes], object]) -> ValueFormat:
    """The format of a function that makes a value of the bytes of a topic; it raises ValueError if they are not one."""

    def to_json(topic: str, data: bytes) -> str:
        return dump_json(decode(topic, data))

    def to_text(topic: str, data: bytes) -> bytes:
        value = decode(topic, data)
        return (value if isinstance(value, str) else dump_json(value)).encode()

    return ValueFormat(to_text, to_json)


def format_named(option: str, name: str, settings: Settings) -> ValueFormat:
    """Raises: ConfigError, for a name that is not in the table, or settings that the format cannot use."""
    make = FORMATS.get(name)
    if make is None:
        raise ConfigError(f"{option} {name}: there is no such format; there are {', '.join(FORMATS)}")
    return make(settings)


def text_json(data: bytes) -> str:
    """UTF-8 as a string of JSON, other bytes as {"base64": "..."}."""
    try:
        return dump_json(str(data, "utf-8"))
    except UnicodeDecodeError:
        return dump_json({"base64": b64encode(data).decode("ascii")})


def parsed_json(data: bytes) -> str | None:
    """The same JSON on one line, or None if it is none. Numbers and the order of keys stay as they were written."""
    try:
        given = str(data, "utf-8")
        json.loads(given, parse_constant=_no_json, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return _LINE_ENDS.sub(" ", given).strip()  # in strings they are escaped: these stand between


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is Python's, not JSON's")


def _json_where_it_parses(_topic: str, data: bytes) -> str:
    return parsed_json(data) or text_json(data)


def _one_line(_topic: str, data: bytes) -> bytes:
    found = parsed_json(data)
    return data if found is None else found.encode()


def _integer(_topic: str, data: bytes) -> int:
    if len(data) not in (1, 2, 4, 8):
        raise ValueError(f"an integer has 1, 2, 4 or 8 bytes, and this has {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def _float(_topic: str, data: bytes) -> float:
    form = _FLOATS.get(len(data))
    if form is None:
        raise ValueError(f"a floating-point number has 4 or 8 bytes, and this has {len(data)}")
    number: float = struct.unpack(form, data)[0]
    return number


TEXT = ValueFormat(lambda _topic, data: data, lambda _topic, data: text_json(data))

FORMATS: dict[str, MakeFormat] = {
    "text": lambda _settings: TEXT,
    "json": lambda _settings: ValueFormat(_one_line, _json_where_it_parses),
    "hex": lambda _settings: of_values(lambda _topic, data: data.hex()),
    "base64": lambda _settings: of_values(lambda _topic, data: b64encode(data).decode("ascii")),
    "int": lambda _settings: of_values(_integer),
    "float": lambda _settings: of_values(_float),
}
