"""Commands run on a terminal of their own, and what stands there at the end as SVG.

The terminal is a pseudo terminal of the kernel, so commands behave as they do when somebody looks. The picture names no
font that would come from elsewhere: each line is stretched to its columns, whatever font is there.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import shlex
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PROMPT = "$ "
ROWS = 50
EMPTIES_THE_SCREEN = "\x1b[H\x1b[J"
_CHUNK_BYTES = 65_536
_OF_THE_USERS_TERMINAL = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}

# Background, text, and a terminal's eight colours, all readable on that background.
_THEME = TerminalTheme(
    (24, 28, 34),
    (214, 219, 226),
    [
        (110, 118, 129),
        (255, 123, 114),
        (126, 211, 133),
        (230, 196, 110),
        (121, 176, 255),
        (210, 168, 255),
        (118, 210, 219),
        (214, 219, 226),
    ],
)
# Filled in by rich. An empty line at the end is the edge below.
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {terminal_height}" role="img">
<style>
.{unique_id}-matrix {{
font: {char_height}px/{line_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
}}
{styles}
</style>
<defs>
{lines}
</defs>
<rect width="{width}" height="{terminal_height}" rx="8" fill="#181c22"/>
<g class="{unique_id}-matrix" transform="translate(9 10)">
{backgrounds}{matrix}
</g>
</svg>
"""


class CommandError(Exception):
    """A command did not end as it should; the message has what it printed."""


def printed(command: str, *, columns: int, environment: Mapping[str, str], code: int = 0) -> str:
    """What stands on a terminal of so many columns when a command has ended there, with its colours.

    Raises:
        CommandError: It ended with another exit code.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in _OF_THE_USERS_TERMINAL}
    variables |= {"TERM": "xterm-256color", **environment}
    with (
        open(ours, "rb", buffering=0) as terminal,
        subprocess.Popen(shlex.split(command), stdin=theirs, stdout=theirs, stderr=theirs, env=variables) as process,
    ):
        os.close(theirs)
        text = b"".join(_read(terminal)).decode()
    if process.returncode != code:
        raise CommandError(f"{command} ended with {process.returncode}, not {code}:\n{text}")
    return text.rpartition(EMPTIES_THE_SCREEN)[2].replace("\r\n", "\n")


def _read(terminal: io.FileIO) -> Iterator[bytes]:
    try:
        while chunk := terminal.read(_CHUNK_BYTES):
            yield chunk
    except OSError:  # Linux says so when the last process has closed its end
        return


def drawn(text: str, *, name: str, columns: int) -> str:
    """Lines of a terminal, with their colours, as SVG. Longer ones go on in the next line, as they do there."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in text.splitlines():
        for start in range(0, max(1, len(whole := Text.from_ansi(line))), columns):
            console.print(whole[start : start + columns], no_wrap=True, highlight=False)
    console.print()
    return console.export_svg(theme=_THEME, code_format=_SVG, unique_id=name)


def typed(command: str, output: str) -> str:
    """A command behind its prompt, as a person sees it, and its output below."""
    return f"\x1b[1;32m{PROMPT.strip()}\x1b[0m \x1b[1m{command}\x1b[0m\n{output}"
