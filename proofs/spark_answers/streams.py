"""Streams of two sources, compared batch by batch, and one checkpoint that goes from one source to the other and back.
For `scripts/prove spark-answers`."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from proofs.spark_answers.answers import REFUSALS, Answer, plain_rows, rows_that_differ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from proofs.spark_answers.answers import Line
    from proofs.spark_answers.cases import Case

TIMEOUT_S = 120


@dataclass(slots=True)
class Batch:
    """One micro-batch: where it began and ended, as the source's JSON says, and its rows."""

    start: object = None
    end: object = None
    rows: Mapping[tuple[str, int], list[Line]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What a stream's source is told, and when it begins its batches."""

    name: str
    options: Mapping[str, str]
    trigger: str = "availableNow"


def run(spark: SparkSession, source: str, stream: Stream, servers: str, checkpoint: Path) -> list[Batch]:
    """Runs a stream until nothing is left."""
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", servers)
    found: dict[int, Batch] = {}

    def take(frame: DataFrame, number: int) -> None:
        found.setdefault(number, Batch()).rows = plain_rows(frame)

    writer = reader.options(**dict(stream.options)).load().writeStream.foreachBatch(take)
    query = triggered(writer, stream.trigger).option("checkpointLocation", str(checkpoint)).start()
    try:
        if not query.awaitTermination(TIMEOUT_S):
            raise TimeoutError(f"{source}: {stream.name} is not through after {TIMEOUT_S} s")
    finally:
        query.stop()
    for progress in query.recentProgress:
        if progress["numInputRows"] or progress["batchId"] in found:
            batch = found.setdefault(progress["batchId"], Batch())
            (one,) = progress["sources"]
            batch.start, batch.end = parsed(one["startOffset"]), parsed(one["endOffset"])
    return [found[number] for number in sorted(found)]


def triggered(writer: DataStreamWriter, trigger: str) -> DataStreamWriter:
    """`availableNow`, `once`, or the time from one batch to the next."""
    match trigger:
        case "availableNow":
            return writer.trigger(availableNow=True)
        case "once":
            return writer.trigger(once=True)
        case _:
            return writer.trigger(processingTime=trigger)


def parsed(offset: object) -> object:
    return json.loads(offset) if isinstance(offset, str) else offset


def streams_that_differ(theirs: Sequence[Batch], ours: Sequence[Batch]) -> Iterator[str]:
    if len(theirs) != len(ours):
        yield f"{len(theirs)} batches and {len(ours)}"
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if (one.start, one.end) != (other.start, other.end):
            yield f"batch {number}: {one.start} to {one.end}, and {other.start} to {other.end}"
        yield from (f"batch {number}: {line}" for line in rows_that_differ(one.rows, other.rows))


def compare(spark: SparkSession, other: str, stream: Stream, servers: str) -> tuple[list[Batch], list[str]]:
    """The same stream from both sources."""
    directory = Path(tempfile.mkdtemp(prefix="kwire-streams-"))
    try:
        theirs = run(spark, "kafka", stream, servers, directory / "theirs")
        ours = run(spark, other, stream, servers, directory / "ours")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return theirs, list(streams_that_differ(theirs, ours))


def refused_stream(spark: SparkSession, source: str, case: Case, servers: str) -> Answer:
    """What a stream that is wrong says."""
    directory = Path(tempfile.mkdtemp(prefix="kwire-streams-"))
    try:
        run(spark, source, Stream(name=case.name, options=case.options), servers, directory)
    except (*REFUSALS, StreamingQueryException) as error:
        return Answer(refusal=str(error))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return Answer()
