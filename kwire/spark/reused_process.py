"""What kwire does about the Python processes that Spark uses again, for one query after the other."""

from __future__ import annotations

import gc
import itertools
import os

_calls = itertools.count(1)


def spare_the_collector() -> None:
    """Called whenever Spark has such a process do something. Takes what has been loaded out of garbage collections.

    Spark has garbage collected each time a process is done, and what comes next waits for it. Nearly all there is to
    look through are modules: 35 ms of each task, measured. With the second call all is loaded that tasks use, and Spark
    has just collected what was garbage. Later calls leave it at that: what they would take out as well is the tasks'.
    """
    if next(_calls) == 2 and "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()
