"""Reads settings from files: Java's properties, or TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kwire.config.properties import decoded, parse_properties
from kwire.errors import ConfigError


class SettingLine(NamedTuple):
    """A setting and its source. The value may be a secret, so `repr` leaves it out."""

    source: str
    name: str
    value: object

    def __repr__(self) -> str:
        return f"<{self.name} of {self.source}>"


def read_config_file(path: Path) -> list[SettingLine]:
    """All settings of a file; TOML if its name ends so, else properties.

    Raises:
        ConfigError: the file cannot be read, or its syntax is wrong.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if path.suffix != ".toml":
        return [SettingLine(f"{path}:{line}", name, value) for line, name, value in parse_properties(decoded(data))]
    try:
        return [SettingLine(str(path), name, value) for name, value in _flatten(tomllib.loads(data.decode()))]
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: not UTF-8 at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The values by dotted keys: TOML makes nested tables of keys such as `auto.offset.reset`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
