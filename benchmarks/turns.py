"""Participants in turns, each in a fresh process, and what comes of it: medians, spread, ratios round by round.

For the suites of `scripts/bench` that compare whole consumers. A turn is one run of `consumer_worker.py`, which
prints its figures as one line of JSON. The figures of a round belong together, because the machine was in the same
state: so a ratio is the median over the rounds of one participant's figure to another's in the same round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from benchmarks.throughput.turn import WrongAnswerError

OWN = "kwire"
WORKER = Path(__file__).with_name("consumer_worker.py")
TURN_TIMEOUT_S = 900.0

Turn: TypeAlias = Callable[[], Mapping[str, float]]
"""Runs a participant once; its figures by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One figure of one participant, over all rounds. The name ends in its unit: `p99_ms`."""

    case: str
    name: str
    participant: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rounds)

    def to_json(self) -> dict[str, object]:
        return {
            "case": self.case,
            "figure": self.name,
            "participant": self.participant,
            "median": self.median,
            "rounds": list(self.rounds),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of kwire's figure: at most `limit`, or a factor of another participant's at most (or at least)."""

    case: str
    figure: str
    limit: float
    of: str = OWN
    to: str | None = None
    at_least: bool = False

    def verdict(self, results: Sequence[Figures]) -> str:
        own = found(results, self.case, self.figure, self.of)
        value = own.median if self.to is None else ratio(own, found(results, self.case, self.figure, self.to))
        is_met = value >= self.limit if self.at_least else value <= self.limit
        bound = "at least" if self.at_least else "at most"
        times = "" if self.to is None else f" times {self.to}"
        wanted = f"{bound} {self.limit:g}{times}"
        return (
            f"{'met' if is_met else 'MISSED':7}{self.case}: {self.figure} of {self.of} is {value:.3g}, wanted {wanted}"
        )


def take_turns(case: str, rounds: int, turns: Mapping[str, Turn]) -> list[Figures]:
    """A B C, A B C, ...: `rounds` times each."""
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for participant, turn in turns.items():
            print(f"{case}: round {number + 1} of {rounds}, {participant}", file=sys.stderr)
            for name, value in turn().items():
                found.setdefault((name, participant), []).append(value)
    return [
        Figures(case=case, name=name, participant=participant, rounds=tuple(values))
        for (name, participant), values in sorted(found.items(), key=lambda item: item[0][0])
    ]


def run_worker(
    task: str, participant: str, tree: Path | None = None, /, *, worker: Path = WORKER, **options: str | float
) -> dict[str, float]:
    """One turn in a process of its own, which runs `worker`.

    Args:
        tree: The top of another clone, whose kwire it measures, by this clone's worker; None: this one's.

    Raises:
        WrongAnswerError: It failed, or says that what it read is not what is there.
    """
    environment = dict(os.environ)
    if tree is not None:
        environment["PYTHONPATH"] = str(tree)
    command = [sys.executable, str(worker), task, participant, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TURN_TIMEOUT_S, check=False, env=environment)
    if done.returncode:
        raise WrongAnswerError(f"{participant}, {task}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def found(results: Sequence[Figures], case: str, name: str, participant: str) -> Figures:
    return next(each for each in results if (each.case, each.name, each.participant) == (case, name, participant))


def ratio(mine: Figures, theirs: Figures) -> float:
    """How many times theirs mine is, round by round. A figure of nothing is no measure: infinitely more than it."""
    pairs = zip(mine.rounds, theirs.rounds, strict=True)
    return median(own / other if other else float("inf") for own, other in pairs)


def print_table(results: Sequence[Figures], targets: Sequence[Target], console: Console) -> None:
    """All figures, and below them the targets, met or missed."""
    table = Table(caption=f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for title in ("case", "figure", "participant"):
        table.add_column(title)
    for title in ("median", "min", "max", "x first"):
        table.add_column(title, justify="right")
    before: tuple[str, str] | None = None
    first = None
    for each in results:
        group = (each.case, each.name)
        if group != before:
            first = each
            table.add_section()
        assert first is not None
        table.add_row(
            *(group if group != before else ("", "")),
            each.participant,
            *(f"{value:,.3f}" for value in (each.median, min(each.rounds), max(each.rounds))),
            "" if each is first else f"{ratio(each, first):.2f}",
        )
        before = group
    console.print(table)
    for target in targets:
        console.print(target.verdict(results), soft_wrap=True, highlight=False)
