"""What `kwire wire` is given: bytes or JSON, on the command line (as it stands), in a file (@FILE) or on stdin (-)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kwire.errors import ConfigError


def read_bytes(source: str, *, raw: bool) -> bytes:
    """The bytes that an argument means.

    Args:
        source: Hex digits, which may be in groups; @FILE; or - for standard input.
        raw: Whether a file, or standard input, holds the bytes themselves instead of hex digits.

    Raises:
        ConfigError: There is no such file, or what it holds is not hex.
    """
    if raw:
        found = _content(source)
        if found is None:
            raise ConfigError(f"bytes come from a file or standard input: @FILE or -, not {source!r:.60}")
        return found
    content = _content(source)
    try:
        text = source if content is None else content.decode("ascii")
        return bytes.fromhex("".join(text.split()).removeprefix("0x"))
    except ValueError as error:
        hint = "" if content is None else "; --raw reads bytes as they are"
        raise ConfigError(f"{_name(source)} is not hex: {error}{hint}") from error


def read_object(source: str) -> dict[str, object]:
    """The JSON object that an argument means: JSON, @FILE or - for standard input.

    Raises:
        ConfigError: There is no such file, or what it holds is no JSON object.
    """
    content = _content(source)
    try:
        found = json.loads(source if content is None else content)
    except ValueError as error:
        raise ConfigError(f"{_name(source)} is not JSON: {error}") from error
    except RecursionError as error:  # each version of Python words it otherwise
        raise ConfigError(f"{_name(source)} is not JSON that can be read: it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{_name(source)} is not a JSON object, which is how fields are written: {{...}}")
    return found


def _content(source: str) -> bytes | None:
    """What the file or standard input holds; None for an argument that stands for itself."""
    if source == "-":
        if not sys.stdin:  # None, whatever its type says, when the shell closed it
            raise ConfigError("standard input is closed")
        return sys.stdin.buffer.read()
    if not source.startswith("@"):
        return None
    try:
        return Path(source[1:]).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {source[1:]}: {error.strerror}") from error


def _name(source: str) -> str:
    if source == "-":
        return "standard input"
    return source[1:] if source.startswith("@") else f"{source!r:.60}"
