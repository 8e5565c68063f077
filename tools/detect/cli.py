"""`scripts/detect`: bugs are planted in copies of kwire, and simulated worlds have to find them.

    scripts/detect
    scripts/detect --only crc-unchecked,wake-up-missed --seeds 1-20

Each bug of `bugs.py` and its neighbours replaces one line. Worlds are run, one seed after the other, until one
of them finds something: those whose members run a `Processor` for bugs of that, and crash orders for bugs of parallel
rebalance. kwire as it is comes first, and must pass them all. So the table says what the simulation and its invariants
are worth: a bug that they let pass is one that they would not have told anybody of.

Exit codes: 0 at least 95 % of the bugs were caught; 1 fewer, or kwire itself was; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kwire.speedups import VARIABLE
from tools.detect.bug import Bug
from tools.detect.bugs import BUGS as CLIENT_BUGS
from tools.detect.catch_up_bugs import CATCH_UP_BUGS
from tools.detect.processing_bugs import PROCESSING_BUGS
from tools.detect.worker import WAITING_FACTOR
from tools.simulate.cli import seed_range

BUGS = (*CLIENT_BUGS, *PROCESSING_BUGS, *CATCH_UP_BUGS)
TOP = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("worker.py")
WANTED_SHARE = 0.95
NO_END = "the world does not end"
NO_BUG = "(no bug)"
NO_BUGS = {"polling": NO_BUG, "processing": "(no bug in processing)", "crashing": "(no bug in crash orders)"}
HEADING = f"{'bug':36} {'worlds':>6} {'took':>9}  found by"
STARTUP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the simulated worlds found of one bug.

    Args:
        rules: the rules that were broken, in order; empty if nothing was found.
        seeds: how many were run.
        trouble: why no world was run; this is not a finding.
    """

    name: str
    rules: tuple[str, ...]
    seeds: int
    seconds: float
    trouble: str = ""

    def __str__(self) -> str:
        told = ", ".join(self.rules[:3]) or self.trouble or "NOT CAUGHT"
        return f"{self.name:36} {self.seeds:6} {self.seconds:7.1f} s  {told}"


def plant(bug: Bug, package: Path) -> None:
    """Replace its line in a copy of kwire.

    Raises:
        ValueError: The line is not there, or more than once.
    """
    path = package / bug.file
    text = path.read_text()
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.name}: its line occurs {text.count(bug.old)} times in {bug.file}")
    path.write_text(text.replace(bug.old, bug.new))


def look_for(bug: Bug | None, seeds: Sequence[int], limit_seconds: float, *, worlds: str = "polling") -> Finding:
    """Run the worlds with this bug, or with none."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kwire-detect-") as folder:
        package = Path(folder, "kwire")
        shutil.copytree(TOP / "kwire", package)  # with its compiled files, which stay good but for one
        if bug is not None:
            plant(bug, package)
        output, errors, hangs = _run(Path(folder), seeds, limit_seconds, worlds=worlds)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    rules = tuple(str(rule) for line in lines for rule in line.get("rules", ()))
    tried = sorted({int(line["seed"]) for line in lines})
    trouble = "" if tried else f"DOES NOT START: {(errors.splitlines() or [''])[-1]}"
    if tried and not rules and hangs:
        rules = (NO_END,)
    elif tried and not rules and len(tried) < len(seeds):
        trouble = "KILLED: not by its own watch"
    return Finding(
        name=NO_BUGS[worlds] if bug is None else bug.name,
        rules=rules,
        seeds=len(tried),
        seconds=time.monotonic() - began,
        trouble=trouble,
    )


def _run(folder: Path, seeds: Sequence[int], limit_seconds: float, *, worlds: str) -> tuple[str, str, bool]:
    """What the worker printed, out and err, and whether a world took too long."""
    command = [sys.executable, str(WORKER), worlds, str(limit_seconds), *map(str, seeds)]
    # Bugs are planted in Python: it reads the records, though there may be a module in C for that.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0", VARIABLE: "1"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        output, errors = process.communicate(timeout=STARTUP_SECONDS + WAITING_FACTOR * limit_seconds * len(seeds))
    except subprocess.TimeoutExpired:
        process.kill()  # its own watch did not go off: it hangs where no Python code is run
        return *process.communicate(), True
    return output, errors, process.returncode == -signal.SIGPROF or "Timeout (" in errors


def findings(
    bugs: Sequence[Bug],
    arguments: argparse.Namespace,
    look: Callable[..., Finding] = look_for,
) -> Iterator[Finding]:
    """One for each bug, in order; before them, if it is wanted, those of kwire as it is."""
    kinds = sorted({bug.worlds for bug in bugs})
    planted: list[tuple[Bug | None, str]] = [(None, kind) for kind in kinds] if arguments.sound else []
    planted += [(bug, bug.worlds) for bug in bugs]
    with ThreadPoolExecutor(arguments.processes) as pool:
        yield from pool.map(lambda each: look(each[0], arguments.seeds, arguments.limit, worlds=each[1]), planted)


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    bugs = [bug for bug in BUGS if arguments.only is None or bug.name in arguments.only]
    found: list[Finding] = []
    print(HEADING)
    for finding in findings(bugs, arguments):
        print(finding, flush=True)
        if finding.name not in NO_BUGS.values():
            found.append(finding)
        elif finding.rules or finding.trouble:
            print("kwire as it is does not pass these worlds, so they say nothing of bugs")
            return 1
    print("\n".join(summary(found)))
    caught = sum(bool(finding.rules) for finding in found)
    return 0 if caught >= WANTED_SHARE * len(found) else 1


def summary(found: Sequence[Finding]) -> Iterator[str]:
    """How many were caught, by what, after how many worlds, and which were not."""
    caught = [finding for finding in found if finding.rules]
    yield f"caught {len(caught)} of {len(found)}: {len(caught) / max(1, len(found)):.1%}"
    if caught:
        worlds = [finding.seeds for finding in caught]
        yield f"after {median(worlds):.0f} worlds (median), {max(worlds)} at most"
        first = Counter(finding.rules[0].split(":")[0] for finding in caught)
        yield "by the check that came first: " + ", ".join(f"{rule} {count}" for rule, count in first.most_common())
    if len(caught) < len(found):
        yield "not caught: " + ", ".join(finding.name for finding in found if not finding.rules)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/detect", description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=known_names, metavar="NAME,...", help="these bugs; all")
    parser.add_argument("--seeds", type=seed_range, default=range(1, 201), metavar="A-B", help="worlds to try; 1-200")
    parser.add_argument("--limit", type=float, default=30.0, metavar="SECONDS", help="of a processor for one world; 30")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="one for each core")
    parser.add_argument(
        "--no-check", dest="sound", action="store_false", help="do not run kwire as it is through all worlds first"
    )
    return parser.parse_args(argv)


def known_names(text: str) -> frozenset[str]:
    wanted = frozenset(text.split(","))
    if unknown := wanted - {bug.name for bug in BUGS}:
        raise argparse.ArgumentTypeError(f"no such bug: {', '.join(sorted(unknown))}")
    return wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
