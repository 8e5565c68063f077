"""State of a process: how much memory it holds, and whether it is stopped. Only Linux tells.

Called by `members.py`, whose processes are sampled, and by `member_process.py`, which waits for a freeze.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from kwire.testing.faults.report.run import MemorySample

SAMPLE_INTERVAL_S = 1.0
STOPPED = "T"
PROC = Path("/proc")


def resident_bytes(pid: int) -> int | None:
    """The resident memory of a process and its children; None if it is unknown, or the process has ended."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
        children = [int(child) for child in (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except (OSError, ValueError, IndexError):
        return None
    below = (resident_bytes(child) or 0 for child in children)
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(below)


def is_stopped(pid: int) -> bool | None:
    """Whether SIGSTOP has stopped the process; None if that is unknown, or the process has ended."""
    try:
        after_name = (PROC / str(pid) / "stat").read_text().rpartition(")")[2]
    except OSError:
        return None
    return after_name.split()[0] == STOPPED


class MemorySampler:
    """A thread that samples about every second how much memory some processes hold.

    Args:
        now_ms: the run's clock.
        pids: returns the process ids to sample, by name; called each time.
    """

    def __init__(self, now_ms: Callable[[], float], pids: Callable[[], Mapping[str, int]]) -> None:
        self._now_ms = now_ms
        self._pids = pids
        self._samples: list[MemorySample] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory of members", daemon=True)

    @property
    def samples(self) -> tuple[MemorySample, ...]:
        return tuple(self._samples)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Take one sample of each process."""
        for name, pid in self._pids().items():
            if (held := resident_bytes(pid)) is not None:
                self._samples.append(MemorySample(at_ms=self._now_ms(), member=name, resident_bytes=held))

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_INTERVAL_S):
            self.look()
