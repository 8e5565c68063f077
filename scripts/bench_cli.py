"""`scripts/bench SUITE`: measures kwire against others, in one run, in turns; prints a table, and JSON with --json.

Exit codes: 0 measured, and every target met; 1 a target was missed, or it could not be measured; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import bench_codec
from bench_opponents import OpponentError

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    try:
        results = bench_codec.run(rounds=max(LEAST_ROUNDS, chosen.rounds), seconds=chosen.seconds)
    except OpponentError as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    print("\n".join(bench_codec.table(results)))
    if chosen.json is not None:
        facts = {"suite": chosen.suite, "python": platform.python_version(), "machine": platform.platform()}
        rows = [result.to_json() for result in results]
        chosen.json.write_text(json.dumps({**facts, "rounds": chosen.rounds, "results": rows}, indent=1) + "\n")
    missed = bench_codec.misses(results)
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="scripts/bench", description="Measures kwire against others.")
    suites = found.add_subparsers(dest="suite", required=True)
    codec = suites.add_parser("codec", help="messages to bytes and back, against kio and kafka-python")
    codec.add_argument("--rounds", type=int, default=7, help=f"turns of each contestant, at least {LEAST_ROUNDS} (7)")
    codec.add_argument("--seconds", type=float, default=0.3, help="length of a turn (0.3)")
    codec.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there as well")
    return found


if __name__ == "__main__":
    sys.exit(main())
