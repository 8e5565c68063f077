"""The report of `scripts/bench throughput`: table, missed targets, and the bars of the chart."""

from __future__ import annotations

import os
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.chart import Bar, Panel
from benchmarks.throughput.turn import AIOKAFKA, COLUMNS, CONSUME, JAVA, KAFKA_PYTHON, POLL, ROWS, Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from benchmarks.throughput.measure import Result

OWN = (COLUMNS.name, ROWS.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The least factor of kwire's rate to that of a peer."""

    own: Client
    peer: Client
    times: float
    cases: tuple[str, ...]


MAIN = ("plain", "lz4", "zstd")
SHAPES = ("many-partitions", "json", "headers", "documents")
ALL = (*MAIN, "random", "mixed", "small-batches", "snappy", "gzip", *SHAPES, "tiny", "huge")
TARGETS = (
    Target(own=COLUMNS, peer=JAVA, times=1.0, cases=MAIN),
    Target(own=COLUMNS, peer=CONSUME, times=1.5, cases=("plain", "zstd")),
    Target(own=COLUMNS, peer=CONSUME, times=1.0, cases=("lz4",)),
    Target(own=ROWS, peer=POLL, times=1.0, cases=ALL),
    Target(own=ROWS, peer=AIOKAFKA, times=1.3, cases=ALL),
    Target(own=ROWS, peer=KAFKA_PYTHON, times=5.0, cases=ALL),
)
SMALL = ("plain", "zstd", "tiny")
AS_THEY_COME = (
    *(Target(own=ROWS, peer=peer, times=1.0, cases=ALL) for peer in (CONSUME, POLL, AIOKAFKA, KAFKA_PYTHON)),
    Target(own=ROWS, peer=JAVA, times=0.9, cases=SMALL),
    Target(own=ROWS, peer=JAVA, times=1.0, cases=tuple(case for case in ALL if case not in SMALL)),
    *(Target(own=COLUMNS, peer=peer, times=1.5, cases=ALL) for peer in (JAVA, CONSUME, POLL, AIOKAFKA, KAFKA_PYTHON)),
)
"""Where no client is tuned."""


def paired(own: Result, peer: Result) -> float | None:
    """The median over the rounds that both have of own rate to peer's; None when there is no such round."""
    pairs = zip(own.turns, peer.turns, strict=True)
    quotients = [mine.rate / theirs.rate for mine, theirs in pairs if mine is not None and theirs is not None]
    return median(quotients) if quotients else None


def misses(results: Sequence[Result], targets: Sequence[Target] = TARGETS) -> list[str]:
    """Each target that was missed, and each round that failed."""
    found = [f"{result.case}, {result.client}: {failure}" for result in results for failure in result.failures]
    by_name = {(result.case, result.client): result for result in results}
    for target in targets:
        for case in target.cases:
            own, peer = by_name.get((case, target.own.name)), by_name.get((case, target.peer.name))
            if own is None or peer is None:
                continue
            times = paired(own, peer)
            if times is not None and times < target.times:
                found.append(
                    f"{case}: {own.client_title} is {times:.2f} times {peer.client_title}, "
                    f"instead of {target.times:.1f}"
                )
    return found


def print_table(results: Sequence[Result], console: Console) -> None:
    """`columns /` and `rows /` are kwire's rate to that client's, paired by rounds."""
    load = os.getloadavg()[0]
    table = Table(caption=f"medians; load of the machine now {load:.1f} on {os.cpu_count()} cores")
    table.add_column("case")
    table.add_column("client")
    for title in ("M rec/s", "min-max", "steady", "MB/s", "columns /", "rows /", "CPU s/M", "peak MB"):
        table.add_column(title, justify="right", no_wrap=True)
    for number, result in enumerate(results):
        first = number == 0 or results[number - 1].case != result.case
        last = number + 1 == len(results) or results[number + 1].case != result.case
        table.add_row(result.case if first else "", *cells(result, results), end_section=last)
    console.print(table)


def cells(result: Result, results: Sequence[Result]) -> list[str]:
    """One line of the table, without the case."""
    if not result.done:
        return [result.client_title, "failed"]
    rates = [turn.rate for turn in result.done]
    return [
        result.client_title,
        millions(result.rate),
        f"{millions(min(rates))}-{millions(max(rates))}",
        millions(result.steady_rate),
        f"{result.mb_rate:,.0f}",
        *(ratio(own, result, results) for own in OWN),
        f"{result.cpu_s_per_million:,.2f}",
        f"{result.peak_mb:,.0f}",
    ]


def ratio(own: str, peer: Result, results: Sequence[Result]) -> str:
    found = next((result for result in results if (result.case, result.client) == (peer.case, own)), None)
    times = None if found is None else paired(found, peer)
    return "" if times is None else f"{times:.2f}"


def millions(rate: float) -> str:
    """Three digits that matter."""
    value = rate / 1e6
    return f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def panels(results: Sequence[Result]) -> list[Panel]:
    """The chart: one panel for each case, one bar for each client that came to an end."""
    cases = dict.fromkeys((result.case, result.title) for result in results)
    return [
        Panel(title=title, bars=tuple(bar(result) for result in results if result.case == case and result.done))
        for case, title in cases
    ]


def bar(result: Result) -> Bar:
    rates = [turn.rate for turn in result.done]
    return Bar(
        label=result.client_title,
        value=result.rate,
        least=min(rates),
        most=max(rates),
        text=f"{result.rate / 1e6:.2f} M/s" if result.rate >= 1e5 else f"{result.rate / 1e3:.1f} k/s",
        own=result.client in OWN,
    )
