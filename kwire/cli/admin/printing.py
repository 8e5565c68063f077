"""How commands about the cluster print: lines, or JSON; and what a pattern on their command line is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from kwire.cli.output import Output
from kwire.errors import ConfigError


def compiled(pattern: str | None) -> re.Pattern[str]:
    """Raises: ConfigError, if it is no regular expression."""
    try:
        return re.compile(pattern or "")
    except re.error as error:
        raise ConfigError(f"{pattern!r} is no regular expression: {error}") from None


def json_lines(value: object) -> Iterator[str]:
    """JSON for programs that people look at as well."""
    yield json.dumps(value, indent=2, ensure_ascii=False)


def print_lines(lines: Iterable[str]) -> None:
    """To standard output, as a whole."""
    Output.standard().write("".join(f"{line}\n" for line in lines).encode())
