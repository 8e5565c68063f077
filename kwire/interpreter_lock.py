"""What an interpreter without its lock, the GIL, changes for kwire (PEP 703, free-threaded CPython).

Two threads run Python code at the same time there, so decoding ahead pays. And they must not slice the same memoryview:
CPython counts the slices of one without a lock, as of 3.14, so the count goes wrong, and all of them end as released
while they are in use.
"""

from __future__ import annotations

import sys


def has_no_lock() -> bool:
    """Whether that is so now. A module that cannot do without the lock brings it back when it is imported."""
    is_locked = getattr(sys, "_is_gil_enabled", None)
    return is_locked is not None and not is_locked()


def of_its_own(data: bytes | memoryview) -> bytes | memoryview:
    """The same bytes, for another thread: a copy where there is no lock."""
    return bytes(data) if has_no_lock() else data
