"""Output of commands about the cluster, as lines or JSON; and names and patterns on their command lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from kwire.cli.output import Output
from kwire.errors import ConfigError


def compiled(pattern: str | None) -> re.Pattern[str]:
    """Raises: ConfigError, if it is no regular expression."""
    try:
        return re.compile(pattern or "")
    except re.error as error:
        raise ConfigError(f"{pattern!r} is no regular expression: {error}") from None


def named(what: str, names: Sequence[str] | None, more: Sequence[str] | None) -> list[str]:
    """The names from arguments and the option. Raises: ConfigError, if there are none."""
    found = list(dict.fromkeys([*(names or ()), *(more or ())]))
    if not found:
        raise ConfigError(f"which {what}? Name one, or several")
    return found


def the_one(what: str, names: Sequence[str] | None, more: Sequence[str] | None) -> str:
    """The only name from arguments and the option. Raises: ConfigError, unless there is exactly one."""
    found = named(what, names, more)
    if len(found) > 1:
        raise ConfigError(f"this is about one {what} at a time, not about {', '.join(found)}")
    return found[0]


def json_lines(value: object) -> Iterator[str]:
    """The value as JSON, indented for reading."""
    yield json.dumps(value, indent=2, ensure_ascii=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to standard output in one write."""
    Output.standard().write("".join(f"{line}\n" for line in lines).encode())
