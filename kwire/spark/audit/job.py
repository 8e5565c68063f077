"""The audit from its beginning to its end: lines, a table of events, the records that count, the verdict."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kwire.errors import InvalidArgumentError
from kwire.spark.audit.columns import events_of_lines
from kwire.spark.audit.judging import events_of_rows
from kwire.spark.audit.thinning import kept_keys, moments_of, thinned
from kwire.testing.invariants import Ledger, Violation, check

# The rules take some 500 bytes of memory for each event.
MAX_EVENTS = 20_000_000
# How much of the table a task counts in a few hundred MB of memory: one line of a poll has many records.
TABLE_BYTES_OF_A_TASK = 4 * 1024 * 1024
SHUFFLES = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit has found.

    Args:
        events: how many things the history tells: each record that a poll returned is one, and each other event.
        kept: how many of them had to be looked at by the rules.
        violations: as `check` answers them, in order.
        is_whole: whether the history goes to the end of its run; what was lost can be told of such a one alone.
    """

    events: int
    kept: int
    violations: tuple[Violation, ...]
    is_whole: bool

    @property
    def rules(self) -> Counter[str]:
        """How often each rule was broken."""
        return Counter(violation.rule for violation in self.violations)


def audit(spark: SparkSession, path: str, *, work: str | None = None, most_events: int = MAX_EVENTS) -> Audit:
    """Judges a history as `check` would.

    Args:
        path: a file of lines, or a directory of such files in the order of their names; anything that Spark reads.
        work: where the table of events may lie meanwhile: a directory that all executors can write to, which has about
            half of the history's size. One of this machine, if none is given.
        most_events: how many events the rules may be given at most; they hold them in this process's memory.

    Raises:
        InvalidArgumentError: it is no history, or one of processors, or too much of it counts.
    """
    with _working_directory(work) as directory:
        events = _stored(events_of_lines(spark, path), f"{directory}/events")
        _refuse_processors(events)
        with _small_tasks(events):
            keys = _stored(kept_keys(events, moments_of(events)), f"{directory}/kept")
            left = _stored(thinned(events, keys, keys.count()), f"{directory}/left").orderBy("place")
        kept = _size(left, "records")
        if kept > most_events:
            raise InvalidArgumentError(
                f"{kept:,} events of this history count for its verdict, and {most_events:,} may: raise most_events if "
                "there is memory for them, or judge it in pieces, topic by topic"
            )
        ledger = Ledger(list(events_of_rows(left)))
        return Audit(
            events=_size(events, "offsets"), kept=kept, violations=tuple(check(ledger)), is_whole=ledger.is_whole
        )


def _stored(rows: DataFrame, path: str) -> DataFrame:
    """On disk: what is asked more than once is worked out once, and a place stays what it is."""
    rows.write.mode("overwrite").parquet(path)
    return rows.sparkSession.read.parquet(path)


@contextmanager
def _small_tasks(events: DataFrame) -> Iterator[None]:
    """As many tasks behind a shuffle as find room for the table. Spark joins those that are too small."""
    spark = events.sparkSession
    before = str(spark.conf.get(SHUFFLES))
    size_bytes = int(str(events._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    spark.conf.set(SHUFFLES, str(max(int(before), size_bytes // TABLE_BYTES_OF_A_TASK)))
    try:
        yield
    finally:
        spark.conf.set(SHUFFLES, before)


def _size(events: DataFrame, column: str) -> int:
    """Each record of a poll counts."""
    row = events.agg(sf.sum(sf.coalesce(sf.size(column), sf.lit(1)))).first()
    return int(row[0] or 0) if row is not None else 0


def _refuse_processors(events: DataFrame) -> None:
    if not events.where(sf.col("event") == "ProcessorStarted").isEmpty():
        raise InvalidArgumentError("this history is one of processors, whose handling only the local checker judges")


@contextmanager
def _working_directory(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    made = Path(tempfile.mkdtemp(prefix="kwire-audit-"))
    try:
        yield str(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)
