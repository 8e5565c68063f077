"""`kwire groups watch`: a group's lag, looked at again and again; on a terminal each look replaces the last."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from kwire.cli import terminal
from kwire.cli.admin.cluster import ClusterView
from kwire.cli.admin.group_report import GroupReport
from kwire.cli.admin.lag import rates_between
from kwire.cli.output import Output
from kwire.cli.times import moment_text
from kwire.clock import monotonic_ms, wall_clock_ms

FROM_THE_TOP = "\x1b[H\x1b[J"
"""Moves the cursor to the top, and empties the screen below it."""
TICK_S = 0.1


def watch(view: ClusterView, group: str, *, every_s: float, looks: int | None, is_stopped: Callable[[], bool]) -> None:
    """Until stopped, or for so many looks."""
    output = Output.standard()
    before: GroupReport | None = None
    before_ms = 0.0
    for look in itertools.count(1):
        now, now_ms = GroupReport.of(view, group), monotonic_ms()
        rates = {} if before is None else rates_between(before.rows, now.rows, (now_ms - before_ms) / 1000)
        top = FROM_THE_TOP if terminal.is_terminal() else ""
        lines = [moment_text(wall_clock_ms()), *now.lines(rates)]
        output.write("".join([top, *(f"{line}\n" for line in lines)]).encode())
        before, before_ms = now, now_ms
        if look == looks:
            return
        _sleep(every_s, is_stopped)
        if is_stopped():
            return


def _sleep(seconds: float, is_stopped: Callable[[], bool]) -> None:
    """In short pieces: a signal's handler returns into the sleep that it interrupted."""
    until_ms = monotonic_ms() + seconds * 1000
    while monotonic_ms() < until_ms and not is_stopped():
        time.sleep(TICK_S)
