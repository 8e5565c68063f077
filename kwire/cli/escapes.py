"""Escapes in options: bytes that shells make hard to type."""

from __future__ import annotations

import re

from kwire.errors import ConfigError

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{0,2}|.|$)", re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


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
        shown = repr(escape).replace("\\\\", "\\")  # as it was typed
        raise ConfigError(rf"{option}: {shown} is no escape; there are \n \t \r \0 \\ and \xNN")

    # File names and arguments may hold bytes that are not UTF-8; surrogateescape gives back what was typed.
    parts: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(given):
        parts += (given[end : found.start()].encode("utf-8", "surrogateescape"), replace(found))
        end = found.end()
    parts.append(given[end:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)
