r"""Escapes for terminals: control characters, which move the cursor, change colours, or type for the user.

Each becomes \xNN, and so does a byte that is no UTF-8; of line ends and tabs nobody is afraid. Signs that turn the
direction of writing around are escaped as well: they make text look like another one.
"""

from __future__ import annotations

import os
import re
import shutil
import sys

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNDECODED = range(0xDC80, 0xDD00)  # where `surrogateescape` puts a byte that is no UTF-8
_UNSAFE_TEXT = re.compile(_UNSAFE.pattern.removesuffix("]") + "\udc80-\udcff]")
WIDTH_OF_PIPES = 120
RED, GREEN = 31, 32


def escape_text(data: bytes) -> bytes:
    r"""The text with escapes for a terminal: \x1b instead of an escape character."""
    return _UNSAFE_TEXT.sub(_escaped, data.decode("utf-8", "surrogateescape")).encode()


def escape_json(line: str) -> str:
    """The same JSON with escapes. These characters occur only in strings, where JSON has an escape for each."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _UNDECODED:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def width() -> int:
    """The number of columns of the terminal; a fixed number if standard output is none."""
    return shutil.get_terminal_size().columns if is_terminal() else WIDTH_OF_PIPES


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return bool(sys.stdout) and sys.stdout.isatty()


def painted(text: str, colour: int) -> str:
    """The text in a colour, if standard output is a terminal and NO_COLOR is not set."""
    if not is_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"
