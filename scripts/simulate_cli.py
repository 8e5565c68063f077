"""`scripts/simulate`: consumer groups in simulated worlds, with faults, judged by their invariants.

    scripts/simulate --seeds 1-1000 --seconds 60
    scripts/simulate --seeds 17 --story

Each seed is a world: a cluster in memory, members of a group that run kwire's own code, a producer, and one to five
faults. The same seed is the same run everywhere; `--hash` prints a digest of each run's ledger, to compare. Worlds run
in processes, one for each core.

Exit codes: 0 nothing found; 1 violations, each with a story and the command that replays it; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

from kwire.testing.simulation.run import Outcome, simulate
from kwire.testing.simulation.story import story

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MS_PER_HOUR = 3_600_000
PROGRESS_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a process tells of one run."""

    seed: int
    digest: str
    simulated_ms: float
    faults: Counter[str]
    events: int
    violations: tuple[str, ...]
    story: str


def report(seed: int, only: tuple[str, ...] | None, *, tell: bool) -> Report:
    """Run one seed."""
    try:
        outcome = simulate(seed, only)
    except Exception as error:  # noqa: BLE001  a world that breaks is a finding too, and its seed has to be told
        return broken(seed, error)
    is_told = tell or bool(outcome.violations)
    return Report(
        seed=seed,
        digest=outcome.ledger.digest(),
        simulated_ms=outcome.simulated_ms,
        faults=outcome.faults,
        events=len(outcome.ledger.events),
        violations=tuple(str(violation) for violation in outcome.violations),
        story=story(shortened(outcome) if outcome.violations and not tell else outcome) if is_told else "",
    )


def broken(seed: int, error: Exception) -> Report:
    """A world that did not come to its end."""
    trace = "".join(traceback.format_exception(error))
    violations = (f"the world broke: {error!r}",)
    return Report(
        seed=seed, digest="", simulated_ms=0.0, faults=Counter(), events=0, violations=violations, story=trace
    )


def shortened(outcome: Outcome) -> Outcome:
    """The same seed with as few kinds of faults as still break the same rule."""
    rules = {violation.rule for violation in outcome.violations}
    kinds = sorted({strike.fault for strike in outcome.scenario.strikes})
    for kind in list(kinds):
        fewer = tuple(each for each in kinds if each != kind)
        tried = simulate(outcome.scenario.seed, fewer)
        if rules & {violation.rule for violation in tried.violations}:
            outcome, kinds = tried, list(fewer)
    return outcome


def reports(arguments: argparse.Namespace) -> Iterator[Report]:
    """Run the seeds on all cores; reports as they come."""
    seeds = iter(arguments.seeds)
    ends_at = time.monotonic() + arguments.seconds
    running: set[Future[Report]] = set()
    # What goes wrong in a world is the ledger's to tell, so the processes log nothing.
    quietly = partial(logging.disable, logging.CRITICAL)
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn"), initializer=quietly) as pool:
        while True:
            while len(running) < arguments.processes and time.monotonic() < ends_at:
                seed = next(seeds, None)
                if seed is None:
                    break
                running.add(pool.submit(report, seed, arguments.only, tell=arguments.story))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from sorted((future.result() for future in done), key=lambda each: each.seed)


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    faults: Counter[str] = Counter()
    count, failed, simulated_ms, events = 0, 0, 0.0, 0
    began = shown = time.monotonic()
    for each in reports(arguments):
        count, failed = count + 1, failed + bool(each.violations)
        simulated_ms, events = simulated_ms + each.simulated_ms, events + each.events
        faults += each.faults
        tell(each, arguments)
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{count} worlds, {simulated_ms / MS_PER_HOUR:.1f} hours, {failed} failed", file=sys.stderr)
    summary(faults)
    rate = simulated_ms / 1000 / max(0.001, time.monotonic() - began)
    hours = simulated_ms / MS_PER_HOUR
    print(f"{count} worlds, {hours:.2f} simulated hours ({rate:.0f} times real time), {events} events")
    print(f"{failed} failed" if failed else "nothing found")
    return 1 if failed else 0


def tell(each: Report, arguments: argparse.Namespace) -> None:
    if arguments.hash:
        print(f"seed {each.seed}: {each.digest}")
    if each.story:
        print(each.story)
    if each.violations:
        only = f" --only {','.join(arguments.only)}" if arguments.only else ""
        replay = f"scripts/simulate --seeds {each.seed}{only} --story"
        print(f"seed {each.seed}: {len(each.violations)} violations; replay: {replay}")
        sys.stdout.flush()


def summary(faults: Counter[str]) -> None:
    for name, times in sorted(faults.items()):
        print(f"{times:7} {name}")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=seed_range, default=range(1, 101), metavar="A-B", help="which; 1-100")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no new world after this long")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="one for each core")
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), help="the faults that may strike; all")
    parser.add_argument("--hash", action="store_true", help="print a digest of each run's ledger")
    parser.add_argument("--story", action="store_true", help="tell each run from beginning to end")
    return parser.parse_args(argv)


def seed_range(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a seed nor a range such as 1-100") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
