"""Runs a scenario with one source: its own topics, and queries over one checkpoint. What the runs of both sources
came to is compared. For `scripts/prove spark-answers`."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from pyspark.errors import StreamingQueryException

from proofs.spark.topics import Topics
from proofs.spark_answers.answers import REFUSALS
from proofs.spark_answers.failures import is_same_failure, said
from proofs.spark_answers.streams import TIMEOUT_S, parsed, triggered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

    Change: TypeAlias = Callable[[], object]
    Shape: TypeAlias = Callable[[DataFrame], DataFrame]

Scenario: TypeAlias = "Callable[[ScenarioRun], None]"

SHOWN = 600


class SinkError(Exception):
    """Raised by the sink of a scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one run.

    Args:
        content: its rows, and what Spark says of them, as JSON.
        failure: what it failed of, with all that Spark tells; nothing if it came to its end.
    """

    content: str
    failure: str


def as_it_is(frame: DataFrame) -> DataFrame:
    return frame


class ScenarioRun:
    """Runs a scenario with one source: its own topics, and queries over one checkpoint.

    Args:
        outcomes: what its runs came to, one after the other.
    """

    def __init__(self, spark: SparkSession, source: str, servers: str) -> None:
        self._spark = spark
        self._source = source
        self._servers = servers
        self._prefix = f"{source}-{uuid4().hex[:8]}"
        self._folder = Path(tempfile.mkdtemp(prefix="kwire-changes-"))
        self.topics = Topics(servers, self._prefix)
        self.outcomes: list[Outcome] = []

    @property
    def checkpoint(self) -> Path:
        """Of all its queries but live ones."""
        return self._folder / "checkpoint"

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def name(self, topic: str) -> str:
        return f"{self._prefix}-{topic}"

    def make(self, topic: str, partitions: int, records: int, first: int = 0) -> None:
        self.topics.fill(self.topics.make(topic, partitions), partitions, records=records, first=first)

    def fill(self, topic: str, partitions: int, records: int, first: int) -> None:
        self.topics.fill(self.name(topic), partitions, records=records, first=first)

    @property
    def pattern(self) -> dict[str, str]:
        return {"subscribePattern": f"{self._prefix}-.*", "startingOffsets": "earliest"}

    def of(self, topic: str) -> dict[str, str]:
        return {"subscribe": self.name(topic), "startingOffsets": "earliest"}

    # --- queries --------------------------------------------------------------------------------------------------

    def to_end(
        self,
        options: dict[str, str],
        *,
        shape: Shape = as_it_is,
        first_fails: bool = False,
        knows_checkpoint: bool = True,
        meanwhile: Change | None = None,
        behind_first: Change | None = None,
    ) -> None:
        """A query to the end of what there is.

        Args:
            shape: what is made of the source's rows.
            first_fails: whether the sink fails of its first batch, after that was read.
            knows_checkpoint: whether kwire is told where it is.
            meanwhile: what happens while each batch is on its way, planned and not read.
            behind_first: what happens when the first batch is through, and the second one not planned.
        """
        rows: dict[int, dict[str, list[int]]] = {}

        def take(frame: DataFrame, number: int) -> None:
            if meanwhile is not None:
                meanwhile()
            rows[number] = offsets_of(frame)
            if first_fails:
                raise SinkError("it fails of this batch")
            if behind_first is not None and len(rows) == 1:
                behind_first()

        frame = shape(self.stream(options) if knows_checkpoint else self._loaded(self._spark.readStream, "", options))
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        failure = end_of(query)
        ends = {
            progress["batchId"]: [(parsed(one["startOffset"]), parsed(one["endOffset"])) for one in progress["sources"]]
            for progress in query.recentProgress
            if progress["batchId"] in rows and not failure
        }
        self.note([rows, ends], failure)

    def stream(self, options: Mapping[str, str], *, source: str = "", index: int = 0) -> DataFrame:
        """Rows for a query over the scenario's checkpoint.

        Args:
            source: another one than the scenario's.
            index: which source of the query it is.
        """
        source = source or self._source
        # Spark tells its own source where the checkpoint is.
        own = {"kwire.checkpointLocation": str(self.checkpoint), "kwire.sourceIndex": str(index)}
        return self._loaded(self._spark.readStream, source, {**options, **(own if source == "kwire" else {})})

    def query(
        self,
        frame: DataFrame,
        *,
        mode: str = "append",
        options: Mapping[str, str] | None = None,
        trigger: str = "availableNow",
    ) -> None:
        """Any query to the end of what there is: the rows of its batches, and what Spark says of their progress."""
        rows: dict[int, list[str]] = {}

        def take(batch: DataFrame, number: int) -> None:
            rows[number] = sorted(map(str, batch.collect()))

        writer = frame.writeStream.outputMode(mode).foreachBatch(take).options(**dict(options or {}))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        try:
            query = triggered(writer, trigger).start()
        except REFUSALS as error:
            self.note(None, str(error))
            return
        failure = end_of(query)
        of_batches = [progress_of(each) for each in query.recentProgress if each["batchId"] in rows and not failure]
        self.note([rows, of_batches], failure)

    def into(self, topic: str, frame: DataFrame, options: Mapping[str, str]) -> None:
        """A query that runs on, into a topic; and which values that has then, however often."""
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", self._servers)
        writer = writer.option("topic", topic).option("checkpointLocation", str(self.checkpoint))
        query = writer.options(**dict(options)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        written = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._servers)
        values = written.option("subscribe", topic).load().selectExpr("CAST(value AS STRING) AS value").distinct()
        self.note(sorted(row.value for row in values.collect()))

    def live(self, options: dict[str, str], *changes: Change) -> None:
        """A query that runs on while topics change; its rows after each. Where batches end is a matter of moments."""
        rows: dict[str, list[int]] = defaultdict(list)

        def take(frame: DataFrame, _number: int) -> None:
            for place, offsets in offsets_of(frame).items():
                rows[place] += offsets

        writer = self._loaded(self._spark.readStream, "", options).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(self._folder / "live")).start()
        try:
            for change in changes:
                change()
                query.processAllAvailable()
                self.note(rows)
        except REFUSALS as error:
            self.note(None, str(error))
        finally:
            query.stop()

    def batch(self, options: dict[str, str], before: Change) -> None:
        """A DataFrame whose query is planned, and then topics change."""
        loaded = self.table(options)
        loaded.rdd.getNumPartitions()
        before()
        try:
            self.note(offsets_of(loaded))
        except REFUSALS as error:
            self.note(None, str(error))

    def table(self, options: Mapping[str, str], *, source: str = "") -> DataFrame:
        """Rows for a batch, of the scenario's source or another one."""
        return self._loaded(self._spark.read, source, options)

    def _loaded(self, reader: DataFrameReader | DataStreamReader, source: str, options: Mapping[str, str]) -> DataFrame:
        place = {"kafka.bootstrap.servers": self._servers}
        return reader.format(source or self._source).options(**{**place, **options}).load()

    def note(self, content: object, failure: str = "") -> None:
        self.outcomes.append(
            Outcome(content=self._anybodys(json.dumps(content, sort_keys=True)), failure=self._anybodys(failure))
        )

    def _anybodys(self, text: str) -> str:
        return text.replace(self._prefix, "P").replace(str(self._folder), "FOLDER")


