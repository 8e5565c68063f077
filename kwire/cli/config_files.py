"""Reads settings from files: Java's properties, or TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kwire.errors import ConfigError

# A key ends at the first separator that no backslash escapes; around it, blanks do not count.
_ENTRY = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<unit>[0-9a-fA-F]{4})|(?P<char>.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class SettingLine(NamedTuple):
    """A setting, and where it comes from. The value may be a secret, so `repr` leaves it out."""

    source: str
    name: str
    value: object

    def __repr__(self) -> str:
        return f"<{self.name} of {self.source}>"


def read_config_file(path: Path) -> list[SettingLine]:
    """All settings of a file; TOML if its name ends so, else properties.

    Raises:
        ConfigError: it cannot be read, or is not of its form.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: not UTF-8 at byte {error.start}") from error
    if path.suffix != ".toml":
        return [SettingLine(f"{path}:{line}", name, value) for line, name, value in parse_properties(text)]
    try:
        return [SettingLine(str(path), name, value) for name, value in _flatten(tomllib.loads(text))]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def parse_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, key and value of each entry, as java.util.Properties reads them (but UTF-8)."""
    for line, entry in _logical_lines(text):
        found = _ENTRY.fullmatch(entry)
        if found is not None:
            yield line, _unescape(found["key"]), _unescape(found["value"])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, joined where a backslash ends them."""
    joined, begin = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = line.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        begin = begin if joined else number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield begin, joined + line
        joined = ""
    if joined:
        yield begin, joined


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        if found["unit"]:
            return chr(int(found["unit"], 16))
        return _CONTROLS.get(found["char"], found["char"])

    return _ESCAPE.sub(replace, text)


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """TOML makes tables of dotted keys: `auto.offset.reset` is a value in a table in a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
