"""`scripts/prove spark-audit`: the audit on Spark finds in a large history what the local checker finds, and all that
was planted; and how long it takes on one core and on two.

The local checker holds the whole history in memory, some 250 bytes an event; Spark's JVM has a heap of 2 GiB here, for
histories of any size.
"""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from spark_history import PLANTS, Story, lines
from spark_sessions import spark_session

from kwire.spark.audit import Audit, audit
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.lines import events_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from kwire.testing.invariants import Violation

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


def judge_here(directory: Path, answer: Connection) -> None:
    """What the local checker's process does: it is told apart by its memory."""

    def every_line() -> Iterator[str]:
        for file in sorted(directory.iterdir()):
            with file.open() as opened:
                yield from opened

    began_s = time.monotonic()
    found = check(Ledger(list(events_of(every_line()))))
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    answer.send((found, time.monotonic() - began_s, peak_bytes))


def judged_here(directory: Path) -> tuple[list[Violation], float, int] | None:
    """Verdict, seconds and peak memory of the local checker. None: it did not live to tell."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=judge_here, args=(directory, theirs))
    process.start()
    theirs.close()
    try:
        answer: tuple[list[Violation], float, int] = ours.recv()
    except EOFError:
        return None
    finally:
        process.join()
    return answer


def judged_on_spark(directory: Path, cores: int) -> tuple[Audit, float]:
    with spark_session("audit", cores=cores, memory=HEAP) as spark:
        spark.range(1).count()  # a session starts for seconds; that is not the audit's
        began_s = time.monotonic()
        return audit(spark, str(directory)), time.monotonic() - began_s


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
    local = judged_here(directory)
    if local is None:
        yield f"{story.events:,} events: the local checker's process has died"
        return
    verdict, took_s, peak_bytes = local
    print(f"  local checker: {took_s:6.1f} s, {peak_bytes / 1e9:.2f} GB, {len(verdict)} violations", flush=True)
    for number in cores:
        found, took_s = judged_on_spark(directory, number)
        rate = found.events / took_s / 1e6
        verdicts = "equal" if list(found.violations) == verdict else "DIFFERENT"
        print(
            f"  Spark, {number} cores: {took_s:6.1f} s, {rate:.2f} M events/s, {found.kept:,} of {found.events:,} "
            f"events had to be judged, {len(found.violations)} violations, verdicts {verdicts}",
            flush=True,
        )
        yield from differences(verdict, found.violations)
        for plant in story.plants:
            if plant.split(" ")[0] not in found.rules:
                yield f"{story.events:,} events on {number} cores: nobody has found what was planted: {plant}"
    for violation in verdict:
        print(f"    {violation}", file=sys.stderr)
