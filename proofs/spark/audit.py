"""`scripts/prove spark-audit`: the audit on Spark finds in a large history what the local checker finds, and all that
was planted; and how long it takes on one core and on two.

The local checker holds the whole history in memory, some 250 bytes an event; Spark's JVM has a heap of 2 GiB here, for
histories of any size. Each number of cores gets a JVM of its own that may use no other ones, not even to collect
garbage; beside the time stands what it used of processors, which other work on the machine does not change.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

from benchmarks.spark import cpu_s_of
from kwire.spark.audit import Audit, audit
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.lines import events_of
from proofs.spark.history import PLANTS, Story, lines
from tools.spark_sessions import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.testing.invariants import Violation

P = ParamSpec("P")
T = TypeVar("T")

LINES_OF_A_FILE = 5_000_000
PARTITIONS, RECORDS = 40, 500
HEAP = "2g"


def story_of(millions: float) -> Story:
    """One with about so many events, and everything planted."""
    one = Story(rounds=1, partitions=PARTITIONS, records=RECORDS)
    rounds = max(2 * len(PLANTS), round(millions * 1e6 / one.events))
    return Story(rounds=rounds, partitions=PARTITIONS, records=RECORDS, plants=tuple(PLANTS))


def write(story: Story, directory: Path) -> int:
    """The history as files of lines; how many bytes."""
    told, number = lines(story), 0
    while part := list(islice(told, LINES_OF_A_FILE)):
        (directory / f"{number:04}.jsonl").write_text("\n".join(part) + "\n")
        number += 1
    return sum(file.stat().st_size for file in directory.iterdir())


def judge_here(directory: Path) -> tuple[list[Violation], float, int]:
    """Verdict, seconds and peak memory of the local checker."""

    def every_line() -> Iterator[str]:
        for file in sorted(directory.iterdir()):
            with file.open() as opened:
                yield from opened

    began_s = time.monotonic()
    found = check(Ledger(list(events_of(every_line()))))
    return found, time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def judge_on_spark(directory: Path, cores: int) -> tuple[Audit, float, float]:
    """Verdict, seconds, and seconds of processors."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    with spark_session("audit", cores=cores, memory=HEAP) as spark:
        spark.range(1).count()  # a session starts for seconds; that is not the audit's
        used_s, began_s = cpu_s_of(os.getpid()), time.monotonic()
        found = audit(spark, str(directory))
        return found, time.monotonic() - began_s, cpu_s_of(os.getpid()) - used_s


def of_its_own_process(task: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """What a task answers in a process that is told apart by its memory and its processors. None: it did not live to
    tell."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(task, *args, **kwargs).result()
        except BrokenProcessPool:
            return None


def differences(local: Sequence[Violation], spark: Sequence[Violation]) -> Iterator[str]:
    ours, theirs = set(map(str, local)), set(map(str, spark))
    for line in sorted(ours - theirs)[:5]:
        yield f"only the local checker says: {line}"
    for line in sorted(theirs - ours)[:5]:
        yield f"only Spark says: {line}"
    if ours == theirs and list(local) != list(spark):
        yield "both say the same in another order, or not as often"


def spark_audit(
    millions: Annotated[list[float] | None, typer.Option(min=0.1, help="Events; may be repeated (5 and 50).")] = None,
    cores: Annotated[list[int] | None, typer.Option(min=1, help="May be repeated (1 and 2).")] = None,
    scratch: Annotated[Path | None, typer.Option(help="Where the histories may lie: 60 bytes an event.")] = None,
) -> list[str]:
    """Twelve anomalies planted in 5 and 50 million events: Spark's verdict and the local checker's."""
    broken: list[str] = []
    for size in millions or [5.0, 50.0]:
        directory = Path(tempfile.mkdtemp(prefix="kwire-history-", dir=scratch))
        try:
            broken += compared(story_of(size), directory, cores or [1, 2])
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return broken


def compared(story: Story, directory: Path, cores: Sequence[int]) -> Iterator[str]:
    size_bytes = write(story, directory)
    print(f"{story.events:,} events, {len(story.plants)} planted anomalies, {size_bytes / 1e9:.2f} GB", flush=True)
    local = of_its_own_process(judge_here, directory)
    if local is None:
        yield f"{story.events:,} events: the local checker's process has died"
        return
    verdict, took_s, peak_bytes = local
    print(f"  local checker: {took_s:6.1f} s, {peak_bytes / 1e9:.2f} GB, {len(verdict)} violations", flush=True)
    for number in cores:
        judged = of_its_own_process(judge_on_spark, directory, number)
        if judged is None:
            yield f"{story.events:,} events on {number} cores: the process with Spark has died"
            continue
        found, took_s, used_s = judged
        rate = found.events / took_s / 1e6
        verdicts = "equal" if list(found.violations) == verdict else "DIFFERENT"
        print(
            f"  Spark, {number} cores: {took_s:6.1f} s, {used_s:.1f} s of processors, {rate:.2f} M events/s, "
            f"{found.kept:,} of {found.events:,} events had to be judged, {len(found.violations)} violations, "
            f"verdicts {verdicts}",
            flush=True,
        )
        yield from differences(verdict, found.violations)
        for plant in story.plants:
            if plant.split(" ")[0] not in found.rules:
                yield f"{story.events:,} events on {number} cores: nobody has found what was planted: {plant}"
    for violation in verdict:
        print(f"    {violation}", file=sys.stderr)
