"""A Sphinx extension: "As `Consumer.seek`." in a docstring is followed by what is said there.

`AsyncConsumer`, and what callbacks are given, have the calls of `Consumer`. In the code they refer to it; in the
reference nobody has to look it up.
"""

from __future__ import annotations

import inspect
import re
from typing import Protocol

from kwire import Consumer

_REFERENCE = re.compile(r"As `Consumer\.(?P<name>\w+)`")
_BEFORE_NAPOLEON = 400  # which has 500, and makes fields of sections


def borrow(lines: list[str]) -> None:
    """Put the text that a docstring refers to at its end, in place."""
    if not lines or (found := _REFERENCE.match(lines[0])) is None:
        return
    borrowed = (inspect.getdoc(getattr(Consumer, found["name"])) or "").splitlines()
    lines.extend(["", *borrowed])


class _Application(Protocol):
    """What an extension uses of Sphinx, which is installed only where the site is built."""

    def connect(self, event: str, callback: object, priority: int) -> int: ...


def setup(app: _Application) -> dict[str, bool]:
    """What Sphinx calls."""

    def process(_app: object, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
        borrow(lines)

    app.connect("autodoc-process-docstring", process, _BEFORE_NAPOLEON)
    return {"parallel_read_safe": True}
