"""What an interpreter without its lock, the GIL, changes for kwire (PEP 703, free-threaded CPython).

Two threads run Python code at the same time there. So a second thread can decode, and records come sooner.

Two threads must not slice the same memoryview there. CPython counts the slices of a memoryview, and up to 3.14 it does
so without a lock. Two threads get the count wrong, and then CPython releases the memoryview while it is in use.
"""

from __future__ import annotations

import sys


def is_free_threaded() -> bool:
    """Whether the interpreter runs without the GIL now. An extension module that needs the GIL turns it on again when
    it is imported."""
    is_locked = getattr(sys, "_is_gil_enabled", None)
    return is_locked is not None and not is_locked()


def for_another_thread(data: bytes | memoryview) -> bytes | memoryview:
    """The same bytes, for another thread to slice: a copy where there is no GIL."""
    return bytes(data) if is_free_threaded() else data
