"""The report of `scripts/bench rebalance`: results, table, and missed targets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

OWN = "kwire"
PARTICIPANTS = (OWN, "Java", "librdkafka")
EVENTS = ("join", "leave", "kill")
SLACK = 1.10  # kwire may take this times what another takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Milliseconds of every round of one library, and what went wrong in those that are None.

    `left_ms` is how far the event was from the heartbeat that the rebalance had to wait for.
    """

    setting: str
    event: str
    participant: str
    rounds_ms: tuple[float | None, ...]
    failures: tuple[str, ...] = ()
    left_ms: tuple[float | None, ...] = ()

    @property
    def timed_ms(self) -> list[float]:
        return [took_ms for took_ms in self.rounds_ms if took_ms is not None]

    def to_json(self) -> dict[str, object]:
        return {
            "setting": self.setting,
            "event": self.event,
            "participant": self.participant,
            "rounds_ms": [took_ms and round(took_ms, 1) for took_ms in self.rounds_ms],
            "left_ms": [left and round(left, 1) for left in self.left_ms],
            "failures": list(self.failures),
        }


def ratio(results: Sequence[Result], own: Result) -> float:
    """How many times what another library took, round by round; the worst of the comparisons."""
    others = [r for r in results if (r.setting, r.event) == (own.setting, own.event) and r is not own]
    return max((paired(own, other) for other in others), default=0.0)


def paired(own: Result, other: Result) -> float:
    """The median over the rounds that both have. A client without any has lost."""
    pairs = zip(own.rounds_ms, other.rounds_ms, strict=True)
    quotients = [mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    if quotients:
        return median(quotients)
    return 0.0 if own.timed_ms else float("inf")


def print_table(results: Sequence[Result], console: Console) -> None:
    table = Table(caption=f"milliseconds; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for title in ("setting", "event", "client"):
        table.add_column(title)
    for title in ("median", "min", "max", "rounds", "stuck", "kwire / other"):
        table.add_column(title, justify="right")
    for result in results:
        own = result.participant == OWN
        timed_ms = result.timed_ms or [float("inf")]
        table.add_row(
            result.setting if own and result.event == EVENTS[0] else "",
            result.event if own else "",
            result.participant,
            *(f"{took_ms:,.0f}" for took_ms in (median(timed_ms), min(timed_ms), max(timed_ms))),
            str(len(result.timed_ms)),
            str(len(result.failures) or ""),
            f"{ratio(results, result):.2f}" if own else "",
            end_section=result.participant == PARTICIPANTS[-1],
        )
    console.print(table)


def misses(results: Sequence[Result]) -> list[str]:
    """Each target that was missed: as fast as each of the others, and never stuck."""
    found: list[str] = []
    for own in results:
        if own.participant != OWN:
            continue
        where = f"{own.setting}, {own.event}"
        found += [f"{where}: stuck: {failure}" for failure in own.failures]
        if (times := ratio(results, own)) > SLACK:
            found.append(f"{where}: {times:.2f} times another")
    return found
