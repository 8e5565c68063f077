"""Progress of a pipeline on stderr: bars on a terminal, elsewhere a line for each batch."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

if TYPE_CHECKING:
    from kwire.spark.pipeline.progress import Figures

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class BatchLines:
    """A line for each batch."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> BatchLines:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...

    def __call__(self, figures: Figures) -> None:
        print(described(figures), file=self._stream, flush=True)


class Bars:
    """Two progress bars: one for all records, and one for the backfill of a fresh-first pipeline while it lasts."""

    def __init__(self, name: str, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[told]}"),
            console=console,
            expand=True,
        )
        self._read = self.progress.add_task(name, total=None, told="starting Spark")
        self._backfill: TaskID | None = None
        self._most_backfill = 0

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def __call__(self, figures: Figures) -> None:
        told = f"{figures.rows:,} rows  {figures.rate:,.0f}/s  {_lag(figures)}"
        total = None if figures.lag is None else max(1, figures.rows + figures.lag)
        self.progress.update(self._read, completed=figures.rows, total=total, told=told)
        self._most_backfill = max(self._most_backfill, figures.backfill)
        if self._most_backfill:
            self._show_backfill(figures)

    def _show_backfill(self, figures: Figures) -> None:
        if self._backfill is None:
            self._backfill = self.progress.add_task("backfill", told="")
        told = f"{figures.backfill:,} rows behind, the newest are there" if figures.backfill else "done"
        done = self._most_backfill - figures.backfill
        self.progress.update(self._backfill, completed=done, total=self._most_backfill, told=told)


def watcher(name: str, stream: TextIO | None = None) -> Bars | BatchLines:
    """The progress output for a stream, by default stderr."""
    stream = sys.stderr if stream is None else stream
    return Bars(name, Console(file=stream)) if stream.isatty() else BatchLines(stream)


def described(figures: Figures) -> str:
    """`batch 3  1,200,000 rows  350,000/s  lag 3,800,000, 3,700,000 of it backfill  11 s left`."""
    behind = f", {figures.backfill:,} of it backfill" if figures.backfill else ""
    return f"batch {figures.batch}  {figures.rows:,} rows  {figures.rate:,.0f}/s  {_lag(figures, behind)}"


def _lag(figures: Figures, behind: str = "") -> str:
    """The lag and the time left."""
    return "lag unknown" if figures.lag is None else f"lag {figures.lag:,}{behind}  {left(figures.left_s)}"


def left(seconds: float | None) -> str:
    """The remaining time, in the largest unit that is precise enough."""
    if seconds is None:
        return "not catching up"
    if seconds == 0:
        return "up to date"
    for unit, length_s in (("d", DAY_S), ("h", HOUR_S), ("min", MINUTE_S)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit} left"
    return f"{seconds:.0f} s left"
