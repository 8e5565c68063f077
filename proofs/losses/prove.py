"""`scripts/prove losses`: whatever goes wrong, no good record is lost, and nothing stands still.

A matrix: ways to read (rows) and faults (columns). Each cell has 200 records of its own in two partitions, in batches
of 20, and a group of its own. A program reads them, does what an error's message says, and is started again when it
ends, until the group has committed everything or 20 s are over. A good record is lost when the committed offset is
behind it and no handler has had it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from kwire.testing.kafka import KafkaCluster
from proofs.losses.faults import Fault
from proofs.losses.judge import Judge, Outcome
from proofs.losses.sense import why_not
from proofs.losses.spark_judge import SparkJudge
from proofs.losses.table import table
from proofs.losses.ways import Way

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
SMALL_WAYS = (Way.POLL_COMMIT, Way.LOOP_AUTO, Way.BY_KEY, Way.PARALLEL_PROCESSOR)
SMALL_FAULTS = (Fault.BAD_VALUE, Fault.CORRUPT, Fault.RETENTION_NONE, Fault.SIGINT_DESERIALIZER)


def fill(judge: Judge, ways: Iterable[Way], faults: Iterable[Fault]) -> list[Outcome]:
    """Cell by cell; prints each."""
    outcomes: list[Outcome] = []
    wanted = tuple(faults)
    for way in ways:
        for fault in wanted:
            reason = why_not(way, fault)
            outcome = Outcome(way, fault, reason) if reason is not None else judge.run(way, fault)
            print(outcome, flush=True)
            outcomes.append(outcome)
    return outcomes


def losses(
    rows: Annotated[list[Way] | None, typer.Option(help="Only this way to read; may be repeated.")] = None,
    columns: Annotated[list[Fault] | None, typer.Option(help="Only this fault; may be repeated.")] = None,
    small: Annotated[bool, typer.Option("--small", help="A few ways and faults, in about a minute.")] = False,
    write: Annotated[Path | None, typer.Option(help="Write the table, as Markdown, into this file.")] = None,
) -> list[str]:
    """Ways to read, and faults: no good record is lost, and nothing stands still."""
    ways = rows or (SMALL_WAYS if small else Way)
    faults = columns or (SMALL_FAULTS if small else Fault)
    with KafkaCluster(settings=SETTINGS) as kafka, tempfile.TemporaryDirectory(prefix="kwire-losses-") as directory:
        places = (kafka.bootstrap_servers, kafka.directory, Path(directory))
        outcomes = fill(Judge(*places), [way for way in ways if not way.is_spark], faults)
        with SparkJudge(*places) as judge:
            outcomes += fill(judge, [way for way in ways if way.is_spark], faults)
    if write is not None:
        write.write_text(table(outcomes))
    return [f"{o.way.value}, {o.fault.value}: {o.problem}" for o in outcomes if o.problem is not None]
