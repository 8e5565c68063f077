"""`scripts/detect`: bugs are planted in copies of kwire, and simulated worlds have to find them.

    scripts/detect
    scripts/detect --only crc-unchecked,wake-up-missed --seeds 1-20

Each bug of `detect_bugs.py` replaces one line. Worlds are run, one seed after the other, until one of them finds
something; kwire as it is comes first, and must pass them all. So the table says what the simulation and its invariants
are worth: a bug that they let pass is one that they would not have told anybody of.

Exit codes: 0 at least 95 % of the bugs were caught; 1 fewer, or kwire itself was; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from detect_bugs import BUGS, Bug
from detect_worker import WAITING_FACTOR
from simulate_cli import seed_range

ROOT = Path(__file__).resolve().parent.parent
WORKER = Path(__file__).with_name("detect_worker.py")
WANTED_SHARE = 0.95
NO_END = "the world does not end"
STARTUP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Args:
    rules: what was broken, in the order in which it was; none if nothing was found.
    seeds: how many were run.
    """

    name: str
    rules: tuple[str, ...]
    seeds: int
    seconds: float

    def __str__(self) -> str:
        told = ", ".join(self.rules[:3]) or "NOT CAUGHT"
        return f"{self.name:36} {self.seeds:5} {self.seconds:7.1f} s  {told}"


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


def look_for(bug: Bug | None, seeds: Sequence[int], limit_seconds: float) -> Finding:
    """Run the worlds with this bug, or with none."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kwire-detect-") as folder:
        package = Path(folder, "kwire")
        shutil.copytree(ROOT / "kwire", package)  # with its compiled files, which stay good but for one
        if bug is not None:
            plant(bug, package)
        output, errors = _run(Path(folder), seeds, limit_seconds)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    rules = tuple(str(rule) for line in lines for rule in line.get("rules", ()))
    tried = sorted({int(line["seed"]) for line in lines})
    if not tried:
        rules = (f"does not start: {(errors.splitlines() or [''])[-1]}",)
    elif not rules and (len(tried) < len(seeds) or "Timeout (" in errors):
        rules = (NO_END,)
    return Finding(
        name="(no bug)" if bug is None else bug.name,
        rules=rules,
        seeds=len(tried),
        seconds=time.monotonic() - began,
    )


def _run(folder: Path, seeds: Sequence[int], limit_seconds: float) -> tuple[str, str]:
    """What the worker printed, out and err."""
    command = [sys.executable, str(WORKER), str(limit_seconds), *map(str, seeds)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        return process.communicate(timeout=STARTUP_SECONDS + WAITING_FACTOR * limit_seconds * len(seeds))
    except subprocess.TimeoutExpired:
        process.kill()  # its own watch did not go off: it hangs where no Python code is run
        return process.communicate()


def findings(
    bugs: Sequence[Bug | None],
    arguments: argparse.Namespace,
    look: Callable[[Bug | None, Sequence[int], float], Finding] = look_for,
) -> Iterator[Finding]:
    """One for each bug, in order."""
    with ThreadPoolExecutor(arguments.processes) as pool:
        yield from pool.map(lambda bug: look(bug, arguments.seeds, arguments.limit), bugs)


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    bugs = [bug for bug in BUGS if arguments.only is None or bug.name in arguments.only]
    caught = 0
    for finding in findings([None, *bugs] if arguments.sound else bugs, arguments):
        print(finding, flush=True)
        if finding.name == "(no bug)":
            if finding.rules:
                print("kwire as it is does not pass these worlds, so they say nothing of bugs")
                return 1
            continue
        caught += bool(finding.rules)
    print(f"caught {caught} of {len(bugs)}")
    return 0 if caught >= WANTED_SHARE * len(bugs) else 1


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/detect", description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=known_names, metavar="NAME,...", help="these bugs; all")
    parser.add_argument("--seeds", type=seed_range, default=range(1, 61), metavar="A-B", help="worlds to try; 1-60")
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
