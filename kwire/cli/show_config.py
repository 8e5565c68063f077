"""`kwire config`: what there is to set."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from kwire.cli.exits import clean_exits
from kwire.cli.output import Output
from kwire.config import SettingDoc, docs

# The meaning gets at least this many columns, however narrow the terminal.
LEAST_WIDTH = 40
HEADINGS = ("setting", "default", "meaning (valid values)")
SECRET = " A secret: give it in a file or in the environment."


def print_settings() -> None:
    """Print all settings with their defaults and meanings.

    Give them to any command as -X NAME=VALUE, in a file (--config), or as KWIRE_<NAME> in the environment. Java's
    dotted names work as well. What -X says wins over the environment, which wins over the file. Secrets belong in the
    environment or in a file: every user of the machine can see a command line.
    """
    with clean_exits():
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
        Output.standard().write("".join(f"{line}\n" for line in table(docs(), width)).encode())


def table(rows: Sequence[SettingDoc], width: int) -> Iterator[str]:
    """The rows in columns, the last one wrapped."""
    cells = [HEADINGS, *((row.name, row.default, _meaning(row)) for row in rows)]
    first, second = (max(len(cell[column]) for cell in cells) + 2 for column in (0, 1))
    room = max(LEAST_WIDTH, width - first - second)
    for name, default, meaning in cells:
        head, *tail = textwrap.wrap(meaning, room)
        yield f"{name:{first}}{default:{second}}{head}"
        yield from (" " * (first + second) + line for line in tail)


def _meaning(row: SettingDoc) -> str:
    return f"{row.doc}{SECRET if row.is_secret else ''} ({row.valid})"
