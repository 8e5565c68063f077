"""How many processors this process may use, by its CPU affinity and the quota of its container."""

from __future__ import annotations

import os
from pathlib import Path

# A container finds its own quota in these files: of control groups version 2, and of version 1.
_QUOTA_AND_PERIOD = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


def usable_processors(control_group: Path = Path("/sys/fs/cgroup")) -> int:
    """At least 1. A quota is rounded down: with 1.5 processors, a second busy thread would soon be throttled."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(control_group)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def _quota(control_group: Path) -> float | None:
    """As a number of processors; None where there is none."""
    for names in _QUOTA_AND_PERIOD:
        try:
            quota_us, period_us = " ".join([(control_group / name).read_text() for name in names]).split()
            if int(quota_us) > 0:
                return int(quota_us) / int(period_us)
        except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
            continue
    return None
