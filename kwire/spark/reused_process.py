"""What kwire does about the Python processes that Spark uses again, for one query after the other."""

from __future__ import annotations

import gc
import itertools
import os
from contextlib import suppress
from functools import cache

_calls = itertools.count(1)

# Of glibc's malloc.h, and the most that it takes for the second.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGEST_KEPT_BYTES = 64 * 1024 * 1024, 32 * 1024 * 1024


def spare_the_collector() -> None:
    """Called whenever Spark has such a process do something. Takes what has been loaded out of garbage collections.

    Spark has garbage collected each time a process is done, and what comes next waits for it. Nearly all there is to
    look through are modules: 35 ms of each task, measured. With the second call all is loaded that tasks use, and Spark
    has just collected what was garbage. Later calls leave it at that: what they would take out as well is the tasks'.
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
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


def _is_reused() -> bool:
    return "SPARK_REUSE_WORKER" in os.environ
