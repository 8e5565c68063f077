"""Java's properties files, as java.util.Properties reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import IO

from kwire.errors import ConfigError

# A key ends at the first separator that no backslash escapes; around it, blanks do not count.
_ENTRY = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<unit>[0-9a-fA-F]{4})|(?P<char>.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_properties(file: str | PathLike[str] | IO[str] | IO[bytes]) -> dict[str, str]:
    """The settings of a Java client's file, for `Consumer(load_properties("consumer.properties"))`.

    Of equal names the last counts. Values are not looked at: what a consumer cannot use, it says.

    Args:
        file: Its path, or the file, open for reading.

    Returns:
        Values by Java's names, as text.

    Raises:
        ConfigError: It cannot be read, or has a bad escape.
    """
    if isinstance(file, str | PathLike):
        try:
            data: str | bytes = Path(fspath(file)).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {fspath(file)}: {error.strerror}") from error
    else:
        data = file.read()
    return {name: value for _, name, value in parse_properties(decoded(data))}


def decoded(data: str | bytes) -> str:
    """As text: UTF-8, or else ISO 8859-1, in which Java reads. Valid UTF-8 that is none is not met in practice."""
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def parse_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, key and value of each entry. Raises: ConfigError, at a bad escape."""
    for line, entry in _logical_lines(text):
        found = _ENTRY.fullmatch(entry)
        if found is not None:
            yield line, _unescape(line, found["key"]), _unescape(line, found["value"])


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


def _unescape(line: int, text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        if found["unit"]:
            return chr(int(found["unit"], 16))
        if found["char"] == "u":
            raise ConfigError(f"line {line} has a bad escape: \\u is followed by four hexadecimal digits")
        return _CONTROLS.get(found["char"], found["char"])

    plain = _ESCAPE.sub(replace, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes may be one character
