"""Samples of the members' processes, and of what they tell, as points over time."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.testing.faults.process_state import PROC, resident_bytes
from proofs.soak.member import GUEST
from proofs.soak.slopes import FIGURES, Figure, Point

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proofs.soak.group import Told

CPU_OVER_S = 60.0
"""A point of CPU is of so much time."""
TOLD = ("objects", "malloc")
"""Figures that a member tells of itself."""
MIB = 1024 * 1024
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Of a process, as the system knows it."""

    resident_bytes: int
    threads: int
    descriptors: int
    cpu_s: float


def sample(pid: int) -> Sample | None:
    """None if it is gone."""
    process = PROC / str(pid)
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        descriptors = len(os.listdir(process / "fd"))
    except OSError:
        return None
    if (resident := resident_bytes(pid)) is None:
        return None
    user, system, threads = int(fields[11]), int(fields[12]), int(fields[17])
    cpu_s = (user + system) / TICKS_PER_S
    return Sample(resident_bytes=resident, threads=threads, descriptors=descriptors, cpu_s=cpu_s)


class Watch:
    """All points so far, by member and figure. Any thread may write.

    Args:
        now_s: the run's clock.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._records: defaultdict[str, float] = defaultdict(float)
        self._latencies: defaultdict[str, list[float]] = defaultdict(list)
        self._cpu_at: dict[str, tuple[float, float, float]] = {}
        self._points: defaultdict[tuple[str, str], list[Point]] = defaultdict(list)
        self._minute = 0

    def hear(self, told: Told) -> None:
        at_s = self._now_s()
        with self._lock:
            if told.way != GUEST:
                for figure in TOLD:
                    if (value := told.number(figure)) is not None:
                        self._add(told.way, figure, at_s, value)
                if (step := told.said.get("step")) is not None:
                    print(f"{at_s / 60:6.0f} min  {told.way} has more objects: {step}", flush=True)
            self._records[told.way] += told.number("records") or 0
            if (p50_ms := told.number("p50_ms")) is not None:
                self._latencies[told.way].append(p50_ms)

    def look(self, processes: Mapping[str, int]) -> None:
        """A sample of each; and once a minute, for all at the same time, what was told in it."""
        at_s = self._now_s()
        samples = {way: found for way, pid in processes.items() if (found := sample(pid)) is not None}
        with self._lock:
            for way, found in samples.items():
                self._add(way, "memory", at_s, found.resident_bytes / MIB)
                self._add(way, "threads", at_s, found.threads)
                self._add(way, "descriptors", at_s, found.descriptors)
            if at_s // CPU_OVER_S > self._minute:
                self._minute = int(at_s // CPU_OVER_S)
                self._end_minute(at_s, samples)

    def _end_minute(self, at_s: float, samples: Mapping[str, Sample]) -> None:
        for way, found in samples.items():
            records, before = self._records[way], self._cpu_at.get(way)
            self._cpu_at[way] = at_s, found.cpu_s, records
            if before is not None and records > before[2]:
                self._add(way, "cpu a record", at_s, (found.cpu_s - before[1]) / (records - before[2]) * 1e6)
            if latencies := self._latencies.pop(way, None):
                self._add(way, "latency p50", at_s, sorted(latencies)[len(latencies) // 2])

    def _add(self, way: str, figure: str, at_s: float, value: float) -> None:
        self._points[way, figure].append(Point(at_s, value))

    def points(self, way: str, figure: Figure) -> list[Point]:
        with self._lock:
            return list(self._points[way, figure.name])

    def all_points(self) -> dict[str, dict[str, list[Point]]]:
        """By figure, then by member."""
        with self._lock:
            ways = sorted({way for way, _ in self._points})
            return {
                figure.name: {way: list(found) for way in ways if (found := self._points.get((way, figure.name)))}
                for figure in FIGURES
            }
