"""`scripts/simulate`: consumer groups in simulated worlds, with faults, judged by their invariants.

    scripts/simulate --seeds 1-1000 --seconds 60
    scripts/simulate --seeds 17 --story
    scripts/simulate --seeds 7 --repeat 20 --hash
    scripts/simulate --processor --seeds 1-200
    scripts/simulate --user-faults --seeds 1-200 [--processor]
    scripts/simulate --secured --seeds 1-200 [--processor] [--user-faults]
    scripts/simulate --async-consumer --seeds 1-200 [--user-faults] [--secured]
    scripts/simulate --parallel-rebalance --seeds 1-5000

Each seed is a world: a cluster in memory, members of a group that run kwire's own code, a producer, and some faults.
The same seed is the same run everywhere: `--hash` prints a digest of each run's events and of all bytes that went over
its network, and `--repeat` runs each seed so often, in a new process each time. Worlds run in processes, one for each
core; a process that dies, or a world that does not end, is told of like any other finding. Ctrl-C ends it, with the
totals so far.

Exit codes: 0 nothing found; 1 violations, each with a story and the command that replays it, or runs of a seed that
differ; 2 wrong usage; 130 interrupted.

In worlds of `--secured` clients log in by SCRAM-SHA-256, half of the time over TLS, for sessions of 5 to 60 s, in each
20th of an hour; logins are refused and disturbed beside all other faults. Over TLS the digest is that of what was
encrypted, and of the sizes of what was sent, which depend on the release of OpenSSL.

Worlds of `--parallel-rebalance` are narrow: one consumer after the other, each ended at a point of the protocol.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from kwire.testing.simulation.crash_orders import crash_in_order
from kwire.testing.simulation.run import WorldOutcome, simulate
from kwire.testing.simulation.story import story
from tools.simulate.totals import Report, Totals
from tools.simulate.workers import WORLDS_OF_A_PROCESS, Died, Workers

PROGRESS_SECONDS = 5.0
INTERRUPTED = 130


def report(
    seed: int,
    only: tuple[str, ...] | None,
    *,
    processing: bool = False,
    user_faults: bool = False,
    secured: bool = False,
    async_consumer: bool = False,
    tell: bool,
    digest: bool,
) -> Report:
    """Run one seed."""
    try:
        outcome = simulate(
            seed, only, processing=processing, user_faults=user_faults, secured=secured, async_consumer=async_consumer
        )
    except Exception as error:  # noqa: BLE001  a world that breaks is a finding too, and its seed has to be told
        return broken(seed, f"the world broke: {error!r}", "".join(traceback.format_exception(error)))
    is_told = tell or bool(outcome.violations)
    return Report(
        seed=seed,
        digest=outcome.digest if digest else "",
        simulated_ms=outcome.simulated_ms,
        faults=outcome.faults,
        events=len(outcome.ledger.events),
        violations=tuple(str(violation) for violation in outcome.violations),
        story=story(shortened(outcome) if outcome.violations and not tell else outcome) if is_told else "",
        logins=outcome.logins,
    )


def crash_report(seed: int, *, tell: bool, digest: bool) -> Report:
    """Run one seed as a world of crash orders."""
    try:
        outcome = crash_in_order(seed)
    except Exception as error:  # noqa: BLE001  as above
        return broken(seed, f"the world broke: {error!r}", "".join(traceback.format_exception(error)))
    return Report(
        seed=seed,
        digest=outcome.digest if digest else "",
        simulated_ms=outcome.simulated_ms,
        faults=outcome.struck,
        events=len(outcome.lines),
        violations=tuple(str(violation) for violation in outcome.violations),
        story=outcome.story if tell or outcome.violations else "",
        records=Counter(
            {
                "written": outcome.written,
                "returned": outcome.delivered,
                "again": outcome.repeated,
                "lost": outcome.lost,
            }
        ),
    )


def broken(seed: int, what: str, trace: str = "") -> Report:
    """A world that did not come to its end."""
    return Report(
        seed=seed, digest="", simulated_ms=0.0, faults=Counter(), events=0, violations=(what,), story=trace or what
    )


def shortened(outcome: WorldOutcome) -> WorldOutcome:
    """The same seed with as few kinds of faults as still break the same rule."""
    rules = {violation.rule for violation in outcome.violations}
    kinds = sorted({strike.fault for strike in outcome.scenario.strikes})
    for kind in list(kinds):
        fewer = tuple(each for each in kinds if each != kind)
        tried = simulate(
            outcome.scenario.seed,
            fewer,
            processing=outcome.scenario.handling is not None,
            user_faults=outcome.scenario.user_faults is not None,
            secured=outcome.scenario.logins is not None,
            async_consumer=outcome.scenario.async_habits is not None,
        )
        if rules & {violation.rule for violation in tried.violations}:
            outcome, kinds = tried, list(fewer)
    return outcome


def reports(arguments: argparse.Namespace) -> Iterator[Report]:
    """Run the seeds on all cores; reports as they come."""
    is_repeated = arguments.repeat > 1
    told = {"tell": arguments.story, "digest": arguments.hash or is_repeated}
    kind = {"processing": arguments.processor, "user_faults": arguments.user_faults, "secured": arguments.secured}
    kind["async_consumer"] = arguments.async_consumer
    work = partial(report, only=arguments.only, **kind, **told)
    if arguments.parallel_rebalance:
        work = partial(crash_report, **told)
    worlds_each = 1 if is_repeated else WORLDS_OF_A_PROCESS  # strings hash differently in each process
    with Workers(work, arguments.processes, worlds_each=worlds_each) as workers:
        for done in workers.run(wanted(arguments)):
            yield broken(done.seed, done.why) if isinstance(done, Died) else done


def wanted(arguments: argparse.Namespace) -> Iterator[int]:
    """The seeds, until time is up."""
    ends_at = time.monotonic() + arguments.seconds
    for seed in arguments.seeds:
        for _ in range(arguments.repeat):
            if time.monotonic() >= ends_at:
                return
            yield seed


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    totals = Totals()
    try:
        take_all(reports(arguments), totals, arguments)
    except KeyboardInterrupt:
        totals.is_interrupted = True
    print("\n".join(totals.lines()), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(totals.as_json(), indent=2) + "\n")
    if totals.is_interrupted:
        return INTERRUPTED
    return 0 if totals.all_is_well else 1


def take_all(found: Iterator[Report], totals: Totals, arguments: argparse.Namespace) -> None:
    shown = time.monotonic()
    for each in found:
        totals.add(each)
        if arguments.repeat > 1 and each.digest:
            totals.note_digest(each)
        tell(each, arguments)
        if sys.stderr.isatty() and time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            print(totals.progress(), file=sys.stderr)


def tell(each: Report, arguments: argparse.Namespace) -> None:
    if arguments.hash and each.digest:
        print(f"seed {each.seed}: {each.digest}")
    if each.story:
        print(each.story)
    if each.violations:
        only = f" --only {','.join(arguments.only)}" if arguments.only else ""
        kind = " --processor" if arguments.processor else " --parallel-rebalance" * arguments.parallel_rebalance
        kind += " --user-faults" * arguments.user_faults + " --secured" * arguments.secured
        kind += " --async-consumer" * arguments.async_consumer
        replay = f"scripts/simulate{kind} --seeds {each.seed}{only} --story"
        print(f"seed {each.seed}: {len(each.violations)} violations; replay: {replay}")
        sys.stdout.flush()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=seed_range, default=range(1, 101), metavar="A-B", help="which; 1-100")
    parser.add_argument("--repeat", type=at_least_one, default=1, metavar="N", help="run each so often, and compare")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no new world after this long")
    parser.add_argument("--processes", type=at_least_one, default=os.cpu_count() or 1, help="one for each core")
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), help="the faults that may strike; all")
    parser.add_argument("--processor", action="store_true", help="worlds whose members run a Processor")
    parser.add_argument("--async-consumer", action="store_true", help="worlds whose members use an AsyncConsumer")
    parser.add_argument("--user-faults", action="store_true", help="deserializers, handlers, listeners raise as well")
    parser.add_argument(
        "--secured", action="store_true", help="clients log in by SCRAM, in half of the worlds over TLS"
    )
    parser.add_argument("--parallel-rebalance", action="store_true", help="crashes at points of the protocol")
    parser.add_argument("--hash", action="store_true", help="print a digest of each run")
    parser.add_argument("--story", action="store_true", help="tell each run from beginning to end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the totals there")
    arguments = parser.parse_args(argv)
    if arguments.processor and arguments.async_consumer:
        parser.error("a Processor takes a Consumer: either --processor or --async-consumer")
    others = (arguments.processor, arguments.only, arguments.user_faults, arguments.secured, arguments.async_consumer)
    if arguments.parallel_rebalance and any(others):
        parser.error(
            "--parallel-rebalance has crashes of its own: neither --processor, --only, --user-faults, "
            "--secured nor --async-consumer"
        )
    return arguments


def seed_range(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a seed nor a range such as 1-100") from None


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