def offsets_of(frame: DataFrame) -> dict[str, list[int]]:
    """In order, by topic and partition."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in frame.select("topic", "partition", "offset").collect():
        found[f"{row.topic}-{row.partition}"].append(row.offset)
    return {place: sorted(found[place]) for place in sorted(found)}


def end_of(query: StreamingQuery) -> str:
    """What a query failed of; nothing if it came to its end."""
    try:
        return "" if query.awaitTermination(TIMEOUT_S) else "did not end"
    except StreamingQueryException as error:
        return str(error)
    finally:
        query.stop()


def progress_of(progress: Mapping[str, Any]) -> list[object]:
    """What Spark says of a batch, as far as it does not depend on how long that took, or on who read it."""
    sources = [(parsed(one["startOffset"]), parsed(one["endOffset"])) for one in progress["sources"]]
    kept = ("numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark")
    state = [{name: operator[name] for name in kept} for operator in progress["stateOperators"]]
    return [progress["batchId"], progress["numInputRows"], sources, progress.get("eventTime"), state]


def outcomes_of(spark: SparkSession, source: str, scenario: Scenario, servers: str) -> list[Outcome]:
    """What its runs came to."""
    run = ScenarioRun(spark, source, servers)
    try:
        scenario(run)
    finally:
        run.close()
    return run.outcomes


def runs_that_differ(theirs: list[Outcome], ours: list[Outcome]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        if one.content != other.content:
            yield f"run {number}: {one.content[:SHOWN]} and {other.content[:SHOWN]}"
        if not is_same_failure(one.failure, other.failure):
            yield f"run {number}, failed of: {said(one.failure)[:SHOWN]!r} and {said(other.failure)[:SHOWN]!r}"
