"""Comparison of two sources' answers to one read, for `scripts/prove spark-answers`: schemas, tasks, and rows with
their order inside each partition; for wrong reads, what they say."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from proofs.spark_answers.cases import Case

Cell: TypeAlias = object
Line: TypeAlias = "tuple[Cell, ...]"
REFUSALS = (PySparkException, Py4JError)
SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of one source to one read: either the first three, or what it said instead.

    Args:
        rows: by topic and partition, in the order in which they came.
    """

    schema: str = ""
    tasks: int = 0
    rows: Mapping[tuple[str, int], list[Line]] | None = None
    refusal: str = ""


def load(spark: SparkSession, source: str, case: Case, servers: str) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", servers).options(**dict(case.options))
    return (reader if case.schema is None else reader.schema(case.schema)).load()


def answer(spark: SparkSession, source: str, case: Case, servers: str) -> Answer:
    """What a source makes of a read."""
    try:
        frame = load(spark, source, case, servers)
        tasks = frame.rdd.getNumPartitions()
        rows = plain_rows(frame)
    except REFUSALS as error:
        return Answer(refusal=str(error))
    return Answer(schema=frame.schema.json(), tasks=tasks, rows=rows)


def plain_rows(frame: DataFrame) -> dict[tuple[str, int], list[Line]]:
    """By topic and partition; times as whole microseconds, which no time zone can change."""
    times = {"timestamp": sf.unix_micros("timestamp")}
    found: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for row in frame.withColumns(times).collect():
        found[row.topic, row.partition].append(tuple(plain(cell) for cell in row))
    return found


def plain(cell: object) -> object:
    """A cell that can be compared and shown."""
    if isinstance(cell, bytearray):
        return bytes(cell)
    if isinstance(cell, (list, tuple)):
        return tuple(plain(each) for each in cell)
    return cell


def differences(theirs: Answer, ours: Answer) -> Iterator[str]:
    """In what the second source's answer to a good read is another one."""
    for name, one in (("kafka", theirs), ("the other source", ours)):
        if one.refusal:
            yield f"{name} refused: {told(one.refusal)[:SHOWN]}"
    if theirs.refusal or ours.refusal:
        return
    if theirs.schema != ours.schema:
        yield f"schemas: {theirs.schema} and {ours.schema}"
    # To a source in Python that has no partitions Spark gives one task, which reads nothing.
    if theirs.tasks != ours.tasks and (theirs.tasks, ours.tasks) != (0, 1):
        yield f"tasks: {theirs.tasks} and {ours.tasks}"
    assert theirs.rows is not None
    assert ours.rows is not None
    yield from rows_that_differ(theirs.rows, ours.rows)


def rows_that_differ(
    theirs: Mapping[tuple[str, int], list[Line]], ours: Mapping[tuple[str, int], list[Line]]
) -> Iterator[str]:
    """The first of each partition."""
    for place in sorted({*theirs, *ours}):
        pairs = zip_longest(theirs.get(place, []), ours.get(place, []))
        if found := next(((number, *pair) for number, pair in enumerate(pairs) if pair[0] != pair[1]), None):
            number, their_row, our_row = found
            yield f"row {number} of {place[0]}-{place[1]}: {str(their_row)[:SHOWN]} and {str(our_row)[:SHOWN]}"


def wrong_answers(theirs: Answer, ours: Answer, words: str = "") -> Iterator[str]:
    """Of a read that both have to refuse, in the same words.

    Args:
        words: what both have to say, where it cannot be all that Spark's own says.
    """
    if not theirs.refusal:
        yield "kafka did not refuse: the case is no case"
    elif not ours.refusal:
        yield f"was not refused, kafka says: {told(theirs.refusal)[:SHOWN]}"
    elif not (says(theirs.refusal, words) and says(ours.refusal, words or told(theirs.refusal))):
        yield f"other words: {told(theirs.refusal)[:SHOWN]!r} and {told(ours.refusal)[:SHOWN]!r}"


NOISE = re.compile(r"^\s+at .*$|^(JVM|Driver) stacktrace:.*|^\s*\.\.\. \d+ more$|^An error occurred while calling .*$")
PYTHON = "Traceback (most recent call last)"
RAISED = re.compile(r"^[\w.]+(Error|Exception): ")
STREAM = re.compile(r"^\[STREAM_FAILED\] .* terminated with exception: ")
SQLSTATE = re.compile(r" SQLSTATE: \w+$")
PREFIX = re.compile(r"^(Caused by: )?(: )?([\w.$]+(Exception|Error|Failure): )*(assertion failed: )?")


def told(refusal: str) -> str:
    """What a refusal of Spark's source says, without where in Spark it happened: the cause, if there is one."""
    lines = [line.strip() for line in refusal.splitlines() if line.strip() and not NOISE.match(line)]
    causes = [line for line in lines if line.startswith("Caused by:")]
    if PYTHON in refusal:
        causes = [line for line in lines if RAISED.match(line)]
    first = (causes[-1:] or lines[:1] or [""])[0]
    return SQLSTATE.sub("", PREFIX.sub("", STREAM.sub("", first)))


def says(refusal: str, words: str) -> bool:
    """Whether it quotes these words, whatever spaces and line breaks there are."""
    return squeezed(words) in squeezed(refusal)


def squeezed(text: str) -> str:
    """Without white space, quoting and the names that a run has for itself."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", text)
    return re.sub(r"[\s\\'\"`]+", "", text).lower().rstrip(".")
