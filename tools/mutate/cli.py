"""`scripts/mutate`: makes small mistakes in copies of kwire's code, one at a time, and looks whether a test fails.

    scripts/mutate
    scripts/mutate managers --sample 300 --survivors

What survives is a line that the tests run without looking at what it does, or one that is not needed. A mutant that
does not end counts as killed. Those that no test can tell from the code are argued in `equivalents.py` and left out.

Exit codes: 0 at least 85 % of each package were killed; 1 fewer; 2 wrong usage, or tests that fail without a mutant.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from kwire.testing.kafka.jars import cache_dir
from tools.mutate.child import BROKEN, SURVIVED, Verdict
from tools.mutate.equivalents import without_argued
from tools.mutate.judge import judge
from tools.mutate.mutant import TOP, Mutant
from tools.mutate.places import mutants_of
from tools.mutate.report import Judged, not_met, survivors, table, write

# Which tests judge a package: those in virtual time or none, without threads and sockets. On a busy machine others fail
# by themselves now and then, and a mutant would count as found that nobody has found.
_OF_THE_CORE = (
    *("tests/states", "tests/managers", "tests/subscription", "tests/fetching", "tests/parallel_rebalance"),
    "tests/test_cluster.py",
)
JUDGES = {"states": _OF_THE_CORE, "managers": _OF_THE_CORE, "protocol": ("tests/protocol",)}
RESULTS_DIRECTORY = cache_dir() / "mutation"


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    everything = by_chance(arguments)
    mutants = everything[: arguments.sample]
    earlier = dict(remembered(arguments.results)) if arguments.again else {}
    judged: list[Judged] = [(each, earlier[each.key]) for each in mutants if is_known(each, earlier)]
    left = [each for each in mutants if not is_known(each, earlier)]
    began_s = time.monotonic()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    with arguments.results.open("w") as results:

        def on_verdict(mutant: Mutant, verdict: Verdict) -> None:
            if verdict.outcome == BROKEN:
                return
            judged.append((mutant, verdict))
            print(remember(mutant, verdict), file=results, flush=True)
            if len(judged) % 50 == 0:
                print(
                    f"{len(judged)} of {len(mutants)}, {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True
                )

        for mutant, verdict in list(judged):
            print(remember(mutant, verdict), file=results)
        code = judge(left, arguments.tests, on_verdict) if left else 0
    if code:
        return 2
    print("\n".join(table(judged)))
    if arguments.survivors:
        print("\n".join(survivors(judged)))
    if arguments.write:
        write(judged, len(everything), arguments.write)
    return 1 if any(not_met(judged)) else 0


def by_chance(arguments: argparse.Namespace) -> list[Mutant]:
    """In an order of chance, so that the first of them are a sample of all; the same where the code has not changed."""
    files = [file for package in arguments.packages for file in sorted((TOP / "kwire" / package).glob("*.py"))]
    mutants = without_argued(each for file in files for each in mutants_of(file))
    mutants.sort(key=lambda mutant: sha256(f"{arguments.seed} {mutant.key}".encode()).digest())
    return mutants


def is_known(mutant: Mutant, earlier: dict[str, Verdict]) -> bool:
    """Tests that have killed it once do so again, as long as its line and they stay as they are."""
    return earlier.get(mutant.key, Verdict(SURVIVED)).is_found


def remember(mutant: Mutant, verdict: Verdict) -> str:
    return json.dumps({"key": mutant.key, "outcome": verdict.outcome, "test": verdict.test})


def remembered(path: Path) -> Iterator[tuple[str, Verdict]]:
    for line in path.read_text().splitlines() if path.exists() else ():
        said = json.loads(line)
        yield said["key"], Verdict(said["outcome"], said["test"])


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__.splitlines()[0])
    parser.add_argument(
        "packages", nargs="*", choices=[*JUDGES, []], metavar="PACKAGE", help=f"of {', '.join(JUDGES)}; the first two"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, by chance; all")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of chance; 1")
    parser.add_argument("--survivors", action="store_true", help="name those that no test noticed")
    parser.add_argument("--again", action="store_true", help="only those that survived the last time; for new tests")
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="which tests judge; with --again: the new ones are enough"
    )
    parser.add_argument(
        "--write", nargs="?", const="after", choices=["before", "after"], help="the figures, to docs/evidence"
    )
    parser.add_argument("--results", type=Path, default=RESULTS_DIRECTORY / "results.jsonl", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.packages = arguments.packages or ["states", "managers"]
    judges = dict.fromkeys(test for package in arguments.packages for test in JUDGES[package])
    arguments.tests = arguments.tests or list(judges)
    return arguments


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
