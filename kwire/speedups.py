"""Finds the optional extension module, `kwire/_speedups.c`, which reads and makes records in less time.

kwire answers the same without it. `pip install` compiles it where there is a C compiler. The environment variable
`KWIRE_WITHOUT_SPEEDUPS=1` turns it off: then `pip install` does not compile it, and kwire does not import it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

VARIABLE = "KWIRE_WITHOUT_SPEEDUPS"
FORM = 7
"""The version of the module that this code can use: a clone may hold one that was compiled before an update."""


def _loaded() -> ModuleType | None:
    if os.environ.get(VARIABLE):
        return None
    try:
        found = import_module("kwire._speedups")
    except ImportError:
        return None
    return found if getattr(found, "FORM", None) == FORM else None


module = _loaded()
"""None: it was not built, or is not wanted."""


def room(size_bytes: int) -> bytearray:
    """Memory with anything in it: what is not filled with zeros is mapped by the system when bytes come in."""
    made: bytearray = bytearray(size_bytes) if module is None else module.room(size_bytes)
    return made


def status() -> str:
    """In words, whether the module in C is used, and if not, why."""
    if module is not None:
        return "speedups in C: yes"
    why = f"{VARIABLE} is set" if os.environ.get(VARIABLE) else "not compiled for this version"
    return f"speedups in C: no, {why}"
