"""Settings of `kwire pipeline`: from a TOML file, and from flags on top of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from kwire.cli.starts import StartKind, parse_start
from kwire.errors import ConfigError


def read_file(path: Path) -> dict[str, object]:
    """The settings of a file, with its tables `kafka`, `source` and `spark` as they are.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def merged(file: Mapping[str, object], flags: Mapping[str, object]) -> dict[str, object]:
    """The file's settings with those of the flags on top; tables are merged, and None is not said."""
    found = dict(file)
    for name, value in flags.items():
        given = found.get(name)
        if isinstance(value, Mapping) and isinstance(given, Mapping):
            found[name] = {**given, **value}
        elif value is not None and value != {}:
            found[name] = value
    return found


def pairs(flag: str, given: Iterable[str] | None) -> dict[str, str]:
    """NAME=VALUE each. Raises: ConfigError, naming the flag."""
    found: dict[str, str] = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{flag} {each}: write name=value")
        found[name.strip()] = value
    return found


def schema_text(given: str | None) -> str | None:
    """A schema, or what stands in the file of that name behind an @. Raises: ConfigError, if it cannot be read."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"value_schema: cannot read {given[1:]}: {error}") from None


def start_text(given: str | None) -> str | None:
    """`--from` as a plan has it: earliest, latest, or @ and milliseconds. Raises: ConfigError, if it is none."""
    if given is None:
        return None
    start = parse_start(given)
    match start.kind:
        case StartKind.EARLIEST:
            return "earliest"
        case StartKind.LATEST:
            return "latest"
        case StartKind.TIMESTAMP_MS:
            return f"@{start.number}"
        case _:
            raise ConfigError(f"from {given}: a pipeline begins at earliest, at latest, or at a time")
