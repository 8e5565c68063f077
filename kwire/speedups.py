"""The module in C, `kwire/_speedups.c`, where it was built: it reads records, and makes them, in less time.

kwire is complete without it, and does the same with it. `pip install` builds it where there is a C compiler. With
`KWIRE_WITHOUT_SPEEDUPS=1` in the environment it is left alone, and so it is when kwire is built.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

VARIABLE = "KWIRE_WITHOUT_SPEEDUPS"
FORM = 1
"""What of the module this version can use; a clone that is brought up to date may have an older one."""


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


def standing() -> str:
    """Whether it is used, and why not."""
    if module is not None:
        return "speedups in C: yes"
    why = f"{VARIABLE} is set" if os.environ.get(VARIABLE) else "not compiled for this version"
    return f"speedups in C: no, {why}"
