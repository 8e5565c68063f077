"""`kwire groups watch`: the lag of a group at intervals; on a terminal each report replaces the last one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

from kwire.cli import terminal
from kwire.cli.admin.cluster import ClusterView
from kwire.cli.admin.group_report import GroupReport
from kwire.cli.admin.lag import rates_between
from kwire.cli.output import Output
from kwire.cli.times import moment_text
from kwire.clock import monotonic_ms, wall_clock_ms
from kwire.errors import RetriableError
from kwire.model import TopicPartition

FROM_THE_TOP = "\x1b[H\x1b[J"
"""Moves the cursor to the top, and empties the screen below it."""
TICK_S = 0.1


def watch(view: ClusterView, group: str, *, every_s: float, looks: int | None, is_stopped: Callable[[], bool]) -> None:
    """Print reports until stopped, or only this many. An unreachable broker is reported, and asked again the next
    time.

    Raises:
        KafkaError: An error that is not temporary.
    """
    output, watched = Output.standard(), _Watched(view, group)
    for look in itertools.count(1):
        try:
            lines = list(watched.look())
        except RetriableError as error:
            lines = [f"{error}; looking again in {every_s:g} s"]
        top = FROM_THE_TOP if terminal.is_terminal() else ""
        output.write("".join([top, *(f"{line}\n" for line in (moment_text(wall_clock_ms()), *lines))]).encode())
        if look == looks:
            return
        _sleep(every_s, is_stopped)
        if is_stopped():
            return


class _Watched:
    """A group and its last report."""

    def __init__(self, view: ClusterView, group: str) -> None:
        self._view = view
        self._group = group
        self._before: tuple[GroupReport, float] | None = None

    def look(self) -> Iterator[str]:
        """The current report, with the rates since the last one."""
        now, now_ms = GroupReport.of(self._view, self._group), monotonic_ms()
        rates: dict[TopicPartition, float] = {}
        if self._before is not None:
            before, before_ms = self._before
            rates = rates_between(before.rows, now.rows, (now_ms - before_ms) / 1000)
        self._before = now, now_ms
        return now.lines(rates)


def _sleep(seconds: float, is_stopped: Callable[[], bool]) -> None:
    """Sleep in short pieces: after a signal handler, an interrupted sleep goes on."""
    until_ms = monotonic_ms() + seconds * 1000
    while monotonic_ms() < until_ms and not is_stopped():
        time.sleep(TICK_S)
