"""`kwire config`: the list of settings."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from kwire.cli import terminal
from kwire.cli.exits import clean_exits
from kwire.cli.options import AsJson
from kwire.cli.output import Output
from kwire.config import SettingDoc, docs
from kwire.errors import ConfigError

# The meaning gets at least this many columns; a terminal that has no room for it gets paragraphs.
MIN_WIDTH = 40
INDENT = "    "
HEADINGS = ("setting", "default", "meaning (valid values)")
SECRET = " A secret: give it in a file or in the environment."

Word = Annotated[
    str | None,
    typer.Argument(metavar="WORD", help="Only settings with it in their name or meaning.", show_default=False),
]


def print_settings(word: Word = None, as_json: AsJson = False) -> None:
    """Print the settings with defaults and meanings.

    Give them to any command as -X NAME=VALUE, in a file (--config), or as KWIRE_<NAME> in the environment. Java's
    dotted names work as well. What -X says wins over the environment, which wins over the file. Secrets belong in the
    environment or in a file: every user of the machine can see a command line.
    """
    with clean_exits():
        rows = settings_about(word)
        shown = [json.dumps([row._asdict() for row in rows], indent=2)] if as_json else layout(rows, terminal.width())
        Output.standard().write("".join(f"{line}\n" for line in shown).encode())


def settings_about(word: str | None) -> Sequence[SettingDoc]:
    """The settings with the word in the name, the meaning, or a valid value. Raises: ConfigError, if there is none."""
    wanted = (word or "").strip().lower()
    found = [
        row for row in docs() if any(wanted in text.lower() for text in (row.name, row.java_name, row.doc, row.valid))
    ]
    if not found:
        raise ConfigError(f"no setting has {word!r} in its name or meaning; 'kwire config' lists all")
    return found


def layout(rows: Sequence[SettingDoc], width: int) -> Iterator[str]:
    """The settings as a table; on a terminal that is too narrow for it, as paragraphs."""
    is_narrow = sum(_widths(rows)) + MIN_WIDTH > width
    return paragraphs(rows, width) if is_narrow and terminal.is_terminal() else table(rows, width)


def table(rows: Sequence[SettingDoc], width: int) -> Iterator[str]:
    """The rows in columns, the last one wrapped."""
    first, second = _widths(rows)
    room = max(MIN_WIDTH, width - first - second)
    for name, default, meaning in (HEADINGS, *map(_cells, rows)):
        head, *tail = textwrap.wrap(meaning, room)
        yield f"{name:{first}}{default:{second}}{head}"
        yield from (" " * (first + second) + line for line in tail)


def paragraphs(rows: Sequence[SettingDoc], width: int) -> Iterator[str]:
    """For each row its name and default, and below them what it means."""
    for name, default, meaning in map(_cells, rows):
        yield f"{name}  (default: {default})"
        yield from textwrap.wrap(meaning, width, initial_indent=INDENT, subsequent_indent=INDENT)


def _widths(rows: Sequence[SettingDoc]) -> tuple[int, int]:
    cells = [HEADINGS, *map(_cells, rows)]
    first, second = (max(len(cell[column]) for cell in cells) + 2 for column in (0, 1))
    return first, second


def _cells(row: SettingDoc) -> tuple[str, str, str]:
    return row.name, row.default, f"{row.doc}{SECRET if row.is_secret else ''} ({row.valid})"
