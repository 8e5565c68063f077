"""Reading a corpus: a JSON object a line, gzipped or not, of one of two kinds; the lines do not have to fit in memory.

`cli.py` asks for the lines; `wire.py` and `records.py` judge them.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Line: TypeAlias = dict[str, object]

GZIP_MAGIC = b"\x1f\x8b"


class CorpusError(Exception):
    """The file is no corpus; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one line: the row of the table it counts in, and the problem, empty if there is none."""

    row: tuple[str, int]
    column: str
    problem: str


def read_lines(path: Path) -> Iterator[tuple[int, Line]]:
    """Every line with its number.

    Raises:
        CorpusError: The file cannot be read, or a line is no JSON object.
    """
    number = 0
    try:
        with path.open("rb") as peek:
            packed = peek.read(2) == GZIP_MAGIC
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as lines:
            for number, text in enumerate(lines, 1):
                yield number, _parse(text)
    except (OSError, EOFError, ValueError) as error:
        raise CorpusError(f"{path}, line {number or 1}: {error}") from error


def _parse(text: str) -> Line:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"not a JSON object: {text:.60}")
    return found


def text_of(line: Line, key: str) -> str:
    """A string of the line.

    Raises:
        CorpusError: There is none.
    """
    value = line.get(key)
    if not isinstance(value, str):
        raise CorpusError(f"{key!r} should be a string, not {value!r:.60}")
    return value


def number_of(line: Line, key: str) -> int:
    """A whole number of the line. Raises: CorpusError."""
    value = line.get(key)
    if not isinstance(value, int):
        raise CorpusError(f"{key!r} should be a number, not {value!r:.60}")
    return value


def bytes_of(line: Line) -> bytes:
    """What the line's `hex` says. Raises: CorpusError."""
    try:
        return bytes.fromhex(text_of(line, "hex"))
    except ValueError as error:
        raise CorpusError(f"'hex': {error}") from error


def list_of(line: Line, key: str) -> list[Line]:
    """A list of objects in the line. Raises: CorpusError."""
    value = line.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise CorpusError(f"{key!r} should be a list of objects, not {value!r:.60}")
    return value
