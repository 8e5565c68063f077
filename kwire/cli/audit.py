"""`kwire audit`: judge a history that was written before, here or on Spark. `kwire.spark.audit` does the work.

    kwire faults run --seed 7 --history history.jsonl
    kwire audit history.jsonl
    kwire audit hdfs://histories/march --master spark://cluster:7077 --work hdfs://tmp/audit

Exit codes: 0: no invariant was violated; 1: one was; 2: the history could not be judged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kwire.cli.exits import FAILED, WRONG_USAGE
from kwire.errors import InvalidArgumentError, KafkaError

if TYPE_CHECKING:
    from kwire.testing.invariants import Violation

CUT_OFF = (
    "kwire: this history ends before its run does: no line says Ended. Nobody can tell from it what was lost; take the "
    "whole file, of a run that came to its end"
)

History = Annotated[str, typer.Argument(metavar="HISTORY", help="A file of lines, or a directory of such files.")]
Local = Annotated[bool, typer.Option("--local", help="Work without Spark, with the whole history in memory.")]
Master = Annotated[str, typer.Option("--master", metavar="URL", help="The Spark to run on.")]
Memory = Annotated[str, typer.Option("--memory", metavar="SIZE", help="The heap of Spark's driver.")]
Work = Annotated[
    str | None,
    typer.Option(
        "--work",
        metavar="DIRECTORY",
        help="A directory for temporary tables; all executors must be able to write there.",
    ),
]
Examples = Annotated[int, typer.Option("--examples", metavar="N", min=0, help="How many to show of each rule.")]


def audit_history(
    history: History,
    local: Local = False,
    master: Master = "local[*]",
    memory: Memory = "2g",
    work: Work = None,
    examples: Examples = 5,
) -> None:
    """Judge what a consumer group did, from a history.

    It finds records that were lost, came twice, came out of order or were committed too early. 'kwire faults run
    --history' writes histories. Without --local it needs Java and pip install 'kwire[spark]'.
    Exit codes: 0 all was kept, 1 something was not, 2 it could not be judged.
    """
    with _errors_told():
        found = _judged_here(history) if local else _judged_on_spark(history, master, memory, work)
        violations = found.violations
        print(f"{found.events:,} events, {found.kept:,} of which had to be judged: {len(violations):,} violations")
        for line in _shown(violations, examples):
            print(line)
    if not found.is_whole:
        print(CUT_OFF, file=sys.stderr)
    raise typer.Exit(FAILED if violations else 0 if found.is_whole else WRONG_USAGE)


class _Verdict(NamedTuple):
    violations: Sequence[Violation]
    events: int
    kept: int
    is_whole: bool


def _judged_here(history: str) -> _Verdict:
    from kwire.testing.invariants import Ledger, check
    from kwire.testing.invariants.lines import events_of

    path = Path(history)
    files = sorted(path.iterdir()) if path.is_dir() else [path]

    def lines() -> Iterator[str]:
        for file in files:
            with file.open() as opened:
                yield from opened

    ledger = Ledger(list(events_of(lines())))
    size = sum(len(getattr(event, "values", "1")) for event in ledger.events)
    return _Verdict(check(ledger), size, size, ledger.is_whole)


def _judged_on_spark(history: str, master: str, memory: str, work: str | None) -> _Verdict:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from kwire.spark.audit import audit
    from kwire.spark.pipeline.session import own_ctrl_c

    builder = SparkSession.builder.appName("kwire audit").master(master).config("spark.driver.memory", memory)
    with own_ctrl_c():
        spark = builder.config("spark.ui.showConsoleProgress", "true").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        found = audit(spark, history, work=work)
    except (PySparkException, Py4JError) as error:
        raise InvalidArgumentError(f"Spark says: {_told(str(error))}") from error
    finally:
        spark.stop()
    return _Verdict(found.violations, found.events, found.kept, found.is_whole)


def _told(error: str) -> str:
    """The relevant part of an error of Spark: the error of kwire that it quotes, else its first line."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    ours = [line for line in lines if "no event of a history" in line]
    return (ours or lines or ["nothing"])[0][:500]


def _shown(violations: Sequence[Violation], examples: int) -> Iterator[str]:
    """The violations by rule, in the order in which the rules were first broken."""
    rules = dict.fromkeys(violation.rule for violation in violations)
    for rule in rules:
        of_rule = [violation for violation in violations if violation.rule == rule]
        yield f"{rule}: {len(of_rule):,}"
        yield from (f"  at {each.at_ms / 1000:.3f} s: {each.what}" for each in of_rule[:examples])


@contextmanager
def _errors_told() -> Iterator[None]:
    """Raises: typer.Exit, for any error that keeps the history from being judged."""
    try:
        yield
    except ModuleNotFoundError as error:
        print(f"kwire: {error.name} is missing: pip install 'kwire[spark]'", file=sys.stderr)
    except (KafkaError, OSError, UnicodeDecodeError) as error:
        print(f"kwire: {error}", file=sys.stderr)
    else:
        return
    raise typer.Exit(WRONG_USAGE)
