"""How kwire makes the Python processes faster that Spark reuses, for one query after the other."""

from __future__ import annotations

import gc
import itertools
import os
from contextlib import suppress
from functools import cache

_calls = itertools.count(1)

# Parameters of glibc's mallopt, and their values; 32 MiB is the most that it takes for the second.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _MAX_KEPT_BYTES = 64 * 1024 * 1024, 32 * 1024 * 1024


def freeze_loaded_modules() -> None:
    """Called whenever Spark has such a process do something. Takes the loaded modules out of garbage collections.

    Spark collects garbage each time a process is done, and the next task waits for that. Nearly all the objects to look
    through are those of modules: 35 ms of each task, measured. By the second call all modules that tasks use are
    loaded, and Spark has just collected the garbage. Later calls do nothing: they would freeze objects of tasks.
    """
    if next(_calls) == 2 and _is_reused():
        gc.freeze()


@cache
def keep_freed_memory() -> None:
    """Called by each task. What it frees stays with the process, up to 64 MiB, instead of going back to the system.

    The values of a batch are megabytes; to have them mapped anew, page by page, is a tenth of what it takes to read
    records of 100 bytes, measured.
    """
    if not _is_reused():
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _MAX_KEPT_BYTES)


def _is_reused() -> bool:
    return "SPARK_REUSE_WORKER" in os.environ
