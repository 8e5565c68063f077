"""`scripts/bench SUITE`: measures kwire against others, in one run, in turns; prints a table, and JSON with --json.

Exit codes: 0 measured, and every target met; 1 a target was missed, or it could not be measured; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import bench_codec
import bench_rebalance
from bench_opponents import OpponentError
from bench_rebalance_group import StuckError
from kafka_jars import ClusterError
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Outcome: TypeAlias = "tuple[list[dict[str, object]], list[str]]"
"""The rows of the JSON file, and the targets that were missed."""

LEAST_ROUNDS = 5
TABLE_WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    try:
        rows, missed = SUITES[chosen.suite](chosen)
    except (OpponentError, ClusterError, StuckError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    if chosen.json is not None:
        facts = {"suite": chosen.suite, "python": platform.python_version(), "machine": platform.platform()}
        chosen.json.write_text(json.dumps({**facts, "rounds": chosen.rounds, "results": rows}, indent=1) + "\n")
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def codec(chosen: argparse.Namespace) -> Outcome:
    results = bench_codec.run(rounds=max(LEAST_ROUNDS, chosen.rounds), seconds=chosen.seconds)
    print("\n".join(bench_codec.table(results)))
    return [result.to_json() for result in results], bench_codec.misses(results)


def rebalance(chosen: argparse.Namespace) -> Outcome:
    settings = [setting for setting in bench_rebalance.offered() if chosen.only in setting.title]
    if chosen.logs is not None:
        chosen.logs.mkdir(parents=True, exist_ok=True)
    results = bench_rebalance.run(rounds=chosen.rounds, chosen=settings, logs=chosen.logs)
    bench_rebalance.print_table(results, Console(width=TABLE_WIDTH))
    return [result.to_json() for result in results], bench_rebalance.misses(results)


SUITES: Mapping[str, Callable[[argparse.Namespace], Outcome]] = {"codec": codec, "rebalance": rebalance}


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="scripts/bench", description="Measures kwire against others.")
    suites = found.add_subparsers(dest="suite", required=True)
    codec = suites.add_parser("codec", help="messages to bytes and back, against kio and kafka-python")
    codec.add_argument("--rounds", type=int, default=7, help=f"turns of each contestant, at least {LEAST_ROUNDS} (7)")
    codec.add_argument("--seconds", type=float, default=0.3, help="length of a turn (0.3)")
    rebalance = suites.add_parser("rebalance", help="a member joins, leaves, is killed; against Java and librdkafka")
    rebalance.add_argument("--rounds", type=int, default=9, help="how often each event is timed (9: half an hour)")
    rebalance.add_argument("--only", default="", metavar="TEXT", help="settings with this in their title")
    rebalance.add_argument("--logs", type=Path, metavar="DIRECTORY", help="what kwire's members log; costs time")
    for suite in (codec, rebalance):
        suite.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there as well")
    return found


if __name__ == "__main__":
    sys.exit(main())
