"""`Window`: numbers of one kind, their total for ever, and their rate, average, least and greatest of late.

As Java's sensors calculate them (`SampledStat`, `Rate`): a window is a few samples. A sample begins with the first
number that comes after the sample before is over. It counts until the length of the window has passed since its last
number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kwire.metrics.names import Values


class WindowSetting(NamedTuple):
    """How far back a window reaches.

    Attributes:
        samples: `metrics_num_samples`.
        sample_ms: `metrics_sample_window_ms`, the length of each.
    """

    samples: int = 2
    sample_ms: float = 30_000.0


class _Sample(NamedTuple):
    """A part of the window: when it began, and what the totals were then. Of one that is over, the rest as well."""

    start_ms: float
    counted: int
    total: float
    last_ms: float = math.inf
    greatest: float = -math.inf
    least: float = math.inf


class Measured(NamedTuple):
    """What a window says at one moment. All but `ever` and `total` are of its samples; nan where these are empty."""

    ever: int
    total: float
    count_per_s: float = 0.0
    total_per_s: float = 0.0
    average: float = math.nan
    greatest: float = math.nan
    least: float = math.nan

    def meter(self, name: str) -> Values:
        """How many numbers there were, under Java's names."""
        yield f"{name}-rate", self.count_per_s
        yield f"{name}-total", self.ever

    def total_meter(self, name: str) -> Values:
        """The rate and the total of their sum, under Java's names."""
        yield f"{name}-rate", self.total_per_s
        yield f"{name}-total", self.total

    def avg_max(self, name: str) -> Values:
        """How great they were of late, under Java's names."""
        yield f"{name}-avg", self.average
        yield f"{name}-max", self.greatest


class Window:
    """Written by one thread, and read by any.

    Attributes:
        count: How many numbers were recorded, ever.
        total: Their sum.
    """

    __slots__ = ("_ends_ms", "_greatest", "_last_ms", "_least", "_samples", "_setting", "count", "total")

    def __init__(self, setting: WindowSetting) -> None:
        self._setting = setting
        self.count = 0
        self.total = 0.0
        self._ends_ms = -math.inf
        self._last_ms = -math.inf
        self._greatest = -math.inf
        self._least = math.inf
        self._samples: tuple[_Sample, ...] = ()

    def record(self, value: float, now_ms: float) -> None:
        """One more number. On the way of every fetch and request: keep it cheap."""
        if now_ms >= self._ends_ms:
            self._begin_sample(now_ms)
        self.count += 1
        self.total += value
        self._last_ms = now_ms
        if value > self._greatest:
            self._greatest = value
        if value < self._least:
            self._least = value

    def _begin_sample(self, now_ms: float) -> None:
        samples = self._samples
        if samples:
            over = samples[-1]._replace(last_ms=self._last_ms, greatest=self._greatest, least=self._least)
            samples = (*samples[-self._setting.samples : -1], over)
        # The samples before the extremes: who reads between the two lines finds these of the last one twice.
        self._samples = (*samples, _Sample(now_ms, self.count, self.total))
        self._greatest, self._least = -math.inf, math.inf
        self._ends_ms = now_ms + self._setting.sample_ms

    def measure(self, now_ms: float, rate_sample_ms: float | None = None) -> Measured:
        """What there is to say now.

        Args:
            rate_sample_ms: How long samples are taken to be for rates; None: as long as they are.
        """
        sample_ms = self._setting.sample_ms if rate_sample_ms is None else rate_sample_ms
        while True:
            samples = self._samples
            count, total = self.count, self.total
            current = _Sample(0.0, 0, 0.0, self._last_ms, self._greatest, self._least)
            if samples is self._samples:
                return self._measured(samples, current, Measured(count, total), now_ms, sample_ms)

    def _measured(
        self, samples: tuple[_Sample, ...], current: _Sample, ever: Measured, now_ms: float, rate_sample_ms: float
    ) -> Measured:
        if not samples:
            return ever
        of_late_ms = self._setting.samples * self._setting.sample_ms
        all_samples = (*samples[:-1], samples[-1]._replace(last_ms=current.last_ms))
        first = next((index for index, each in enumerate(all_samples) if now_ms - each.last_ms < of_late_ms), None)
        if first is None:
            return ever
        oldest, found = samples[first], (*samples[first:-1], current)
        elapsed_s = self._elapsed_s(oldest, now_ms, rate_sample_ms)
        counted, summed = ever.ever - oldest.counted, ever.total - oldest.total
        if not counted:
            return ever
        return ever._replace(
            count_per_s=counted / elapsed_s,
            total_per_s=summed / elapsed_s,
            average=summed / counted,
            greatest=max(each.greatest for each in found),
            least=min(each.least for each in found),
        )

    def _elapsed_s(self, oldest: _Sample, now_ms: float, sample_ms: float) -> float:
        """The time that a rate is for: at least as long as all samples but one. Else one fetch in the first second
        would be 60 a minute."""
        elapsed_ms = max(0.0, now_ms - oldest.start_ms)
        least_samples = self._setting.samples - 1
        whole = int(elapsed_ms / sample_ms) if sample_ms else least_samples
        missing = max(0, least_samples - whole)
        return max(1.0, elapsed_ms + missing * sample_ms) / 1000.0
